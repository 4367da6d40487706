#ifndef LP_TOP_H
#define LP_TOP_H
#include "lp.h"

/* What is added to n of the numbers: add[i] to number id[i]; ids rise. */
struct lp_bias {
    int64_t n;
    const int64_t *id;
    const float *add;
};

/* The k highest of float x[n], 0 < k <= n, highest first, of equal ones the lower index first:
 * their indices to id[k] and their values to top[k], -0 as 0. n < 2^32. Returns -1, or the first
 * index of a NaN, with which nothing is said of id and top. */
LP_API int64_t lp_top_k(const float *x, int64_t n, int64_t k, int64_t *id, float *top);

/* The same of the numbers with their bias. */
int64_t lp_top_k_biased(const float *x, int64_t n, struct lp_bias bias, int64_t k, int64_t *id,
                        float *top);

#endif
