/* iq1_s: 256 weights in 50 bytes: f16 d, 32 bytes of codebook indices (eight weights each), then 16
 * bits for every group of 32: three more bits of each of its four indices, a scale s of three bits,
 * and the sign of delta = 1/8. Weight = d * (2 s + 1) * (value + delta); in eighths that is an
 * integer q = 8 value +- 1 under ws = d / 8 * (2 s + 1), exact. */
#ifndef LP_FMT_IQ1_S_H
#define LP_FMT_IQ1_S_H

#include "codebook.h"

/* Entry i (0..3) of group j; h: its 16 bits. */
LP_FORCE uint64_t lp_iq1_s_entry(const uint8_t *b, int j, uint32_t h, int i) {
    return lp_grid_iq1[b[2 + 4 * j + i] | (h >> 3 * i & 7) << 8];
}
static inline void lp_iq1_s_weights(const uint8_t *b, int j, int8_t *q) {
    const uint32_t h = lp_u16_at(b + 34 + 2 * j);
    for (int i = 0; i < 4; i++) {
        lp_eighths(lp_iq1_s_entry(b, j, h, i), h >> 15, q + 8 * i);
    }
}
static inline void lp_iq1_s_scales(const uint8_t *b, int j, struct lp_scales *s) {
    s->ws = lp_half_at(b) * 0.125f * (float)((lp_u16_at(b + 34 + 2 * j) >> 12 & 7) << 1 | 1);
}
static const struct lp_fmt lp_fmt_iq1_s = {
    .block = 256,
    .bytes = 50,
    .off = 9,
    .max = 18,
    .weights = lp_iq1_s_weights,
    .scales = lp_iq1_s_scales,
};

#ifdef LP_INT_H
LP_FORCE void lp_iq1_s_look_up(const uint8_t *b, struct lp_lookup *l) {
    static const uint16_t up[16] = {256, 32, 4, 0, 256, 32, 4, 0, 256, 32, 4, 0, 256, 32, 4, 0};
    static const uint16_t last[16] = {0, 0, 0, 1792, 0, 0, 0, 1792, 0, 0, 0, 1792, 0, 0, 0, 1792};
    b32 high[2], minus[2];
    for (int h = 0; h < 2; h++) {
        const b32 w = lp_lanes_of(b + 34, lp_words_by4, 8 * h);
        const b32 three = b32_and(b32_mul16(w, b32_load(up)), b32_set1_16(0x700));
        high[h] = b32_or(three, b32_and(b32_shr(w, 1), b32_load(last)));
        minus[h] = b32_shr(w, 15);
    }
    lp_look_up_eighths(b + 2, high, minus, l);
}
LP_APART void lp_iq1_s_expand(const uint8_t *const *b, uint8_t (*q)[256]) {
    struct lp_lookup l[8];
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        lp_iq1_s_look_up(b[r], &l[r]);
    }
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        lp_store_eighths(&l[r], q[r]);
    }
}
LP_APART void lp_iq1_s_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    const f32x8 d = lp_iq_unit(b, 0.125f);
    b32 w[4];
    (void)wm;
    for (int i = 0; i < 4; i++) {
        w[i] = b32_two(b[i] + 34, b[i + 4] + 34);
    }
    b32_transpose4(w);
    for (int j = 0; j < 8; j++) {
        const i32x8 twice = i8_and(i8_shr(w[j / 2], j % 2 ? 27 : 11), i8_set1(14));
        ws[j] = f8_mul(d, f8_from_i(i8_or(twice, i8_set1(1))));
    }
}
static const struct lp_lanes lp_lanes_iq1_s = {
    .expand = lp_iq1_s_expand,
    .scales8 = lp_iq1_s_scales8,
};
#endif

#endif
