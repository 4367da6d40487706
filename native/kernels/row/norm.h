/* Norms. Per row of n values; sums are canonical (16 accumulators, tree), every step is rounded:
 *
 * rms_norm  ss = sum of x[i]^2 by fma; s = 1 / sqrt(ss / n + eps); y[i] = x[i] * s
 * norm      mean = sum of x[i] / n; d[i] = x[i] - mean; ss = sum of d[i]^2 by fma; s as above;
 *           y[i] = d[i] * s
 * l2_norm   s = 1 / max(sqrt(sum of x[i]^2 by fma), eps); y[i] = x[i] * s
 *
 * then * w[i] where there is a weight [n], + b[i] where there is a bias [n]. The _quant ones go on
 * to X8 as quant_act would. y may be x. A task owns whole rows. */

/* What becomes of a row before its weight: (x - mean) * scale. */
struct lp_normed {
    v16 mean, scale;
};

/* x - mean of n elements from x on, zeros behind them. */
LP_INLINE v16 lp_centred(const float *x, v16 mean, int64_t n) {
    v16 d = v_sub(v_load_part(x, n), mean);
    if (__builtin_expect(n < 16, 0)) {
        float part[16] = {0};
        v_store_n(part, d, (int)n);
        d = v_load(part);
    }
    return d;
}
LP_INLINE float lp_squares(const float *x, int64_t n) {
    v16 acc = v_zero();
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v_load_part(x + i, n - i);
        acc = v_fma(v, v, acc);
    }
    return v_sum(acc);
}
LP_INLINE struct lp_normed lp_rms_of(const float *x, int64_t n, float eps) {
    float s = 1.0f / __builtin_sqrtf(lp_squares(x, n) / (float)n + eps);
    return (struct lp_normed){v_zero(), v_set1(s)};
}
LP_INLINE struct lp_normed lp_layer_of(const float *x, int64_t n, float eps) {
    v16 acc = v_zero();
    for (int64_t i = 0; i < n; i += 16) {
        acc = v_add(acc, v_load_part(x + i, n - i));
    }
    v16 mean = v_set1(v_sum(acc) / (float)n);
    acc = v_zero();
    for (int64_t i = 0; i < n; i += 16) {
        v16 d = lp_centred(x + i, mean, n - i);
        acc = v_fma(d, d, acc);
    }
    float s = 1.0f / __builtin_sqrtf(v_sum(acc) / (float)n + eps);
    return (struct lp_normed){mean, v_set1(s)};
}
LP_INLINE struct lp_normed lp_l2_of(const float *x, int64_t n, float eps) {
    float length = __builtin_sqrtf(lp_squares(x, n));
    return (struct lp_normed){v_zero(), v_set1(1.0f / (length < eps ? eps : length))};
}

typedef struct lp_normed (*lp_norm_of)(const float *x, int64_t n, float eps);

/* A row's operands. */
struct lp_norm_row {
    const float *x, *w, *b;
    char *y;
    struct lp_normed s;
};
LP_INLINE struct lp_norm_row lp_norm_at(const struct lp_args *a, int64_t r, lp_norm_of of) {
    const struct lp_node *n = a->n;
    int64_t idx[4];
    lp_row_index(&n->dst, r, idx);
    struct lp_norm_row row = {.x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], idx)),
                              .y = a->dst + lp_row_offs(&n->dst, idx)};
    if (n->n_src > 1) {
        row.w = (const float *)(a->src[1] + lp_row_offs(&n->src[1], idx));
    }
    if (n->n_src > 2) {
        row.b = (const float *)(a->src[2] + lp_row_offs(&n->src[2], idx));
    }
    row.s = of(row.x, n->dst.ne[0], (float)n->fp[0]);
    return row;
}
/* Elements i.. of the result, m of them. */
LP_INLINE v16 lp_norm_part(const struct lp_norm_row *row, const int centred, int64_t i, int64_t m) {
    v16 v = v_load_part(row->x + i, m);
    v = v_mul(centred ? v_sub(v, row->s.mean) : v, row->s.scale);
    if (row->w) {
        v = v_mul(v, v_load_part(row->w + i, m));
    }
    return row->b ? v_add(v, v_load_part(row->b + i, m)) : v;
}

LP_INLINE int lp_norm(const struct lp_args *a, int64_t task, lp_norm_of of, const int centred) {
    int64_t k = a->n->dst.ne[0], rows = lp_rows(&a->n->dst);
    int64_t end = rows * (task + 1) / a->n->n_tasks;
    for (int64_t r = rows * task / a->n->n_tasks; r < end; r++) {
        struct lp_norm_row row = lp_norm_at(a, r, of);
        for (int64_t i = 0; i < k; i += 16) {
            v_store_part((float *)row.y + i, lp_norm_part(&row, centred, i, k - i), k - i);
        }
    }
    return LP_OK;
}
LP_INLINE int lp_norm_quant(const struct lp_args *a, int64_t task, lp_norm_of of,
                            const int centred) {
    int64_t k = a->n->dst.ne[0], rows = lp_rows(&a->n->dst);
    if (k % LP_X8_GROUP) {
        return LP_E_TYPES;
    }
    int64_t end = rows * (task + 1) / a->n->n_tasks;
    for (int64_t r = rows * task / a->n->n_tasks; r < end; r++) {
        struct lp_norm_row row = lp_norm_at(a, r, of);
        for (int64_t i = 0; i < k; i += LP_X8_GROUP) {
            v16 lo = lp_norm_part(&row, centred, i, 16);
            v16 hi = lp_norm_part(&row, centred, i + 16, 16);
            lp_x8_group(row.y, k, i / LP_X8_GROUP, lo, hi);
        }
    }
    return LP_OK;
}

#define LP_NORM(name, call)                                                                        \
    int LP_FN(name)(const struct lp_args *a, int64_t task, void *scratch) {                        \
        (void)scratch;                                                                             \
        return call;                                                                               \
    }
LP_NORM(lp_rms_norm_f32_f32, lp_norm(a, task, lp_rms_of, 0))
LP_NORM(lp_rms_norm_quant_x8_f32, lp_norm_quant(a, task, lp_rms_of, 0))
LP_NORM(lp_norm_f32_f32, lp_norm(a, task, lp_layer_of, 1))
LP_NORM(lp_norm_quant_x8_f32, lp_norm_quant(a, task, lp_layer_of, 1))
LP_NORM(lp_l2_norm_f32_f32, lp_norm(a, task, lp_l2_of, 0))
