/* mxfp4: 32 weights in 17 bytes: an exponent e (E8M0), 16 bytes of nibbles, each an E2M1 number: a
 * sign, two bits of exponent, one of mantissa. Kept as integers they are doubled, so that
 * weight = 2^(e - 128) * values[nibble]. */
#ifndef LP_FMT_MXFP4_H
#define LP_FMT_MXFP4_H

#include "fmt.h"

#define LP_E2M1_MAX 12
/* E2M1 times two; the same plus LP_E2M1_MAX. */
static const int8_t lp_e2m1_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const uint8_t lp_e2m1_lifted[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                           12, 11, 10, 9,  8,  6,  4,  0};

static inline void lp_mxfp4_weights(const uint8_t *b, int j, int8_t *q) {
    (void)j;
    lp_nibbles(b + 1, q);
    for (int i = 0; i < 32; i++) {
        q[i] = lp_e2m1_values[q[i]];
    }
}
/* 2^(e - 128), below 2^-126 a subnormal. */
static inline void lp_mxfp4_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    const uint32_t bits = b[0] < 2 ? (b[0] + 1u) << 21 : (b[0] - 1u) << 23;
    memcpy(&s->ws, &bits, 4);
}
static const struct lp_fmt lp_fmt_mxfp4 = {
    .block = 32,
    .bytes = 17,
    .field = {{1, 1}, {4, 4}},
    .off = LP_E2M1_MAX,
    .max = 2 * LP_E2M1_MAX,
    .weights = lp_mxfp4_weights,
    .scales = lp_mxfp4_scales,
};

#ifdef LP_INT_H
static inline b32 lp_mxfp4_lanes(struct lp_at p, int j, int h) {
    (void)j;
    return b32_lookup(lp_e2m1_lifted, b32_nibbles(lp_bytes(p, 1), h));
}
/* Where one of the two readings of e holds, it is the larger one. */
LP_FORCE void lp_mxfp4_scales_of(const uint8_t *const *b, int j, f32x8 *ws, f32x8 *wm) {
    const i32x8 e = lp_first_byte(b), one = i8_set1(1);
    (void)j;
    *ws = f8_from_bits(i8_max(i8_shl(i8_sub(e, one), 23), i8_shl(i8_add(e, one), 21)));
    *wm = f8_zero();
}
static const struct lp_lanes lp_lanes_mxfp4 = {
    .lanes = lp_mxfp4_lanes,
    .scales = lp_mxfp4_scales_of,
};
#endif

#endif
