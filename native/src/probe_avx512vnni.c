#include <immintrin.h>
#include "probe.h"

int64_t lp_probe_int8_avx512vnni(int64_t rounds) {
    __m512i acc[12], w = _mm512_set1_epi8(1), sum = _mm512_setzero_si512();
    for (int j = 0; j < 12; j++) {
        acc[j] = _mm512_set1_epi32(j);
    }
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) {
            acc[j] = _mm512_dpbusd_epi32(acc[j], w, w);
        }
        __asm__ volatile("" : "+v"(w)); /* or the loop would be folded */
    }
    for (int j = 0; j < 12; j++) {
        sum = _mm512_add_epi32(sum, acc[j]);
    }
    volatile int32_t keep = _mm512_reduce_add_epi32(sum);
    (void)keep;
    return rounds * 12 * 128;
}
