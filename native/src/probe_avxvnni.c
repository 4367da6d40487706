#include <immintrin.h>
#include "probe.h"

int64_t lp_probe_int8_avxvnni(int64_t rounds) {
    __m256i acc[12], w = _mm256_set1_epi8(1);
    for (int j = 0; j < 12; j++) {
        acc[j] = _mm256_set1_epi32(j);
    }
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) {
            acc[j] = _mm256_dpbusd_avx_epi32(acc[j], w, w);
        }
        __asm__ volatile("" : "+x"(w)); /* or the loop would be folded */
    }
    for (int j = 1; j < 12; j++) {
        acc[0] = _mm256_add_epi32(acc[0], acc[j]);
    }
    volatile int32_t keep = _mm256_extract_epi32(acc[0], 0);
    (void)keep;
    return rounds * 12 * 64;
}
