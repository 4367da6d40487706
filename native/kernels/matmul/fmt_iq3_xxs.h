/* iq3_xxs: 256 weights in 98 bytes: f16 d, 64 bytes of codebook indices (four weights each), then a
 * word for every group of 32: four times seven signs, and a scale s in the top four bits.
 * Weight = d / 4 * (2 s + 1) * value; ws = d / 4 * (2 s + 1), exact. */
#ifndef LP_FMT_IQ3_XXS_H
#define LP_FMT_IQ3_XXS_H

#include "codebook.h"

static inline void lp_iq3_xxs_weights(const uint8_t *b, int j, int8_t *q) {
    const uint32_t words = lp_u32_at(b + 66 + 4 * j);
    for (int i = 0; i < 8; i++) {
        const int signs = lp_eight_signs(words >> 7 * (i / 2) & 127) >> i % 2 * 4;
        lp_signed(&lp_grid_iq3_xxs[b[2 + 8 * j + i]], 4, signs, q + 4 * i);
    }
}
static inline void lp_iq3_xxs_scales(const uint8_t *b, int j, struct lp_scales *s) {
    s->ws = lp_half_at(b) * 0.25f * (float)(lp_u32_at(b + 66 + 4 * j) >> 28 << 1 | 1);
}
static const struct lp_fmt lp_fmt_iq3_xxs = {
    .block = 256,
    .bytes = 98,
    .off = 62,
    .max = 124,
    .weights = lp_iq3_xxs_weights,
    .scales = lp_iq3_xxs_scales,
};

#ifdef LP_INT_H
LP_FORCE void lp_iq3_xxs_look_up(const uint8_t *b, struct lp_lookup *l) {
    b32_store(l->signs, lp_signs_of_28(b32_load(b + 66)));
    for (int i = 0; i < 64; i += 16) {
        b32_store(l->at + i, b32_widen(b + 2 + i));
    }
}
LP_APART void lp_iq3_xxs_expand(const uint8_t *const *b, uint8_t (*q)[256]) {
    struct lp_lookup l[8];
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        lp_iq3_xxs_look_up(b[r], &l[r]);
    }
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        for (int j = 0; j < 8; j++) {
            lp_store_signed(b32_words_at(lp_grid_iq3_xxs, l[r].at + 8 * j), l[r].signs[j], 62,
                            q[r] + 32 * j);
        }
    }
}
LP_APART void lp_iq3_xxs_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    const f32x8 d = lp_iq_unit(b, 0.25f);
    (void)wm;
    for (int j = 0; j < 8; j += 4) {
        b32 w[4];
        for (int i = 0; i < 4; i++) {
            w[i] = b32_two(b[i] + 66 + 4 * j, b[i + 4] + 66 + 4 * j);
        }
        b32_transpose4(w);
        for (int i = 0; i < 4; i++) {
            const i32x8 s = i8_or(i8_shl(i8_shr(w[i], 28), 1), i8_set1(1));
            ws[j + i] = f8_mul(d, f8_from_i(s));
        }
    }
}
static const struct lp_lanes lp_lanes_iq3_xxs = {
    .expand = lp_iq3_xxs_expand,
    .scales8 = lp_iq3_xxs_scales8,
};
#endif

#endif
