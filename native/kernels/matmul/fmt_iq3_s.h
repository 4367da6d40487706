/* iq3_s: 256 weights in 110 bytes: f16 d, 64 bytes of codebook indices (four weights each), 8 bytes
 * with the ninth bit of every index (group j in byte j), 32 bytes of signs, 8 nibbles s (one per
 * group of 32). Weight = d * (2 s + 1) * value; ws = d * (2 s + 1), exact. */
#ifndef LP_FMT_IQ3_S_H
#define LP_FMT_IQ3_S_H

#include "codebook.h"

static inline void lp_iq3_s_weights(const uint8_t *b, int j, int8_t *q) {
    for (int i = 0; i < 8; i++) {
        const int index = b[2 + 8 * j + i] | (b[66 + j] >> i & 1) << 8;
        lp_signed(&lp_grid_iq3_s[index], 4, b[74 + 4 * j + i / 2] >> i % 2 * 4, q + 4 * i);
    }
}
static inline void lp_iq3_s_scales(const uint8_t *b, int j, struct lp_scales *s) {
    s->ws = lp_half_at(b) * (float)((b[106 + j / 2] >> j % 2 * 4 & 15) << 1 | 1);
}
static const struct lp_fmt lp_fmt_iq3_s = {
    .block = 256,
    .bytes = 110,
    .off = 15,
    .max = 30,
    .weights = lp_iq3_s_weights,
    .scales = lp_iq3_s_scales,
};

#ifdef LP_INT_H
LP_APART void lp_iq3_s_expand(const uint8_t *b, uint8_t *q) {
    for (int j = 0; j < 8; j++) {
        const b32 v = lp_entries4(lp_grid_iq3_s, b + 2 + 8 * j, b[66 + j]);
        lp_store_signed(v, lp_u32_at(b + 74 + 4 * j), 15, q + 32 * j);
    }
}
LP_APART void lp_iq3_s_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    const f32x8 d = lp_iq_unit(b, 1);
    const i32x8 w = i8_last_words(b, 106);
    (void)wm;
    for (int j = 0; j < 8; j++) {
        ws[j] = f8_mul(d, f8_from_i(i8_byte(lp_odd_nibbles(w, j % 2), j / 2)));
    }
}
static const struct lp_lanes lp_lanes_iq3_s = {
    .expand = lp_iq3_s_expand,
    .scales8 = lp_iq3_s_scales8,
};
#endif

#endif
