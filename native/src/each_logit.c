#include "each_logit.h"

int64_t lp_find_above(const float *x, int64_t at, int64_t end, float bound) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return lp_find_above_avx2(x, at, end, bound);
#endif
    return find_above(x, at, end, bound);
}

void lp_lane_tops(const float *x, int64_t n, float *top) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        lp_lane_tops_avx2(x, n, top);
        return;
    }
#endif
    lane_tops(x, n, top);
}

void lp_exp_row(const float *x, int64_t n, double top, double *e) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        lp_exp_row_avx2(x, n, top, e);
        return;
    }
#endif
    exp_row(x, n, top, e);
}
