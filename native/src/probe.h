/* Ceilings of the machine that benchmarks measure against. Each runs on the calling thread; the
 * caller takes the time, on as many threads as it likes. */
#ifndef LP_PROBE_H
#define LP_PROBE_H

#include "lp.h"

/* Reads n bytes in order; the sum keeps the reads alive. */
LP_API uint64_t lp_probe_read(const char *p, int64_t n);
/* Both do `rounds` rounds of independent multiply-adds on the best units the CPU has and return how
 * many operations that were (a multiply-add is two). 0: no such unit known here. */
LP_API int64_t lp_probe_int8_peak(int64_t rounds);
LP_API int64_t lp_probe_fma_peak(int64_t rounds);

int64_t lp_probe_int8_avxvnni(int64_t rounds);
int64_t lp_probe_int8_avx512vnni(int64_t rounds);
int64_t lp_probe_fma_avx512(int64_t rounds);
/* On their own, for when the instruction set is lowered. Not in a library for another processor. */
LP_API int64_t lp_probe_int8_avx2(int64_t rounds);
LP_API int64_t lp_probe_fma_avx2(int64_t rounds);

#endif
