/* iq2_xs: 256 weights in 74 bytes: f16 d, 32 words of 16 bits (a codebook index of 9 bits under
 * seven signs, for eight weights), 16 nibbles s (one per 16 weights).
 * Weight = d / 8 * (2 s + 1) * value; ws = d / 8, exact. */
#ifndef LP_FMT_IQ2_XS_H
#define LP_FMT_IQ2_XS_H

#include "codebook.h"

static inline void lp_iq2_xs_weights(const uint8_t *b, int j, int8_t *q) {
    for (int i = 0; i < 4; i++) {
        const uint32_t x = lp_u16_at(b + 2 + 8 * j + 2 * i);
        lp_signed(&lp_grid_iq2_xs[x & 511], 8, lp_eight_signs(x >> 9), q + 8 * i);
    }
}
static inline void lp_iq2_xs_scales(const uint8_t *b, int j, struct lp_scales *s) {
    s->ws = lp_half_at(b) * 0.125f;
    s->s[0] = (b[66 + j] & 15) << 1 | 1;
    s->s[1] = b[66 + j] >> 4 << 1 | 1;
}
static const struct lp_fmt lp_fmt_iq2_xs = {
    .block = 256,
    .bytes = 74,
    .off = 43,
    .max = 86,
    .has_sub = 1,
    .weights = lp_iq2_xs_weights,
    .scales = lp_iq2_xs_scales,
};

#ifdef LP_INT_H
LP_FORCE void lp_iq2_xs_look_up(const uint8_t *b, struct lp_lookup *l) {
    const b32 even = b32_two(b + 2, b + 34), odd = b32_two(b + 18, b + 50);
    b32_store(l->signs, lp_with_parity(b32_pack(b32_shr(even, 9), b32_shr(odd, 9))));
    b32_store(l->at, b32_and(b32_load(b + 2), b32_set1_16(511)));
    b32_store(l->at + 16, b32_and(b32_load(b + 34), b32_set1_16(511)));
}
LP_APART void lp_iq2_xs_expand(const uint8_t *const *b, uint8_t (*q)[256]) {
    struct lp_lookup l[8];
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        lp_iq2_xs_look_up(b[r], &l[r]);
    }
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        for (int j = 0; j < 8; j++) {
            lp_store_signed(b32_doubles_at(lp_grid_iq2_xs, l[r].at + 4 * j), l[r].signs[j], 43,
                            q[r] + 32 * j);
        }
    }
}
LP_APART void lp_iq2_xs_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    lp_same_scales(lp_iq_unit(b, 0.125f), ws);
    (void)wm;
}
LP_APART void lp_iq2_xs_sub(const uint8_t *const *b, i32x8 *s) {
    lp_nibble_sub(b, 66, s);
}
static const struct lp_lanes lp_lanes_iq2_xs = {
    .expand = lp_iq2_xs_expand,
    .scales8 = lp_iq2_xs_scales8,
    .sub = lp_iq2_xs_sub,
};
#endif

#endif
