/* softmax(q K^T) V without the matrix of scores, in tiles (ARCHITECTURE.md, "Attention without
 * masks"; the online softmax of Milakov and Gimelshein 2018, tiled as in Dao et al. 2022).
 *
 * q f32 [dk, n_head, n_tokens]; K [dk, n_head_kv, n_cells] and V [dv, ...], each of any type that a
 * cache may have (widen.h), axis 0 without gaps; idx i32 [n_places, n_lists]; range i32 [4,
 * n_tokens]; sinks f32 [n_head]; bias f32 [n_head, 2 reach + 1], by distance in places: see tile.h.
 * flash_attn: a task is a block of rows of one kv head. flash_attn_quant and flash_attn_merge_quant
 * store X8 as quant_act of the result would; heads are whole groups of it.
 * flash_attn_part: a range of tiles of one kv head; per (token, head, tile) it writes o[dv], m, l,
 * with o = 0, m = -inf, l = 0 where nothing is seen. flash_attn_merge skips a part with l = 0 (a
 * tile that is seen has p = 1 somewhere, or NaN).
 */

/* The queries of n rows, widened with zeros to dk_pad, and what they see. */
static int lp_open_rows(struct lp_attn *t, int64_t kv_head, int64_t r0, int64_t n) {
    const struct lp_opnd *q = &t->args->n->src[LP_Q];
    for (int64_t i = 0; i < n; i++) {
        const char *row = t->args->src[LP_Q] + lp_attn_head(t, kv_head, r0 + i) * q->nb[1] +
                          lp_attn_token(t, r0 + i) * q->nb[2];
        lp_widen_floats(t->q + i * t->dk_pad, row, t->dk, LP_T_F32);
    }
    /* Rows that fill up the last register block. */
    memset(t->q + n * t->dk_pad, 0, (size_t)(LP_BLOCK * t->dk_pad) * 4);
    return lp_attn_rows(t, kv_head, r0, n);
}

/* M' = max(M, m); a = exp(M - M'), 0 for M = -inf; b = exp(m - M'); L = fma(L, a, l * b). */
LP_INLINE void lp_merge_sums(v16 m, v16 l, v16 *M, v16 *L, v16 *a, v16 *b) {
    v16 top = v_max(*M, m);
    *a = v_sel(v_eq(*M, v_set1(-V_INF)), v_zero(), v_exp(v_sub(*M, top)));
    *b = v_exp(v_sub(m, top));
    *M = top;
    *L = v_fma(*L, *a, v_mul(l, *b));
}
LP_INLINE void lp_merge_row(float *sum, const float *o, float a, float b, int64_t n) {
    v16 av = v_set1(a), bv = v_set1(b);
    for (int64_t d = 0; d < n; d += 16) {
        v16 part = v_mul(v_load_part(o + d, n - d), bv);
        v_store_part(sum + d, v_fma(v_load_part(sum + d, n - d), av, part), n - d);
    }
}

/* Merge the tile of rows [r0, r1) into sum, M, L. */
static void lp_merge_tile(struct lp_attn *t, int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; r += 16) {
        v16 m = v_load_part(t->m + r, r1 - r), l = v_load_part(t->l + r, r1 - r);
        v16 M = v_load(t->M + r), L = v_load(t->L + r), a, b, M0 = M, L0 = L;
        lp_merge_sums(m, l, &M, &L, &a, &b);
        m16 none = v_eq(l, v_zero());
        v_store(t->M + r, v_sel(none, M0, M));
        v_store(t->L + r, v_sel(none, L0, L));
        v_store(t->a + r, a);
        v_store(t->b + r, b);
    }
    for (int64_t r = r0; r < r1; r++) {
        if (t->l[r] != 0.0f) {
            lp_merge_row(t->sum + r * t->dv_pad, t->o + r * t->dv_pad, t->a[r], t->b[r], t->dv_pad);
        }
    }
}

/* The sink joins as a tile with m = sink, l = 1, o = 0; then sum / L, 0 for L = 0, in place. */
static void lp_finish_row(float *sum, float M, float L, const float *sink, int64_t n) {
    v16 a = v_set1(1.0f), total = v_set1(L);
    if (sink) {
        v16 top = v_set1(M), b;
        lp_merge_sums(v_set1(*sink), v_set1(1.0f), &top, &total, &a, &b);
    }
    m16 none = v_eq(total, v_zero());
    for (int64_t d = 0; d < n; d += 16) {
        v16 x = v_load_part(sum + d, n - d);
        if (sink) {
            x = v_fma(x, a, v_zero());
        }
        v_store_part(sum + d, v_sel(none, v_zero(), v_div(x, total)), n - d);
    }
}

/* A finished row of n is that of a head in the result. */
static void lp_put_row(const struct lp_args *args, int64_t token, int64_t head, const float *row,
                       int64_t n) {
    const struct lp_opnd *dst = &args->n->dst;
    char *out = args->dst + token * dst->nb[1];
    if (dst->type != LP_X8_TYPE) {
        memcpy(out + head * n * 4, row, (size_t)n * 4);
        return;
    }
    for (int64_t d = 0; d < n; d += LP_X8_GROUP) {
        lp_x8_group(out, dst->ne[0], (head * n + d) / LP_X8_GROUP, v_load(row + d),
                    v_load(row + d + 16));
    }
}

/* Write the parts of a tile's rows; row 0 of the block is row r0 of the kv head. */
static void lp_write_parts(const struct lp_attn *t, const struct lp_tile *e, int64_t kv_head,
                           int64_t r0) {
    const struct lp_opnd *dst = &t->args->n->dst;
    for (int64_t r = e->r0; r < e->r1; r++) {
        char *at = t->args->dst + e->index * dst->nb[1] +
                   lp_attn_head(t, kv_head, r0 + r) * dst->nb[2] +
                   lp_attn_token(t, r0 + r) * dst->nb[3];
        float *out = (float *)(void *)at;
        if (t->l[r] != 0.0f) {
            memcpy(out, t->o + r * t->dv_pad, (size_t)t->dv * 4);
        } else {
            memset(out, 0, (size_t)t->dv * 4);
        }
        out[t->dv] = t->m[r];
        out[t->dv + 1] = t->l[r];
    }
}

/* The tiles of a walk: merged, or, where it is of `every` one, each written as a part. Row 0 of the
 * block is row r0 of the kv head. */
static int lp_attend(struct lp_attn *t, struct lp_walk w, int64_t r0) {
    struct lp_tile tiles[2];
    int status = lp_next_tile(&w, t, &tiles[0]);
    for (int i = 0; !status && tiles[i].r0 < tiles[i].r1; i ^= 1) {
        status = lp_next_tile(&w, t, &tiles[i ^ 1]);
        if (status) {
            break;
        }
        int seen = lp_tile_run(t, &tiles[i], &tiles[i ^ 1]);
        if (w.every) {
            lp_write_parts(t, &tiles[i], w.kv_head, r0);
        } else if (seen) {
            lp_merge_tile(t, tiles[i].r0, tiles[i].r1);
        }
    }
    return status;
}

int LP_FN(lp_flash_attn_kv_kv)(const struct lp_args *args, int64_t task, void *scratch) {
    struct lp_attn t;
    const struct lp_node *n = args->n;
    int status = lp_attn_open(&t, n, scratch);
    t.args = args;
    if (status) {
        return status;
    }
    int64_t blocks = n->n_tasks / t.n_head_kv, kv_head = task / blocks, block = task % blocks;
    int64_t r0 = t.n_rows * block / blocks, rows = t.n_rows * (block + 1) / blocks - r0;
    status = lp_open_rows(&t, kv_head, r0, rows);
    memset(t.sum, 0, (size_t)(rows * t.dv_pad) * 4);
    for (int64_t r = 0; r < LP_ROWS + LP_PAD; r++) {
        t.M[r] = -V_INF, t.L[r] = 0.0f;
    }
    if (!status) {
        status = lp_attend(&t, (struct lp_walk){.kv_head = kv_head, .n_rows = rows}, r0);
    }
    for (int64_t r = 0; !status && r < rows; r++) {
        int64_t head = lp_attn_head(&t, kv_head, r0 + r), token = lp_attn_token(&t, r0 + r);
        float *sum = t.sum + r * t.dv_pad;
        const float *sinks = t.sinks ? (const float *)args->src[t.sinks] : NULL;
        lp_finish_row(sum, t.M[r], t.L[r], sinks ? sinks + head : NULL, t.dv);
        lp_put_row(args, token, head, sum, t.dv);
    }
    return status;
}
int LP_FN(lp_flash_attn_quant_kv_kv)(const struct lp_args *args, int64_t task, void *scratch) {
    return LP_FN(lp_flash_attn_kv_kv)(args, task, scratch);
}

int LP_FN(lp_flash_attn_part_kv_kv)(const struct lp_args *args, int64_t task, void *scratch) {
    struct lp_attn t;
    const struct lp_node *n = args->n;
    int status = lp_attn_open(&t, n, scratch);
    t.args = args;
    if (status) {
        return status;
    }
    int64_t chunks = n->n_tasks / t.n_head_kv;
    int64_t kv_head = task % t.n_head_kv, chunk = task / t.n_head_kv;
    int64_t from = t.n_tiles * chunk / chunks, to = t.n_tiles * (chunk + 1) / chunks;
    for (int64_t r0 = 0; !status && r0 < t.n_rows; r0 += LP_ROWS) {
        int64_t rows = t.n_rows - r0 < LP_ROWS ? t.n_rows - r0 : LP_ROWS;
        status = lp_open_rows(&t, kv_head, r0, rows);
        if (!status) {
            status = lp_attend(&t, (struct lp_walk){kv_head, rows, from, to, .every = 1}, r0);
        }
    }
    return status;
}

int LP_FN(lp_flash_attn_merge_f32_f32)(const struct lp_args *args, int64_t task, void *scratch) {
    const struct lp_node *n = args->n;
    const struct lp_opnd *parts = &n->src[0];
    int64_t dv = parts->ne[0] - 2, n_tiles = parts->ne[1], n_head = parts->ne[2];
    int64_t rows = n_head * parts->ne[3], end = rows * (task + 1) / n->n_tasks;
    const float *sinks = n->n_src > 1 ? (const float *)args->src[1] : NULL;
    float *sum = scratch;
    for (int64_t r = rows * task / n->n_tasks; r < end; r++) {
        int64_t head = r % n_head, token = r / n_head;
        const char *part = args->src[0] + head * parts->nb[2] + token * parts->nb[3];
        v16 M = v_set1(-V_INF), L = v_zero(), a, b;
        memset(sum, 0, (size_t)dv * 4);
        for (int64_t i = 0; i < n_tiles; i++, part += parts->nb[1]) {
            const float *o = (const float *)part;
            if (o[dv + 1] == 0.0f) {
                continue;
            }
            lp_merge_sums(v_set1(o[dv]), v_set1(o[dv + 1]), &M, &L, &a, &b);
            float first[2][16];
            v_store(first[0], a);
            v_store(first[1], b);
            lp_merge_row(sum, o, first[0][0], first[1][0], dv);
        }
        float last[2][16];
        v_store(last[0], M);
        v_store(last[1], L);
        lp_finish_row(sum, last[0][0], last[1][0], sinks ? sinks + head : NULL, dv);
        lp_put_row(args, token, head, sum, dv);
    }
    return LP_OK;
}
int LP_FN(lp_flash_attn_merge_quant_x8_f32)(const struct lp_args *args, int64_t task,
                                            void *scratch) {
    return LP_FN(lp_flash_attn_merge_f32_f32)(args, task, scratch);
}
