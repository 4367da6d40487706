#include <immintrin.h>
#include "probe.h"

int64_t lp_probe_int8_avx2(int64_t rounds) {
    __m256i acc[8], w = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
    for (int j = 0; j < 8; j++) {
        acc[j] = _mm256_set1_epi32(j);
    }
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            __asm__ volatile("" : "+x"(w)); /* or all products would be one, made before the loop */
            __m256i pairs = _mm256_maddubs_epi16(w, w);
            acc[j] = _mm256_add_epi32(acc[j], _mm256_madd_epi16(pairs, ones));
        }
    }
    for (int j = 1; j < 8; j++) {
        acc[0] = _mm256_add_epi32(acc[0], acc[j]);
    }
    volatile int32_t keep = _mm256_extract_epi32(acc[0], 0);
    (void)keep;
    return rounds * 8 * 64;
}

int64_t lp_probe_fma_avx2(int64_t rounds) {
    __m256 acc[12], w = _mm256_set1_ps(0.5f);
    for (int j = 0; j < 12; j++) {
        acc[j] = _mm256_set1_ps((float)j);
    }
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) {
            acc[j] = _mm256_fmadd_ps(acc[j], w, w);
        }
        __asm__ volatile("" : "+x"(w));
    }
    for (int j = 1; j < 12; j++) {
        acc[0] = _mm256_add_ps(acc[0], acc[j]);
    }
    volatile float keep = _mm256_cvtss_f32(acc[0]);
    (void)keep;
    return rounds * 12 * 16;
}
