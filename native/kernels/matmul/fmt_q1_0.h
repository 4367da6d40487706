/* q1_0: 128 weights in 18 bytes: f16 d, 16 bytes of bits, the lowest first. Weight = bit ? d : -d.
 */
#ifndef LP_FMT_Q1_0_H
#define LP_FMT_Q1_0_H

#include "fmt.h"

static inline void lp_q1_0_weights(const uint8_t *b, int j, int8_t *q) {
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)((b[2 + 4 * j + i / 8] >> i % 8 & 1) * 2 - 1);
    }
}
static inline void lp_q1_0_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b);
}
static const struct lp_fmt lp_fmt_q1_0 = {
    .block = 128,
    .bytes = 18,
    .field = {{1, 2}, {4, 4, LP_BITS}},
    .off = 1,
    .max = 2,
    .weights = lp_q1_0_weights,
    .scales = lp_q1_0_scales,
};

#ifdef LP_INT_H
static inline b32 lp_q1_0_lanes(struct lp_at p, int j, int h) {
    return lp_add_bits(b32_set1(0), p, 2 + 4 * j, h, 1);
}
static const struct lp_lanes lp_lanes_q1_0 = {
    .lanes = lp_q1_0_lanes,
    .scales = lp_half_alone,
};
#endif

#endif
