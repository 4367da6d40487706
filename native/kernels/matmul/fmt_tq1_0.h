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
/* The 4 bytes at p times 1, 3, 9 and 27, mod 256. */
LP_FORCE void lp_tq1_0_last(const uint8_t *p, uint8_t *out) {
    uint32_t w;
    memcpy(&w, p, 4);
    for (int n = 0; n < 4; n++) {
        memcpy(out + 4 * n, &w, 4);
        w = ((w & 0xff00ff) * 3 & 0xff00ff) | ((w >> 8 & 0xff00ff) * 3 & 0xff00ff) << 8;
    }
}
LP_FORCE b32 lp_tq1_0_lanes(const uint8_t *a, const uint8_t *b, int j, int h) {
    if (j < 5) {
        return b32_thirds(lp_times_power3(b32_two(a + 16 * h, b + 16 * h), j));
    }
    if (j < 7 || h == 0) {
        return b32_thirds(lp_times_power3(b32_two(a + 32, b + 32), 2 * (j - 5) + h));
    }
    uint8_t last[32];
    lp_tq1_0_last(a + 48, last);
    lp_tq1_0_last(b + 48, last + 16);
    return b32_thirds(b32_load(last));
}
LP_APART void lp_tq1_0_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    (void)wm;
    lp_half_above(b, 50, ws);
}
static const struct lp_lanes lp_lanes_tq1_0 = {
    .lanes = lp_tq1_0_lanes,
    .scales8 = lp_tq1_0_scales8,
};
#endif

#endif
