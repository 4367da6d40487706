#ifndef LP_TOP_H
#define LP_TOP_H
#include "lp.h"

/* The k highest of float x[n], 0 < k <= n, highest first, of equal ones the lower index first:
 * their indices to id[k] and their values to top[k]. Returns -1, or the first index of a NaN, with
 * which nothing is said of id and top. */
LP_API int64_t lp_top_k(const float *x, int64_t n, int64_t k, int64_t *id, float *top);

#endif
