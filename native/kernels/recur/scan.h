/* ssm_scan(state [d_state, d_head, n_head, n_cells], x [d_head, n_head, T], dt [n_head, T], A
 * [d_state or 1, n_head], B, C [d_state, n_group, T], runs). A row is one element of one head; its
 * state has d_state floats h. With d = softplus(dt) of its head, per token:
 *
 *   h[s] = fma(h[s], exp(d * A[s]), B[s] * (x * d)),   y = the canonical sum of fma(h[s], C[s])
 *
 * Head h looks at group h / (n_head / n_group) of B and C. A block is up to LP_SCAN_ROWS rows of
 * one group; groups are made of whole heads. */

/* Sixteen rows or less: where their operands begin, in bytes from a token's start. */
struct lp_scan {
    int64_t x[16], dt[16], row, n, d_state;
    const float *a[16];             /* A of the row's head: d_state values, or one */
    float d[16], xd[16], e[16];     /* of the current token: softplus(dt), x * d, exp(d * A) */
    float ahead_d[16], ahead_e[16]; /* of one head: d and e of the next tokens */
    bool per_state;                 /* A has a value for every element */
    bool line, dt_line, one_head;   /* x, or dt, of rows side by side; one dt for all rows */
};

static void lp_scan_rows(struct lp_scan *r, const struct lp_args *args, int64_t row, int64_t n) {
    const struct lp_opnd *x = &args->n->src[1], *dt = &args->n->src[2], *a = &args->n->src[3];
    r->row = row;
    r->n = n;
    r->d_state = args->n->src[0].ne[0];
    r->per_state = a->ne[0] > 1;
    r->line = r->dt_line = true;
    for (int64_t i = 0; i < n; i++) {
        int64_t head = (row + i) / x->ne[0], p = (row + i) % x->ne[0];
        r->x[i] = p * x->nb[0] + head * x->nb[1];
        r->dt[i] = head * dt->nb[0];
        r->a[i] = (const float *)(args->src[3] + head * a->nb[1]);
        r->line = r->line && r->x[i] == r->x[0] + 4 * i;
        r->dt_line = r->dt_line && r->dt[i] == r->dt[0] + 4 * i;
    }
    r->one_head = row / x->ne[0] == (row + n - 1) / x->ne[0];
}
LP_INLINE v16 lp_scan_gather(const char *from, const int64_t *at, int64_t n, bool line) {
    float x[16] = {0};
    if (line) {
        return v_load_part((const float *)(from + at[0]), n);
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(&x[i], from + at[i], 4);
    }
    return v_load(x);
}
/* d, xd, and e where A is one value. */
static void lp_scan_token(struct lp_scan *r, const char *x, const char *dt) {
    float as[16] = {0};
    v16 d = v_softplus(lp_scan_gather(dt, r->dt, r->n, r->dt_line));
    v_store(r->d, d);
    v_store(r->xd, v_mul(lp_scan_gather(x, r->x, r->n, r->line), d));
    if (!r->per_state) {
        for (int64_t i = 0; i < r->n; i++) {
            as[i] = r->a[i][0];
        }
        v_store(r->e, v_exp(v_mul(d, v_load(as))));
    }
}
/* The same of rows of one head: d and e of up to 16 tokens at once, nb bytes apart. */
static void lp_scan_ahead(struct lp_scan *r, const char *dt, int64_t nb, int64_t n_tokens) {
    float ds[16] = {0};
    for (int64_t t = 0; t < n_tokens && t < 16; t++) {
        memcpy(&ds[t], dt + r->dt[0] + t * nb, 4);
    }
    v16 d = v_softplus(v_load(ds));
    v_store(r->ahead_d, d);
    v_store(r->ahead_e, v_exp(v_mul(d, v_set1(r->a[0][0]))));
}
static void lp_scan_next(struct lp_scan *r, const char *x, int64_t t) {
    v16 d = v_set1(r->ahead_d[t]);
    v_store(r->d, d);
    v_store(r->xd, v_mul(lp_scan_gather(x, r->x, r->n, r->line), d));
    v_store(r->e, v_set1(r->ahead_e[t]));
}

/* n rows (a constant) from row i on, one token: their sums before the tree. */
LP_INLINE void lp_scan_step(const struct lp_scan *r, int64_t i, struct lp_state h, const float *b,
                            const float *c, v16 *acc, const bool per_state, const bool whole,
                            const int n) {
    int64_t k = r->d_state;
    v16 zero = v_zero(), sum[4], d[4] = {zero, zero, zero, zero}, xd[4] = {zero, zero, zero, zero};
    const float *a[4];
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
        sum[j] = v_zero();
        a[j] = r->a[i + j];
        d[j] = v_set1(per_state ? r->d[i + j] : r->e[i + j]);
        xd[j] = v_set1(r->xd[i + j]);
    }
    for (int64_t s = 0; s < k; s += 16) {
        int64_t left = whole ? 16 : k - s;
        v16 bs = v_load_part(b + s, left), cs = v_load_part(c + s, left);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            v16 e = per_state ? v_exp(v_mul(d[j], v_load_part(a[j] + s, left))) : d[j];
            v16 was = v_load_part(h.from + (i + j) * k + s, left);
            v16 is = v_fma(was, e, v_mul(bs, xd[j]));
            v_store_part(h.to + (i + j) * k + s, is, left);
            sum[j] = v_fma(is, cs, sum[j]);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
        acc[i + j] = sum[j];
    }
}
LP_INLINE void lp_scan_steps(const struct lp_scan *r, struct lp_state h, const float *b,
                             const float *c, v16 *acc, const bool per_state, const bool whole) {
    int64_t i = 0;
    for (; i + 4 <= r->n; i += 4) {
        lp_scan_step(r, i, h, b, c, acc, per_state, whole, 4);
    }
    for (; i < r->n; i++) {
        lp_scan_step(r, i, h, b, c, acc, per_state, whole, 1);
    }
}

/* One token: t of the node, `done` of its run are. */
LP_INLINE void lp_scan_at(struct lp_scan *r, const struct lp_args *a, int64_t t, int64_t done,
                          int64_t n_tokens) {
    const struct lp_node *n = a->n;
    const char *x = a->src[1] + t * n->src[1].nb[2], *dt = a->src[2] + t * n->src[2].nb[1];
    if (done + LP_SCAN_AHEAD < n_tokens) { /* tokens are pages apart */
        __builtin_prefetch(x + r->x[0] + LP_SCAN_AHEAD * n->src[1].nb[2]);
        __builtin_prefetch(a->dst + (t + LP_SCAN_AHEAD) * n->dst.nb[1] + r->row * 4, 1);
    }
    if (!r->one_head) {
        lp_scan_token(r, x, dt);
        return;
    }
    if (done % 16 == 0) {
        lp_scan_ahead(r, dt, n->src[2].nb[1], n_tokens - done);
    }
    lp_scan_next(r, x, done % 16);
}
LP_INLINE v16 lp_scan_sums(const struct lp_scan *r, struct lp_state h, const float *b,
                           const float *c) {
    v16 acc[16];
    for (int64_t i = r->n; i < 16; i++) {
        acc[i] = v_zero();
    }
    bool whole = r->d_state % 16 == 0;
    if (r->per_state && whole) {
        lp_scan_steps(r, h, b, c, acc, true, true);
    } else if (r->per_state) {
        lp_scan_steps(r, h, b, c, acc, true, false);
    } else if (whole) {
        lp_scan_steps(r, h, b, c, acc, false, true);
    } else {
        lp_scan_steps(r, h, b, c, acc, false, false);
    }
    return v_sum16(acc);
}
/* All tokens of a run, for up to LP_SCAN_ROWS rows from `row` on, whose group is g. */
static void lp_scan_run(const struct lp_recur *c, const struct lp_seq *s, int64_t row, int64_t rows,
                        int64_t g) {
    const struct lp_args *a = c->a;
    const struct lp_node *n = a->n;
    struct lp_scan r[LP_SCAN_ROWS / 16];
    for (int64_t i = 0; i < rows; i += 16) {
        lp_scan_rows(&r[i / 16], a, row + i, rows - i < 16 ? rows - i : 16);
    }
    int64_t k = n->src[0].ne[0];
    struct lp_state h = lp_state_of(c, s, n->src[0].nb[3], row * k * 4, rows * k);
    for (int64_t t = s->first; t < s->first + s->n; t++) {
        const float *b = (const float *)(a->src[4] + g * n->src[4].nb[1] + t * n->src[4].nb[2]);
        const float *cc = (const float *)(a->src[5] + g * n->src[5].nb[1] + t * n->src[5].nb[2]);
        float *y = (float *)(a->dst + t * n->dst.nb[1]) + row;
        for (int64_t i = 0; i < rows; i += 16) {
            struct lp_scan *p = &r[i / 16];
            struct lp_state part = {h.to + i * k, h.from + i * k};
            lp_scan_at(p, a, t, t - s->first, s->n);
            v_store_part(y + i, lp_scan_sums(p, part, b, cc), p->n);
        }
        h.from = h.to;
    }
}

int LP_FN(lp_ssm_scan_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    int64_t per_group = n->src[1].ne[0] * n->src[1].ne[1] / n->src[4].ne[1];
    int64_t blocks = (per_group + LP_SCAN_ROWS - 1) / LP_SCAN_ROWS, block;
    struct lp_recur c;
    struct lp_seq s;
    int status = lp_recur_open(&c, a, task, blocks * n->src[4].ne[1], n->src[1].ne[2], 3);
    while (!status && lp_recur_next(&c, &block, &s)) {
        int64_t g = block / blocks, first = block % blocks * LP_SCAN_ROWS;
        int64_t rows = per_group - first < LP_SCAN_ROWS ? per_group - first : LP_SCAN_ROWS;
        lp_scan_run(&c, &s, g * per_group + first, rows, g);
    }
    return status;
}
