#include <immintrin.h>
#include "probe.h"

int64_t lp_probe_fma_avx512(int64_t rounds) {
    __m512 acc[12], w = _mm512_set1_ps(0.5f), sum = _mm512_setzero_ps();
    for (int j = 0; j < 12; j++) {
        acc[j] = _mm512_set1_ps((float)j);
    }
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) {
            acc[j] = _mm512_fmadd_ps(acc[j], w, w);
        }
        __asm__ volatile("" : "+v"(w));
    }
    for (int j = 0; j < 12; j++) {
        sum = _mm512_add_ps(sum, acc[j]);
    }
    volatile float keep = _mm512_reduce_add_ps(sum);
    (void)keep;
    return rounds * 12 * 32;
}
