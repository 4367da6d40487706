/* q5_1: 32 weights in 24 bytes: f16 d, f16 m, 32 high bits, 16 bytes of nibbles.
 * Weight = d * (high bit << 4 | nibble) + m. */
#ifndef LP_FMT_Q5_1_H
#define LP_FMT_Q5_1_H

#include "fmt_q5_0.h"

static inline void lp_q5_1_weights(const uint8_t *b, int j, int8_t *q) {
    (void)j;
    lp_nibbles5(b + 4, b + 8, q);
}
static inline void lp_q5_1_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b);
    s->wm = lp_half_at(b + 2);
}
static const struct lp_fmt lp_fmt_q5_1 = {
    .block = 32,
    .bytes = 24,
    .field = {{1, 4}, {1, 4, LP_BITS}, {4, 4}},
    .max = 31,
    .has_min = 1,
    .weights = lp_q5_1_weights,
    .scales = lp_q5_1_scales,
};

#ifdef LP_INT_H
static inline b32 lp_q5_1_lanes(struct lp_at p, int j, int h) {
    (void)j;
    const b32 low = b32_nibbles(lp_bytes(p, 8), h);
    return lp_add_bits(low, p, 4, h, 4);
}
static const struct lp_lanes lp_lanes_q5_1 = {
    .lanes = lp_q5_1_lanes,
    .scales = lp_half_pair,
};
#endif

#endif
