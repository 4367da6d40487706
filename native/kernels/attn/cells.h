/* Which rows of the cache the tiles of a task read, and in which order the tiles come. */

/* Bits [a, b) of 64. */
LP_INLINE uint64_t lp_span(int a, int b) {
    return a < b ? ~(uint64_t)0 >> (64 - (b - a)) << a : 0;
}

/* Places of one list for rows [r0, r1), all of that list. Places are counted from the tile's
 * start. A place without a cell has a row of zeros. */
struct lp_tile {
    int64_t r0, r1, index;
    int from, to;   /* places that some row may see */
    uint64_t cells; /* those of them that have a cell, a bit each */
    const char *k[LP_TILE], *v[LP_TILE];
};

/* Places of the tile that row r may see. */
LP_INLINE int lp_in_tile(int64_t place, int64_t tile) {
    int64_t j = place - tile * LP_TILE;
    return (int)(j < 0 ? 0 : j > LP_TILE ? LP_TILE : j);
}
LP_INLINE int lp_first(const struct lp_tile *e, const struct lp_attn *t, int64_t r) {
    return lp_in_tile(t->lo[r], e->index);
}
LP_INLINE int lp_last(const struct lp_tile *e, const struct lp_attn *t, int64_t r) {
    return lp_in_tile(t->hi[r], e->index);
}
/* Those with a cell that row r sees. */
LP_INLINE uint64_t lp_seen(const struct lp_tile *e, const struct lp_attn *t, int64_t r) {
    return e->cells & lp_span(lp_first(e, t, r), lp_last(e, t, r));
}

/* Rows `step` bytes apart; -1 is `none`. */
LP_INLINE void lp_rows_at(const char **row, const char *base, int64_t step, const int32_t *id,
                          const char *none) {
    for (int j = 0; j < LP_TILE; j++) {
        const char *p = base + (id[j] < 0 ? 0 : id[j]) * step;
        row[j] = id[j] < 0 ? none : p;
    }
}

/* Fill in cells and rows of a tile whose other fields are set. */
static int lp_tile_find(struct lp_tile *e, const struct lp_attn *t, int64_t kv_head) {
    const struct lp_node *n = t->args->n;
    const struct lp_opnd *k = &n->src[LP_K], *v = &n->src[LP_V], *idx = &n->src[LP_IDX];
    const char *ids = t->args->src[LP_IDX] + t->list[e->r0] * idx->nb[1];
    const char *keys = t->args->src[LP_K] + kv_head * k->nb[1];
    const char *values = t->args->src[LP_V] + kv_head * v->nb[1];
    const char *none = (const char *)t->zero;
    int32_t some[LP_TILE];
    const int32_t *id = some;
    ids += e->index * LP_TILE * idx->nb[0];
    if (e->from == 0 && e->to == LP_TILE && idx->nb[0] == 4) {
        id = (const int32_t *)(const void *)ids;
    } else {
        memset(some, 0xff, sizeof some);
        for (int j = e->from; j < e->to; j++) {
            memcpy(&some[j], ids + j * idx->nb[0], 4);
        }
    }
    const int32_t n_cells = t->n_cells < INT32_MAX ? (int32_t)t->n_cells : INT32_MAX;
    int32_t wrong = 0, n_none = 0;
    for (int j = 0; j < LP_TILE; j++) {
        wrong |= (id[j] < -1) | (id[j] >= n_cells);
        n_none += id[j] < 0;
    }
    if (wrong) {
        return LP_E_INDEX;
    }
    e->cells = lp_span(e->from, e->to);
    for (int j = e->from; n_none != LP_TILE - (e->to - e->from) && j < e->to; j++) {
        e->cells &= ~((uint64_t)(id[j] < 0) << j);
    }
    lp_rows_at(e->k, keys, k->nb[2], id, none);
    lp_rows_at(e->v, values, v->nb[2], id, none);
    return LP_OK;
}

/* The tiles of rows [0, n_rows) of a block: list after list, [first, end) of each, `every` one of
 * them or those that a row may see. */
struct lp_walk {
    int64_t kv_head, n_rows, first, end;
    int every;
    int64_t r0, r1, tile, stop; /* rows of the list in hand, and its tiles that are left */
};

/* Go on to the rows of the next list. */
static void lp_next_list(struct lp_walk *w, const struct lp_attn *t) {
    int64_t r = w->r1, lo = t->n_places, hi = 0;
    for (w->r0 = r; r < w->n_rows && t->list[r] == t->list[w->r0]; r++) {
        lo = t->lo[r] < t->hi[r] && t->lo[r] < lo ? t->lo[r] : lo;
        hi = t->hi[r] > hi ? t->hi[r] : hi;
    }
    w->r1 = r, w->tile = w->first, w->stop = w->end;
    if (!w->every) {
        w->tile = lo / LP_TILE, w->stop = (hi + LP_TILE - 1) / LP_TILE;
    }
}

/* The next tile; one without rows at the end. */
static int lp_next_tile(struct lp_walk *w, const struct lp_attn *t, struct lp_tile *e) {
    while (w->tile >= w->stop && w->r1 < w->n_rows) {
        lp_next_list(w, t);
    }
    e->r0 = w->r0, e->r1 = w->r1, e->index = w->tile;
    e->from = LP_TILE, e->to = 0, e->cells = 0;
    if (w->tile >= w->stop) {
        e->r0 = e->r1;
        return LP_OK;
    }
    w->tile++;
    for (int64_t r = e->r0; r < e->r1; r++) {
        int a = lp_first(e, t, r), b = lp_last(e, t, r);
        e->from = a < b && a < e->from ? a : e->from;
        e->to = a < b && b > e->to ? b : e->to;
    }
    return lp_tile_find(e, t, w->kv_head);
}

/* Rows of K or V of the next tile, which are fetched while this one is computed: `per` of them with
 * each of its places from place `from` on. */
struct lp_ahead {
    const char *const *row; /* [LP_TILE] */
    int from, per;
    int64_t n_bytes;
};
static const struct lp_ahead lp_nothing_ahead = {0};

/* Ask for n bytes from p: to the second level, since a tile and the queries fill the first. */
LP_INLINE void lp_ask(const char *p, int64_t n) {
    for (int64_t i = 0; i < n; i += 64) {
        __builtin_prefetch(p + i, 0, 2);
    }
    if (n % 64) { /* the row may end in one line more */
        __builtin_prefetch(p + n - 1, 0, 2);
    }
}
/* Ask for what is due with places [j, j + n): n_bytes of each row, from byte `first` on. */
LP_INLINE void lp_ask_ahead(const struct lp_ahead *a, int j, int n, int64_t first,
                            int64_t n_bytes) {
    unsigned at = (unsigned)((j - a->from) * a->per);
    for (int left = n * a->per; left > 0; left--, at++) {
        lp_ask(a->row[at % LP_TILE] + first, n_bytes);
    }
}
/* For places [from, to) of this tile, of which there are some. */
static struct lp_ahead lp_look_ahead(const struct lp_tile *next, const char *const *row,
                                     int64_t n_bytes, int from, int to) {
    int n = next->cells ? next->to : 0;
    return (struct lp_ahead){row, from, (n + to - from - 1) / (to - from), n_bytes};
}
