/* Where i8_dot adds in 32 bits there is nothing to gather first; what it means: int_avx2.h. */
#ifndef LP_INT_DOT4_H
#define LP_INT_DOT4_H

LP_FORCE i32x8 i8_dot4(i32x8 acc, const b32 *w, const int8_t *x, int off, int max) {
    (void)max;
    for (int i = 0; i < 4; i++) {
        int32_t word;
        memcpy(&word, x + 4 * i, 4);
        acc = i8_dot(acc, w[i], i8_set1(word), off);
    }
    return acc;
}

#endif
