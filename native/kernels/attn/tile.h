/* One tile: 64 places of one list for up to LP_ROWS rows of one kv head.
 *
 * Per row: s[j] = dot(q, k[j]) (16 accumulators along the head by fma, canonical tree, head padded
 * with zeros) * scale; then cap * tanh(s / cap); then fma(slope, -|j - own|, s); then s +
 * bias[head][j - own], a distance beyond the table's reach taking its outermost value. m = max over
 * visible j in the order of four registers of 16, then the tree; p[j] = exp(s[j] - m); l =
 * canonical sum of p; o[d] = fma over visible j in order of p[j] * v[j][d] from 0.
 *
 * Few rows read K and V of f32 and f16 where they lie (decode is bound by reading them); more rows
 * pay for a tile that is widened to f32 once, K transposed so that a lane is a key and the tree
 * needs no shuffles. Other types are widened in any case, once for all rows.
 */

static const int32_t lp_lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* What a tile is made of. Places are counted from its start. */
struct lp_tile {
    int64_t start;               /* place 0 in the list */
    int from, to;                /* places that some row may see */
    int n_runs, run[LP_TILE][2]; /* stretches of places with a cell */
    int before[LP_TILE + 1];     /* places with a cell below j */
    int32_t present[LP_TILE];
    const char *k[LP_TILE], *v[LP_TILE]; /* rows of K and V in the cache */
    const char *wide[LP_TILE];           /* rows of V, widened */
    int64_t k_ahead, v_ahead;            /* bytes to the rows of the next tile, 0 when unknown */
    struct lp_cells v_cells;             /* rows of V as they are read */
};

/* The rows of a whole tile of cells that follow each other. */
static void lp_tile_in_order(struct lp_tile *e, const char *k, int64_t k_step, const char *v,
                             int64_t v_step) {
    for (int j = 0; j < LP_TILE; j++) {
        e->before[j] = j;
        e->present[j] = 1;
        e->k[j] = k + j * k_step;
        e->v[j] = v + j * v_step;
    }
    e->before[LP_TILE] = LP_TILE;
    e->n_runs = 1, e->run[0][0] = 0, e->run[0][1] = LP_TILE;
}
/* Whether ids[0, 64) count up by one from a cell there is. */
LP_INLINE int lp_in_order(const int32_t *ids, int64_t n_cells) {
    int32_t differs = 0;
    for (int j = 0; j < LP_TILE; j++) {
        differs |= ids[j] ^ (int32_t)((uint32_t)ids[0] + (uint32_t)j);
    }
    return !differs && ids[0] >= 0 && ids[LP_TILE - 1] < n_cells;
}

/* Find the cells of places [from, to) of tile `tile` of a list. */
static int lp_tile_find(struct lp_tile *e, const struct lp_attn *t, int64_t kv_head, int64_t list,
                        int64_t tile, int from, int to) {
    const struct lp_node *n = t->args->n;
    const struct lp_opnd *k = &n->src[LP_K], *v = &n->src[LP_V], *idx = &n->src[LP_IDX];
    const char *ids = t->args->src[LP_IDX] + list * idx->nb[1];
    const char *keys = t->args->src[LP_K] + kv_head * k->nb[1];
    const char *values = t->args->src[LP_V] + kv_head * v->nb[1];
    e->start = tile * LP_TILE, e->from = from, e->to = to, e->n_runs = 0;
    e->k_ahead = e->v_ahead = 0;
    const int32_t *all = (const int32_t *)(const void *)(ids + e->start * 4);
    if (from == 0 && to == LP_TILE && idx->nb[0] == 4 && lp_in_order(all, t->n_cells)) {
        lp_tile_in_order(e, keys + *all * k->nb[2], k->nb[2], values + *all * v->nb[2], v->nb[2]);
        e->k_ahead = LP_TILE * k->nb[2], e->v_ahead = LP_TILE * v->nb[2];
        return LP_OK;
    }
    int count = 0;
    for (int j = 0; j < LP_TILE; j++) {
        int32_t cell = -1;
        if (j >= from && j < to) {
            memcpy(&cell, ids + (e->start + j) * idx->nb[0], 4);
        }
        if (cell < -1 || cell >= t->n_cells) {
            return LP_E_INDEX;
        }
        e->before[j] = count;
        e->present[j] = cell >= 0;
        e->k[j] = e->v[j] = (const char *)t->zero;
        if (cell >= 0) {
            e->k[j] = keys + cell * k->nb[2];
            e->v[j] = values + cell * v->nb[2];
            if (j == 0 || !e->present[j - 1]) {
                e->run[e->n_runs++][0] = j;
            }
            e->run[e->n_runs - 1][1] = j + 1;
            count++;
        }
    }
    e->before[LP_TILE] = count;
    return LP_OK;
}

/* Places of the tile that row r may see, and whether one of them has a cell. */
LP_INLINE int lp_first(const struct lp_tile *e, const struct lp_attn *t, int64_t r) {
    int64_t j = t->lo[r] - e->start;
    return (int)(j < 0 ? 0 : j > LP_TILE ? LP_TILE : j);
}
LP_INLINE int lp_last(const struct lp_tile *e, const struct lp_attn *t, int64_t r) {
    int64_t j = t->hi[r] - e->start;
    return (int)(j < 0 ? 0 : j > LP_TILE ? LP_TILE : j);
}
LP_INLINE int lp_sees(const struct lp_tile *e, const struct lp_attn *t, int64_t r) {
    int a = lp_first(e, t, r), b = lp_last(e, t, r);
    return a < b && e->before[b] > e->before[a];
}

/* Whether rows can be read as they are. */
LP_INLINE int lp_in_place(int type, int64_t n, int64_t n_pad) {
    return (type == LP_T_F32 || type == LP_T_F16) && n == n_pad;
}

/* K of 16 places from j on as f32: rows in t->wide, where k then points. */
static void lp_k_rows(const struct lp_tile *e, struct lp_attn *t, int j, const char **k) {
    struct lp_wide_rows rows = {.p = e->k + j, .n = t->dk, .stride = t->dk_pad, .n_rows = 16};
    lp_widen(t->wide, &rows, t->k_type);
    for (int i = 0; i < 16; i++) {
        k[i] = (const char *)(t->wide + i * t->dk_pad);
    }
}

/* Rows of 16 keys, transposed, at their places of a panel. */
LP_INLINE void lp_k_columns(float *panel, const char *const *k, int type, int64_t dk) {
    int64_t size = lp_type_bytes(type);
    for (int64_t d = 0; d < dk; d += 16) {
        int m = dk - d < 16 ? (int)(dk - d) : 16;
        v16 x[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            x[i] = lp_load_as(k[i] + d * size, type, m);
        }
        v_transpose16(x);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            v_store(panel + (d + i) * LP_WIDE, x[i]);
        }
    }
}
/* K of places [first, last), multiples of 16, transposed: panel w holds keys LP_WIDE w .. of every
 * element, [LP_TILE / LP_WIDE][dk_pad][LP_WIDE]. */
static void lp_k_panels(const struct lp_tile *e, struct lp_attn *t, int first, int last) {
    for (int j = first; j < last; j += 16) {
        float *panel = t->k + j / LP_WIDE * t->dk_pad * LP_WIDE + j % LP_WIDE;
        const char *k[16];
        if (t->k_type == LP_T_F16) {
            lp_k_columns(panel, e->k + j, LP_T_F16, t->dk);
        } else if (t->k_type == LP_T_F32) {
            lp_k_columns(panel, e->k + j, LP_T_F32, t->dk);
        } else {
            lp_k_rows(e, t, j, k);
            lp_k_columns(panel, k, LP_T_F32, t->dk);
        }
    }
}

/* V of places [first, last), widened; that of the next tile is fetched meanwhile. */
static void lp_v_rows(struct lp_tile *e, struct lp_attn *t, int first, int last) {
    struct lp_wide_rows rows = {.p = e->v + first,
                                .ahead = e->v_ahead,
                                .ask = e->v_ahead ? t->v_bytes : 0,
                                .n = t->dv,
                                .stride = t->dv_pad,
                                .n_rows = last - first};
    lp_widen(t->v + first * t->dv_pad, &rows, t->v_type);
    e->v_cells = (struct lp_cells){.row = e->wide};
    for (int j = first; j < last; j++) {
        e->wide[j] = (const char *)(t->v + j * t->dv_pad);
    }
}

/* Raw dots of rows [r0, r1) with places [first, last), multiples of 16. */
static void lp_tile_dots(struct lp_tile *e, struct lp_attn *t, int64_t r0, int64_t r1, int first,
                         int last) {
    int64_t dk = t->dk_pad;
    if (r1 - r0 <= LP_FEW) {
        int in_place = lp_in_place(t->k_type, t->dk, dk);
        int type = in_place ? t->k_type : LP_T_F32;
        for (int j = first; j < last; j += 16) {
            const char *wide[16];
            struct lp_cells k = {e->k + j, e->k + j, e->k_ahead, e->k_ahead ? t->k_bytes : 0};
            if (!in_place) {
                lp_k_rows(e, t, j, wide);
                k.row = wide;
            }
            for (int64_t r = r0; r < r1; r += LP_BLOCK) {
                lp_dots_any(t->s + r * LP_TILE + j, t->q + r * dk, &k, dk, type,
                            (int)(r1 - r < LP_BLOCK ? r1 - r : LP_BLOCK));
                k.ask = 0;
            }
        }
        return;
    }
    lp_k_panels(e, t, first, last);
    for (int j = first / LP_WIDE * LP_WIDE; j < last; j += LP_WIDE) {
        for (int64_t r = r0; r < r1; r += LP_BLOCK) {
            lp_dots_panel(t->s + r * LP_TILE + j, t->q + r * dk, t->k + j * dk, dk);
        }
    }
}

/* What the table adds to a row's scores of the tile. */
static void lp_bias_row(const struct lp_tile *e, const struct lp_attn *t, int64_t r, float *out) {
    const struct lp_opnd *bias = &t->args->n->src[t->bias];
    const char *row = t->args->src[t->bias] + t->head[r] * bias->nb[0];
    int64_t far = e->start - t->own[r], reach = t->reach;
    for (int j = 0; j < LP_TILE; j++, far++) {
        int64_t at = far < -reach ? -reach : far > reach ? reach : far;
        memcpy(out + j, row + (at + reach) * bias->nb[1], 4);
    }
}

/* Scores to p, in place, with m and l of row r. Places without a cell and places the row does not
 * see count as minus infinity; of the others at least one is seen. */
static void lp_soft_row(const struct lp_tile *e, struct lp_attn *t, int64_t r) {
    float *s = t->s + r * LP_TILE;
    int a = lp_first(e, t, r), b = lp_last(e, t, r);
    int whole = a == 0 && b == LP_TILE && e->before[LP_TILE] == LP_TILE;
    v16 x[4], top = v_set1(-V_INF);
    float bias[LP_TILE];
    if (t->bias) {
        lp_bias_row(e, t, r, bias);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[i] = v_mul(v_load(s + 16 * i), v_set1(t->scale));
        if (t->cap != 0.0f) {
            x[i] = v_softcap(x[i], v_set1(t->cap));
        }
        i16v j = i_add(i_load(lp_lanes), i_set1(16 * i));
        if (t->slope[r] != 0.0f) {
            i16v far = i_add(j, i_set1((int32_t)(e->start - t->own[r])));
            far = i_min(far, i_sub(i_set1(0), far));
            x[i] = v_fma(v_set1(t->slope[r]), v_from_i(far), x[i]);
        }
        if (t->bias) {
            x[i] = v_add(x[i], v_load(bias + 16 * i));
        }
        if (!whole) {
            m16 seen = m_and(i_gt(j, i_set1(a - 1)), i_gt(i_set1(b), j));
            seen = m_and(seen, i_gt(i_load(e->present + 16 * i), i_set1(0)));
            x[i] = v_sel(seen, x[i], v_set1(-V_INF));
        }
    }
    top = v_max(v_max(v_max(x[0], x[1]), x[2]), x[3]);
    float m = v_hmax(top);
    v16 sum = v_zero();
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[i] = v_exp(v_sub(x[i], v_set1(m)));
        sum = v_add(sum, x[i]);
        v_store(s + 16 * i, x[i]);
    }
    t->m[r] = m;
    t->l[r] = v_sum(sum);
}

/* Weighted values of n_row rows over the places [a, b) that all of them see. */
static void lp_value_runs(const struct lp_tile *e, struct lp_attn *t, int type, int64_t r,
                          int n_row, int a, int b) {
    for (int i = 0; i < e->n_runs && e->run[i][0] < b; i++) {
        int from = e->run[i][0] > a ? e->run[i][0] : a, to = e->run[i][1] < b ? e->run[i][1] : b;
        if (from < to) {
            struct lp_value_rows x = {e->v_cells, t->dv_pad, from, to};
            lp_values_any(t->o + r * t->dv_pad, t->s + r * LP_TILE, &x, type, n_row);
        }
    }
}

/* o of rows [r, r + n_row), n_row <= LP_BLOCK. What all of them see is computed together, what
 * comes before and after it row by row: every row still adds its places in order. */
static void lp_value_block(const struct lp_tile *e, struct lp_attn *t, int type, int64_t r,
                           int n_row) {
    int a = 0, b = LP_TILE, first[LP_BLOCK], last[LP_BLOCK];
    for (int i = 0; i < n_row; i++) {
        int sees = t->l[r + i] != 0.0f;
        first[i] = sees ? lp_first(e, t, r + i) : 0;
        last[i] = sees ? lp_last(e, t, r + i) : 0;
        a = first[i] > a ? first[i] : a;
        b = last[i] < b ? last[i] : b;
    }
    memset(t->o + r * t->dv_pad, 0, (size_t)(n_row * t->dv_pad) * 4);
    if (a >= b) {
        for (int i = 0; i < n_row; i++) {
            lp_value_runs(e, t, type, r + i, 1, first[i], last[i]);
        }
        return;
    }
    for (int i = 0; i < n_row; i++) {
        lp_value_runs(e, t, type, r + i, 1, first[i], a);
    }
    lp_value_runs(e, t, type, r, n_row, a, b);
    for (int i = 0; i < n_row; i++) {
        lp_value_runs(e, t, type, r + i, 1, b, last[i]);
    }
}

/* m, l, o of rows [r0, r1), all of one list, for one tile. Rows that see nothing get m = -inf, l =
 * 0. more: the next tile will be run too. *any: whether some row sees something. */
static int lp_tile_run(struct lp_attn *t, int64_t kv_head, int64_t r0, int64_t r1, int64_t tile,
                       int more, int *any) {
    struct lp_tile e = {.start = tile * LP_TILE};
    int from = LP_TILE, to = 0;
    for (int64_t r = r0; r < r1; r++) {
        int a = lp_first(&e, t, r), b = lp_last(&e, t, r);
        from = a < b && a < from ? a : from;
        to = a < b && b > to ? b : to;
    }
    int status = lp_tile_find(&e, t, kv_head, t->list[r0], tile, from, to);
    if (status) {
        return status;
    }
    int64_t first_row = r1, last_row = r0;
    for (int64_t r = r0; r < r1; r++) {
        t->m[r] = -V_INF, t->l[r] = 0.0f;
        if (lp_sees(&e, t, r)) {
            first_row = r < first_row ? r : first_row;
            last_row = r + 1;
        }
    }
    *any = first_row < last_row;
    if (!*any) {
        return LP_OK;
    }
    if (!more || last_row - first_row > LP_FEW) {
        e.k_ahead = e.v_ahead = 0;
    }
    lp_tile_dots(&e, t, first_row, last_row, from / 16 * 16, (to + 15) / 16 * 16);
    for (int64_t r = first_row; r < last_row; r++) {
        if (lp_sees(&e, t, r)) {
            lp_soft_row(&e, t, r);
        }
    }
    int type = t->v_type;
    e.v_cells = (struct lp_cells){e.v, e.v, e.v_ahead, e.v_ahead};
    if (!lp_in_place(type, t->dv, t->dv_pad) ||
        (type != LP_T_F32 && last_row - first_row > LP_FEW)) {
        lp_v_rows(&e, t, from, to);
        type = LP_T_F32;
    }
    for (int64_t r = first_row; r < last_row; r += LP_BLOCK) {
        int n_row = (int)(last_row - r < LP_BLOCK ? last_row - r : LP_BLOCK);
        lp_value_block(&e, t, type, r, n_row);
        e.v_cells.ask = 0;
    }
    return LP_OK;
}
