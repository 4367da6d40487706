/* q8_0: 32 weights in 34 bytes: f16 d, 32 int8. Weight = d * q. */
#ifndef LP_FMT_Q8_0_H
#define LP_FMT_Q8_0_H

#include "fmt.h"

static inline void lp_q8_0_weights(const uint8_t *b, int j, int8_t *q) {
    (void)j;
    memcpy(q, b + 2, 32);
}
static inline void lp_q8_0_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b);
}
static const struct lp_fmt lp_fmt_q8_0 = {
    .block = 32,
    .bytes = 34,
    .field = {{1, 2}, {8, 4}},
    .off = 128,
    .max = 255,
    .weights = lp_q8_0_weights,
    .scales = lp_q8_0_scales,
};

#ifdef LP_INT_H
static inline b32 lp_q8_0_lanes(struct lp_at p, int j, int h) {
    (void)j;
    return b32_xor(lp_bytes(p, 2 + 16 * h), b32_set1(128));
}
static const struct lp_lanes lp_lanes_q8_0 = {
    .lanes = lp_q8_0_lanes,
    .scales = lp_half_alone,
};
#endif

#endif
