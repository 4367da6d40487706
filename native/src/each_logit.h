#ifndef LP_EACH_LOGIT_H
#define LP_EACH_LOGIT_H
#include <stdint.h>
#include "exp.h"

/* What every logit of a vocabulary goes through: one source, compiled as it is and for AVX2. */

enum { LP_BLOCK = 64 };

/* The first of the blocks of 64 from x[at], at < end, that holds anything above `bound`, or a NaN;
 * the last may be cut short by `end`. `end` where there is none. */
int64_t lp_find_above(const float *x, int64_t at, int64_t end, float bound);
int64_t lp_find_above_avx2(const float *x, int64_t at, int64_t end, float bound);

/* Where the highest of x is, of equal ones (-0 is 0) the first, the n_never places in `never` left
 * out. -1: one is NaN or +inf, or none above -inf. */
int32_t lp_highest(const float *x, int64_t n, const int32_t *never, int64_t n_never);

static inline int is_among(int64_t i, const int32_t *places, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        if (places[j] == i)
            return 1;
    return 0;
}

/* top[j]: the highest x[i] of all i = j mod 64 in whole blocks; n >= 64. A NaN is not seen. */
void lp_lane_tops(const float *x, int64_t n, float *top);
void lp_lane_tops_avx2(const float *x, int64_t n, float *top);

/* exp(x[i] - top) to e[i], as exp.h says. */
void lp_exp_row(const float *x, int64_t n, double top, double *e);
void lp_exp_row_avx2(const float *x, int64_t n, double top, double *e);

static inline int64_t find_above(const float *x, int64_t at, int64_t end, float bound) {
    for (; end - at >= LP_BLOCK; at += LP_BLOCK) {
        int found = 0;
        for (int i = 0; i < LP_BLOCK; i++)
            found |= !(x[at + i] <= bound);
        if (found)
            return at;
    }
    for (int64_t i = at; i < end; i++)
        if (!(x[i] <= bound))
            return at;
    return end;
}

static inline void lane_tops(const float *x, int64_t n, float *top) {
    float m[LP_BLOCK];
    for (int j = 0; j < LP_BLOCK; j++)
        m[j] = x[j];
    for (int64_t i = LP_BLOCK; n - i >= LP_BLOCK; i += LP_BLOCK)
        for (int j = 0; j < LP_BLOCK; j++)
            m[j] = x[i + j] > m[j] ? x[i + j] : m[j];
    for (int j = 0; j < LP_BLOCK; j++)
        top[j] = m[j];
}

static inline void exp_row(const float *x, int64_t n, double top, double *e) {
    for (int64_t i = 0; i < n; i++)
        e[i] = exp_double((double)x[i] - top);
}

#endif
