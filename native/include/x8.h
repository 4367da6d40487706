/* X8: activations quantised for the integer dot products. A row of k values (k a multiple of 32)
 * takes k/32*40 bytes, in planes: int8 q[k], then float d[k/32], then int32 sum[k/32]. d = max|x| /
 * 127 over a group of 32;  id = d != 0 ? 127 / max|x| : 0; q = round-half-even(x * id);  sum = the
 * exact sum of the group's q. A group's value is d * q. */
#ifndef LP_X8_H
#define LP_X8_H

#include <stdint.h>

#define LP_X8_TYPE 1000
#define LP_X8_GROUP 32

static inline int64_t lp_x8_row_bytes(int64_t k) {
    return k / 32 * 40;
}
static inline const int8_t *lp_x8_q(const char *row) {
    return (const int8_t *)row;
}
static inline const float *lp_x8_d(const char *row, int64_t k) {
    return (const float *)(row + k);
}
static inline const int32_t *lp_x8_sum(const char *row, int64_t k) {
    return (const int32_t *)(row + k + k / 32 * 4);
}

#endif
