/* Sums along rows, and along the experts of a token. A task of the first two owns whole rows.
 *
 * sum_rows      y = the canonical sum of x[i] (16 accumulators, tree)
 * soft_max      m = max x[i]; e[i] = exp(x[i] - m); y[i] = e[i] / the canonical sum of e; y may be
 * x add_id        y[:, u, t] = x[:, u, t] + bias[:, ids[u, t]]; y may be x weighted_sum  y[:, t] =
 * x[:, 0, t] * w[0, t], then + x[:, u, t] * w[u, t] for u in order, products and sums rounded;
 * without w the sums alone */

int LP_FN(lp_sum_rows_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    int64_t k = n->src[0].ne[0], rows = lp_rows(&n->dst), idx[4];
    int64_t end = rows * (task + 1) / n->n_tasks;
    for (int64_t r = rows * task / n->n_tasks; r < end; r++) {
        lp_row_index(&n->dst, r, idx);
        const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], idx));
        v16 acc = v_zero();
        for (int64_t i = 0; i < k; i += 16) {
            acc = v_add(acc, v_load_part(x + i, k - i));
        }
        float y = v_sum(acc);
        memcpy(a->dst + lp_row_offs(&n->dst, idx), &y, 4);
    }
    return LP_OK;
}

LP_INLINE float lp_largest(const float *x, int64_t k) {
    v16 most = v_set1(x[0]);
    int64_t i = 0;
    for (; i + 16 <= k; i += 16) {
        most = v_max(most, v_load(x + i));
    }
    float m = v_hmax(most);
    for (; i < k; i++) {
        m = x[i] > m ? x[i] : m;
    }
    return m;
}
int LP_FN(lp_soft_max_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    int64_t k = n->dst.ne[0], rows = lp_rows(&n->dst), idx[4];
    int64_t end = rows * (task + 1) / n->n_tasks;
    for (int64_t r = rows * task / n->n_tasks; r < end; r++) {
        lp_row_index(&n->dst, r, idx);
        const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], idx));
        float *y = (float *)(a->dst + lp_row_offs(&n->dst, idx));
        v16 m = v_set1(lp_largest(x, k)), acc = v_zero();
        for (int64_t i = 0; i < k; i += 16) {
            v_store_part(y + i, v_exp(v_sub(v_load_part(x + i, k - i), m)), k - i);
            acc = v_add(acc, v_load_part(y + i, k - i)); /* zeros behind the row */
        }
        v16 sum = v_set1(v_sum(acc));
        for (int64_t i = 0; i < k; i += 16) {
            v_store_part(y + i, v_div(v_load_part(y + i, k - i), sum), k - i);
        }
    }
    return LP_OK;
}

int LP_FN(lp_add_id_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    struct lp_walk w = lp_walk_units(&n->dst, task, n->n_tasks);
    while (lp_walk_next(&w)) {
        int32_t id = lp_id_at(a->src[2], &n->src[2], w.i);
        if (id < 0 || id >= n->src[1].ne[1]) {
            return LP_E_INDEX;
        }
        const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], w.i)) + w.i[0];
        const float *bias = (const float *)(a->src[1] + id * n->src[1].nb[1]) + w.i[0];
        float *y = (float *)(a->dst + lp_row_offs(&n->dst, w.i)) + w.i[0];
        lp_binary_run(v_add, y, x, bias, 1, w.len);
    }
    return LP_OK;
}

int LP_FN(lp_weighted_sum_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    const struct lp_opnd *x = &n->src[0], *wt = &n->src[1];
    struct lp_walk w = lp_walk_units(&n->dst, task, n->n_tasks);
    while (lp_walk_next(&w)) {
        int64_t t = w.i[1]; /* the token */
        const char *from = a->src[0] + t * x->nb[2] + w.i[0] * 4;
        float *y = (float *)(a->dst + t * n->dst.nb[1]) + w.i[0];
        for (int64_t i = 0; i < w.len; i += 16) {
            v16 acc = v_zero();
            for (int64_t u = 0; u < x->ne[1]; u++) {
                v16 v = v_load_part((const float *)(from + u * x->nb[1]) + i, w.len - i);
                if (n->n_src > 1) {
                    float weight;
                    memcpy(&weight, a->src[1] + u * wt->nb[0] + t * wt->nb[1], 4);
                    v = v_mul(v, v_set1(weight));
                }
                acc = u ? v_add(acc, v) : v;
            }
            v_store_part(y + i, acc, w.len - i);
        }
    }
    return LP_OK;
}
