#ifndef LP_WEIGHTS_H
#define LP_WEIGHTS_H
#include "lp.h"

/* What sampling knows of exponentials: exp(x[i] - max x) of float x[n], n > 0, to e[n] (or nowhere,
 * where e is NULL); returns their sum. No x is NaN or +inf. The difference is taken in double,
 * |relative error| of each < 5e-16; below e^-708 they are 0, and all are where every x is -inf. The
 * sum adds up eight lanes, i to lane i mod 8, then lanes j and j + 4, j + 2, j + 1. The same bits
 * on every machine. */
LP_API double lp_weights(const float *x, int64_t n, double *e);

/* exp and log by the same rules. x <= 709, anything above counts as that; 0 below -708. */
LP_API double lp_exp(double x);
/* x > 0. |relative error| < 1e-14. */
LP_API double lp_log(double x);

#endif
