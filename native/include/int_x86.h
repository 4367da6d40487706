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
LP_FORCE b32 b32_sub(b32 a, b32 b) {
    return _mm256_sub_epi8(a, b);
}
/* The eight words table[at[i]], and the four double words. */
LP_FORCE b32 b32_words_at(const uint32_t *table, const uint16_t *at) {
    const __m128i low =
        _mm_setr_epi32((int)table[at[0]], (int)table[at[1]], (int)table[at[2]], (int)table[at[3]]);
    const __m128i high =
        _mm_setr_epi32((int)table[at[4]], (int)table[at[5]], (int)table[at[6]], (int)table[at[7]]);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
LP_FORCE b32 b32_doubles_at(const uint64_t *table, const uint16_t *at) {
    const __m128i low = _mm_set_epi64x((long long)table[at[1]], (long long)table[at[0]]);
    const __m128i high = _mm_set_epi64x((long long)table[at[3]], (long long)table[at[2]]);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
/* Bytes of ones where negative. */
LP_FORCE b32 b32_minus(b32 a) {
    return _mm256_cmpgt_epi8(_mm256_setzero_si256(), a);
}
/* Shifts within 16 bits: bits of the neighbouring byte come in, and the caller masks them. */
LP_FORCE b32 b32_shr(b32 a, int n) {
    return _mm256_srli_epi16(a, n);
}
LP_FORCE b32 b32_shl(b32 a, int n) {
    return _mm256_slli_epi16(a, n);
}
/* 16 bytes at a, then 16 at b. */
LP_FORCE b32 b32_two(const void *a, const void *b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
                                   _mm_loadu_si128((const __m128i *)b), 1);
}
/* The 16 bytes at p, twice. */
LP_FORCE b32 b32_twice(const void *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
/* The low (h = 0) or high (h = 1) nibbles. */
LP_FORCE b32 b32_nibbles(b32 a, int h) {
    return b32_and(h ? b32_shr(a, 4) : a, b32_set1(15));
}
/* Of every 16 bytes, half h (8 bytes): their low nibbles, then their high nibbles. */
LP_FORCE b32 b32_nibbles8(b32 a, int h) {
    const b32 low = b32_nibbles(a, 0), high = b32_nibbles(a, 1);
    return h ? _mm256_unpackhi_epi64(low, high) : _mm256_unpacklo_epi64(low, high);
}
LP_FORCE b32 b32_add(b32 a, b32 b) {
    return _mm256_add_epi8(a, b);
}
/* table[i] for every byte i < 16. */
LP_FORCE b32 b32_lookup(const void *table, b32 i) {
    return _mm256_shuffle_epi8(b32_twice(table), i);
}
/* 16 bytes as 16-bit lanes. */
LP_FORCE b32 b32_widen(const void *p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}
LP_FORCE b32 b32_set1_16(int x) {
    return _mm256_set1_epi16((int16_t)x);
}
LP_FORCE b32 b32_mul16(b32 a, b32 b) {
    return _mm256_mullo_epi16(a, b);
}
/* 3 * x >> 8 for every unsigned byte: how many of 86 and 171 it reaches. */
LP_FORCE b32 b32_thirds(b32 x) {
    const __m256i one = _mm256_set1_epi8(86), two = _mm256_set1_epi8((char)171);
    __m256i from_one = _mm256_cmpeq_epi8(_mm256_max_epu8(x, one), x);
    __m256i from_two = _mm256_cmpeq_epi8(_mm256_max_epu8(x, two), x);
    return _mm256_abs_epi8(_mm256_add_epi8(from_one, from_two));
}
/* The 16 bit pairs of the 4 bytes at a, low bits first, then those of the 4 at b. */
LP_FORCE b32 b32_bit_pairs(const void *a, const void *b) {
    int32_t w[2];
    memcpy(&w[0], a, 4);
    memcpy(&w[1], b, 4);
    __m256i x = _mm256_cvtepu8_epi32(_mm_insert_epi32(_mm_cvtsi32_si128(w[0]), w[1], 1));
    x = _mm256_or_si256(x, _mm256_slli_epi32(x, 12));
    x = _mm256_or_si256(x, _mm256_slli_epi32(x, 6));
    return _mm256_and_si256(x, _mm256_set1_epi8(3));
}
/* 16-bit lanes, at most 255, as bytes: the lower half of a, of b, the upper half of a, of b. */
LP_FORCE b32 b32_pack(b32 a, b32 b) {
    return _mm256_packus_epi16(a, b);
}
/* 4 x 4 transposes of 32-bit lanes in both halves: lane j of a[i] <-> lane i of a[j]. So rows i and
 * i + 4 in a[i] become words i of the eight rows in a[i]. */
LP_FORCE void b32_transpose4(b32 *a) {
    __m256i t0 = _mm256_unpacklo_epi32(a[0], a[1]), t1 = _mm256_unpackhi_epi32(a[0], a[1]);
    __m256i t2 = _mm256_unpacklo_epi32(a[2], a[3]), t3 = _mm256_unpackhi_epi32(a[2], a[3]);
    a[0] = _mm256_unpacklo_epi64(t0, t2);
    a[1] = _mm256_unpackhi_epi64(t0, t2);
    a[2] = _mm256_unpacklo_epi64(t1, t3);
    a[3] = _mm256_unpackhi_epi64(t1, t3);
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
/* Lane i: a.low * b.low + a.high * b.high, of the int16 in both halves. */
LP_FORCE i32x8 i8_pairs(i32x8 a, i32x8 b) {
    return _mm256_madd_epi16(a, b);
}
LP_FORCE i32x8 i8_max(i32x8 a, i32x8 b) {
    return _mm256_max_epi32(a, b);
}
/* All ones where a and b differ. */
LP_FORCE i32x8 i8_differ(i32x8 a, i32x8 b) {
    return _mm256_xor_si256(_mm256_cmpeq_epi32(a, b), _mm256_set1_epi32(-1));
}
LP_FORCE i32x8 i8_and(i32x8 a, i32x8 b) {
    return _mm256_and_si256(a, b);
}
LP_FORCE i32x8 i8_or(i32x8 a, i32x8 b) {
    return _mm256_or_si256(a, b);
}
LP_FORCE i32x8 i8_shr(i32x8 a, int n) { /* zeros come in */
    return _mm256_srli_epi32(a, n);
}
LP_FORCE i32x8 i8_shl(i32x8 a, int n) {
    return _mm256_slli_epi32(a, n);
}
/* Byte i of every lane. */
LP_FORCE i32x8 i8_byte(i32x8 a, int i) {
    return i == 3 ? _mm256_srli_epi32(a, 24)
                  : _mm256_and_si256(_mm256_srli_epi32(a, 8 * i), _mm256_set1_epi32(255));
}
LP_FORCE i32x8 i8_signed_byte(i32x8 a, int i) {
    return _mm256_srai_epi32(_mm256_slli_epi32(a, 24 - 8 * i), 24);
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
LP_FORCE f32x8 f8_from_bits(i32x8 a) {
    return _mm256_castsi256_ps(a);
}
/* The f16 in the lower and in the upper half of every lane. */
LP_FORCE void f8_split(i32x8 a, f32x8 *low, f32x8 *high) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    __m256i t = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(a, order), 0xd8);
    *low = _mm256_cvtph_ps(_mm256_castsi256_si128(t));
    *high = _mm256_cvtph_ps(_mm256_extracti128_si256(t, 1));
}

/* The eight f16 at p, the eight bytes at p. */
LP_FORCE f32x8 f8_halves(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
LP_FORCE i32x8 i8_bytes(const void *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* Lane i: the 32 bits at b[i] + at. Sixteen bytes are read from there (up to there), since a vector
 * load and a shuffle cost less than inserting single words. */
LP_FORCE i32x8 i8_words(const uint8_t *const *b, int64_t at) {
    __m256i r[4];
    for (int i = 0; i < 4; i++) {
        r[i] = b32_two(b[i] + at, b[i + 4] + at);
    }
    return _mm256_unpacklo_epi64(_mm256_unpacklo_epi32(r[0], r[1]),
                                 _mm256_unpacklo_epi32(r[2], r[3]));
}
LP_FORCE i32x8 i8_last_words(const uint8_t *const *b, int64_t at) {
    __m256i r[4];
    for (int i = 0; i < 4; i++) {
        r[i] = b32_two(b[i] + at - 12, b[i + 4] + at - 12);
    }
    return _mm256_unpackhi_epi64(_mm256_unpackhi_epi32(r[0], r[1]),
                                 _mm256_unpackhi_epi32(r[2], r[3]));
}
/* Lanes 1 and 3 of a, of b, lanes 5 and 7 of a, of b. */
LP_FORCE i32x8 i8_odd(i32x8 a, i32x8 b) {
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xdd));
}
/* a's lower half, then b's; a's upper half, then b's. */
LP_FORCE i32x8 i8_lower(i32x8 a, i32x8 b) {
    return _mm256_permute2x128_si256(a, b, 0x20);
}
LP_FORCE i32x8 i8_upper(i32x8 a, i32x8 b) {
    return _mm256_permute2x128_si256(a, b, 0x31);
}
/* Lane i (lane i + 4): the sum of the lower (upper) four lanes of d[i]. */
LP_FORCE i32x8 i8_sums4(const i32x8 *d) {
    __m256i p =
        _mm256_add_epi32(_mm256_unpacklo_epi32(d[0], d[1]), _mm256_unpackhi_epi32(d[0], d[1]));
    __m256i q =
        _mm256_add_epi32(_mm256_unpacklo_epi32(d[2], d[3]), _mm256_unpackhi_epi32(d[2], d[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(p, q), _mm256_unpackhi_epi64(p, q));
}

#endif
