/* Rotary position embedding. x, dst [width, n_head, n_tokens, n3] f32; pos i32 [n_tokens], or
 * [4 n_tokens] in planes (time, height, width, extra) for MROPE, IMROPE and VISION. Of each pair
 * (a, b) of a head: a' = fma(b, -sin, a * cos), b' = fma(a, sin, b * cos); elements beyond the
 * rotated ones are copied. dst may be x. A task owns whole tokens. The rows of cos and sin come
 * from rope_table.c: rope makes them as it goes, rope_apply finds them in a table [row, n_tokens].
 */

/* Pairs (i, i + n): halves. */
LP_INLINE void lp_rope_halves(float *y, const float *x, const float *row, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        int64_t m = n - i;
        v16 c = v_load_part(row + i, m), s = v_load_part(row + n + i, m);
        v16 a = v_load_part(x + i, m), b = v_load_part(x + n + i, m);
        v_store_part(y + i, v_fnma(b, s, v_mul(a, c)), m);
        v_store_part(y + n + i, v_fma(a, s, v_mul(b, c)), m);
    }
}

/* Pairs (2i, 2i + 1), n elements. */
LP_INLINE void lp_rope_adjacent(float *y, const float *x, const float *row, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v_load_part(x + i, n - i), straight = v_mul(v, v_load_part(row + i, n - i));
        v16 turned = v_fma(v_swap_pairs(v), v_load_part(row + n + i, n - i), straight);
        v_store_part(y + i, turned, n - i);
    }
}

/* One head of `width`. */
LP_INLINE void lp_rope_head(float *y, const float *x, int64_t width, const float *row, int64_t mode,
                            int64_t n_pairs) {
    if (mode == LP_ROPE_NORMAL) {
        lp_rope_adjacent(y, x, row, 2 * n_pairs);
    } else {
        lp_rope_halves(y, x, row, n_pairs);
    }
    if (y != x && width > 2 * n_pairs) {
        memmove(y + 2 * n_pairs, x + 2 * n_pairs, (size_t)(width - 2 * n_pairs) * 4);
    }
}
/* All heads of the token at idx. */
static void lp_rope_heads(const struct lp_args *a, int64_t *idx, const float *row, int64_t mode,
                          int64_t n_pairs) {
    const struct lp_node *n = a->n;
    for (idx[1] = 0; idx[1] < n->dst.ne[1]; idx[1]++) {
        const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], idx));
        float *y = (float *)(a->dst + lp_row_offs(&n->dst, idx));
        lp_rope_head(y, x, n->dst.ne[0], row, mode, n_pairs);
    }
}

int LP_FN(lp_rope_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    const struct lp_node *n = a->n;
    struct lp_rope r;
    int status = lp_rope_open(&r, a, 2, scratch);
    if (status) {
        return status;
    }
    float *row = (float *)(r.freqs + r.n_pairs);
    int64_t n_tokens = n->dst.ne[2], total = n_tokens * n->dst.ne[3];
    int64_t end = total * (task + 1) / n->n_tasks;
    for (int64_t t = total * task / n->n_tasks; t < end; t++) {
        int64_t idx[4] = {0, 0, t % n_tokens, t / n_tokens};
        lp_rope_fill(&r, row, a->src[1], &n->src[1], idx[2], n_tokens);
        lp_rope_heads(a, idx, row, r.mode, r.n_pairs);
    }
    return LP_OK;
}

int LP_FN(lp_rope_apply_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    const struct lp_opnd *table = &n->src[1];
    int64_t mode = n->ip[0], n_pairs = table->ne[0] / lp_rope_row(mode, 1);
    int64_t n_tokens = n->dst.ne[2], total = n_tokens * n->dst.ne[3];
    if (2 * n_pairs > n->dst.ne[0] || n_tokens > table->ne[1]) {
        return LP_E_TYPES;
    }
    int64_t end = total * (task + 1) / n->n_tasks;
    for (int64_t t = total * task / n->n_tasks; t < end; t++) {
        int64_t idx[4] = {0, 0, t % n_tokens, t / n_tokens};
        const float *row = (const float *)(a->src[1] + idx[2] * table->nb[1]);
        lp_rope_heads(a, idx, row, mode, n_pairs);
    }
    return LP_OK;
}

/* rope_apply of src 1 [width, n_head, n_tokens] by table src 3, stored in rows ids[token], src 2,
 * of the cache, src 0 and dst, [width, n_cells, n_head]. */
LP_INLINE int lp_rope_set_rows(const struct lp_args *a, int64_t task, float *turned, int to) {
    const struct lp_node *n = a->n;
    const struct lp_opnd *x = &n->src[1], *table = &n->src[3];
    int64_t mode = n->ip[0], n_pairs = table->ne[0] / lp_rope_row(mode, 1), n_tokens = x->ne[2];
    if (2 * n_pairs > x->ne[0] || n_tokens > table->ne[1] || n_tokens > n->src[2].ne[0] ||
        x->ne[0] != n->dst.ne[0] || x->ne[1] > n->dst.ne[2]) {
        return LP_E_TYPES;
    }
    int64_t end = n_tokens * (task + 1) / n->n_tasks;
    for (int64_t t = n_tokens * task / n->n_tasks; t < end; t++) {
        const float *row = (const float *)(a->src[3] + t * table->nb[1]);
        int32_t id;
        memcpy(&id, a->src[2] + t * n->src[2].nb[0], 4);
        if (id < 0 || id >= n->dst.ne[1]) {
            return LP_E_INDEX;
        }
        for (int64_t h = 0; h < x->ne[1]; h++) {
            const char *head = a->src[1] + h * x->nb[1] + t * x->nb[2];
            char *dst = a->dst + id * n->dst.nb[1] + h * n->dst.nb[2];
            lp_rope_head(turned, (const float *)head, x->ne[0], row, mode, n_pairs);
            lp_copy_run(dst, to, (const char *)turned, LP_T_F32, x->ne[0]);
        }
    }
    return LP_OK;
}
int LP_FN(lp_rope_set_rows_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    return lp_rope_set_rows(a, task, scratch, LP_T_F32);
}
int LP_FN(lp_rope_set_rows_f16_f32)(const struct lp_args *a, int64_t task, void *scratch) {
    return lp_rope_set_rows(a, task, scratch, LP_T_F16);
}
