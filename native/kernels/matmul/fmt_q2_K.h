/* q2_K: 256 weights in 84 bytes: 16 bytes, a sub-scale in the low and a sub-minimum in the high
 * nibble, one for every 16 weights; 64 bytes of bit pairs (group j takes pair j % 4 of bytes
 * 32 (j / 4)..); f16 d, f16 dmin. Weight = d * sc * pair - dmin * m. */
#ifndef LP_FMT_Q2_K_H
#define LP_FMT_Q2_K_H

#include "fmt.h"

static inline void lp_q2_K_weights(const uint8_t *b, int j, int8_t *q) {
    const uint8_t *p = b + 16 + j / 4 * 32;
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)(p[i] >> j % 4 * 2 & 3);
    }
}
static inline void lp_q2_K_scales(const uint8_t *b, int j, struct lp_scales *s) {
    s->ws = lp_half_at(b + 80);
    s->wm = -lp_half_at(b + 82);
    for (int i = 0; i < 2; i++) {
        s->s[i] = b[2 * j + i] & 15;
        s->m[i] = b[2 * j + i] >> 4;
    }
}
static const struct lp_fmt lp_fmt_q2_K = {
    .block = 256,
    .bytes = 84,
    .field = {{21, 4}},
    .max = 3,
    .max_sub = 15,
    .has_min = 1,
    .has_sub = 1,
    .weights = lp_q2_K_weights,
    .scales = lp_q2_K_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_q2_K_lanes(struct lp_at p, int j, int h) {
    const int at = 16 + j / 4 * 32 + 16 * h;
    return b32_and(b32_shr(lp_bytes(p, at), j % 4 * 2), b32_set1(3));
}
LP_APART void lp_q2_K_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    f8_split(lp_last_words(b, 80), &ws[0], &wm[0]);
    wm[0] = f8_neg(wm[0]);
    for (int j = 1; j < 8; j++) {
        ws[j] = ws[0];
        wm[j] = wm[0];
    }
}
LP_APART void lp_q2_K_sub(const uint8_t *const *b, i32x8 *s) {
    b32 w[4];
    lp_words4(b, 0, w);
    for (int i = 0; i < 16; i++) {
        s[i] = i8_byte(b32_nibbles(w[i / 4], 0), i % 4);
    }
}
LP_APART void lp_q2_K_mins(const uint8_t *const *b, i32x8 *m) {
    const i32x8 first = i8_set1(15), second = i8_set1(15 << 16);
    b32 w[4];
    lp_words4(b, 0, w);
    for (int i = 0; i < 4; i++) {
        m[2 * i] = i8_or(i8_and(i8_shr(w[i], 4), first), i8_and(i8_shl(w[i], 4), second));
        m[2 * i + 1] = i8_or(i8_and(i8_shr(w[i], 20), first), i8_and(i8_shr(w[i], 12), second));
    }
}
static const struct lp_lanes lp_lanes_q2_K = {
    .lanes = lp_q2_K_lanes,
    .scales8 = lp_q2_K_scales8,
    .sub = lp_q2_K_sub,
    .mins = lp_q2_K_mins,
};
#endif

#endif
