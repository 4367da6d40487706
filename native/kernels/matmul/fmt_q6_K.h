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
    .field = {{4, 4, LP_PLAIN, 192}, /* each half's upper bits beside its lower ones */
              {8, 4, LP_PLAIN, 128},
              {16, 4, LP_PLAIN, 0},
              {8, 4, LP_PLAIN, 160},
              {16, 4, LP_PLAIN, 64},
              {1, 2, LP_PLAIN, 208}},
    .off = 32,
    .max = 63,
    .has_sub = 1,
    .weights = lp_q6_K_weights,
    .scales = lp_q6_K_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_q6_K_lanes(struct lp_at p, int j, int h) {
    const int low = LP_R8 ? 48 + j / 4 * 96 : j / 4 * 64, at = low + j % 2 * 32 + 16 * h, i = j % 4;
    const int at_high = (LP_R8 ? 16 + j / 4 * 96 : 128 + j / 4 * 32) + 16 * h;
    const b32 high = lp_bytes(p, at_high);
    const b32 pair = i < 2 ? b32_shl(high, 4 - 2 * i) : b32_shr(high, 2 * i - 4);
    return b32_or(b32_nibbles(lp_bytes(p, at), i / 2), b32_and(pair, b32_set1(48)));
}
LP_APART void lp_q6_K_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    (void)wm;
    lp_half_last(b, 208, ws);
}
LP_APART void lp_q6_K_sub(const uint8_t *const *b, i32x8 *s) {
    i32x8 w[4];
    lp_words4(b, LP_R8 ? 0 : 192, w);
    for (int i = 0; i < 16; i++) {
        s[i] = i8_signed_byte(w[i / 4], i % 4);
    }
}
static const struct lp_lanes lp_lanes_q6_K = {
    .lanes = lp_q6_K_lanes,
    .scales8 = lp_q6_K_scales8,
    .sub = lp_q6_K_sub,
};
#endif

#endif
