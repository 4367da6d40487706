/* q4_K: 256 weights in 144 bytes: f16 d, f16 dmin, 12 bytes of packed 6-bit scales and minima of
 * the 8 groups, 128 bytes of nibbles: bytes 32i.. hold group 2i in their low, group 2i + 1 in their
 * high nibbles. Weight = d * sc * nibble - dmin * m. */
#ifndef LP_FMT_Q4_K_H
#define LP_FMT_Q4_K_H

#include "fmt.h"

/* The scales (s) or minima (s + 4) of groups 0..3 are the low 6 bits of 4 bytes; those of groups
 * 4..7 are a nibble of bytes 8..11 with the upper 2 bits of the same 4 bytes above it. */
LP_FORCE void lp_k_scales_of(const uint8_t *s, int j, int32_t *sc, int32_t *m) {
    if (j < 4) {
        *sc = s[j] & 63;
        *m = s[j + 4] & 63;
    } else {
        *sc = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *m = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}
/* d and dmin at b, the packed scales behind them (q4_K and q5_K). */
static inline void lp_k_scales(const uint8_t *b, int j, struct lp_scales *s) {
    int32_t sc, m;
    lp_k_scales_of(b + 4, j, &sc, &m);
    s->ws = lp_half_at(b) * (float)sc;
    s->wm = -(lp_half_at(b + 2) * (float)m);
}
static inline void lp_q4_K_weights(const uint8_t *b, int j, int8_t *q) {
    const uint8_t *p = b + 16 + j / 2 * 32;
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)(j & 1 ? p[i] >> 4 : p[i] & 15);
    }
}
static const struct lp_fmt lp_fmt_q4_K = {
    .block = 256,
    .bytes = 144,
    .field = {{36, 4}},
    .max = 15,
    .has_min = 1,
    .weights = lp_q4_K_weights,
    .scales = lp_k_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_q4_K_lanes(struct lp_at p, int j, int h) {
    const int at = 16 + j / 2 * 32 + 16 * h;
    return b32_nibbles(lp_bytes(p, at), j & 1);
}
/* Lane = row; the four bytes of a word are four scales. */
LP_APART void lp_k_scales8(const uint8_t *const *b, f32x8 *ws, f32x8 *wm) {
    const i32x8 six = i8_set1(0x3f3f3f3f), four = i8_set1(0x0f0f0f0f), two = i8_set1(0x30303030);
    i32x8 w[4];
    lp_words4(b, 0, w);
    const i32x8 s = w[1], m = w[2], both = w[3];
    const i32x8 sc[2] = {i8_and(s, six), i8_or(i8_and(both, four), i8_and(i8_shr(s, 2), two))};
    const i32x8 mc[2] = {i8_and(m, six),
                         i8_or(i8_and(i8_shr(both, 4), four), i8_and(i8_shr(m, 2), two))};
    f32x8 d, dmin;
    f8_split(w[0], &d, &dmin);
    dmin = f8_neg(dmin);
    for (int j = 0; j < 8; j++) {
        ws[j] = f8_mul(d, f8_from_i(i8_byte(sc[j / 4], j % 4)));
        wm[j] = f8_mul(dmin, f8_from_i(i8_byte(mc[j / 4], j % 4)));
    }
}
static const struct lp_lanes lp_lanes_q4_K = {
    .lanes = lp_q4_K_lanes,
    .scales8 = lp_k_scales8,
};
#endif

#endif
