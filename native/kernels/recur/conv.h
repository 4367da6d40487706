/* ssm_conv(state [d_conv - 1, n_ch, n_cells], x [n_ch, T], weight [d_conv, n_ch], runs): a causal
 * convolution along the tokens of each channel, y[t] = fma over taps, oldest first, from 0, of
 * weight[tap] * x[t - (d_conv - 1) + tap]. Before a run's first token stands its state. A block is
 * 16 channels. */

struct lp_conv {
    v16 weight[LP_CONV_TAPS], tap[LP_CONV_TAPS]; /* lane = channel; taps: oldest first */
    int64_t d, n;                                /* taps of the weight; channels of the block */
};

/* out[k] lane i = rows[i][k], rows `nb` bytes apart. */
LP_INLINE void lp_gather_taps(v16 *out, const char *rows, int64_t nb, int64_t taps, int64_t n) {
    float lane[16] = {0};
    for (int64_t k = 0; k < taps; k++) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(&lane[i], rows + i * nb + k * 4, 4);
        }
        out[k] = v_load(lane);
    }
}
LP_INLINE void lp_scatter_taps(char *rows, int64_t nb, const v16 *tap, int64_t taps, int64_t n) {
    float lane[16];
    for (int64_t k = 0; k < taps; k++) {
        v_store(lane, tap[k]);
        for (int64_t i = 0; i < n; i++) {
            memcpy(rows + i * nb + k * 4, &lane[i], 4);
        }
    }
}

/* Token t of a run, x and its channels at x, the run's tokens nb bytes apart. */
LP_INLINE v16 lp_conv_at(const struct lp_conv *c, const char *x, int64_t nb, int64_t t) {
    v16 acc = v_zero();
    for (int64_t k = 0; k < c->d; k++) {
        int64_t at = t - (c->d - 1) + k;
        v16 in = at < 0 ? c->tap[t + k] : v_load_part((const float *)(x + at * nb), c->n);
        acc = v_fma(in, c->weight[k], acc);
    }
    return acc;
}

int LP_FN(lp_ssm_conv_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    const struct lp_opnd *x = &n->src[1], *w = &n->src[2], *state = &n->src[0];
    struct lp_recur c;
    struct lp_conv v = {.d = w->ne[0]};
    struct lp_seq s;
    int64_t n_ch = x->ne[0], block, open = -1;
    int status = lp_recur_open(&c, a, task, (n_ch + 15) / 16, x->ne[1], 2);
    while (!status && lp_recur_next(&c, &block, &s)) {
        int64_t ch = block * 16, taps = v.d - 1;
        v.n = n_ch - ch < 16 ? n_ch - ch : 16;
        if (block != open) {
            lp_gather_taps(v.weight, a->src[2] + ch * w->nb[1], w->nb[1], v.d, v.n);
            open = block;
        }
        char *cells = (char *)(uintptr_t)a->src[0] + ch * state->nb[1];
        for (int64_t k = 0; k < taps; k++) {
            v.tap[k] = v_zero();
        }
        if (s.read >= 0) {
            lp_gather_taps(v.tap, cells + s.read * state->nb[2], state->nb[1], taps, v.n);
        }
        const char *in = a->src[1] + s.first * x->nb[1] + ch * 4;
        char *out = a->dst + s.first * n->dst.nb[1] + ch * 4;
        for (int64_t t = 0; t < s.n; t++) {
            v_store_part((float *)(out + t * n->dst.nb[1]), lp_conv_at(&v, in, x->nb[1], t), v.n);
        }
        for (int64_t k = 0; k < taps; k++) { /* a tap is moved before its place is taken */
            int64_t at = s.n - taps + k;
            v.tap[k] =
                at < 0 ? v.tap[s.n + k] : v_load_part((const float *)(in + at * x->nb[1]), v.n);
        }
        lp_scatter_taps(cells + s.write * state->nb[2], state->nb[1], v.tap, taps, v.n);
    }
    return status;
}
