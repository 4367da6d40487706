#ifndef LP_USUAL_H
#define LP_USUAL_H
#include "top.h"

/* The chain that nearly everybody samples by, in one call: bias, top_k, top_p, min_p, temperature,
 * one draw. llamapy/sample/filters.py defines every step; this has its bits. */
struct lp_usual {
    struct lp_bias bias;
    int64_t k, min_keep; /* k is at least min_keep */
    double top_p;        /* 1 or more: all */
    float min_p;         /* its logarithm; -inf: all */
    float temp;
    /* What is left, most likely first: n ids, logits and weights, with room for k; which was drawn.
     */
    int64_t n, at;
    int64_t *id;
    float *x;
    double *e;
};

/* The id drawn for u, 0 <= u < 1, of logits x[n], n > 0. -1 where one is NaN or the highest is not
 * finite: nothing is drawn then, and nothing said of what is left. */
LP_API int64_t lp_usual(const float *x, int64_t n, struct lp_usual *c, double u);

#endif
