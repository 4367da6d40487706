/* q6_K: 256 weights in 210 bytes: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 int8
 * sub-scales (one per 16 weights), f16 d. The block is two halves of 4 groups; in a half, group i
 * takes nibble i / 2 of bytes 32 (i % 2).. and bit pair i of 32 bytes.
 * Weight = d * sc * (q - 32). */
#ifndef LP_FMT_Q6_K_H
#define LP_FMT_Q6_K_H

#include "fmt.h"

static inline void lp_q6_K_weights(const uint8_t *b, int j, int8_t *q) {
    const uint8_t *low = b + j / 4 * 64 + j % 2 * 32, *high = b + 128 + j / 4 * 32;
    int i = j % 4;
    for (int l = 0; l < 32; l++) {
        q[l] = (int8_t)(((low[l] >> i / 2 * 4 & 15) | (high[l] >> i * 2 & 3) << 4) - 32);
    }
}
static inline void lp_q6_K_scales(const uint8_t *b, int j, struct lp_scales *s) {
    int8_t sc[2];
    memcpy(sc, b + 192 + 2 * j, 2);
    s->ws = lp_half_at(b + 208);
    s->s[0] = sc[0];
    s->s[1] = sc[1];
}
static const struct lp_fmt lp_fmt_q6_K = {
    .block = 256,
    .bytes = 210,
    .off = 32,
    .max = 63,
    .has_sub = 1,
    .weights = lp_q6_K_weights,
    .scales = lp_q6_K_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_q6_K_lanes(const uint8_t *b, int j) {
    b32 low = b32_load(b + j / 4 * 64 + j % 2 * 32), high = b32_load(b + 128 + j / 4 * 32);
    int i = j % 4;
    b32 pair = i < 2 ? b32_shl(high, 4 - 2 * i) : b32_shr(high, 2 * i - 4);
    return b32_or(b32_and(i < 2 ? low : b32_shr(low, 4), b32_set1(15)),
                  b32_and(pair, b32_set1(48)));
}
LP_FORCE void lp_q6_K_scales8(const uint8_t *b, f32x8 *ws, f32x8 *wm) {
    *ws = f8_set1(f8_half(b + 208));
    *wm = f8_zero();
}
LP_FORCE b16 lp_q6_K_sub(const uint8_t *b) {
    return b16_load(b + 192);
}
static const struct lp_lanes lp_lanes_q6_K = {lp_q6_K_lanes, lp_q6_K_scales8, lp_q6_K_sub};
#endif

#endif
