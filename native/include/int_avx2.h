/* The thin integer layer on AVX2 + FMA + F16C. */
#ifndef LP_INT_H
#define LP_INT_H

#include "int_x86.h"

#define LP_ISA avx2

/* The 32 bits at p: bit i set -> byte i is `value`, else 0. */
LP_FORCE b32 b32_bits(const void *p, int value) {
    int32_t bits;
    memcpy(&bits, p, 4);
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit), _mm256_set1_epi8((char)value));
}

/* Lane i: the sum of (w - off) * x over bytes 4i..4i+3, w unsigned, x in -127..127, apart from
 * i8_dot_rest(off) * x, which the caller subtracts. maddubs saturates beyond 2^15, so 8-bit weights
 * go in as |w - 128| times x with the sign of w - 128. */
LP_FORCE i32x8 i8_dot(b32 w, b32 x, int off) {
    const __m256i ones = _mm256_set1_epi16(1);
    if (off == 128) {
        __m256i s = _mm256_xor_si256(w, _mm256_set1_epi8((char)128));
        return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(s), _mm256_sign_epi8(x, s)),
                                 ones);
    }
    return _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones);
}
LP_FORCE int i8_dot_rest(int off) {
    return off == 128 ? 0 : off;
}

#endif
