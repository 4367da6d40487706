/* iq1_m: 256 weights in 56 bytes: 32 bytes of codebook indices (eight weights each), 32 nibbles
 * (three more bits of the index and the sign of delta = 1/8), four words of 16 bits: four scales s
 * of three bits (one per 16 weights) under a nibble of the f16 d, the lowest first.
 * Weight = d * (2 s + 1) * (value + delta); in eighths that is an integer q = 8 value +- 1 under
 * ws = d / 8, exact. */
#ifndef LP_FMT_IQ1_M_H
#define LP_FMT_IQ1_M_H

#include "codebook.h"

/* Entry i (0..3) of group j; h: its four nibbles. */
LP_FORCE uint64_t lp_iq1_m_entry(const uint8_t *b, int j, uint32_t h, int i) {
    return lp_grid_iq1[b[4 * j + i] | (h >> 4 * i & 7) << 8];
}
static inline void lp_iq1_m_weights(const uint8_t *b, int j, int8_t *q) {
    const uint32_t h = lp_u16_at(b + 32 + 2 * j);
    for (int i = 0; i < 4; i++) {
        lp_eighths(lp_iq1_m_entry(b, j, h, i), h >> 4 * i & 8, q + 8 * i);
    }
}
static inline void lp_iq1_m_scales(const uint8_t *b, int j, struct lp_scales *s) {
    uint32_t d = 0;
    for (int i = 0; i < 4; i++) {
        d |= lp_u16_at(b + 48 + 2 * i) >> 12 << 4 * i;
    }
    const uint32_t w = lp_u16_at(b + 48 + j / 2 * 2) >> j % 2 * 6;
    s->ws = lp_f32_of_f16((uint16_t)d) * 0.125f;
    s->s[0] = (int32_t)((w & 7) << 1 | 1);
    s->s[1] = (int32_t)((w >> 3 & 7) << 1 | 1);
}
static const struct lp_fmt lp_fmt_iq1_m = {
    .block = 256,
    .bytes = 56,
    .off = 9,
    .max = 18,
    .has_sub = 1,
    .weights = lp_iq1_m_weights,
    .scales = lp_iq1_m_scales,
};

#ifdef LP_INT_H
LP_FORCE void lp_iq1_m_look_up(const uint8_t *b, struct lp_lookup *l) {
    static const uint16_t up[16] = {256, 16, 256, 16, 256, 16, 256, 16,
                                    256, 16, 256, 16, 256, 16, 256, 16};
    b32 high[2], minus[2];
    for (int h = 0; h < 2; h++) {
        const b32 nibble = b32_mul16(lp_lanes_of(b + 32, lp_by2, 8 * h), b32_load(up));
        high[h] = b32_and(nibble, b32_set1_16(0x700));
        minus[h] = b32_shr(b32_and(nibble, b32_set1_16(0x800)), 11);
    }
    lp_look_up_eighths(b, high, minus, l);
}
LP_APART void lp_iq1_m_expand(const uint8_t *const *b, uint8_t (*q)[256]) {
    struct lp_lookup l[8];
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        lp_iq1_m_look_up(b[r], &l[r]);
    }
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        lp_store_eighths(&l[r], q[r]);
    }
}
/* The words that hold scales 0..7 and 8..15. */
LP_FORCE void lp_iq1_m_words(const uint8_t *const *b, i32x8 *w) {
    w[0] = i8_last_words(b, 48);
    w[1] = i8_last_words(b, 52);
}
LP_APART void lp_iq1_m_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    i32x8 w[2];
    f32x8 d, rest;
    (void)wm;
    lp_iq1_m_words(b, w);
    const i32x8 low =
        i8_or(i8_and(i8_shr(w[0], 12), i8_set1(0x0f)), i8_and(i8_shr(w[0], 24), i8_set1(0xf0)));
    const i32x8 high =
        i8_or(i8_and(i8_shr(w[1], 4), i8_set1(0xf00)), i8_and(i8_shr(w[1], 16), i8_set1(0xf000)));
    f8_split(i8_or(low, high), &d, &rest);
    lp_same_scales(f8_mul(d, f8_set1(0.125f)), ws);
}
LP_APART void lp_iq1_m_sub(const uint8_t *const *b, i32x8 *s) {
    i32x8 w[2];
    lp_iq1_m_words(b, w);
    for (int i = 0; i < 16; i++) {
        const int at = i / 4 % 2 * 16 + i % 4 * 3;
        const i32x8 x = i8_shl(i8_and(i8_shr(w[i / 8], at), i8_set1(7)), 1);
        s[i] = i8_or(x, i8_set1(1));
    }
}
static const struct lp_lanes lp_lanes_iq1_m = {
    .expand = lp_iq1_m_expand,
    .scales8 = lp_iq1_m_scales8,
    .sub = lp_iq1_m_sub,
};
#endif

#endif
