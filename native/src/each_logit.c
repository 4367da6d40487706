#include "each_logit.h"

int64_t lp_find_above(const float *x, int64_t at, int64_t end, float bound) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return lp_find_above_avx2(x, at, end, bound);
#endif
    return find_above(x, at, end, bound);
}

int32_t lp_highest(const float *x, int64_t n, const int32_t *never, int64_t n_never) {
    float most = -__builtin_inff();
    int32_t id = -1;
    for (int64_t at = 0; (at = lp_find_above(x, at, n, most)) < n; at += LP_BLOCK) {
        for (int64_t i = at; i < n && i < at + LP_BLOCK; i++) {
            if (!(x[i] < __builtin_inff())) /* or NaN */
                return -1;
            if (x[i] > most && !is_among(i, never, n_never)) {
                most = x[i];
                id = (int32_t)i;
            }
        }
    }
    return id;
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
