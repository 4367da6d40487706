/* ssm_conv(state [(d_conv - 1) * dilation, n_ch, n_cells], x [n_ch, T], weight [d_conv, n_ch],
 * runs), parameter dilation (0: 1): a causal convolution along the tokens of each channel, y[t] =
 * fma over taps, oldest first, from 0, of weight[tap] * x[t - (d_conv - 1 - tap) * dilation].
 * Before a run's first token stands its state. A block is 16 channels. */

struct lp_conv {
    v16 weight[LP_CONV_TAPS], tap[LP_CONV_TAPS]; /* lane = channel; oldest first */
    int64_t d, n;                                /* taps of the weight; channels of the block */
};

/* lane[k][i] = rows[i][k], rows nb bytes apart; for sixteen rows side by side, `taps` is a constant
 * and the compiler knows what to do. */
LP_INLINE void lp_gather_lanes(float lane[][16], const char *rows, int64_t nb, int64_t taps,
                               int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < taps; k++) {
            memcpy(&lane[k][i], rows + i * nb + k * 4, 4);
        }
    }
}
LP_INLINE void lp_scatter_lanes(char *rows, int64_t nb, float lane[][16], int64_t taps, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < taps; k++) {
            memcpy(rows + i * nb + k * 4, &lane[k][i], 4);
        }
    }
}
/* out[k] lane i = rows[i][k] for n rows. */
static void lp_gather_taps(v16 *out, const char *rows, int64_t nb, int64_t taps, int64_t n) {
    float lane[LP_CONV_TAPS][16];
    bool whole = n == 16 && nb == taps * 4;
    if (whole && taps == 4) {
        lp_gather_lanes(lane, rows, 16, 4, 16);
    } else if (whole && taps == 3) {
        lp_gather_lanes(lane, rows, 12, 3, 16);
    } else {
        memset(lane, 0, sizeof lane);
        lp_gather_lanes(lane, rows, nb, taps, n);
    }
    for (int64_t k = 0; k < taps; k++) {
        out[k] = v_load(lane[k]);
    }
}
static void lp_scatter_taps(char *rows, int64_t nb, const v16 *tap, int64_t taps, int64_t n) {
    float lane[LP_CONV_TAPS][16];
    for (int64_t k = 0; k < taps; k++) {
        v_store(lane[k], tap[k]);
    }
    if (n == 16 && nb == 12 && taps == 3) {
        lp_scatter_lanes(rows, 12, lane, 3, 16);
    } else {
        lp_scatter_lanes(rows, nb, lane, taps, n);
    }
}

/* The tokens of a run, in and out: rows of its channels. tap: those before, then those at the end.
 */
LP_INLINE void lp_conv_run(struct lp_conv *c, char *out, int64_t out_nb, const char *in,
                           int64_t in_nb, int64_t n_tokens, const int64_t d, const int64_t step) {
    const int64_t seen = lp_conv_seen(d, step);
    v16 w[LP_CONV_TAPS], x[LP_CONV_TAPS];
#pragma GCC unroll 4
    for (int64_t k = 0; k < d; k++) {
        w[k] = c->weight[k];
    }
#pragma GCC unroll 4
    for (int64_t k = 0; k < seen; k++) {
        x[k] = c->tap[k];
    }
    for (int64_t t = 0; t < n_tokens; t++) {
        v16 acc = v_zero();
        x[seen - 1] = v_load_part((const float *)(in + t * in_nb), c->n);
#pragma GCC unroll 4
        for (int64_t k = 0; k < d; k++) {
            acc = v_fma(x[k * step], w[k], acc);
        }
        v_store_part((float *)(out + t * out_nb), acc, c->n);
#pragma GCC unroll 4
        for (int64_t k = 0; k + 1 < seen; k++) {
            x[k] = x[k + 1];
        }
    }
#pragma GCC unroll 4
    for (int64_t k = 0; k + 1 < seen; k++) {
        c->tap[k] = x[k];
    }
}

int LP_FN(lp_ssm_conv_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    const struct lp_opnd *x = &n->src[1], *w = &n->src[2], *state = &n->src[0];
    struct lp_recur c;
    struct lp_conv v = {.d = w->ne[0]};
    struct lp_seq s;
    int64_t n_ch = x->ne[0], block, open = -1, step = lp_conv_step(n);
    int status = lp_recur_open(&c, a, task, (n_ch + 15) / 16, x->ne[1], 2);
    while (!status && lp_recur_next(&c, &block, &s)) {
        int64_t ch = block * 16, taps = lp_conv_seen(v.d, step) - 1;
        v.n = n_ch - ch < 16 ? n_ch - ch : 16;
        if (block != open) {
            lp_gather_taps(v.weight, a->src[2] + ch * w->nb[1], w->nb[1], v.d, v.n);
            open = block;
        }
        char *cells = (char *)(uintptr_t)a->src[0] + ch * state->nb[1];
        for (int64_t k = 0; k <= taps; k++) {
            v.tap[k] = v_zero();
        }
        if (s.read >= 0) {
            lp_gather_taps(v.tap, cells + s.read * state->nb[2], state->nb[1], taps, v.n);
        }
        const char *in = a->src[1] + s.first * x->nb[1] + ch * 4;
        char *out = a->dst + s.first * n->dst.nb[1] + ch * 4;
        if (v.d == 4 && step == 1) {
            lp_conv_run(&v, out, n->dst.nb[1], in, x->nb[1], s.n, 4, 1);
        } else if (v.d == 3 && step == 1) {
            lp_conv_run(&v, out, n->dst.nb[1], in, x->nb[1], s.n, 3, 1);
        } else {
            lp_conv_run(&v, out, n->dst.nb[1], in, x->nb[1], s.n, v.d, step);
        }
        lp_scatter_taps(cells + s.write * state->nb[2], state->nb[1], v.tap, taps, v.n);
    }
    return status;
}
