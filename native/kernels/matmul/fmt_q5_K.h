/* q5_K: 256 weights in 176 bytes: f16 d, f16 dmin, 12 bytes of packed scales and minima as in q4_K,
 * 32 bytes whose bit j is the fifth bit of group j, 128 bytes of nibbles as in q4_K.
 * Weight = d * sc * q - dmin * m. */
#ifndef LP_FMT_Q5_K_H
#define LP_FMT_Q5_K_H

#include "fmt_q4_K.h"

static inline void lp_q5_K_weights(const uint8_t *b, int j, int8_t *q) {
    const uint8_t *p = b + 48 + j / 2 * 32, *h = b + 16;
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)((j & 1 ? p[i] >> 4 : p[i] & 15) | (h[i] >> j & 1) << 4);
    }
}
static const struct lp_fmt lp_fmt_q5_K = {
    .block = 256,
    .bytes = 176,
    .field = {{44, 4}},
    .max = 31,
    .has_min = 1,
    .weights = lp_q5_K_weights,
    .scales = lp_k_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_q5_K_lanes(struct lp_at p, int j, int h) {
    const b32 low = lp_q4_K_lanes(lp_skip(p, 32), j, h), high = lp_bytes(p, 16 + 16 * h);
    const b32 bit = j > 4 ? b32_shr(high, j - 4) : b32_shl(high, 4 - j);
    return b32_or(low, b32_and(bit, b32_set1(16)));
}
static const struct lp_lanes lp_lanes_q5_K = {
    .lanes = lp_q5_K_lanes,
    .scales8 = lp_k_scales8,
};
#endif

#endif
