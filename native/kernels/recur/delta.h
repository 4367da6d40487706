/* gated_delta_net(state, q, k [d_k, n_head_k, T], v [d_v, n_head_v, T], g [n_head_v, T] or [d_k,
 * n_head_v, T], beta [n_head_v, T], runs), parameters tiled and scale. Per token and row:
 *
 *   d = (v - sum of fma(S[i], e * k[i])) * beta with e = exp(g),
 *   S[i] = fma(k[i], d, S[i] * e),   o = (sum of fma(S[i], q[i])) * scale
 *
 * each step rounded. Head h of v looks at head h / (n_head_v / n_head_k) of q and k, or h %
 * n_head_k where `tiled`.
 *
 * rwkv_wkv7(state, r, w, k [d_k, n_head, T], v [d_v, n_head, T], a, b [d_k, n_head, T], runs):
 *
 *   s = sum of fma(S[i], a[i]),   S[i] = fma(S[i], w[i], fma(b[i], s, k[i] * v)),
 *   y = sum of fma(S[i], r[i]) */

enum { LP_DELTA_TILED }; /* ip */
enum { LP_DELTA_SCALE }; /* fp */

/* What the state says of a. */
LP_INLINE void lp_delta_look(const struct lp_token *d, float *to, const float *from, const float *x,
                             v16 *sum, int64_t m, const int n, const bool whole) {
    (void)to, (void)x;
    const float *at = d->a;
    for (int64_t i = 0; i < m; i += 16) {
        int64_t left = whole ? 16 : m - i;
        v16 a = v_load_part(at + i, left);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            sum[j] = v_fma(v_load_part(from + j * m + i, left), a, sum[j]);
        }
    }
}
/* x: d of each row. */
LP_INLINE void lp_delta_move(const struct lp_token *d, float *to, const float *from, const float *x,
                             v16 *sum, int64_t m, const int n, const bool whole) {
    const float *decay = d->decay, *key = d->k, *query = d->q;
    v16 delta[4];
    lp_spread(delta, x, n);
    for (int64_t i = 0; i < m; i += 16) {
        int64_t left = whole ? 16 : m - i;
        v16 e = v_load_part(decay + i, left);
        v16 k = v_load_part(key + i, left), q = v_load_part(query + i, left);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            v16 s = v_mul(v_load_part(from + j * m + i, left), e);
            s = v_fma(k, delta[j], s);
            v_store_part(to + j * m + i, s, left);
            sum[j] = v_fma(s, q, sum[j]);
        }
    }
}
LP_INLINE v16 lp_delta_step(const struct lp_token *d, float *to, const float *from) {
    float delta[16] = {0};
    v16 miss = v_sub(v_load_part(d->v, d->n), lp_all_rows(lp_delta_look, d, to, from, delta));
    v_store(delta, v_mul(miss, v_set1(d->beta)));
    return v_mul(lp_all_rows(lp_delta_move, d, to, from, delta), v_set1(d->scale));
}
LP_INLINE void lp_delta_open(struct lp_token *d, const struct lp_args *a, int64_t h, int64_t t,
                             float *own) {
    int64_t hk = a->n->src[1].ne[1], share = a->n->src[3].ne[1] / hk;
    int64_t at = a->n->ip[LP_DELTA_TILED] ? h % hk : h / share;
    d->q = lp_vector(a, 1, at, t);
    d->k = lp_vector(a, 2, at, t);
    d->v = lp_vector(a, 3, h, t);
    d->beta = lp_scalar(a, 5, h, t);
    d->scale = (float)a->n->fp[LP_DELTA_SCALE];
    d->decay = own;
    d->a = own + lp_padded(d->d_k);
    bool wide = lp_per_channel(&a->n->src[4], &a->n->src[3]);
    const float *g = wide ? lp_vector(a, 4, h, t) : NULL;
    v16 e = v_exp(v_set1(wide ? 0.0f : lp_scalar(a, 4, h, t)));
    for (int64_t i = 0; i < d->d_k; i += 16) { /* own is whole vectors */
        e = wide ? v_exp(v_load_part(g + i, d->d_k - i)) : e;
        v_store(own + i, e);
        v_store(own + lp_padded(d->d_k) + i, v_mul(e, v_load_part(d->k + i, d->d_k - i)));
    }
}
int LP_FN(lp_gated_delta_net_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    return lp_heads(a, task, scratch, lp_delta_open, lp_delta_step);
}

/* x: s of each row, then v. */
LP_INLINE void lp_wkv7_move(const struct lp_token *d, float *to, const float *from, const float *x,
                            v16 *sum, int64_t m, const int n, const bool whole) {
    const float *decay = d->decay, *back = d->b, *key = d->k, *query = d->q;
    v16 s0[4], v[4];
    lp_spread(s0, x, n);
    lp_spread(v, x + 16, n);
    for (int64_t i = 0; i < m; i += 16) {
        int64_t left = whole ? 16 : m - i;
        v16 w = v_load_part(decay + i, left), b = v_load_part(back + i, left);
        v16 k = v_load_part(key + i, left), r = v_load_part(query + i, left);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            v16 in = v_fma(b, s0[j], v_mul(k, v[j]));
            v16 s = v_fma(v_load_part(from + j * m + i, left), w, in);
            v_store_part(to + j * m + i, s, left);
            sum[j] = v_fma(s, r, sum[j]);
        }
    }
}
LP_INLINE v16 lp_wkv7_step(const struct lp_token *d, float *to, const float *from) {
    float x[32] = {0};
    v_store(x, lp_all_rows(lp_delta_look, d, to, from, x));
    v_store(x + 16, v_load_part(d->v, d->n));
    return lp_all_rows(lp_wkv7_move, d, to, from, x);
}
LP_INLINE void lp_wkv7_open(struct lp_token *d, const struct lp_args *a, int64_t h, int64_t t,
                            float *own) {
    (void)own;
    d->q = lp_vector(a, 1, h, t);
    d->decay = lp_vector(a, 2, h, t);
    d->k = lp_vector(a, 3, h, t);
    d->v = lp_vector(a, 4, h, t);
    d->a = lp_vector(a, 5, h, t);
    d->b = lp_vector(a, 6, h, t);
}
int LP_FN(lp_rwkv_wkv7_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    return lp_heads(a, task, scratch, lp_wkv7_open, lp_wkv7_step);
}
