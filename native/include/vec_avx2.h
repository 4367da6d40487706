/* The thin vector layer on AVX2 + FMA + F16C: a v16 is two ymm. Meaning: vec_scalar.h. */
#ifndef LP_VEC_H
#define LP_VEC_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include "lp_half.h"

#define LP_FN(name) name##_avx2
#define LP_INLINE static inline __attribute__((always_inline))
#define V_REGS 8

typedef struct {
    __m256 lo, hi;
} v16;
typedef struct {
    __m256i lo, hi;
} i16v;
typedef struct {
    __m256 lo, hi; /* all ones or zero per lane */
} m16;

/* Half of a v16. */
typedef __m256 v8;
#define v8_zero() _mm256_setzero_ps()
#define v8_load(p) _mm256_loadu_ps(p)
#define v8_store(p, a) _mm256_storeu_ps(p, a)
#define v8_keep(a) __asm__("" : "+x"(a)) /* in a register */
#define v8_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
LP_INLINE v8 v_half(v16 a, int h) {
    return h ? a.hi : a.lo;
}
LP_INLINE v16 v_of_halves(v8 lo, v8 hi) {
    return (v16){lo, hi};
}

LP_INLINE v16 v_set1(float x) {
    __m256 r = _mm256_set1_ps(x);
    return (v16){r, r};
}
LP_INLINE v16 v_zero(void) {
    return v_set1(0.0f);
}
LP_INLINE v16 v_load(const float *p) {
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LP_INLINE void v_store(float *p, v16 a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
LP_INLINE __m256i v_first_(int n) { /* all ones in lanes below n */
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
LP_INLINE v16 v_load_n(const float *p, int n) {
    v16 r = {_mm256_maskload_ps(p, v_first_(n)), _mm256_setzero_ps()};
    if (n > 8) {
        r.hi = _mm256_maskload_ps(p + 8, v_first_(n - 8));
    }
    return r;
}
LP_INLINE void v_store_n(float *p, v16 a, int n) {
    _mm256_maskstore_ps(p, v_first_(n), a.lo);
    if (n > 8) {
        _mm256_maskstore_ps(p + 8, v_first_(n - 8), a.hi);
    }
}
LP_INLINE v16 v_load_f16(const uint16_t *p) {
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
LP_INLINE v16 v_load_f16_n(const uint16_t *p, int n) {
    uint16_t h[16] = {0};
    memcpy(h, p, (size_t)n * 2);
    return v_load_f16(h);
}
LP_INLINE void v_store_f16(uint16_t *p, v16 a) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
LP_INLINE void v_store_f16_n(uint16_t *p, v16 a, int n) {
    uint16_t h[16];
    v_store_f16(h, a);
    memcpy(p, h, (size_t)n * 2);
}

LP_INLINE __m256 v_load8_bf16_(const uint16_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
LP_INLINE v16 v_load_bf16(const uint16_t *p) {
    return (v16){v_load8_bf16_(p), v_load8_bf16_(p + 8)};
}
LP_INLINE v16 v_set1_f16(const void *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    __m256 r = _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
    return (v16){r, r};
}

LP_INLINE v16 v_add(v16 a, v16 b) {
    return (v16){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
LP_INLINE v16 v_sub(v16 a, v16 b) {
    return (v16){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
LP_INLINE v16 v_mul(v16 a, v16 b) {
    return (v16){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
LP_INLINE v16 v_div(v16 a, v16 b) {
    return (v16){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
LP_INLINE v16 v_sqrt(v16 a) {
    return (v16){_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
LP_INLINE v16 v_max(v16 a, v16 b) {
    return (v16){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
LP_INLINE v16 v_min(v16 a, v16 b) {
    return (v16){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
LP_INLINE v16 v_fma(v16 a, v16 b, v16 c) {
    return (v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
LP_INLINE v16 v_fnma(v16 a, v16 b, v16 c) {
    return (v16){_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}

LP_INLINE i16v i_set1(int32_t x) {
    __m256i r = _mm256_set1_epi32(x);
    return (i16v){r, r};
}
LP_INLINE i16v i_load(const int32_t *p) {
    return (i16v){_mm256_loadu_si256((const __m256i *)p),
                  _mm256_loadu_si256((const __m256i *)(p + 8))};
}
LP_INLINE i16v i_load_u8(const uint8_t *p) {
    __m128i b = _mm_loadu_si128((const __m128i *)p);
    return (i16v){_mm256_cvtepu8_epi32(b), _mm256_cvtepu8_epi32(_mm_srli_si128(b, 8))};
}
LP_INLINE i16v i_load_i8(const int8_t *p) {
    __m128i b = _mm_loadu_si128((const __m128i *)p);
    return (i16v){_mm256_cvtepi8_epi32(b), _mm256_cvtepi8_epi32(_mm_srli_si128(b, 8))};
}
LP_INLINE void i_store(int32_t *p, i16v a) {
    _mm256_storeu_si256((__m256i *)p, a.lo);
    _mm256_storeu_si256((__m256i *)(p + 8), a.hi);
}
LP_INLINE void i_store_i8(int8_t *p, i16v a) {
    __m256i low = _mm256_set1_epi32(0xff);
    __m256i w = _mm256_packus_epi32(_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low));
    w = _mm256_permute4x64_epi64(w, 0xd8); /* the pack works within 128 bits */
    __m128i b = _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    _mm_storeu_si128((__m128i *)p, b);
}
LP_INLINE i16v i_add(i16v a, i16v b) {
    return (i16v){_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
LP_INLINE i16v i_sub(i16v a, i16v b) {
    return (i16v){_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
LP_INLINE i16v i_and(i16v a, i16v b) {
    return (i16v){_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
LP_INLINE i16v i_or(i16v a, i16v b) {
    return (i16v){_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
LP_INLINE i16v i_xor(i16v a, i16v b) {
    return (i16v){_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
LP_INLINE i16v i_shl(i16v a, int n) {
    return (i16v){_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
LP_INLINE i16v i_shr(i16v a, int n) {
    return (i16v){_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}
LP_INLINE i16v i_sar(i16v a, int n) {
    return (i16v){_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}
LP_INLINE i16v i_max(i16v a, i16v b) {
    return (i16v){_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
LP_INLINE i16v i_min(i16v a, i16v b) {
    return (i16v){_mm256_min_epi32(a.lo, b.lo), _mm256_min_epi32(a.hi, b.hi)};
}
LP_INLINE i16v v_bits(v16 a) {
    return (i16v){_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
LP_INLINE v16 v_from_bits(i16v a) {
    return (v16){_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
LP_INLINE v16 v_from_i(i16v a) {
    return (v16){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
LP_INLINE i16v v_round_i(v16 a) {
    return (i16v){_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}

LP_INLINE m16 v_gt(v16 a, v16 b) {
    return (m16){_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ)};
}
LP_INLINE m16 v_ge(v16 a, v16 b) {
    return (m16){_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ)};
}
LP_INLINE m16 v_lt(v16 a, v16 b) {
    return (m16){_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
LP_INLINE m16 v_eq(v16 a, v16 b) {
    return (m16){_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}
LP_INLINE m16 v_nan(v16 a) {
    return (m16){_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q)};
}
LP_INLINE m16 i_gt(i16v a, i16v b) {
    return (m16){_mm256_castsi256_ps(_mm256_cmpgt_epi32(a.lo, b.lo)),
                 _mm256_castsi256_ps(_mm256_cmpgt_epi32(a.hi, b.hi))};
}
LP_INLINE m16 i_eq(i16v a, i16v b) {
    return (m16){_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.lo, b.lo)),
                 _mm256_castsi256_ps(_mm256_cmpeq_epi32(a.hi, b.hi))};
}
LP_INLINE m16 m_and(m16 a, m16 b) {
    return (m16){_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)};
}
LP_INLINE m16 m_or(m16 a, m16 b) {
    return (m16){_mm256_or_ps(a.lo, b.lo), _mm256_or_ps(a.hi, b.hi)};
}
LP_INLINE v16 v_sel(m16 m, v16 yes, v16 no) {
    return (v16){_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}
LP_INLINE i16v i_sel(m16 m, i16v yes, i16v no) {
    return v_bits(v_sel(m, v_from_bits(yes), v_from_bits(no)));
}

LP_INLINE v16 v_ldexp(v16 a, v16 n) {
    i16v all = v_round_i(n), half = i_sar(all, 1), rest = i_sub(all, half), bias = i_set1(127);
    v16 first = v_from_bits(i_shl(i_add(half, bias), 23));
    v16 second = v_from_bits(i_shl(i_add(rest, bias), 23));
    return v_mul(v_mul(a, first), second);
}

LP_INLINE float v_sum(v16 a) {
    __m256 s8 = _mm256_add_ps(a.lo, a.hi);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
LP_INLINE float v_hmax(v16 a) {
    __m256 s8 = _mm256_max_ps(a.lo, a.hi);
    __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}
LP_INLINE int32_t i_hmax(i16v a) {
    __m256i s8 = _mm256_max_epi32(a.lo, a.hi);
    __m128i s4 = _mm_max_epi32(_mm256_castsi256_si128(s8), _mm256_extracti128_si256(s8, 1));
    __m128i s2 = _mm_max_epi32(s4, _mm_shuffle_epi32(s4, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(s2, _mm_shuffle_epi32(s2, 0xb1)));
}
LP_INLINE int32_t i_hsum(i16v a) {
    __m256i s8 = _mm256_add_epi32(a.lo, a.hi);
    __m128i s4 = _mm_add_epi32(_mm256_castsi256_si128(s8), _mm256_extracti128_si256(s8, 1));
    __m128i s2 = _mm_add_epi32(s4, _mm_shuffle_epi32(s4, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s2, _mm_shuffle_epi32(s2, 0xb1)));
}

/* Steps of the canonical tree for two registers at once: sums of a go where the blend's bit is
 * clear, those of b where it is set. One shuffle each, since blends may go to more ports. */
LP_INLINE __m256 v_fold4_(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
}
LP_INLINE __m256 v_fold2_(__m256 a, __m256 b) {
    __m256d c = _mm256_castps_pd(a), d = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xcc),
                         _mm256_castpd_ps(_mm256_shuffle_pd(c, d, 0x5)));
}
LP_INLINE __m256 v_fold1_(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xaa),
                         _mm256_permute_ps(_mm256_blend_ps(b, a, 0xaa), 0xb1));
}
LP_INLINE __m256 v_sum8_(const v16 *a) {
    __m256 r[4];
    for (int k = 0; k < 4; k++) {
        r[k] = v_fold4_(_mm256_add_ps(a[k].lo, a[k].hi), _mm256_add_ps(a[k + 4].lo, a[k + 4].hi));
    }
    return v_fold1_(v_fold2_(r[0], r[2]), v_fold2_(r[1], r[3]));
}
LP_INLINE v16 v_sum16(const v16 *a) {
    return (v16){v_sum8_(a), v_sum8_(a + 8)};
}

LP_INLINE void v_transpose8_(__m256 *r) {
    __m256 t[8], u[8];
    for (int k = 0; k < 8; k += 2) {
        t[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
        t[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
    }
    for (int k = 0; k < 8; k += 4) {
        u[k] = _mm256_shuffle_ps(t[k], t[k + 2], 0x44);
        u[k + 1] = _mm256_shuffle_ps(t[k], t[k + 2], 0xee);
        u[k + 2] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0x44);
        u[k + 3] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0xee);
    }
    for (int k = 0; k < 4; k++) {
        r[k] = _mm256_permute2f128_ps(u[k], u[k + 4], 0x20);
        r[k + 4] = _mm256_permute2f128_ps(u[k], u[k + 4], 0x31);
    }
}
LP_INLINE void v_transpose16(v16 *a) {
    __m256 q[4][8]; /* upper left, upper right, lower left, lower right */
    for (int k = 0; k < 8; k++) {
        q[0][k] = a[k].lo, q[1][k] = a[k].hi;
        q[2][k] = a[k + 8].lo, q[3][k] = a[k + 8].hi;
    }
    for (int k = 0; k < 4; k++) {
        v_transpose8_(q[k]);
    }
    for (int k = 0; k < 8; k++) {
        a[k] = (v16){q[0][k], q[2][k]};
        a[k + 8] = (v16){q[1][k], q[3][k]};
    }
}
LP_INLINE v16 v_swap_pairs(v16 a) {
    return (v16){_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)};
}

LP_INLINE __m256 v_pick8_(v16 table, __m256i at) {
    __m256 above = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)); /* 8 of `at` as the sign */
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.lo, at),
                            _mm256_permutevar8x32_ps(table.hi, at), above);
}
LP_INLINE v16 v_pick(v16 table, i16v at) {
    return (v16){v_pick8_(table, at.lo), v_pick8_(table, at.hi)};
}

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
