/* f32 to X8 (include/x8.h). A group's q, d and sum are written by one call; groups are independent.
 * max|x| is taken over the bits, as integers, so its order is free and a NaN wins: the group then
 * has d = NaN and q = 0, which makes every product NaN; an infinity likewise (d = inf, inf * 0). */

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

int LP_FN(lp_quant_act_x8_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    int64_t k = n->dst.ne[0];
    if (k % LP_X8_GROUP) {
        return LP_E_TYPES;
    }
    struct lp_walk w = lp_walk_units(&n->dst, task, n->n_tasks);
    while (lp_walk_next(&w)) {
        const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], w.i)) + w.i[0];
        char *row = a->dst + lp_row_offs(&n->dst, w.i);
        for (int64_t i = 0; i < w.len; i += LP_X8_GROUP) {
            lp_x8_group(row, k, (w.i[0] + i) / LP_X8_GROUP, v_load(x + i), v_load(x + i + 16));
        }
    }
    return LP_OK;
}

/* x [k, n] to X8 [k, 2, n]: row 0 of a pair is the activation, row 1 what row 0 leaves of it. The
 * sum of the two dot products has the precision of 16-bit activations. */
int LP_FN(lp_quant_act_pair_x8_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    int64_t k = n->dst.ne[0];
    if (k % LP_X8_GROUP) {
        return LP_E_TYPES;
    }
    struct lp_walk w = lp_walk_units(&n->src[0], task, n->n_tasks);
    while (lp_walk_next(&w)) {
        const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], w.i)) + w.i[0];
        char *row = a->dst + w.i[1] * n->dst.nb[2];
        for (int64_t i = 0; i < w.len; i += LP_X8_GROUP) {
            v16 lo = v_load(x + i), hi = v_load(x + i + 16);
            lp_x8_take(row, k, (w.i[0] + i) / LP_X8_GROUP, &lo, &hi);
            lp_x8_take(row + n->dst.nb[1], k, (w.i[0] + i) / LP_X8_GROUP, &lo, &hi);
        }
    }
    return LP_OK;
}
