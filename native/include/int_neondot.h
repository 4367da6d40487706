/* The thin integer layer on NEON with the dot product of bytes (Armv8.2 DotProd). */
#ifndef LP_INT_H
#define LP_INT_H

#include "int_arm.h"

LP_FORCE int32x4_t q_dot(int32x4_t acc, int8x16_t w, int8x16_t x) {
    return vdotq_s32(acc, w, x);
}

#include "int_arm_dot.h"

#endif
