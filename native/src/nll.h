#ifndef LP_NLL_H
#define LP_NLL_H
#include "lp.h"

/* Of each row of float x[n_rows][n], n > 0: max[i], and sum[i] of exp(x - max[i]) in double, in one
 * order whatever the machine. NaN and +Inf in a row make its sum NaN. */
LP_API void lp_softmax_sums(const float *x, int64_t n, int64_t n_rows, double *sum, float *max);

/* Of each row: the first place where it is max[i]; the last place where it is nowhere. */
LP_API void lp_row_tops(const float *x, int64_t n, int64_t n_rows, const float *max, int32_t *top);

#endif
