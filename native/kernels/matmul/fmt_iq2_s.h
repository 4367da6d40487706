/* iq2_s: 256 weights in 82 bytes: f16 d, 32 bytes of codebook indices (eight weights each), 32
 * bytes of signs, 8 bytes with two more bits of every index (group j in byte j), 16 nibbles s (one
 * per 16 weights). Weight = d / 8 * (2 s + 1) * value; ws = d / 8, exact. */
#ifndef LP_FMT_IQ2_S_H
#define LP_FMT_IQ2_S_H

#include "codebook.h"

/* Entry i (0..3) of group j. */
LP_FORCE uint64_t lp_iq2_s_entry(const uint8_t *b, int j, int i) {
    return lp_grid_iq2_s[b[2 + 4 * j + i] | ((uint32_t)b[66 + j] << (8 - 2 * i) & 0x300)];
}
static inline void lp_iq2_s_weights(const uint8_t *b, int j, int8_t *q) {
    for (int i = 0; i < 4; i++) {
        const uint64_t entry = lp_iq2_s_entry(b, j, i);
        lp_signed(&entry, 8, b[34 + 4 * j + i], q + 8 * i);
    }
}
static inline void lp_iq2_s_scales(const uint8_t *b, int j, struct lp_scales *s) {
    s->ws = lp_half_at(b) * 0.125f;
    s->s[0] = (b[74 + j] & 15) << 1 | 1;
    s->s[1] = b[74 + j] >> 4 << 1 | 1;
}
static const struct lp_fmt lp_fmt_iq2_s = {
    .block = 256,
    .bytes = 82,
    .off = 43,
    .max = 86,
    .has_sub = 1,
    .weights = lp_iq2_s_weights,
    .scales = lp_iq2_s_scales,
};

#ifdef LP_INT_H
LP_FORCE void lp_iq2_s_look_up(const uint8_t *b, struct lp_lookup *l) {
    static const uint16_t up[16] = {256, 64, 16, 4, 256, 64, 16, 4, 256, 64, 16, 4, 256, 64, 16, 4};
    for (int h = 0; h < 2; h++) {
        const b32 high = b32_mul16(lp_lanes_of(b + 66, lp_by4, 4 * h), b32_load(up));
        const b32 bits = b32_and(high, b32_set1_16(0x300));
        b32_store(l->at + 16 * h, b32_or(b32_widen(b + 2 + 16 * h), bits));
    }
}
LP_APART void lp_iq2_s_expand(const uint8_t *const *b, uint8_t (*q)[256]) {
    struct lp_lookup l[8];
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        lp_iq2_s_look_up(b[r], &l[r]);
    }
#pragma GCC unroll 1
    for (int r = 0; r < 8; r++) {
        for (int j = 0; j < 8; j++) {
            const b32 v = b32_doubles_at(lp_grid_iq2_s, l[r].at + 4 * j);
            lp_store_signed(v, lp_u32_at(b[r] + 34 + 4 * j), 43, q[r] + 32 * j);
        }
    }
}
LP_APART void lp_iq2_s_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    lp_same_scales(lp_iq_unit(b, 0.125f), ws);
    (void)wm;
}
LP_APART void lp_iq2_s_sub(const uint8_t *const *b, i32x8 *s) {
    lp_nibble_sub(b, 74, s);
}
static const struct lp_lanes lp_lanes_iq2_s = {
    .expand = lp_iq2_s_expand,
    .scales8 = lp_iq2_s_scales8,
    .sub = lp_iq2_s_sub,
};
#endif

#endif
