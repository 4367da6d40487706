/* What the ops share whose state is a matrix per head, [d_k, d_v, n_head, n_cells]: a row is one
 * element of v of one head, and has d_k floats S. A block is up to LP_SCAN_ROWS rows of one head.
 *
 * Vectors along d_k are the same for all rows of a head; sums along d_k are canonical. */

/* One token of one head; what an op does not have is NULL. decay and so on: d_k floats. */
struct lp_token {
    const float *q, *k, *v, *decay, *a, *b, *bonus;
    float beta, scale;
    int64_t d_k, n; /* rows at hand, up to 16: v is of the first */
};

/* n rows (a constant, up to 4), m = d_k floats each (`whole`, a constant: whole vectors), those
 * before at `from`, those after at `to`, x[j] and x[16 + j] beside row j: sum[j] is 0 and becomes
 * the accumulators of a sum. */
typedef void (*lp_rows_fn)(const struct lp_token *d, float *to, const float *from, const float *x,
                           v16 *sum, int64_t m, const int n, const bool whole);

/* Before a loop, not in it: a store may change what x or d point to, for all the compiler knows. */
LP_INLINE void lp_spread(v16 *out, const float *x, const int n) {
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
        out[j] = v_set1(x[j]);
    }
}
LP_INLINE void lp_some_rows(lp_rows_fn f, const struct lp_token *d, float *to, const float *from,
                            const float *x, v16 *acc, const int n, const bool whole) {
    v16 sum[4];
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
        sum[j] = v_zero();
    }
    f(d, to, from, x, sum, d->d_k, n, whole);
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
        acc[j] = sum[j];
    }
}
LP_INLINE void lp_every_row(lp_rows_fn f, const struct lp_token *d, float *to, const float *from,
                            const float *x, v16 *acc, const bool whole) {
    int64_t j = 0, m = d->d_k;
    for (; j + 4 <= d->n; j += 4) {
        lp_some_rows(f, d, to + j * m, from + j * m, x + j, acc + j, 4, whole);
    }
    for (; j < d->n; j++) {
        lp_some_rows(f, d, to + j * m, from + j * m, x + j, acc + j, 1, whole);
    }
}
/* Lane j of the result is the sum of row j; 0 from d->n on. */
LP_INLINE v16 lp_all_rows(lp_rows_fn f, const struct lp_token *d, float *to, const float *from,
                          const float *x) {
    v16 acc[16];
    if (d->d_k % 16 == 0) {
        lp_every_row(f, d, to, from, x, acc, true);
    } else {
        lp_every_row(f, d, to, from, x, acc, false);
    }
    int64_t j = d->n;
    for (; j < 16; j++) {
        acc[j] = v_zero();
    }
    return v_sum16(acc);
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
LP_INLINE void lp_fill(float *out, float x, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        v_store_part(out + i, v_set1(x), n - i);
    }
}

/* Sets d for head h at token t; `own`: scratch for two vectors that have to be made. */
typedef void (*lp_open_fn)(struct lp_token *d, const struct lp_args *a, int64_t h, int64_t t,
                           float *own);
/* Changes d->n rows and gives their outputs. */
typedef v16 (*lp_step_fn)(const struct lp_token *d, float *to, const float *from);

/* The next tokens lie pages apart, which no processor foresees: n floats of operand x. */
LP_INLINE void lp_fetch(const float *at, const struct lp_opnd *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        __builtin_prefetch((const char *)(at + i) + LP_SCAN_AHEAD * x->nb[2]);
    }
}
/* All tokens of a run, rows [row, end) of head h. */
LP_INLINE void lp_heads_run(const struct lp_recur *c, const struct lp_seq *s, int64_t h,
                            int64_t row, int64_t end, float *own, lp_open_fn open,
                            lp_step_fn step) {
    const struct lp_args *a = c->a;
    const struct lp_opnd *state = &a->n->src[0];
    int64_t m = state->ne[0];
    struct lp_state st =
        lp_state_of(c, s, state->nb[3], (h * state->ne[1] + row) * m * 4, (end - row) * m);
    for (int64_t t = s->first; t < s->first + s->n; t++) {
        struct lp_token d = {.d_k = m};
        float *out = (float *)(a->dst + h * a->n->dst.nb[1] + t * a->n->dst.nb[2]);
        open(&d, a, h, t, own);
        const float *v = d.v;
        if (t + LP_SCAN_AHEAD < s->first + s->n) {
            const struct lp_opnd *src = a->n->src;
            lp_fetch(d.q, &src[1], m);
            lp_fetch(d.k, &src[2], m);
            lp_fetch(v + row, &src[3], end - row);
            lp_fetch(out + row, &a->n->dst, end - row);
        }
        for (int64_t r = row; r < end; r += 16) {
            d.n = end - r < 16 ? end - r : 16;
            d.v = v + r;
            v16 o = step(&d, st.to + (r - row) * m, st.from + (r - row) * m);
            v_store_part(out + r, o, d.n);
        }
        st.from = st.to;
    }
}
/* A kernel: scratch holds two vectors. */
LP_INLINE int lp_heads(const struct lp_args *a, int64_t task, void *scratch, lp_open_fn open,
                       lp_step_fn step) {
    const struct lp_opnd *state = &a->n->src[0];
    int64_t d_v = state->ne[1], blocks = (d_v + LP_SCAN_ROWS - 1) / LP_SCAN_ROWS, block;
    struct lp_recur c;
    struct lp_seq s;
    int status = lp_recur_open(&c, a, task, blocks * state->ne[2], a->n->dst.ne[2], 3);
    while (!status && lp_recur_next(&c, &block, &s)) {
        int64_t row = block % blocks * LP_SCAN_ROWS;
        int64_t end = row + LP_SCAN_ROWS < d_v ? row + LP_SCAN_ROWS : d_v;
        lp_heads_run(&c, &s, block / blocks, row, end, scratch, open, step);
    }
    return status;
}
