/* iq4_xs: 256 weights in 136 bytes: f16 d; 2 bytes, 2 bits a group, and 4 bytes, a nibble a group,
 * that are the 6-bit scales; 128 bytes of nibbles, 16 bytes a group as in iq4_nl.
 * Weight = d * (sc - 32) * values[nibble]. */
#ifndef LP_FMT_IQ4_XS_H
#define LP_FMT_IQ4_XS_H

#include "fmt_iq4_nl.h"

static inline void lp_iq4_xs_weights(const uint8_t *b, int j, int8_t *q) {
    lp_iq4_weights(b + 8 + 16 * j, q);
}
static inline void lp_iq4_xs_scales(const uint8_t *b, int j, struct lp_scales *s) {
    const int low = b[4 + j / 2] >> j % 2 * 4 & 15, high = b[2 + j / 4] >> j % 4 * 2 & 3;
    s->ws = lp_half_at(b) * (float)((low | high << 4) - 32);
}
static const struct lp_fmt lp_fmt_iq4_xs = {
    .block = 256,
    .bytes = 136,
    .field = {{34, 4}},
    .off = 128,
    .max = 255,
    .weights = lp_iq4_xs_weights,
    .scales = lp_iq4_xs_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_iq4_xs_lanes(struct lp_at p, int j, int h) {
    return lp_iq4_lanes(p, 8 + 16 * j, h);
}
LP_APART void lp_iq4_xs_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    const i32x8 first = lp_words(b, 0), low = lp_words(b, 4), bias = i8_set1(32);
    const i32x8 four = i8_set1(15), two = i8_set1(48);
    f32x8 d, rest;
    (void)wm;
    f8_split(first, &d, &rest);
    for (int j = 0; j < 8; j++) {
        const i32x8 sc =
            i8_or(i8_and(i8_shr(low, 4 * j), four), i8_and(i8_shr(first, 12 + 2 * j), two));
        ws[j] = f8_mul(d, f8_from_i(i8_sub(sc, bias)));
    }
}
static const struct lp_lanes lp_lanes_iq4_xs = {
    .lanes = lp_iq4_xs_lanes,
    .scales8 = lp_iq4_xs_scales8,
};
#endif

#endif
