#ifndef LP_EXP_H
#define LP_EXP_H
#include <stdint.h>
#include <string.h>

/* yes ? a : b, in a form that compilers do without a branch. */
static inline float choose(int yes, float a, float b) {
    uint32_t m = 0u - (uint32_t)yes, p, q;
    memcpy(&p, &a, sizeof p);
    memcpy(&q, &b, sizeof q);
    q = (p & m) | (q & ~m);
    memcpy(&a, &q, sizeof a);
    return a;
}

/* exp(x) for x <= 0, e^-87 for all below that; a NaN stays one. A series of its own, without fma,
 * so that plain C gives the same bits as any vector of it: |relative error| < 1e-7. */
static inline float exp_below_0(float x) {
    const float round =
        12582912.f; /* 1.5 * 2^23: adding it leaves a whole number in the low bits */
    x = choose(x < -87.f, -87.f, x);
    float t = x * 1.44269504f + round;
    float k = t - round;
    float r = (x - k * 0.693359375f) - k * -2.12194440e-4f; /* the first product is exact */
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.f;
    p = p * r + 1.f;
    int32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (int32_t)((uint32_t)(bits - 0x4b400000 + 127) << 23);
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* x where the bits of `mask` are set. */
static inline double masked(double x, uint64_t mask) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    u &= mask;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* exp(x) for x <= 709, 0 below -708: the series to r^12, |r| <= ln 2 / 2, its even and its odd
 * powers side by side. Again without fma or branch: |relative error| < 5e-16. */
static inline double exp_double(double x) {
    const double round = 0x1.8p52, least = -708.;
    const double above = x - least; /* its sign says it in a form that every vector knows */
    uint64_t in, bits;
    memcpy(&in, &above, sizeof in);
    in = (in >> 63) - 1;
    x = masked(x, in);
    const double t = x * 0x1.71547652b82fep0 + round;
    const double k = t - round;
    const double r = (x - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45; /* ln 2 in two */
    const double r2 = r * r;
    double even = 1. / 479001600, odd = 1. / 39916800; /* 1 / 12!, 1 / 11! */
    even = even * r2 + 1. / 3628800;
    odd = odd * r2 + 1. / 362880;
    even = even * r2 + 1. / 40320;
    odd = odd * r2 + 1. / 5040;
    even = even * r2 + 1. / 720;
    odd = odd * r2 + 1. / 120;
    even = even * r2 + 1. / 24;
    odd = odd * r2 + 1. / 6;
    even = even * r2 + 1. / 2;
    const double p = (even * r2 + odd * r2 * r) + r + 1.;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return masked(p * scale, in);
}

#endif
