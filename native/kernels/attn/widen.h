/* Rows of the cache as f32: floats exactly, quantised values as their definition reads (scale times
 * q, then plus the minimum, each rounded once), so that every instruction set has the same bits. */
#include "lp_iq4.h"

static const int32_t lp_lane_bits[16] = {1 << 0,  1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                         1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                         1 << 12, 1 << 13, 1 << 14, 1 << 15};

/* 16 bytes of nibbles: the low ones are q of elements 0..15, the high ones of 16..31. */
LP_INLINE void lp_split_nibbles(const char *p, i16v *q) {
    i16v b = i_load_u8((const uint8_t *)p);
    q[0] = i_and(b, i_set1(15));
    q[1] = i_shr(b, 4);
}
/* 4 bytes: bit i is worth 16 in q of element i. */
LP_INLINE void lp_add_fifth_bits(const char *p, i16v *q) {
    uint16_t bits[2];
    memcpy(bits, p, 4);
    i16v bit = i_load(lp_lane_bits);
    for (int h = 0; h < 2; h++) {
        m16 set = i_eq(i_and(i_set1(bits[h]), bit), bit);
        q[h] = i_sel(set, i_add(q[h], i_set1(16)), q[h]);
    }
}
/* q4_0, q4_1, q5_0, q5_1: f16 d, with a minimum f16 m, of 5 bits the fifth ones, nibbles. */
LP_INLINE void lp_widen_nibbles(float *dst, const char *p, int64_t n, int bits, int has_min) {
    for (int64_t i = 0; i < n; i += 32, p += 16) {
        v16 d = v_set1_f16(p), m = has_min ? v_set1_f16(p + 2) : v_zero();
        i16v q[2], off = i_set1(has_min ? 0 : 1 << (bits - 1));
        p += has_min ? 4 : 2;
        lp_split_nibbles(bits == 5 ? p + 4 : p, q);
        if (bits == 5) {
            lp_add_fifth_bits(p, q);
            p += 4;
        }
        for (int h = 0; h < 2; h++) {
            v16 x = v_mul(d, v_from_i(i_sub(q[h], off)));
            v_store(dst + i + 16 * h, has_min ? v_add(x, m) : x);
        }
    }
}
LP_INLINE void lp_widen_iq4_nl(float *dst, const char *p, int64_t n) {
    v16 values = v_from_i(i_load_i8(lp_iq4_values));
    for (int64_t i = 0; i < n; i += 32, p += 18) {
        v16 d = v_set1_f16(p);
        i16v q[2];
        lp_split_nibbles(p + 2, q);
        v_store(dst + i, v_mul(d, v_pick(values, q[0])));
        v_store(dst + i + 16, v_mul(d, v_pick(values, q[1])));
    }
}
LP_INLINE void lp_widen_q8_0(float *dst, const char *p, int64_t n) {
    for (int64_t i = 0; i < n; i += 32, p += 34) {
        v16 d = v_set1_f16(p);
        v_store(dst + i, v_mul(d, v_from_i(i_load_i8((const int8_t *)p + 2))));
        v_store(dst + i + 16, v_mul(d, v_from_i(i_load_i8((const int8_t *)p + 18))));
    }
}
LP_INLINE void lp_widen_bf16(float *dst, const char *p, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v_store(dst + i, v_load_bf16((const uint16_t *)p + i));
    }
    if (i < n) {
        uint16_t h[16] = {0};
        memcpy(h, p + 2 * i, (size_t)(n - i) * 2);
        v_store(dst + i, v_load_bf16(h));
    }
}
LP_INLINE void lp_widen_floats(float *dst, const char *p, int64_t n, int type) {
    int64_t size = lp_type_bytes(type);
    for (int64_t d = 0; d < n; d += 16) {
        v_store(dst + d, lp_load_as(p + d * size, type, n - d < 16 ? (int)(n - d) : 16));
    }
}

/* Rows [0, n_rows) of n elements at p[i], padded with zeros to a multiple of 16, to dst + i *
 * stride. They are places j0 .. of the tile. */
struct lp_wide_rows {
    const char *const *p;
    const struct lp_ahead *ahead;
    int64_t n, stride;
    int n_rows, j0;
};

#define LP_EACH_ROW(call)                                                                          \
    for (int i = 0; i < w->n_rows; i++) {                                                          \
        float *to = dst + i * w->stride;                                                           \
        const char *p = w->p[i];                                                                   \
        lp_ask_ahead(w->ahead, w->j0 + i, 1, 0, w->ahead->n_bytes);                                \
        call;                                                                                      \
    }                                                                                              \
    break

static void lp_widen(float *dst, const struct lp_wide_rows *w, int type) {
    const int64_t n = w->n;
    switch (type) {
    case LP_T_F32:
        LP_EACH_ROW(lp_widen_floats(to, p, n, LP_T_F32));
    case LP_T_F16:
        LP_EACH_ROW(lp_widen_floats(to, p, n, LP_T_F16));
    case LP_T_Q4_0:
        LP_EACH_ROW(lp_widen_nibbles(to, p, n, 4, 0));
    case LP_T_Q4_1:
        LP_EACH_ROW(lp_widen_nibbles(to, p, n, 4, 1));
    case LP_T_Q5_0:
        LP_EACH_ROW(lp_widen_nibbles(to, p, n, 5, 0));
    case LP_T_Q5_1:
        LP_EACH_ROW(lp_widen_nibbles(to, p, n, 5, 1));
    case LP_T_Q8_0:
        LP_EACH_ROW(lp_widen_q8_0(to, p, n));
    case LP_T_IQ4_NL:
        LP_EACH_ROW(lp_widen_iq4_nl(to, p, n));
    default: /* others than bf16 have been refused */
        LP_EACH_ROW(lp_widen_bf16(to, p, n));
    }
}
