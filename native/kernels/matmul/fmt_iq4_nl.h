/* iq4_nl: 32 weights in 18 bytes: f16 d, 16 bytes of nibbles. Weight = d * values[nibble]. */
#ifndef LP_FMT_IQ4_NL_H
#define LP_FMT_IQ4_NL_H

#include "fmt.h"
#include "lp_iq4.h"

/* 32 weights from the nibbles at p (iq4_nl and iq4_xs). */
LP_FORCE void lp_iq4_weights(const uint8_t *p, int8_t *q) {
    lp_nibbles(p, q);
    for (int i = 0; i < 32; i++) {
        q[i] = lp_iq4_values[q[i]];
    }
}
static inline void lp_iq4_nl_weights(const uint8_t *b, int j, int8_t *q) {
    (void)j;
    lp_iq4_weights(b + 2, q);
}
static inline void lp_iq4_nl_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b);
}
static const struct lp_fmt lp_fmt_iq4_nl = {
    .block = 32,
    .bytes = 18,
    .field = {{1, 2}, {4, 4}},
    .off = 128,
    .max = 255,
    .weights = lp_iq4_nl_weights,
    .scales = lp_iq4_nl_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_iq4_lanes(struct lp_at p, int at, int h) {
    return b32_xor(b32_lookup(lp_iq4_values, b32_nibbles(lp_bytes(p, at), h)), b32_set1(128));
}
static inline b32 lp_iq4_nl_lanes(struct lp_at p, int j, int h) {
    (void)j;
    return lp_iq4_lanes(p, 2, h);
}
static const struct lp_lanes lp_lanes_iq4_nl = {
    .lanes = lp_iq4_nl_lanes,
    .scales = lp_half_alone,
};
#endif

#endif
