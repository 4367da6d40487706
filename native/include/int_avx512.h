/* The thin integer layer on AVX-512 F, BW, VL, DQ and VNNI. */
#ifndef LP_INT_H
#define LP_INT_H

#include "int_x86.h"

#define LP_ISA avx512vnni

LP_FORCE b32 b32_bits(const void *p, int value) {
    uint32_t bits;
    memcpy(&bits, p, 4);
    return _mm256_maskz_set1_epi8((__mmask32)bits, (char)value);
}

LP_FORCE i32x8 i8_dot(b32 w, b32 x, int off) {
    (void)off;
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), w, x);
}
LP_FORCE int i8_dot_rest(int off) {
    return off;
}

#endif
