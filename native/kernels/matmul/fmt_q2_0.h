/* q2_0: 64 weights in 18 bytes: f16 d, 16 bytes of bit pairs, four weights a byte, the lowest pair
 * first. Weight = d * (pair - 1). */
#ifndef LP_FMT_Q2_0_H
#define LP_FMT_Q2_0_H

#include "fmt.h"

static inline void lp_q2_0_weights(const uint8_t *b, int j, int8_t *q) {
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)((b[2 + 8 * j + i / 4] >> i % 4 * 2 & 3) - 1);
    }
}
static inline void lp_q2_0_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b);
}
static const struct lp_fmt lp_fmt_q2_0 = {
    .block = 64,
    .bytes = 18,
    .field = {{1, 2}, {4, 4, LP_PAIRS}},
    .off = 1,
    .max = 3,
    .weights = lp_q2_0_weights,
    .scales = lp_q2_0_scales,
};

#ifdef LP_INT_H
static inline b32 lp_q2_0_lanes(struct lp_at p, int j, int h) {
    return lp_bit_pairs(p, 2 + 8 * j + 4 * h);
}
static const struct lp_lanes lp_lanes_q2_0 = {
    .lanes = lp_q2_0_lanes,
    .scales = lp_half_alone,
};
#endif

#endif
