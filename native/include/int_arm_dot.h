/* What int_neon.h and int_neondot.h build on their q_dot: acc plus, in lane i, the sum of w * x
 * over bytes 4i..4i+3. */
#ifndef LP_INT_ARM_DOT_H
#define LP_INT_ARM_DOT_H

/* w and x signed. */
LP_FORCE i32x8 i8_dot_signed(i32x8 acc, b32 w, b32 x) {
    const int8x16_t w0 = vreinterpretq_s8_u8(w.lo), w1 = vreinterpretq_s8_u8(w.hi);
    return (i32x8){q_bytes(q_dot(q_words(acc.lo), w0, vreinterpretq_s8_u8(x.lo))),
                   q_bytes(q_dot(q_words(acc.hi), w1, vreinterpretq_s8_u8(x.hi)))};
}
/* w - off fits a signed byte, so nothing of it is left to the caller. */
LP_FORCE i32x8 i8_dot(i32x8 acc, b32 w, b32 x, int off) {
    return i8_dot_signed(acc, off ? b32_sub(w, b32_set1(off)) : w, x);
}
#include "int_dot4.h"

LP_FORCE int i8_dot_rest(int off) {
    (void)off;
    return 0;
}

#endif
