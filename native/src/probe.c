/* Choosing a probe by what the CPU has. */
#include <string.h>
#include "probe.h"

static inline uint64_t word(const char *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

uint64_t lp_probe_read(const char *p, int64_t n) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (int64_t i = 0; i + 64 <= n; i += 64) {
        __builtin_prefetch(p + i + 4096, 0, 2);
        a += word(p + i) + word(p + i + 8);
        b += word(p + i + 16) + word(p + i + 24);
        c += word(p + i + 32) + word(p + i + 40);
        d += word(p + i + 48) + word(p + i + 56);
    }
    return a + b + c + d;
}

int64_t lp_probe_int8_peak(int64_t rounds) {
#if defined(__x86_64__)
    if (lp_cpu_features() & LP_VNNI) {
        return lp_probe_int8_avx512vnni(rounds);
    }
    if (lp_cpu_features() & LP_AVXVNNI) {
        return lp_probe_int8_avxvnni(rounds);
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
