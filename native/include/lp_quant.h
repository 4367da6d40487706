/* f32 to X8 (include a vec_*.h first). A group's q, d and sum are written by one call; groups are
 * independent. max|x| is taken over the bits, as integers, so its order is free and a NaN wins: the
 * group then has d = NaN and q = 0, which makes every product NaN; an infinity likewise (d = inf,
 * inf * 0). */
#ifndef LP_QUANT_H
#define LP_QUANT_H

#include "x8.h"

/* Quantise the values of group g of a row of k elements; what d * q leaves of each, x - d * q by
 * one fma, takes its place. */
LP_INLINE void lp_x8_take(char *row, int64_t k, int64_t g, v16 *lo, v16 *hi) {
    i16v mag = i_max(v_bits(v_abs(*lo)), v_bits(v_abs(*hi)));
    float peak = lp_float_of((uint32_t)i_hmax(mag));
    float d = peak / 127.0f, id = d != 0.0f ? 127.0f / peak : 0.0f;
    i16v qlo = v_round_i(v_mul(*lo, v_set1(id))), qhi = v_round_i(v_mul(*hi, v_set1(id)));
    qlo = i_sar(i_shl(qlo, 24), 24); /* what is stored is what is summed: 0 for NaN */
    qhi = i_sar(i_shl(qhi, 24), 24);
    int32_t sum = i_hsum(i_add(qlo, qhi));
    i_store_i8((int8_t *)row + 32 * g, qlo);
    i_store_i8((int8_t *)row + 32 * g + 16, qhi);
    memcpy(row + k + 4 * g, &d, 4);
    memcpy(row + k + k / 32 * 4 + 4 * g, &sum, 4);
    *lo = v_fnma(v_set1(d), v_from_i(qlo), *lo);
    *hi = v_fnma(v_set1(d), v_from_i(qhi), *hi);
}

/* Quantise the values of group g of a row of k elements. */
LP_INLINE void lp_x8_group(char *row, int64_t k, int64_t g, v16 lo, v16 hi) {
    lp_x8_take(row, k, g, &lo, &hi);
}

#endif
