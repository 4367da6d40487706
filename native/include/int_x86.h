/* The thin integer layer of the matmul kernels, the part that AVX2 and AVX-512 share: 256-bit
 * registers. Included by int_avx2.h and int_avx512.h only.
 *
 * b32: 32 bytes   b16: 16 bytes   i32x8: 8 int32   f32x8: 8 floats
 *
 * Loads need no alignment. Integers wrap; float operations round once, to nearest even. */
#ifndef LP_INT_X86_H
#define LP_INT_X86_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LP_FORCE static inline __attribute__((always_inline))

typedef __m256i b32;
typedef __m128i b16;
typedef __m256i i32x8;
typedef __m256 f32x8;

LP_FORCE b32 b32_load(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
LP_FORCE void b32_store(void *p, b32 a) {
    _mm256_storeu_si256((__m256i *)p, a);
}
LP_FORCE b32 b32_set1(int x) {
    return _mm256_set1_epi8((char)x);
}
LP_FORCE b32 b32_and(b32 a, b32 b) {
    return _mm256_and_si256(a, b);
}
LP_FORCE b32 b32_or(b32 a, b32 b) {
    return _mm256_or_si256(a, b);
}
LP_FORCE b32 b32_xor(b32 a, b32 b) {
    return _mm256_xor_si256(a, b);
}
/* Shifts within 16 bits: bits of the neighbouring byte come in, and the caller masks them. */
LP_FORCE b32 b32_shr(b32 a, int n) {
    return _mm256_srli_epi16(a, n);
}
LP_FORCE b32 b32_shl(b32 a, int n) {
    return _mm256_slli_epi16(a, n);
}
/* The low nibbles of 16 bytes, then the high ones. */
LP_FORCE b32 b32_nibbles(const void *p) {
    __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
    __m256i shifted = _mm256_srlv_epi32(twice, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
    return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
}
LP_FORCE b16 b16_load(const void *p) {
    return _mm_loadu_si128((const __m128i *)p);
}
/* 16-bit lanes: sub-scale 2j in the first 16 bytes, 2j + 1 in the last 16. */
LP_FORCE b32 b32_sub_scales(b16 s, int j) {
    __m256i twice = _mm256_broadcastsi128_si256(s);
    __m256i pick = _mm256_inserti128_si256(_mm256_set1_epi8((char)(2 * j)),
                                           _mm_set1_epi8((char)(2 * j + 1)), 1);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(twice, pick), 8);
}

LP_FORCE i32x8 i8_set1(int32_t x) {
    return _mm256_set1_epi32(x);
}
LP_FORCE i32x8 i8_load(const int32_t *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
LP_FORCE void i8_store(int32_t *p, i32x8 a) {
    _mm256_storeu_si256((__m256i *)p, a);
}
LP_FORCE i32x8 i8_add(i32x8 a, i32x8 b) {
    return _mm256_add_epi32(a, b);
}
LP_FORCE i32x8 i8_sub(i32x8 a, i32x8 b) {
    return _mm256_sub_epi32(a, b);
}
LP_FORCE i32x8 i8_mul(i32x8 a, i32x8 b) {
    return _mm256_mullo_epi32(a, b);
}

LP_FORCE f32x8 f8_zero(void) {
    return _mm256_setzero_ps();
}
LP_FORCE f32x8 f8_set1(float x) {
    return _mm256_set1_ps(x);
}
LP_FORCE f32x8 f8_load(const float *p) {
    return _mm256_loadu_ps(p);
}
LP_FORCE void f8_store(float *p, f32x8 a) {
    _mm256_storeu_ps(p, a);
}
LP_FORCE f32x8 f8_add(f32x8 a, f32x8 b) {
    return _mm256_add_ps(a, b);
}
LP_FORCE f32x8 f8_mul(f32x8 a, f32x8 b) {
    return _mm256_mul_ps(a, b);
}
LP_FORCE f32x8 f8_fma(f32x8 a, f32x8 b, f32x8 c) { /* a * b + c */
    return _mm256_fmadd_ps(a, b, c);
}
LP_FORCE f32x8 f8_neg(f32x8 a) {
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}
LP_FORCE f32x8 f8_from_i(i32x8 a) {
    return _mm256_cvtepi32_ps(a);
}
LP_FORCE f32x8 f8_from_u8(uint64_t bytes) { /* lane i: byte i */
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes)));
}
LP_FORCE float f8_half(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return _cvtsh_ss(h);
}
/* The 8 f16 at p, p + stride, ... */
LP_FORCE f32x8 f8_halves(const uint8_t *p, int stride) {
    uint16_t h[8];
    for (int i = 0; i < 8; i++) {
        memcpy(&h[i], p + i * stride, 2);
    }
    __m128i v = _mm_setr_epi16((short)h[0], (short)h[1], (short)h[2], (short)h[3], (short)h[4],
                               (short)h[5], (short)h[6], (short)h[7]);
    return _mm256_cvtph_ps(v);
}
/* The 8 pairs of f16 at p, p + stride, ...: first ones to *a, second ones to *b. */
LP_FORCE void f8_half_pairs(const uint8_t *p, int stride, f32x8 *a, f32x8 *b) {
    int32_t h[8];
    for (int i = 0; i < 8; i++) {
        memcpy(&h[i], p + i * stride, 4);
    }
    const __m128i split = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m128i x = _mm_shuffle_epi8(_mm_setr_epi32(h[0], h[1], h[2], h[3]), split);
    __m128i y = _mm_shuffle_epi8(_mm_setr_epi32(h[4], h[5], h[6], h[7]), split);
    *a = _mm256_cvtph_ps(_mm_unpacklo_epi64(x, y));
    *b = _mm256_cvtph_ps(_mm_unpackhi_epi64(x, y));
}

/* Lane i: the sum of lanes 0..3 of d[i] in *low, of lanes 4..7 in *high. */
LP_FORCE void i8_half_sums(const i32x8 *d, i32x8 *low, i32x8 *high) {
    __m256i p[4], q[2];
    for (int i = 0; i < 4; i++) {
        p[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(d[2 * i], d[2 * i + 1]),
                                _mm256_unpackhi_epi32(d[2 * i], d[2 * i + 1]));
    }
    for (int i = 0; i < 2; i++) {
        q[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(p[2 * i], p[2 * i + 1]),
                                _mm256_unpackhi_epi64(p[2 * i], p[2 * i + 1]));
    }
    *low = _mm256_permute2x128_si256(q[0], q[1], 0x20);
    *high = _mm256_permute2x128_si256(q[0], q[1], 0x31);
}
/* Lane i: the sum of all lanes of d[i]. */
LP_FORCE i32x8 i8_sums(const i32x8 *d) {
    i32x8 low, high;
    i8_half_sums(d, &low, &high);
    return _mm256_add_epi32(low, high);
}

/* 8 x 8 transposes of 32-bit lanes: lane j of a[i] <-> lane i of a[j]. */
LP_FORCE void f8_transpose(f32x8 *a) {
    __m256 t[8], u[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        a[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        a[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}
LP_FORCE void b32_transpose(b32 *a) {
    f32x8 t[8];
    for (int i = 0; i < 8; i++) {
        t[i] = _mm256_castsi256_ps(a[i]);
    }
    f8_transpose(t);
    for (int i = 0; i < 8; i++) {
        a[i] = _mm256_castps_si256(t[i]);
    }
}

/* Lane i: the sum of the four products of bytes 4i.. in pairs of 16 bits times the 16-bit lanes of
 * sub. Exact while |(w - off) * x| summed over two stays below 2^15 and w <= 63. */
LP_FORCE i32x8 i8_dot_sub(b32 w, b32 x, int off, b32 sub) {
    __m256i pairs = _mm256_sub_epi16(_mm256_maddubs_epi16(w, x),
                                     _mm256_maddubs_epi16(_mm256_set1_epi8((char)off), x));
    return _mm256_madd_epi16(pairs, sub);
}

#endif
