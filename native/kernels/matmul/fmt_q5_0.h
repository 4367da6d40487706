/* q5_0: 32 weights in 22 bytes: f16 d, 32 high bits, 16 bytes of nibbles.
 * Weight = d * ((high bit << 4 | nibble) - 16). */
#ifndef LP_FMT_Q5_0_H
#define LP_FMT_Q5_0_H

#include "fmt.h"

/* Nibbles at p with the 32 bits at h as their fifth bit (q5_0 and q5_1). */
LP_FORCE void lp_nibbles5(const uint8_t *h, const uint8_t *p, int8_t *q) {
    lp_nibbles(p, q);
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)(q[i] | (h[i / 8] >> i % 8 & 1) << 4);
    }
}
static inline void lp_q5_0_weights(const uint8_t *b, int j, int8_t *q) {
    (void)j;
    lp_nibbles5(b + 2, b + 6, q);
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)(q[i] - 16);
    }
}
static inline void lp_q5_0_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b);
}
static const struct lp_fmt lp_fmt_q5_0 = {
    .block = 32,
    .bytes = 22,
    .field = {{1, 2}, {1, 4, LP_BITS}, {4, 4}},
    .off = 16,
    .max = 31,
    .weights = lp_q5_0_weights,
    .scales = lp_q5_0_scales,
};

#ifdef LP_INT_H
static inline b32 lp_q5_0_lanes(struct lp_at p, int j, int h) {
    (void)j;
    const b32 low = b32_nibbles(lp_bytes(p, 6), h);
    return lp_add_bits(low, p, 2, h, 4);
}
static const struct lp_lanes lp_lanes_q5_0 = {
    .lanes = lp_q5_0_lanes,
    .scales = lp_half_alone,
};
#endif

#endif
