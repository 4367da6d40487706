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
LP_FORCE void lp_iq3_s_look_up(const uint8_t *b, struct lp_lookup *l) {
    static const uint16_t up[16] = {256, 128, 64, 32, 16, 8, 4, 2, 256, 128, 64, 32, 16, 8, 4, 2};
    for (int h = 0; h < 4; h++) {
        const b32 high = b32_mul16(lp_lanes_of(b + 66, lp_by8, 2 * h), b32_load(up));
        const b32 bit = b32_and(high, b32_set1_16(0x100));
        b32_store(l->at + 16 * h, b32_or(b32_widen(b + 2 + 16 * h), bit));
    }
}
LP_APART void lp_iq3_s_expand(const uint8_t *const *b, uint8_t (*q)[256]) {
    struct lp_lookup l[8];
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        lp_iq3_s_look_up(b[r], &l[r]);
    }
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        for (int j = 0; j < 8; j++) {
            const b32 v = b32_words_at(lp_grid_iq3_s, l[r].at + 8 * j);
            lp_store_signed(v, lp_u32_at(b[r] + 74 + 4 * j), 15, q[r] + 32 * j);
        }
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
