/* The thin vector layer in plain C: 16 float lanes, and what every other set must reproduce bit for
 * bit. A kernel body is written once against these names; one file per instruction set includes a
 * vec_*.h and then the bodies.
 *
 * v16: 16 floats   i16v: 16 int32   m16: 16 truth values
 *
 * Laws: every float operation rounds once, to nearest even; subnormals are kept. max(a, b) is a > b
 * ? a : b and min(a, b) is a < b ? a : b, so the second operand is taken when either is NaN and for
 * two zeros. A NaN result is some NaN: payload and sign are not promised. Loads and stores need
 * only the element's own alignment; *_n touch exactly the first n lanes (0 <= n <= 16), the other
 * lanes of a load are 0. fma is a true fused operation: without an FMA unit the compiler calls
 * libm's fmaf, the only libm function a kernel may use, since its result is exact by definition. */
#ifndef LP_VEC_H
#define LP_VEC_H

#include <stdint.h>
#include <string.h>
#include "lp_half.h"

#define LP_FN(name) name##_scalar
#define LP_INLINE static inline
#define V_REGS 16 /* how many v16 the machine holds; bodies choose their register blocks by it */

typedef struct {
    float f[16];
} v16;
typedef struct {
    int32_t i[16];
} i16v;
typedef struct {
    int32_t m[16]; /* 0 or 1 */
} m16;

#define V_EACH for (int k_ = 0; k_ < 16; k_++)
#define V_MAKE(type, field, expr)                                                                  \
    type r_;                                                                                       \
    V_EACH r_.field[k_] = (expr);                                                                  \
    return r_

LP_INLINE v16 v_set1(float x) {
    V_MAKE(v16, f, x);
}
LP_INLINE v16 v_zero(void) {
    return v_set1(0.0f);
}
LP_INLINE v16 v_load_n(const float *p, int n) {
    v16 r = v_zero();
    memcpy(r.f, p, (size_t)n * 4);
    return r;
}
LP_INLINE v16 v_load(const float *p) {
    v16 r;
    memcpy(r.f, p, 64);
    return r;
}
LP_INLINE void v_store_n(float *p, v16 a, int n) {
    memcpy(p, a.f, (size_t)n * 4);
}
LP_INLINE void v_store(float *p, v16 a) {
    memcpy(p, a.f, 64);
}
LP_INLINE v16 v_load_f16(const uint16_t *p) {
    V_MAKE(v16, f, lp_f32_of_f16(p[k_]));
}
LP_INLINE v16 v_load_f16_n(const uint16_t *p, int n) {
    V_MAKE(v16, f, k_ < n ? lp_f32_of_f16(p[k_]) : 0.0f);
}
LP_INLINE void v_store_f16_n(uint16_t *p, v16 a, int n) {
    for (int k = 0; k < n; k++) {
        p[k] = lp_f16_of_f32(a.f[k]);
    }
}
LP_INLINE void v_store_f16(uint16_t *p, v16 a) {
    v_store_f16_n(p, a, 16);
}

LP_INLINE v16 v_load_bf16(const uint16_t *p) {
    V_MAKE(v16, f, lp_float_of((uint32_t)p[k_] << 16));
}
/* The f16 at p, which needs no alignment, in every lane. */
LP_INLINE v16 v_set1_f16(const void *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return v_set1(lp_f32_of_f16(h));
}

LP_INLINE v16 v_add(v16 a, v16 b) {
    V_MAKE(v16, f, a.f[k_] + b.f[k_]);
}
LP_INLINE v16 v_sub(v16 a, v16 b) {
    V_MAKE(v16, f, a.f[k_] - b.f[k_]);
}
LP_INLINE v16 v_mul(v16 a, v16 b) {
    V_MAKE(v16, f, a.f[k_] * b.f[k_]);
}
LP_INLINE v16 v_div(v16 a, v16 b) {
    V_MAKE(v16, f, a.f[k_] / b.f[k_]);
}
LP_INLINE v16 v_sqrt(v16 a) {
    V_MAKE(v16, f, __builtin_sqrtf(a.f[k_]));
}
LP_INLINE v16 v_max(v16 a, v16 b) {
    V_MAKE(v16, f, a.f[k_] > b.f[k_] ? a.f[k_] : b.f[k_]);
}
LP_INLINE v16 v_min(v16 a, v16 b) {
    V_MAKE(v16, f, a.f[k_] < b.f[k_] ? a.f[k_] : b.f[k_]);
}
LP_INLINE v16 v_fma(v16 a, v16 b, v16 c) { /* a * b + c */
    V_MAKE(v16, f, __builtin_fmaf(a.f[k_], b.f[k_], c.f[k_]));
}
LP_INLINE v16 v_fnma(v16 a, v16 b, v16 c) { /* c - a * b */
    V_MAKE(v16, f, __builtin_fmaf(-a.f[k_], b.f[k_], c.f[k_]));
}

LP_INLINE i16v i_set1(int32_t x) {
    V_MAKE(i16v, i, x);
}
LP_INLINE i16v i_load(const int32_t *p) {
    i16v r;
    memcpy(r.i, p, 64);
    return r;
}
LP_INLINE i16v i_load_u8(const uint8_t *p) {
    V_MAKE(i16v, i, p[k_]);
}
LP_INLINE i16v i_load_i8(const int8_t *p) {
    V_MAKE(i16v, i, p[k_]);
}
LP_INLINE void i_store(int32_t *p, i16v a) {
    memcpy(p, a.i, 64);
}
/* The lower 8 bits of every lane. */
LP_INLINE void i_store_i8(int8_t *p, i16v a) {
    uint8_t r[16];
    V_EACH r[k_] = (uint8_t)((uint32_t)a.i[k_] & 0xffu);
    memcpy(p, r, 16);
}
LP_INLINE i16v i_add(i16v a, i16v b) { /* wraps */
    V_MAKE(i16v, i, (int32_t)((uint32_t)a.i[k_] + (uint32_t)b.i[k_]));
}
LP_INLINE i16v i_sub(i16v a, i16v b) { /* wraps */
    V_MAKE(i16v, i, (int32_t)((uint32_t)a.i[k_] - (uint32_t)b.i[k_]));
}
LP_INLINE i16v i_and(i16v a, i16v b) {
    V_MAKE(i16v, i, a.i[k_] & b.i[k_]);
}
LP_INLINE i16v i_or(i16v a, i16v b) {
    V_MAKE(i16v, i, a.i[k_] | b.i[k_]);
}
LP_INLINE i16v i_xor(i16v a, i16v b) {
    V_MAKE(i16v, i, a.i[k_] ^ b.i[k_]);
}
LP_INLINE i16v i_shl(i16v a, int n) {
    V_MAKE(i16v, i, (int32_t)((uint32_t)a.i[k_] << n));
}
LP_INLINE i16v i_shr(i16v a, int n) { /* zeros come in */
    V_MAKE(i16v, i, (int32_t)((uint32_t)a.i[k_] >> n));
}
LP_INLINE i16v i_sar(i16v a, int n) { /* the sign comes in */
    V_MAKE(i16v, i, a.i[k_] >> n);
}
LP_INLINE i16v i_max(i16v a, i16v b) {
    V_MAKE(i16v, i, a.i[k_] > b.i[k_] ? a.i[k_] : b.i[k_]);
}
LP_INLINE i16v i_min(i16v a, i16v b) {
    V_MAKE(i16v, i, a.i[k_] < b.i[k_] ? a.i[k_] : b.i[k_]);
}
LP_INLINE i16v v_bits(v16 a) {
    i16v r;
    memcpy(r.i, a.f, 64);
    return r;
}
LP_INLINE v16 v_from_bits(i16v a) {
    v16 r;
    memcpy(r.f, a.i, 64);
    return r;
}
LP_INLINE v16 v_from_i(i16v a) { /* to nearest even */
    V_MAKE(v16, f, (float)a.i[k_]);
}
LP_INLINE int32_t v_round1_(float x) {
    if (!(x >= -0x1p31f && x < 0x1p31f)) {
        return INT32_MIN;
    }
    float magic = x < 0.0f ? -0x1p23f : 0x1p23f; /* above it every float is an integer */
    return (int32_t)(x > -0x1p23f && x < 0x1p23f ? (x + magic) - magic : x);
}
/* To the nearest integer, halves to even; INT32_MIN for NaN and what an int32 cannot hold. */
LP_INLINE i16v v_round_i(v16 a) {
    V_MAKE(i16v, i, v_round1_(a.f[k_]));
}

LP_INLINE m16 v_gt(v16 a, v16 b) { /* false for NaN, as are the next three */
    V_MAKE(m16, m, a.f[k_] > b.f[k_]);
}
LP_INLINE m16 v_ge(v16 a, v16 b) {
    V_MAKE(m16, m, a.f[k_] >= b.f[k_]);
}
LP_INLINE m16 v_lt(v16 a, v16 b) {
    V_MAKE(m16, m, a.f[k_] < b.f[k_]);
}
LP_INLINE m16 v_eq(v16 a, v16 b) {
    V_MAKE(m16, m, a.f[k_] == b.f[k_]);
}
LP_INLINE m16 v_nan(v16 a) {
    V_MAKE(m16, m, a.f[k_] != a.f[k_]);
}
LP_INLINE m16 i_gt(i16v a, i16v b) {
    V_MAKE(m16, m, a.i[k_] > b.i[k_]);
}
LP_INLINE m16 i_eq(i16v a, i16v b) {
    V_MAKE(m16, m, a.i[k_] == b.i[k_]);
}
LP_INLINE m16 m_and(m16 a, m16 b) {
    V_MAKE(m16, m, a.m[k_] & b.m[k_]);
}
LP_INLINE m16 m_or(m16 a, m16 b) {
    V_MAKE(m16, m, a.m[k_] | b.m[k_]);
}
LP_INLINE v16 v_sel(m16 m, v16 yes, v16 no) {
    V_MAKE(v16, f, m.m[k_] ? yes.f[k_] : no.f[k_]);
}
LP_INLINE i16v i_sel(m16 m, i16v yes, i16v no) {
    V_MAKE(i16v, i, m.m[k_] ? yes.i[k_] : no.i[k_]);
}

/* a * 2^n rounded once. n holds integers, -252 <= n <= 252, and a * 2^(n / 2) neither over- nor
 * underflows; NaN where both are. */
LP_INLINE v16 v_ldexp(v16 a, v16 n) {
    i16v all = v_round_i(n), half = i_sar(all, 1), rest = i_sub(all, half), bias = i_set1(127);
    v16 first = v_from_bits(i_shl(i_add(half, bias), 23));
    v16 second = v_from_bits(i_shl(i_add(rest, bias), 23));
    return v_mul(v_mul(a, first), second);
}

/* The canonical tree: a[i] += a[i + 8], a[i] += a[i + 4], a[i] += a[i + 2], a[0] + a[1]. */
LP_INLINE float v_sum(v16 a) {
    for (int w = 8; w; w /= 2) {
        for (int k = 0; k < w; k++) {
            a.f[k] = a.f[k] + a.f[k + w];
        }
    }
    return a.f[0];
}
LP_INLINE float v_hmax(v16 a) { /* the same tree of max(a[i], a[i + w]) */
    for (int w = 8; w; w /= 2) {
        for (int k = 0; k < w; k++) {
            a.f[k] = a.f[k] > a.f[k + w] ? a.f[k] : a.f[k + w];
        }
    }
    return a.f[0];
}
LP_INLINE int32_t i_hmax(i16v a) {
    int32_t r = a.i[0];
    V_EACH r = a.i[k_] > r ? a.i[k_] : r;
    return r;
}
LP_INLINE int32_t i_hsum(i16v a) { /* wraps */
    uint32_t r = 0;
    V_EACH r += (uint32_t)a.i[k_];
    return (int32_t)r;
}
/* Lane i of the result is v_sum(a[i]). */
LP_INLINE v16 v_sum16(const v16 *a) {
    V_MAKE(v16, f, v_sum(a[k_]));
}
/* a[i] lane j <-> a[j] lane i */
LP_INLINE void v_transpose16(v16 *a) {
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < i; j++) {
            float t = a[i].f[j];
            a[i].f[j] = a[j].f[i];
            a[j].f[i] = t;
        }
    }
}
/* Lanes 2i and 2i + 1 change places. */
LP_INLINE v16 v_swap_pairs(v16 a) {
    V_MAKE(v16, f, a.f[k_ ^ 1]);
}

/* Lane i is lane at[i] of the table, at[i] in 0..15. */
LP_INLINE v16 v_pick(v16 table, i16v at) {
    V_MAKE(v16, f, table.f[at.i[k_]]);
}

/* n lanes, the whole register being the likely case: one body serves runs and their tails. */
LP_INLINE v16 v_load_part(const float *p, int64_t n) {
    return __builtin_expect(n >= 16, 1) ? v_load(p) : v_load_n(p, (int)n);
}
LP_INLINE void v_store_part(float *p, v16 a, int64_t n) {
    if (__builtin_expect(n >= 16, 1)) {
        v_store(p, a);
    } else {
        v_store_n(p, a, (int)n);
    }
}

#endif
