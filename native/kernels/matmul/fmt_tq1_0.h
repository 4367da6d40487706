/* tq1_0: 256 ternary weights in 54 bytes, five to a byte (and four to each of bytes 48..51), f16 d.
 * Byte x is a fraction x / 256 whose n-th base-3 digit is the upper byte of 3 * (3^n x mod 256).
 * Groups 0..4 are digits 0..4 of bytes 0..31; 16 weights each are digits 0..4 of bytes 32..47; the
 * last 16 are digits 0..3 of bytes 48..51. Weight = d * (digit - 1). */
#ifndef LP_FMT_TQ1_0_H
#define LP_FMT_TQ1_0_H

#include "fmt.h"

LP_FORCE int lp_trit(uint8_t x, int n) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    return (uint8_t)(x * power[n]) * 3 >> 8;
}
static inline void lp_tq1_0_weights(const uint8_t *b, int j, int8_t *q) {
    for (int i = 0; i < 32; i++) {
        const int n = 2 * (j - 5) + i / 16; /* the digit, beyond group 4 */
        int t;
        if (j < 5) {
            t = lp_trit(b[i], j);
        } else if (n < 5) {
            t = lp_trit(b[32 + i % 16], n);
        } else {
            t = lp_trit(b[48 + i % 4], i % 16 / 4);
        }
        q[i] = (int8_t)(t - 1);
    }
}
static inline void lp_tq1_0_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b + 52);
}
static const struct lp_fmt lp_fmt_tq1_0 = {
    .block = 256,
    .bytes = 54,
    .field = {{13, 4}, {1, 2}},
    .off = 1,
    .max = 2,
    .weights = lp_tq1_0_weights,
    .scales = lp_tq1_0_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_times_power3(b32 x, int n) {
    for (int i = 0; i < n; i++) {
        x = b32_add(x, b32_add(x, x));
    }
    return x;
}
/* Four bytes times 3, mod 256 each. */
LP_FORCE uint32_t lp_tq1_0_times3(uint32_t w) {
    return ((w & 0xff00ff) * 3 & 0xff00ff) | ((w >> 8 & 0xff00ff) * 3 & 0xff00ff) << 8;
}
/* The last 4 bytes of qs times 1, 3, 9 and 27, mod 256. */
LP_FORCE b32 lp_tq1_0_last(struct lp_at p) {
    if (LP_R8) {
        return lp_times_power3(lp_word_of(p, 48), p.i);
    }
    uint32_t w[8];
    memcpy(&w[0], p.a + 48, 4);
    memcpy(&w[4], p.b + 48, 4);
    for (int i = 0; i < 3; i++) {
        w[i + 1] = lp_tq1_0_times3(w[i]);
        w[i + 5] = lp_tq1_0_times3(w[i + 4]);
    }
    return b32_load(w);
}
LP_FORCE b32 lp_tq1_0_lanes(struct lp_at p, int j, int h) {
    if (j < 5) {
        return b32_thirds(lp_times_power3(lp_bytes(p, 16 * h), j));
    }
    if (j < 7 || h == 0) {
        return b32_thirds(lp_times_power3(lp_bytes(p, 32), 2 * (j - 5) + h));
    }
    return b32_thirds(lp_tq1_0_last(p));
}
LP_APART void lp_tq1_0_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    (void)wm;
    lp_half_last(b, 52, ws);
}
static const struct lp_lanes lp_lanes_tq1_0 = {
    .lanes = lp_tq1_0_lanes,
    .scales8 = lp_tq1_0_scales8,
};
#endif

#endif
