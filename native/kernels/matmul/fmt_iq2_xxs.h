/* iq2_xxs: 256 weights in 66 bytes: f16 d, then for every group of 32 four codebook indices in
 * bytes and a word: four times seven signs, and a scale s in the top four bits.
 * Weight = d / 8 * (2 s + 1) * value; ws = d / 8 * (2 s + 1), exact. */
#ifndef LP_FMT_IQ2_XXS_H
#define LP_FMT_IQ2_XXS_H

#include "codebook.h"

static inline void lp_iq2_xxs_weights(const uint8_t *b, int j, int8_t *q) {
    const uint8_t *p = b + 2 + 8 * j;
    const uint32_t signs = lp_u32_at(p + 4);
    for (int i = 0; i < 4; i++) {
        lp_signed(&lp_grid_iq2_xxs[p[i]], 8, lp_eight_signs(signs >> 7 * i & 127), q + 8 * i);
    }
}
static inline void lp_iq2_xxs_scales(const uint8_t *b, int j, struct lp_scales *s) {
    s->ws = lp_half_at(b) * 0.125f * (float)(lp_u32_at(b + 6 + 8 * j) >> 28 << 1 | 1);
}
static const struct lp_fmt lp_fmt_iq2_xxs = {
    .block = 256,
    .bytes = 66,
    .off = 43,
    .max = 86,
    .weights = lp_iq2_xxs_weights,
    .scales = lp_iq2_xxs_scales,
};

#ifdef LP_INT_H
LP_FORCE void lp_iq2_xxs_look_up(const uint8_t *b, struct lp_lookup *l) {
    /* The indices of two groups, in 16-bit lanes; what follows them is overwritten. */
    static const uint8_t two[32] = {0, 128, 1, 128, 2,  128, 3,  128,
                                    8, 128, 9, 128, 10, 128, 11, 128};
    for (int i = 0; i < 4; i++) {
        b32_store(l->at + 8 * i, b32_lookup(b + 2 + 16 * i, b32_load(two)));
    }
    b32_store(l->signs, lp_signs_of_28(i8_odd(b32_two(b + 2, b + 34), b32_two(b + 18, b + 50))));
}
LP_APART void lp_iq2_xxs_expand(const uint8_t *const *b, uint8_t (*q)[256]) {
    struct lp_lookup l[8];
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        lp_iq2_xxs_look_up(b[r], &l[r]);
    }
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        for (int j = 0; j < 8; j++) {
            lp_store_signed(b32_doubles_at(lp_grid_iq2_xxs, l[r].at + 4 * j), l[r].signs[j], 43,
                            q[r] + 32 * j);
        }
    }
}
LP_APART void lp_iq2_xxs_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    const f32x8 d = lp_iq_unit(b, 0.125f);
    (void)wm;
    for (int j = 0; j < 8; j += 2) {
        b32 w[4];
        for (int i = 0; i < 4; i++) {
            w[i] = b32_two(b[i] + 2 + 8 * j, b[i + 4] + 2 + 8 * j);
        }
        b32_transpose4(w);
        for (int i = 0; i < 2; i++) {
            const i32x8 s = i8_or(i8_shl(i8_shr(w[2 * i + 1], 28), 1), i8_set1(1));
            ws[j + i] = f8_mul(d, f8_from_i(s));
        }
    }
}
static const struct lp_lanes lp_lanes_iq2_xxs = {
    .expand = lp_iq2_xxs_expand,
    .scales8 = lp_iq2_xxs_scales8,
};
#endif

#endif
