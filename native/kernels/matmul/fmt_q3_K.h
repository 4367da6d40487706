/* q3_K: 256 weights in 110 bytes: 32 bytes whose bit j is the third bit of group j, 64 bytes of bit
 * pairs (group j takes pair j % 4 of bytes 32 (j / 4)..), 12 bytes of 16 packed 6-bit sub-scales
 * (one per 16 weights), f16 d. Weight = d * (sc - 32) * ((third bit << 2 | pair) - 4). */
#ifndef LP_FMT_Q3_K_H
#define LP_FMT_Q3_K_H

#include "fmt.h"

static inline void lp_q3_K_weights(const uint8_t *b, int j, int8_t *q) {
    const uint8_t *low = b + 32 + j / 4 * 32;
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)(((low[i] >> j % 4 * 2 & 3) | (b[i] >> j & 1) << 2) - 4);
    }
}
/* Sub-scale i: a nibble of bytes 0..7 (the low ones first) under a bit pair of bytes 8..11. */
LP_FORCE int32_t lp_q3_K_sub_scale(const uint8_t *s, int i) {
    return ((s[i % 8] >> i / 8 * 4 & 15) | (s[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32;
}
static inline void lp_q3_K_scales(const uint8_t *b, int j, struct lp_scales *s) {
    s->ws = lp_half_at(b + 108);
    s->s[0] = lp_q3_K_sub_scale(b + 96, 2 * j);
    s->s[1] = lp_q3_K_sub_scale(b + 96, 2 * j + 1);
}
static const struct lp_fmt lp_fmt_q3_K = {
    .block = 256,
    .bytes = 110,
    .field = {{27, 4}, {1, 2}},
    .off = 4,
    .max = 7,
    .has_sub = 1,
    .weights = lp_q3_K_weights,
    .scales = lp_q3_K_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_q3_K_lanes(struct lp_at p, int j, int h) {
    const int at = 32 + j / 4 * 32 + 16 * h;
    const b32 low = b32_shr(lp_bytes(p, at), j % 4 * 2);
    const b32 high = lp_bytes(p, 16 * h);
    const b32 bit = j < 2 ? b32_shl(high, 2 - j) : b32_shr(high, j - 2);
    return b32_or(b32_and(low, b32_set1(3)), b32_and(bit, b32_set1(4)));
}
LP_APART void lp_q3_K_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    (void)wm;
    lp_half_last(b, 108, ws);
}
LP_APART void lp_q3_K_sub(const uint8_t *const *b, i32x8 *s) {
    const i32x8 four = i8_set1(0x0f0f0f0f), two = i8_set1(0x30303030), bias = i8_set1(32);
    const i32x8 w[2] = {lp_last_words(b, 96), lp_last_words(b, 100)}, high = lp_last_words(b, 104);
    const i32x8 pairs[4] = {i8_shl(high, 4), i8_shl(high, 2), high, i8_shr(high, 2)};
    for (int i = 0; i < 4; i++) {
        const i32x8 low = i < 2 ? w[i] : i8_shr(w[i - 2], 4);
        const i32x8 v = i8_or(i8_and(low, four), i8_and(pairs[i], two));
        for (int j = 0; j < 4; j++) {
            s[4 * i + j] = i8_sub(i8_byte(v, j), bias);
        }
    }
}
static const struct lp_lanes lp_lanes_q3_K = {
    .lanes = lp_q3_K_lanes,
    .scales8 = lp_q3_K_scales8,
    .sub = lp_q3_K_sub,
};
#endif

#endif
