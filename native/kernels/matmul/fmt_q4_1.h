/* q4_1: 32 weights in 20 bytes: f16 d, f16 m, 16 bytes of nibbles. Weight = d * nibble + m. */
#ifndef LP_FMT_Q4_1_H
#define LP_FMT_Q4_1_H

#include "fmt.h"

static inline void lp_q4_1_weights(const uint8_t *b, int j, int8_t *q) {
    (void)j;
    lp_nibbles(b + 4, q);
}
static inline void lp_q4_1_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b);
    s->wm = lp_half_at(b + 2);
}
static const struct lp_fmt lp_fmt_q4_1 = {
    .block = 32,
    .bytes = 20,
    .field = {{1, 4}, {4, 4}},
    .max = 15,
    .has_min = 1,
    .weights = lp_q4_1_weights,
    .scales = lp_q4_1_scales,
};

#ifdef LP_INT_H
static inline b32 lp_q4_1_lanes(struct lp_at p, int j, int h) {
    (void)j;
    return b32_nibbles(lp_bytes(p, 4), h);
}
static const struct lp_lanes lp_lanes_q4_1 = {
    .lanes = lp_q4_1_lanes,
    .scales = lp_half_pair,
};
#endif

#endif
