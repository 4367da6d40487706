/* The thin vector layer on AVX-512 F, BW, VL, DQ: a v16 is one zmm. Meaning: vec_scalar.h. */
#ifndef LP_VEC_H
#define LP_VEC_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include "lp_half.h"

#define LP_FN(name) name##_avx512
#define LP_INLINE static inline __attribute__((always_inline))
#define V_REGS 32

typedef __m512 v16;
typedef __m512i i16v;
typedef __mmask16 m16;

LP_INLINE v16 v_set1(float x) {
    return _mm512_set1_ps(x);
}
LP_INLINE v16 v_zero(void) {
    return _mm512_setzero_ps();
}
LP_INLINE v16 v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
LP_INLINE void v_store(float *p, v16 a) {
    _mm512_storeu_ps(p, a);
}
LP_INLINE m16 v_first_(int n) { /* lanes below n */
    return (m16)((1u << n) - 1u);
}
LP_INLINE v16 v_load_n(const float *p, int n) {
    return _mm512_maskz_loadu_ps(v_first_(n), p);
}
LP_INLINE void v_store_n(float *p, v16 a, int n) {
    _mm512_mask_storeu_ps(p, v_first_(n), a);
}
LP_INLINE v16 v_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
LP_INLINE v16 v_load_f16_n(const uint16_t *p, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first_(n), p));
}
LP_INLINE void v_store_f16(uint16_t *p, v16 a) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
LP_INLINE void v_store_f16_n(uint16_t *p, v16 a, int n) {
    _mm256_mask_storeu_epi16(p, v_first_(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

LP_INLINE v16 v_load_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
LP_INLINE v16 v_set1_f16(const void *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

LP_INLINE v16 v_add(v16 a, v16 b) {
    return _mm512_add_ps(a, b);
}
LP_INLINE v16 v_sub(v16 a, v16 b) {
    return _mm512_sub_ps(a, b);
}
LP_INLINE v16 v_mul(v16 a, v16 b) {
    return _mm512_mul_ps(a, b);
}
LP_INLINE v16 v_div(v16 a, v16 b) {
    return _mm512_div_ps(a, b);
}
LP_INLINE v16 v_sqrt(v16 a) {
    return _mm512_sqrt_ps(a);
}
LP_INLINE v16 v_max(v16 a, v16 b) {
    return _mm512_max_ps(a, b);
}
LP_INLINE v16 v_min(v16 a, v16 b) {
    return _mm512_min_ps(a, b);
}
LP_INLINE v16 v_fma(v16 a, v16 b, v16 c) {
    return _mm512_fmadd_ps(a, b, c);
}
LP_INLINE v16 v_fnma(v16 a, v16 b, v16 c) {
    return _mm512_fnmadd_ps(a, b, c);
}

LP_INLINE i16v i_set1(int32_t x) {
    return _mm512_set1_epi32(x);
}
LP_INLINE i16v i_load(const int32_t *p) {
    return _mm512_loadu_si512(p);
}
LP_INLINE i16v i_load_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
LP_INLINE i16v i_load_i8(const int8_t *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}
LP_INLINE void i_store(int32_t *p, i16v a) {
    _mm512_storeu_si512(p, a);
}
LP_INLINE void i_store_i8(int8_t *p, i16v a) {
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a));
}
LP_INLINE i16v i_add(i16v a, i16v b) {
    return _mm512_add_epi32(a, b);
}
LP_INLINE i16v i_sub(i16v a, i16v b) {
    return _mm512_sub_epi32(a, b);
}
LP_INLINE i16v i_and(i16v a, i16v b) {
    return _mm512_and_si512(a, b);
}
LP_INLINE i16v i_or(i16v a, i16v b) {
    return _mm512_or_si512(a, b);
}
LP_INLINE i16v i_xor(i16v a, i16v b) {
    return _mm512_xor_si512(a, b);
}
LP_INLINE i16v i_shl(i16v a, int n) {
    return _mm512_slli_epi32(a, (unsigned)n);
}
LP_INLINE i16v i_shr(i16v a, int n) {
    return _mm512_srli_epi32(a, (unsigned)n);
}
LP_INLINE i16v i_sar(i16v a, int n) {
    return _mm512_srai_epi32(a, (unsigned)n);
}
LP_INLINE i16v i_max(i16v a, i16v b) {
    return _mm512_max_epi32(a, b);
}
LP_INLINE i16v i_min(i16v a, i16v b) {
    return _mm512_min_epi32(a, b);
}
LP_INLINE i16v v_bits(v16 a) {
    return _mm512_castps_si512(a);
}
LP_INLINE v16 v_from_bits(i16v a) {
    return _mm512_castsi512_ps(a);
}
LP_INLINE v16 v_from_i(i16v a) {
    return _mm512_cvtepi32_ps(a);
}
LP_INLINE i16v v_round_i(v16 a) {
    return _mm512_cvtps_epi32(a);
}

LP_INLINE m16 v_gt(v16 a, v16 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
LP_INLINE m16 v_ge(v16 a, v16 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
LP_INLINE m16 v_lt(v16 a, v16 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
LP_INLINE m16 v_eq(v16 a, v16 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
LP_INLINE m16 v_nan(v16 a) {
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
LP_INLINE m16 i_gt(i16v a, i16v b) {
    return _mm512_cmpgt_epi32_mask(a, b);
}
LP_INLINE m16 i_eq(i16v a, i16v b) {
    return _mm512_cmpeq_epi32_mask(a, b);
}
LP_INLINE m16 m_and(m16 a, m16 b) {
    return (m16)(a & b);
}
LP_INLINE m16 m_or(m16 a, m16 b) {
    return (m16)(a | b);
}
LP_INLINE v16 v_sel(m16 m, v16 yes, v16 no) {
    return _mm512_mask_blend_ps(m, no, yes);
}
LP_INLINE i16v i_sel(m16 m, i16v yes, i16v no) {
    return _mm512_mask_blend_epi32(m, no, yes);
}

LP_INLINE v16 v_ldexp(v16 a, v16 n) {
    return _mm512_scalef_ps(a, n);
}

LP_INLINE float v_sum(v16 a) {
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
LP_INLINE float v_hmax(v16 a) {
    __m256 s8 = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}
LP_INLINE int32_t i_hmax(i16v a) {
    return _mm512_reduce_max_epi32(a);
}
LP_INLINE int32_t i_hsum(i16v a) {
    return _mm512_reduce_add_epi32(a);
}

/* Steps of the canonical tree for two registers at once: sums of a go where the mask is clear,
 * those of b where it is set. One shuffle each, since blends may go to more ports. */
LP_INLINE v16 v_fold8_(v16 a, v16 b) {
    return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
}
LP_INLINE v16 v_fold4_(v16 a, v16 b) {
    v16 other = _mm512_mask_blend_ps(0xf0f0, b, a);
    return _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, a, b),
                         _mm512_shuffle_f32x4(other, other, 0xb1));
}
LP_INLINE v16 v_fold2_(v16 a, v16 b) {
    __m512d c = _mm512_castps_pd(a), d = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, a, b),
                         _mm512_castpd_ps(_mm512_shuffle_pd(c, d, 0x55)));
}
LP_INLINE v16 v_fold1_(v16 a, v16 b) {
    v16 other = _mm512_mask_blend_ps(0xaaaa, b, a);
    return _mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, a, b), _mm512_permute_ps(other, 0xb1));
}
/* Depth first, so that few sums are open at once. */
LP_INLINE v16 v_sum16(const v16 *a) {
    v16 r[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        r[k] = v_fold4_(v_fold8_(a[k], a[k + 8]), v_fold8_(a[k + 4], a[k + 12]));
    }
    return v_fold1_(v_fold2_(r[0], r[2]), v_fold2_(r[1], r[3]));
}

LP_INLINE void v_transpose16(v16 *a) {
    v16 t[16], u[16];
    for (int k = 0; k < 16; k += 2) {
        t[k] = _mm512_unpacklo_ps(a[k], a[k + 1]);
        t[k + 1] = _mm512_unpackhi_ps(a[k], a[k + 1]);
    }
    for (int k = 0; k < 16; k += 4) { /* 128-bit part p of u[k + c]: rows k..k+3 of column 4p + c */
        u[k] = _mm512_shuffle_ps(t[k], t[k + 2], 0x44);
        u[k + 1] = _mm512_shuffle_ps(t[k], t[k + 2], 0xee);
        u[k + 2] = _mm512_shuffle_ps(t[k + 1], t[k + 3], 0x44);
        u[k + 3] = _mm512_shuffle_ps(t[k + 1], t[k + 3], 0xee);
    }
    for (int c = 0; c < 4; c++) {
        v16 p02 = _mm512_shuffle_f32x4(u[c], u[c + 4], 0x88);
        v16 p13 = _mm512_shuffle_f32x4(u[c], u[c + 4], 0xdd);
        v16 q02 = _mm512_shuffle_f32x4(u[c + 8], u[c + 12], 0x88);
        v16 q13 = _mm512_shuffle_f32x4(u[c + 8], u[c + 12], 0xdd);
        a[c] = _mm512_shuffle_f32x4(p02, q02, 0x88);
        a[c + 4] = _mm512_shuffle_f32x4(p13, q13, 0x88);
        a[c + 8] = _mm512_shuffle_f32x4(p02, q02, 0xdd);
        a[c + 12] = _mm512_shuffle_f32x4(p13, q13, 0xdd);
    }
}
LP_INLINE v16 v_swap_pairs(v16 a) {
    return _mm512_permute_ps(a, 0xb1);
}

LP_INLINE v16 v_pick(v16 table, i16v at) {
    return _mm512_permutexvar_ps(at, table);
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
