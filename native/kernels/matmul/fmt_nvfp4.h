/* nvfp4: 64 weights in 36 bytes: 4 scales, one for every 16 weights, in UE4M3 (4 bits of exponent,
 * 3 of mantissa; 0x7f is zero); 32 bytes, 8 for every 16 weights: the low nibbles, then the high
 * ones, E2M1 as in mxfp4. Weight = scale / 2 * values[nibble]. */
#ifndef LP_FMT_NVFP4_H
#define LP_FMT_NVFP4_H

#include "fmt_mxfp4.h"

static inline void lp_nvfp4_weights(const uint8_t *b, int j, int8_t *q) {
    for (int i = 0; i < 32; i++) {
        const int byte = b[4 + 16 * j + i / 16 * 8 + i % 8];
        q[i] = lp_e2m1_values[i % 16 < 8 ? byte & 15 : byte >> 4];
    }
}
/* Half of what x stands for. Its 7 bits are the top of an f32 whose exponent is 120 too small. */
LP_FORCE float lp_ue4m3_half(uint8_t x) {
    const uint32_t bits = x == 0x7f ? 0 : (uint32_t)(x & 0x7f) << 20;
    float v;
    memcpy(&v, &bits, 4);
    return v * 0x1p119f;
}
static inline void lp_nvfp4_scales(const uint8_t *b, int j, struct lp_scales *s) {
    s->ws = lp_ue4m3_half(b[2 * j]);
    s->wm = lp_ue4m3_half(b[2 * j + 1]);
}
static const struct lp_fmt lp_fmt_nvfp4 = {
    .block = 64,
    .bytes = 36,
    .field = {{9, 4}},
    .off = LP_E2M1_MAX,
    .max = 2 * LP_E2M1_MAX,
    .has_two = 1,
    .weights = lp_nvfp4_weights,
    .scales = lp_nvfp4_scales,
};

#ifdef LP_INT_H
static inline b32 lp_nvfp4_lanes(struct lp_at p, int j, int h) {
    const int at = 4 + 16 * j;
    return b32_lookup(lp_e2m1_lifted, lp_nibbles8(p, at, h));
}
/* By way of f16, whose exponent is 8 too small: an f32 as above would be a slow subnormal. */
LP_FORCE i32x8 lp_ue4m3_bits(i32x8 x) {
    return i8_and(i8_and(x, i8_set1(0x7f)), i8_differ(x, i8_set1(0x7f)));
}
LP_FORCE void lp_nvfp4_scales_of(const uint8_t *const *b, int j, f32x8 *ws, f32x8 *wm) {
    const i32x8 both = i8_shr(lp_words(b, 0), 16 * j);
    const i32x8 first = lp_ue4m3_bits(i8_byte(both, 0)), second = lp_ue4m3_bits(i8_byte(both, 1));
    f8_split(i8_or(i8_shl(first, 7), i8_shl(second, 23)), ws, wm);
    *ws = f8_mul(*ws, f8_set1(128));
    *wm = f8_mul(*wm, f8_set1(128));
}
static const struct lp_lanes lp_lanes_nvfp4 = {
    .lanes = lp_nvfp4_lanes,
    .scales = lp_nvfp4_scales_of,
};
#endif

#endif
