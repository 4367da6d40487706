/* gated_delta_net(state [d_k, d_v, n_head_v, n_cells], q, k [d_k, n_head_k, T], v [d_v, n_head_v,
 * T], g [n_head_v, T] or [d_k, n_head_v, T], beta [n_head_v, T], runs), parameters tiled and scale.
 * A row is one element of one head of v; its state S has d_k floats. Per token:
 *
 *   S[i] = S[i] * exp(g),   d = (v - sum of fma(S[i], k[i])) * beta,
 *   S[i] = fma(k[i], d, S[i]),   o = (sum of fma(S[i], q[i])) * scale
 *
 * each step rounded, sums canonical. Head h of v looks at head h / (n_head_v / n_head_k) of q and
 * k, or h % n_head_k where `tiled`. A block is up to LP_SCAN_ROWS rows of one head. */

enum { LP_DELTA_TILED }; /* ip */
enum { LP_DELTA_SCALE }; /* fp */

/* One token, for up to 16 rows. decay: exp(g), d_k values or one; v: of the rows. */
struct lp_delta {
    const float *q, *k, *v, *decay;
    float beta, scale;
    int64_t d_k, n;
};

/* n rows (a constant): sum[j] of fma(S * decay, k). */
LP_INLINE void lp_delta_look(const struct lp_delta *d, const float *from, v16 *acc,
                             const bool per_channel, const int n) {
    int64_t m = d->d_k;
    v16 sum[4], one = v_set1(d->decay[0]);
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
        sum[j] = v_zero();
    }
    for (int64_t i = 0; i < m; i += 16) {
        v16 e = per_channel ? v_load_part(d->decay + i, m - i) : one;
        v16 k = v_load_part(d->k + i, m - i);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            sum[j] = v_fma(v_mul(v_load_part(from + j * m + i, m - i), e), k, sum[j]);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
        acc[j] = sum[j];
    }
}
/* S = fma(k, delta[j], S * decay) of n rows, and sum[j] of fma(S, q). */
LP_INLINE void lp_delta_move(const struct lp_delta *d, float *to, const float *from,
                             const float *delta, v16 *acc, const bool per_channel, const int n) {
    int64_t m = d->d_k;
    v16 sum[4], one = v_set1(d->decay[0]);
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
        sum[j] = v_zero();
    }
    for (int64_t i = 0; i < m; i += 16) {
        v16 e = per_channel ? v_load_part(d->decay + i, m - i) : one;
        v16 k = v_load_part(d->k + i, m - i), q = v_load_part(d->q + i, m - i);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            v16 s = v_mul(v_load_part(from + j * m + i, m - i), e);
            s = v_fma(k, v_set1(delta[j]), s);
            v_store_part(to + j * m + i, s, m - i);
            sum[j] = v_fma(s, q, sum[j]);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
        acc[j] = sum[j];
    }
}
LP_INLINE v16 lp_delta_token(const struct lp_delta *d, float *to, const float *from,
                             const bool per_channel) {
    v16 acc[16];
    float delta[16];
    int64_t j = 0, m = d->d_k;
    for (j = d->n; j < 16; j++) {
        acc[j] = v_zero();
    }
    for (j = 0; j + 4 <= d->n; j += 4) {
        lp_delta_look(d, from + j * m, acc + j, per_channel, 4);
    }
    for (; j < d->n; j++) {
        lp_delta_look(d, from + j * m, acc + j, per_channel, 1);
    }
    v16 miss = v_sub(v_load_part(d->v, d->n), v_sum16(acc));
    v_store(delta, v_mul(miss, v_set1(d->beta)));
    for (j = 0; j + 4 <= d->n; j += 4) {
        lp_delta_move(d, to + j * m, from + j * m, delta + j, acc + j, per_channel, 4);
    }
    for (; j < d->n; j++) {
        lp_delta_move(d, to + j * m, from + j * m, delta + j, acc + j, per_channel, 1);
    }
    return v_mul(v_sum16(acc), v_set1(d->scale));
}

/* Where the vector of head h at token t of operand `src` lies, or its value. */
LP_INLINE const float *lp_vector(const struct lp_args *a, int src, int64_t h, int64_t t) {
    const struct lp_opnd *o = &a->n->src[src];
    return (const float *)(a->src[src] + h * o->nb[1] + t * o->nb[2]);
}
LP_INLINE float lp_scalar(const struct lp_args *a, int src, int64_t h, int64_t t) {
    float x;
    memcpy(&x, a->src[src] + h * a->n->src[src].nb[0] + t * a->n->src[src].nb[1], 4);
    return x;
}
LP_INLINE void lp_exp_of(float *out, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        v_store_part(out + i, v_exp(v_load_part(x + i, n - i)), n - i);
    }
}

/* All tokens of a run, rows [row, end) of head h. */
static void lp_delta_run(const struct lp_recur *c, const struct lp_seq *s, int64_t h, int64_t row,
                         int64_t end, float *decay) {
    const struct lp_args *a = c->a;
    const struct lp_opnd *state = &a->n->src[0];
    int64_t m = state->ne[0], hk = a->n->src[1].ne[1];
    int64_t hq = a->n->ip[LP_DELTA_TILED] ? h % hk : h / (state->ne[2] / hk);
    bool wide = lp_per_channel(&a->n->src[4], &a->n->src[3]);
    struct lp_state st =
        lp_state_of(c, s, state->nb[3], (h * state->ne[1] + row) * m * 4, (end - row) * m);
    struct lp_delta d = {.decay = decay, .scale = (float)a->n->fp[LP_DELTA_SCALE], .d_k = m};
    for (int64_t t = s->first; t < s->first + s->n; t++) {
        d.q = lp_vector(a, 1, hq, t);
        d.k = lp_vector(a, 2, hq, t);
        d.beta = lp_scalar(a, 5, h, t);
        if (wide) {
            lp_exp_of(decay, lp_vector(a, 4, h, t), m);
        } else {
            float g = lp_scalar(a, 4, h, t);
            lp_exp_of(decay, &g, 1);
        }
        float *out = (float *)(a->dst + h * a->n->dst.nb[1] + t * a->n->dst.nb[2]);
        for (int64_t r = row; r < end; r += 16) {
            d.n = end - r < 16 ? end - r : 16;
            d.v = lp_vector(a, 3, h, t) + r;
            float *to = st.to + (r - row) * m;
            const float *from = st.from + (r - row) * m;
            v16 o = wide ? lp_delta_token(&d, to, from, true) : lp_delta_token(&d, to, from, false);
            v_store_part(out + r, o, d.n);
        }
        st.from = st.to;
    }
}

/* scratch: d_k floats. */
int LP_FN(lp_gated_delta_net_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    const struct lp_opnd *state = &a->n->src[0];
    int64_t d_v = state->ne[1], blocks = (d_v + LP_SCAN_ROWS - 1) / LP_SCAN_ROWS, block;
    struct lp_recur c;
    struct lp_seq s;
    int status = lp_recur_open(&c, a, task, blocks * state->ne[2], a->n->src[1].ne[2], 3);
    while (!status && lp_recur_next(&c, &block, &s)) {
        int64_t row = block % blocks * LP_SCAN_ROWS;
        int64_t end = row + LP_SCAN_ROWS < d_v ? row + LP_SCAN_ROWS : d_v;
        lp_delta_run(&c, &s, block / blocks, row, end, scratch);
    }
    return status;
}
