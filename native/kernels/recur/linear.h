/* gated_linear_attn(state, q, k [d_k, n_head, T], v [d_v, n_head, T], decay [n_head] or [d_k,
 * n_head, T], runs), parameter scale. Per token and row:
 *
 *   S[i] = fma(S[i], decay, k[i] * v),   o = (sum of fma(S[i], q[i])) * scale
 *
 * rwkv_wkv6(state, r, k [d_k, n_head, T], v [d_v, n_head, T], w [d_k, n_head, T], u [d_k, n_head],
 * runs):
 *
 *   y = sum of fma(r[i], fma(u[i], k[i] * v, S[i])),   S[i] = fma(S[i], w[i], k[i] * v) */

/* x: v of each row. */
LP_INLINE void lp_linear_rows(const struct lp_token *d, float *to, const float *from,
                              const float *x, v16 *sum, int64_t m, const int n, const bool whole) {
    const float *decay = d->decay, *key = d->k, *query = d->q;
    v16 v[4];
    lp_spread(v, x, n);
    for (int64_t i = 0; i < m; i += 16) {
        int64_t left = whole ? 16 : m - i;
        v16 e = v_load_part(decay + i, left);
        v16 k = v_load_part(key + i, left), q = v_load_part(query + i, left);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            v16 s = v_load_part(from + j * m + i, left);
            s = v_fma(s, e, v_mul(k, v[j]));
            v_store_part(to + j * m + i, s, left);
            sum[j] = v_fma(s, q, sum[j]);
        }
    }
}
LP_INLINE v16 lp_linear_step(const struct lp_token *d, float *to, const float *from) {
    return v_mul(lp_all_rows(lp_linear_rows, d, to, from, d->v), v_set1(d->scale));
}
LP_INLINE void lp_linear_open(struct lp_token *d, const struct lp_args *a, int64_t h, int64_t t,
                              float *own) {
    d->q = lp_vector(a, 1, h, t);
    d->k = lp_vector(a, 2, h, t);
    d->v = lp_vector(a, 3, h, t);
    d->scale = (float)a->n->fp[0];
    if (lp_decay_changes(&a->n->src[4], &a->n->src[3])) {
        d->decay = lp_vector(a, 4, h, t);
    } else {
        lp_fill(own, lp_scalar(a, 4, h, 0), d->d_k);
        d->decay = own;
    }
}
int LP_FN(lp_gated_linear_attn_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    return lp_heads(a, task, scratch, lp_linear_open, lp_linear_step);
}

LP_INLINE void lp_wkv6_rows(const struct lp_token *d, float *to, const float *from, const float *x,
                            v16 *sum, int64_t m, const int n, const bool whole) {
    const float *decay = d->decay, *bonus = d->bonus, *key = d->k, *query = d->q;
    v16 v[4];
    lp_spread(v, x, n);
    for (int64_t i = 0; i < m; i += 16) {
        int64_t left = whole ? 16 : m - i;
        v16 w = v_load_part(decay + i, left), u = v_load_part(bonus + i, left);
        v16 k = v_load_part(key + i, left), r = v_load_part(query + i, left);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            v16 kv = v_mul(k, v[j]), s = v_load_part(from + j * m + i, left);
            sum[j] = v_fma(r, v_fma(u, kv, s), sum[j]);
            v_store_part(to + j * m + i, v_fma(s, w, kv), left);
        }
    }
}
LP_INLINE v16 lp_wkv6_step(const struct lp_token *d, float *to, const float *from) {
    return lp_all_rows(lp_wkv6_rows, d, to, from, d->v);
}
LP_INLINE void lp_wkv6_open(struct lp_token *d, const struct lp_args *a, int64_t h, int64_t t,
                            float *own) {
    (void)own;
    d->q = lp_vector(a, 1, h, t);
    d->k = lp_vector(a, 2, h, t);
    d->v = lp_vector(a, 3, h, t);
    d->decay = lp_vector(a, 4, h, t);
    d->bonus = lp_vector(a, 5, h, 0);
}
int LP_FN(lp_rwkv_wkv6_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    return lp_heads(a, task, scratch, lp_wkv6_open, lp_wkv6_step);
}
