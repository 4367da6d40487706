/* exp, log and floor in double, plain C without contraction: the same bits in every file that
 * includes this. For tables that are small per task; relative errors below 1e-14. */
#ifndef LP_DOUBLE_H
#define LP_DOUBLE_H

#include <stdint.h>
#include <string.h>

#define LP_LN2 0.693147180559945309417

/* x > 0, normal. atanh series of (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)). */
static inline double lp_log_of(double x) {
    uint64_t u;
    memcpy(&u, &x, 8);
    uint64_t low = UINT64_C(0x3fe6a09e667f3bcd); /* sqrt(1/2) */
    int64_t e = (int64_t)(u - low) >> 52;
    u -= (uint64_t)e << 52;
    double m;
    memcpy(&m, &u, 8);
    double t = (m - 1.0) / (m + 1.0), t2 = t * t, sum = 0.0;
    for (int k = 23; k >= 1; k -= 2) {
        sum = sum * t2 + 1.0 / k;
    }
    return (double)e * LP_LN2 + 2.0 * t * sum;
}

/* |x| < 700. */
static inline double lp_exp_of(double x) {
    int64_t n = (int64_t)(x / LP_LN2 + (x < 0 ? -0.5 : 0.5));
    double r = x - (double)n * 0x1.62e42fefa38p-1; /* ln 2, upper part: the product is exact */
    r -= (double)n * 0x1.ef35793c7673p-45;
    double sum = 1.0;
    for (int k = 14; k >= 1; k--) {
        sum = 1.0 + sum * r / k;
    }
    uint64_t u = (uint64_t)(n + 1023) << 52;
    double scale;
    memcpy(&scale, &u, 8);
    return sum * scale;
}

/* |x| < 2^63. */
static inline double lp_floor_of(double x) {
    double t = (double)(int64_t)x;
    return t > x ? t - 1.0 : t;
}

#endif
