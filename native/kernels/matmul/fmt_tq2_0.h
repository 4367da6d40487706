/* tq2_0: 256 weights in 66 bytes: 64 bytes of bit pairs (group j takes pair j % 4 of bytes
 * 32 (j / 4)..), f16 d. Weight = d * (pair - 1). */
#ifndef LP_FMT_TQ2_0_H
#define LP_FMT_TQ2_0_H

#include "fmt.h"

static inline void lp_tq2_0_weights(const uint8_t *b, int j, int8_t *q) {
    const uint8_t *p = b + j / 4 * 32;
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)((p[i] >> j % 4 * 2 & 3) - 1);
    }
}
static inline void lp_tq2_0_scales(const uint8_t *b, int j, struct lp_scales *s) {
    (void)j;
    s->ws = lp_half_at(b + 64);
}
static const struct lp_fmt lp_fmt_tq2_0 = {
    .block = 256,
    .bytes = 66,
    .field = {{16, 4}, {1, 2}},
    .off = 1,
    .max = 3,
    .weights = lp_tq2_0_weights,
    .scales = lp_tq2_0_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_tq2_0_lanes(struct lp_at p, int j, int h) {
    const int at = j / 4 * 32 + 16 * h;
    return b32_and(b32_shr(lp_bytes(p, at), j % 4 * 2), b32_set1(3));
}
LP_APART void lp_tq2_0_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    (void)wm;
    lp_half_last(b, 64, ws);
}
static const struct lp_lanes lp_lanes_tq2_0 = {
    .lanes = lp_tq2_0_lanes,
    .scales8 = lp_tq2_0_scales8,
};
#endif

#endif
