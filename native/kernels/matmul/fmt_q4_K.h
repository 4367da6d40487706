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
    .max = 15,
    .has_min = 1,
    .weights = lp_q4_K_weights,
    .scales = lp_k_scales,
};

#ifdef LP_INT_H
LP_FORCE b32 lp_q4_K_lanes(const uint8_t *b, int j) {
    b32 p = b32_load(b + 16 + j / 2 * 32);
    return b32_and(j & 1 ? b32_shr(p, 4) : p, b32_set1(15));
}
LP_FORCE void lp_k_scales8(const uint8_t *b, f32x8 *ws, f32x8 *wm) {
    uint32_t s[3];
    memcpy(s, b + 4, 12);
    uint64_t sc_high = (s[2] & 0x0f0f0f0fu) | (s[0] >> 2 & 0x30303030u);
    uint64_t m_high = (s[2] >> 4 & 0x0f0f0f0fu) | (s[1] >> 2 & 0x30303030u);
    uint64_t sc = (s[0] & 0x3f3f3f3fu) | sc_high << 32, m = (s[1] & 0x3f3f3f3fu) | m_high << 32;
    *ws = f8_mul(f8_set1(f8_half(b)), f8_from_u8(sc));
    *wm = f8_neg(f8_mul(f8_set1(f8_half(b + 2)), f8_from_u8(m)));
}
static const struct lp_lanes lp_lanes_q4_K = {lp_q4_K_lanes, lp_k_scales8, NULL};
#endif

#endif
