#include "each_logit.h"

int64_t lp_find_above_avx2(const float *x, int64_t at, int64_t end, float bound) {
    return find_above(x, at, end, bound);
}

void lp_lane_tops_avx2(const float *x, int64_t n, float *top) {
    lane_tops(x, n, top);
}

void lp_exp_row_avx2(const float *x, int64_t n, double top, double *e) {
    exp_row(x, n, top, e);
}
