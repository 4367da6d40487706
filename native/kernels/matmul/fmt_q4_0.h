/* q4_0: 32 weights in 18 bytes: f16 d, 16 bytes of nibbles. Weight = d * (nibble - 8). */
#ifndef LP_FMT_Q4_0_H
#define LP_FMT_Q4_0_H

#include "fmt.h"

static inline void lp_q4_0_weights(const uint8_t *b, int j, int8_t *q) {
    (void)j;
    lp_nibbles(b + 2, q);
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)(q[i] - 8);
    }
}
static inline void lp_q4_0_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b);
}
static const struct lp_fmt lp_fmt_q4_0 = {
    .block = 32,
    .bytes = 18,
    .field = {{1, 2}, {4, 4}},
    .off = 8,
    .max = 15,
    .weights = lp_q4_0_weights,
    .scales = lp_q4_0_scales,
};

#ifdef LP_INT_H
static inline b32 lp_q4_0_lanes(struct lp_at p, int j, int h) {
    (void)j;
    return b32_nibbles(lp_bytes(p, 2), h);
}
static const struct lp_lanes lp_lanes_q4_0 = {
    .lanes = lp_q4_0_lanes,
    .scales = lp_half_alone,
};
#endif

#endif
