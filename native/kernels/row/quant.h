/* quant_act, and in two terms. */

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
