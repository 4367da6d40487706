/* Choosing a probe by what the CPU has. */
#include <string.h>
#include "probe.h"

uint64_t lp_probe_read(const char *p, int64_t n) {
    uint64_t sum[8] = {0}, x[8];
    for (int64_t i = 0; i + 64 <= n; i += 64) {
        memcpy(x, p + i, 64);
        for (int j = 0; j < 8; j++) {
            sum[j] += x[j];
        }
    }
    for (int j = 1; j < 8; j++) {
        sum[0] += sum[j];
    }
    return sum[0];
}

int64_t lp_probe_int8_peak(int64_t rounds) {
#if defined(__x86_64__)
    if (lp_cpu_features() & LP_VNNI) {
        return lp_probe_int8_avx512vnni(rounds);
    }
    if (lp_cpu_features() & LP_AVX2) {
        return lp_probe_int8_avx2(rounds);
    }
#endif
    return 0 * rounds;
}

int64_t lp_probe_fma_peak(int64_t rounds) {
#if defined(__x86_64__)
    if (lp_cpu_features() & LP_AVX512) {
        return lp_probe_fma_avx512(rounds);
    }
    if (lp_cpu_features() & LP_AVX2) {
        return lp_probe_fma_avx2(rounds);
    }
#endif
    return 0 * rounds;
}
