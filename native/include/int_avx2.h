/* The thin integer layer on AVX2 + FMA + F16C. */
#ifndef LP_INT_H
#define LP_INT_H

#include "int_x86.h"

/* Byte i: all bits set where bit i is. */
LP_FORCE b32 b32_bits(uint32_t bits) {
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}

/* x + `value` in byte i where bit i of the 16 at a, followed by the 16 at b, is set. */
LP_FORCE b32 b32_add_bits(b32 x, const void *a, const void *b, int value) {
    int16_t bits[2];
    memcpy(&bits[0], a, 2);
    memcpy(&bits[1], b, 2);
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0,
                                          0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_cvtsi32_si128(bits[0])),
                                           _mm_cvtsi32_si128(bits[1]), 1);
    __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(both, byte), bit);
    __m256i set = _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit), b32_set1(value));
    return _mm256_add_epi8(x, set);
}

/* Lane i: acc plus the sum of (w - off) * x over bytes 4i..4i+3, w unsigned, x in -127..127; all
 * but i8_dot_rest(off) is taken off here, that times the sum of x is left to the caller. maddubs
 * saturates at 2^15, so 8-bit weights go in as |w - 128| times x with the sign of w - 128; other
 * weights are at most 127. */
LP_FORCE i32x8 i8_dot(i32x8 acc, b32 w, b32 x, int off) {
    const __m256i ones = _mm256_set1_epi16(1);
    if (off == 128) {
        __m256i s = _mm256_xor_si256(w, _mm256_set1_epi8((char)128));
        __m256i p = _mm256_maddubs_epi16(_mm256_abs_epi8(s), _mm256_sign_epi8(x, s));
        return _mm256_add_epi32(acc, _mm256_madd_epi16(p, ones));
    }
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones));
}
/* acc plus the products of the words w[0..3] of eight rows with the 16 activations at x. Weights of
 * 5 bits leave room for the sum of all four in 16 bits, those of 6 bits for two. */
LP_FORCE i32x8 i8_dot4(i32x8 acc, const b32 *w, const int8_t *x, int off, int max) {
    const __m256i ones = _mm256_set1_epi16(1);
    const int steps = max <= 31 ? 4 : max <= 63 ? 2 : 1;
    __m256i p = acc;
    for (int i = 0; i < 4; i++) {
        int32_t word;
        memcpy(&word, x + 4 * i, 4);
        const __m256i v = _mm256_set1_epi32(word);
        if (steps == 1) {
            acc = i8_dot(acc, w[i], v, off);
            continue;
        }
        const __m256i q = _mm256_maddubs_epi16(w[i], v);
        p = i % steps ? _mm256_add_epi16(p, q) : q;
        if (i % steps == steps - 1) {
            acc = _mm256_add_epi32(acc, _mm256_madd_epi16(p, ones));
        }
    }
    return acc;
}
LP_FORCE int i8_dot_rest(int off) {
    return off == 128 ? 0 : off;
}

#endif
