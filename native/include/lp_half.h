/* f16 <-> f32, written out: what F16C does, bit for bit (round to nearest even, subnormals, inf; a
 * NaN is made quiet and keeps its sign and its upper payload bits). */
#ifndef LP_HALF_H
#define LP_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t lp_bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float lp_float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float lp_f32_of_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mag = h & 0x7fffu;
    if (mag >= 0x7c00u) { /* inf or NaN */
        uint32_t quiet = mag > 0x7c00u ? 0x00400000u : 0;
        return lp_float_of(sign | 0x7f800000u | quiet | (mag & 0x3ffu) << 13);
    }
    if (mag >= 0x0400u) {
        return lp_float_of(sign | ((mag << 13) + (112u << 23)));
    }
    /* Subnormal: mag * 2^-24 is exact in f32. */
    return lp_float_of(sign | lp_bits_of((float)mag * 0x1p-24f));
}

static inline uint16_t lp_f16_of_f32(float x) {
    uint32_t u = lp_bits_of(x), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | (mag >> 13 & 0x3ffu));
    }
    if (mag >= 0x47800000u) { /* >= 65536: no rounding can bring it back */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (mag >=
        0x38800000u) { /* >= 2^-14: normal; a carry out of the mantissa is right, even to inf */
        uint32_t odd = mag >> 13 & 1u;
        return (uint16_t)(sign | ((mag - (112u << 23) + 0xfffu + odd) >> 13));
    }
    /* Subnormal: adding 0.5 leaves the multiple of 2^-24, rounded to even, in the mantissa. */
    return (uint16_t)(sign | (lp_bits_of(lp_float_of(mag) + 0.5f) - 0x3f000000u));
}

#endif
