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

#endif
