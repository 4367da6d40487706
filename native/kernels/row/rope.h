/* Rotary position embedding. x, dst [width, n_head, n_tokens, n3] f32; pos i32 [n_tokens], or
 * [4 n_tokens] in planes (time, height, width, extra) for MROPE, IMROPE and VISION. Of each pair
 * (a, b) of a head: a' = fma(b, -sin, a * cos), b' = fma(a, sin, b * cos); elements beyond the
 * rotated ones are copied. dst may be x. A task owns whole tokens; cos and sin come from
 * rope_table.c. */

/* Pairs (i, i + n): halves. */
LP_INLINE void lp_rope_halves(const struct lp_rope *r, float *y, const float *x) {
    int64_t n = r->n_pairs;
    for (int64_t i = 0; i < n; i += 16) {
        int64_t m = n - i;
        v16 c = v_load_part(r->cos + i, m), s = v_load_part(r->sin + i, m);
        v16 a = v_load_part(x + i, m), b = v_load_part(x + n + i, m);
        v_store_part(y + i, v_fnma(b, s, v_mul(a, c)), m);
        v_store_part(y + n + i, v_fma(a, s, v_mul(b, c)), m);
    }
}

/* Pairs (2i, 2i + 1): the table spread to both lanes of a pair, once per token, with the sine's
 * sign. */
static void lp_rope_spread(const struct lp_rope *r, float *c, float *s) {
    for (int64_t i = 0; i < r->n_pairs; i++) {
        c[2 * i] = c[2 * i + 1] = r->cos[i];
        s[2 * i] = -r->sin[i];
        s[2 * i + 1] = r->sin[i];
    }
}
LP_INLINE void lp_rope_adjacent(const struct lp_rope *r, float *y, const float *x, const float *c,
                                const float *s) {
    int64_t n = 2 * r->n_pairs;
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v_load_part(x + i, n - i), straight = v_mul(v, v_load_part(c + i, n - i));
        v16 turned = v_fma(v_swap_pairs(v), v_load_part(s + i, n - i), straight);
        v_store_part(y + i, turned, n - i);
    }
}

int LP_FN(lp_rope_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    const struct lp_node *n = a->n;
    struct lp_rope r;
    int status = lp_rope_open(&r, a, scratch);
    if (status) {
        return status;
    }
    int64_t width = n->dst.ne[0], done = 2 * r.n_pairs, n_tokens = n->dst.ne[2];
    int64_t total = n_tokens * n->dst.ne[3], end = total * (task + 1) / n->n_tasks;
    for (int64_t t = total * task / n->n_tasks; t < end; t++) {
        int64_t idx[4] = {0, 0, t % n_tokens, t / n_tokens};
        int32_t pos[4] = {0, 0, 0, 0};
        for (int k = 0; k < (r.mode >= LP_ROPE_MROPE ? 4 : 1); k++) {
            memcpy(&pos[k], a->src[1] + (idx[2] + k * n_tokens) * n->src[1].nb[0], 4);
        }
        lp_rope_fill(&r, pos);
        if (r.mode == LP_ROPE_NORMAL) {
            lp_rope_spread(&r, r.spread, r.spread + done);
        }
        for (idx[1] = 0; idx[1] < n->dst.ne[1]; idx[1]++) {
            const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], idx));
            float *y = (float *)(a->dst + lp_row_offs(&n->dst, idx));
            if (r.mode == LP_ROPE_NORMAL) {
                lp_rope_adjacent(&r, y, x, r.spread, r.spread + done);
            } else {
                lp_rope_halves(&r, y, x);
            }
            if (y != x && width > done) {
                memmove(y + done, x + done, (size_t)(width - done) * 4);
            }
        }
    }
    return LP_OK;
}
