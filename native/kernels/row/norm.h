/* RMS norm. Per row of n values: ss = the canonical sum of x[i]^2 (16 accumulators by fma, tree); s
 * = 1 / sqrt(ss / n + eps), each step rounded; y[i] = x[i] * s, rounded, then * w[i] where there is
 * a weight [n]. rms_norm_quant goes on to X8 as quant_act would. y may be x. A task owns whole
 * rows. */

LP_INLINE float lp_rms_scale(const float *x, int64_t n, float eps) {
    v16 acc = v_zero();
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v_load_part(x + i, n - i);
        acc = v_fma(v, v, acc);
    }
    return 1.0f / __builtin_sqrtf(v_sum(acc) / (float)n + eps);
}

int LP_FN(lp_rms_norm_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    int64_t k = n->dst.ne[0], rows = lp_rows(&n->dst), idx[4];
    int64_t end = rows * (task + 1) / n->n_tasks;
    for (int64_t r = rows * task / n->n_tasks; r < end; r++) {
        lp_row_index(&n->dst, r, idx);
        const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], idx));
        const float *wt =
            n->n_src < 2 ? NULL : (const float *)(a->src[1] + lp_row_offs(&n->src[1], idx));
        float *y = (float *)(a->dst + lp_row_offs(&n->dst, idx));
        v16 s = v_set1(lp_rms_scale(x, k, (float)n->fp[0]));
        for (int64_t i = 0; i < k; i += 16) {
            v16 v = v_mul(v_load_part(x + i, k - i), s);
            v_store_part(y + i, wt ? v_mul(v, v_load_part(wt + i, k - i)) : v, k - i);
        }
    }
    return LP_OK;
}

int LP_FN(lp_rms_norm_quant_x8_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    int64_t k = n->dst.ne[0], rows = lp_rows(&n->dst), idx[4];
    if (k % LP_X8_GROUP) {
        return LP_E_TYPES;
    }
    int64_t end = rows * (task + 1) / n->n_tasks;
    for (int64_t r = rows * task / n->n_tasks; r < end; r++) {
        lp_row_index(&n->dst, r, idx);
        const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], idx));
        const float *wt = (const float *)(a->src[1] + lp_row_offs(&n->src[1], idx));
        char *row = a->dst + lp_row_offs(&n->dst, idx);
        v16 s = v_set1(lp_rms_scale(x, k, (float)n->fp[0]));
        for (int64_t i = 0; i < k; i += LP_X8_GROUP) {
            v16 lo = v_mul(v_mul(v_load(x + i), s), v_load(wt + i));
            v16 hi = v_mul(v_mul(v_load(x + i + 16), s), v_load(wt + i + 16));
            lp_x8_group(row, k, i / LP_X8_GROUP, lo, hi);
        }
    }
    return LP_OK;
}
