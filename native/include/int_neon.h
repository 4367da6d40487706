/* The thin integer layer on NEON as every AArch64 has it. */
#ifndef LP_INT_H
#define LP_INT_H

#include "int_arm.h"

/* Pairs of products fit 16 bits: 2 * 128 * 127 < 2^15. */
LP_FORCE int32x4_t q_dot(int32x4_t acc, int8x16_t w, int8x16_t x) {
    const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x)), high = vmull_high_s8(w, x);
    return vpadalq_s16(acc, vpaddq_s16(low, high));
}

#include "int_arm_dot.h"

#endif
