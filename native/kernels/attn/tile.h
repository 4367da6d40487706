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

/* Whether rows can be read as they are. */
LP_INLINE int lp_in_place(int type, int64_t n, int64_t n_pad) {
    return (type == LP_T_F32 || type == LP_T_F16) && n == n_pad;
}

/* K of 16 places from j on as f32: rows in t->wide, where k then points. */
static void lp_k_rows(const struct lp_tile *e, struct lp_attn *t, int j,
                      const struct lp_ahead *ahead, const char **k) {
    struct lp_wide_rows rows = {e->k + j, ahead, t->dk, t->dk_pad, 16, j};
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
            lp_k_rows(e, t, j, &lp_nothing_ahead, k);
            lp_k_columns(panel, k, LP_T_F32, t->dk);
        }
    }
}

/* V of the tile, widened: rows in t->v, where v then points. */
static void lp_v_rows(const struct lp_tile *e, struct lp_attn *t, const struct lp_ahead *ahead,
                      const char **v) {
    struct lp_wide_rows rows = {e->v + e->from, ahead, t->dv, t->dv_pad, e->to - e->from, e->from};
    lp_widen(t->v + e->from * t->dv_pad, &rows, t->v_type);
    for (int j = e->from; j < e->to; j++) {
        v[j] = (const char *)(t->v + j * t->dv_pad);
    }
}

/* Raw dots of rows [r0, r1) with the keys of the tile, in whole sixteens. */
static void lp_tile_dots(const struct lp_tile *e, struct lp_attn *t, const struct lp_ahead *ahead,
                         int64_t r0, int64_t r1) {
    int64_t dk = t->dk_pad;
    int first = e->from / 16 * 16, last = (e->to + 15) / 16 * 16;
    if (r1 - r0 <= LP_FEW) {
        int in_place = lp_in_place(t->k_type, t->dk, dk);
        int type = in_place ? t->k_type : LP_T_F32;
        for (int j = first; j < last; j += 16) {
            const char *wide[16];
            if (!in_place) {
                lp_k_rows(e, t, j, ahead, wide);
            }
            const struct lp_ahead *due = in_place ? ahead : &lp_nothing_ahead;
            for (int64_t r = r0; r < r1; r += LP_BLOCK) {
                lp_dots_any(t->s + r * LP_TILE + j, t->q + r * dk, in_place ? e->k + j : wide, due,
                            j, dk, type, (int)(r1 - r < LP_BLOCK ? r1 - r : LP_BLOCK));
                due = &lp_nothing_ahead;
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
    int64_t far = e->index * LP_TILE - t->own[r], reach = t->reach;
    for (int j = 0; j < LP_TILE; j++, far++) {
        int64_t at = far < -reach ? -reach : far > reach ? reach : far;
        memcpy(out + j, row + (at + reach) * bias->nb[1], 4);
    }
}

/* Scores of register i of row r, which sees `seen`; other places have minus infinity. */
LP_INLINE v16 lp_scores(const struct lp_tile *e, const struct lp_attn *t, int64_t r, int i,
                        uint64_t seen, const float *bias) {
    v16 x = v_mul(v_load(t->s + r * LP_TILE + 16 * i), v_set1(t->scale));
    if (t->cap != 0.0f) {
        x = v_softcap(x, v_set1(t->cap));
    }
    if (t->slope[r] != 0.0f) {
        i16v start = i_set1((int32_t)(e->index * LP_TILE - t->own[r]) + 16 * i);
        i16v far = i_add(i_load(lp_lanes), start);
        far = i_min(far, i_sub(i_set1(0), far));
        x = v_fma(v_set1(t->slope[r]), v_from_i(far), x);
    }
    if (t->bias) {
        x = v_add(x, v_load(bias + 16 * i));
    }
    if (~seen) {
        i16v bit = i_load(lp_lane_bits), bits = i_set1((int32_t)(seen >> 16 * i & 0xffff));
        x = v_sel(i_eq(i_and(bits, bit), bit), x, v_set1(-V_INF));
    }
    return x;
}

/* Scores to p, in place, with m and l of row r. It sees something; registers beyond the last place
 * of that would add nothing. */
static void lp_soft_row(const struct lp_tile *e, struct lp_attn *t, int64_t r, uint64_t seen) {
    float *s = t->s + r * LP_TILE, bias[LP_TILE];
    int n = (79 - __builtin_clzll(seen)) / 16; /* registers */
    if (t->bias) {
        lp_bias_row(e, t, r, bias);
    }
    v16 x[4], sum = v_zero();
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[i] = i < n ? lp_scores(e, t, r, i, seen, bias) : v_set1(-V_INF);
    }
    float m = v_hmax(v_max(v_max(v_max(x[0], x[1]), x[2]), x[3]));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        if (i < n) {
            x[i] = v_exp(v_sub(x[i], v_set1(m)));
            v_store(s + 16 * i, x[i]);
            sum = v_add(sum, x[i]);
        }
    }
    t->m[r] = m;
    t->l[r] = v_sum(sum);
}

/* What the values of a tile are added up from. */
struct lp_summands {
    const char *const *v;
    const struct lp_ahead *ahead;
    int type;
};

/* Weighted values of n_row rows over the places [a, b) that all of them see. */
static void lp_value_runs(const struct lp_tile *e, struct lp_attn *t, const struct lp_summands *y,
                          int64_t r, int n_row, int a, int b) {
    for (uint64_t left = e->cells & lp_span(a, b); left;) {
        int from = __builtin_ctzll(left);
        uint64_t gaps = ~(left >> from); /* a run of places with a cell ends at the first */
        int to = from + (gaps ? __builtin_ctzll(gaps) : 64);
        struct lp_value_rows x = {y->v, y->ahead, t->dv_pad, from, to};
        lp_values_any(t->o + r * t->dv_pad, t->s + r * LP_TILE, &x, y->type, n_row);
        left &= ~lp_span(from, to);
    }
}

/* o of rows [r, r + n_row), n_row <= LP_BLOCK. What all of them see is computed together, what
 * comes before and after it row by row: every row still adds its places in order. */
static void lp_value_block(const struct lp_tile *e, struct lp_attn *t, const struct lp_summands *y,
                           int64_t r, int n_row) {
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
            lp_value_runs(e, t, y, r + i, 1, first[i], last[i]);
        }
        return;
    }
    for (int i = 0; i < n_row; i++) {
        lp_value_runs(e, t, y, r + i, 1, first[i], a);
    }
    lp_value_runs(e, t, y, r, n_row, a, b);
    for (int i = 0; i < n_row; i++) {
        lp_value_runs(e, t, y, r + i, 1, b, last[i]);
    }
}

/* m, l, o of a tile's rows, while rows of the next tile are fetched. Rows that see nothing get m =
 * -inf, l = 0. Whether some row sees something. */
static int lp_tile_run(struct lp_attn *t, const struct lp_tile *e, const struct lp_tile *next) {
    int64_t r0 = e->r1, r1 = e->r0; /* rows that see something */
    for (int64_t r = e->r0; r < e->r1; r++) {
        t->m[r] = -V_INF, t->l[r] = 0.0f;
        if (lp_seen(e, t, r)) {
            r0 = r < r0 ? r : r0;
            r1 = r + 1;
        }
    }
    if (r0 >= r1) {
        return 0;
    }
    int few = r1 - r0 <= LP_FEW; /* others compute longer than it takes to fetch a tile */
    struct lp_ahead keys = {0}, values = {0};
    if (few) {
        keys = lp_look_ahead(next, next->k, t->k_bytes, e->from / 16 * 16, e->to);
        values = lp_look_ahead(next, next->v, t->v_bytes, e->from, e->to);
    }
    lp_tile_dots(e, t, &keys, r0, r1);
    for (int64_t r = r0; r < r1; r++) {
        uint64_t seen = lp_seen(e, t, r);
        if (seen) {
            lp_soft_row(e, t, r, seen);
        }
    }
    const char *wide[LP_TILE];
    struct lp_summands y = {e->v, &values, t->v_type};
    if (!lp_in_place(y.type, t->dv, t->dv_pad) || (y.type != LP_T_F32 && !few)) {
        lp_v_rows(e, t, &values, wide);
        y = (struct lp_summands){wide, &lp_nothing_ahead, LP_T_F32};
    }
    for (int64_t r = r0; r < r1; r += LP_BLOCK) {
        lp_value_block(e, t, &y, r, (int)(r1 - r < LP_BLOCK ? r1 - r : LP_BLOCK));
        y.ahead = &lp_nothing_ahead;
    }
    return 1;
}
