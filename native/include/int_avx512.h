/* The thin integer layer on AVX-512 F, BW, VL, DQ and VNNI; what it means: int_avx2.h. */
#ifndef LP_INT_H
#define LP_INT_H

#include "int_x86.h"

LP_FORCE b32 b32_bits(uint32_t bits) {
    return _mm256_movm_epi8(bits);
}

LP_FORCE b32 b32_add_bits(b32 x, const void *a, const void *b, int value) {
    uint16_t low, high;
    memcpy(&low, a, 2);
    memcpy(&high, b, 2);
    return _mm256_mask_add_epi8(x, low | (uint32_t)high << 16, x, b32_set1(value));
}

LP_FORCE i32x8 i8_dot(i32x8 acc, b32 w, b32 x, int off) {
    (void)off;
    return _mm256_dpbusd_epi32(acc, w, x);
}
#include "int_dot4.h"

LP_FORCE int i8_dot_rest(int off) {
    return off;
}

#endif
