/* mul_mat: dst[m, n] = sum over k of w[k, m] * x[k, n] (+ addend), for every pair of outer indices.
 * What all instruction sets share: how the product is cut into tasks, and how results are stored.
 *
 * w [k, m, c2, c3] is repeated over x [k, n, b2, b3] as ggml does: w's index is x's divided by
 * b / c. Axis 0 of w and x is contiguous, as is axis 0 of dst (f32); other strides are free. An
 * addend (f32, each axis dst's or 1, any strides) is added to the rounded result. With ip[PAIRS]
 * columns 2i and 2i + 1 of x give one column of dst, the sum of both rounded results.
 *
 * mul_mat_id calls these kernels for the columns of one expert, with a fourth source that says
 * where each lies: struct lp_column [n]. Such a node is one task. */
#ifndef LP_MATMUL_H
#define LP_MATMUL_H

#include "lp.h"
#include "x8.h"
#include "fmt.h"

enum { LP_MM_PAIRS }; /* ip */

#define LP_TASK_ROWS 32 /* rows of a task are a multiple of it */
#define LP_TASK_COLS 24 /* columns too, where they are cut */
#define LP_TASK_COLS_MAX 256
#define LP_GEMV_COLS 4   /* up to so many columns the weights are unpacked in registers */
#define LP_FLOAT_COLS 32 /* from so many on, float weights are cut for panels of more rows */
#define LP_PANEL_ROWS_MAX 128
#define LP_AHEAD (8 << 10) /* bytes; 4 KiB to 16 KiB are alike on a Zen 4 */

/* How a node is cut. A pure function of the node: lp_split and every task see the same. */
struct lp_cut {
    int64_t rows, cols;   /* of one task */
    int64_t n_row, n_col; /* tasks along m and n */
    int64_t n_outer;      /* pairs of outer indices */
};

/* Bytes from x and from dst to a column. */
struct lp_column {
    int64_t x, dst;
};

/* One task: rows r0..r1 by columns c0..c1 of one pair of outer indices. w, x, dst and add point at
 * row 0 and column 0. */
struct lp_mm {
    int64_t k, r0, r1, c0, c1;
    const uint8_t *w;
    const char *x, *add;
    char *dst;
    int64_t w_nb, x_nb, dst_nb;
    int64_t add_row_nb, add_col_nb; /* 0 where the addend is repeated */
    const struct lp_column *at;     /* of every column, where they do not follow each other */
    int pairs;                      /* of columns, see above */
    int kept;                       /* what a task makes of its columns is in its scratch already */
};

/* Scratch begins with which columns the rest of it was made of. */
#define LP_KEPT_BYTES 64
struct lp_kept {
    const char *x;
    int64_t c0, c1;
};
static inline char *lp_mm_keep(const struct lp_args *a, struct lp_mm *t, char *scratch) {
    struct lp_kept *k = (struct lp_kept *)scratch;
    t->kept = a->again && k->x == t->x && k->c0 == t->c0 && k->c1 == t->c1;
    *k = (struct lp_kept){t->x, t->c0, t->c1};
    return scratch + LP_KEPT_BYTES;
}

static inline const char *lp_mm_x(const struct lp_mm *t, int64_t col) {
    return t->x + (t->at ? t->at[col].x : col * t->x_nb);
}

int64_t lp_split_mul_mat(const struct lp_node *n, int n_threads);
int64_t lp_scratch_mul_mat(const struct lp_node *n);

static inline int64_t lp_up(int64_t a, int64_t unit) {
    return (a + unit - 1) / unit * unit;
}
static inline int64_t lp_clamp(int64_t a, int64_t low, int64_t high) {
    return a < low ? low : a > high ? high : a;
}

/* Some 64 tasks where there is enough to do. Few columns: the time is that of reading the weights,
 * 32 KiB (2 us) to 512 KiB a task. Many columns: 1 to 64 million products (5 to 300 us) a task, and
 * as many columns together as stay in the second-level cache with what is made of them, since every
 * cut along n unpacks the weights once more. Of float weights twice the products, in half as many
 * tasks: what a panel costs per column is shared by its rows (panel_f32.h). */
static inline struct lp_cut lp_cut_of(const struct lp_node *n) {
    const int64_t k = n->src[0].ne[0], m = n->src[0].ne[1], cols = n->src[1].ne[1];
    struct lp_cut c = {.cols = cols > 0 ? cols : 1};
    if (cols <= LP_GEMV_COLS) {
        int64_t row_bytes = lp_clamp(n->src[0].nb[1], 1, INT64_C(1) << 40);
        int64_t want = lp_clamp(m * row_bytes / 64, 32 << 10, 512 << 10);
        c.rows = lp_up(want / row_bytes, LP_TASK_ROWS);
    } else {
        if (cols > LP_TASK_COLS_MAX) {
            const int64_t parts = (cols + LP_TASK_COLS_MAX - 1) / LP_TASK_COLS_MAX;
            c.cols = lp_up((cols + parts - 1) / parts, LP_TASK_COLS);
        }
        const int64_t row = c.cols * (k > 0 ? k : 1), least = cols > 16 ? 1 << 20 : 1 << 17;
        const int twice = n->src[1].type != LP_X8_TYPE && cols >= LP_FLOAT_COLS;
        const int64_t want = lp_clamp(m * cols * k / 64, least, 64 << 20) << twice;
        c.rows = lp_up(want / (row + 1), LP_TASK_ROWS);
        while (m / c.rows * (cols / c.cols) < 16 && c.cols >= 4 * LP_TASK_COLS) {
            c.cols = lp_up(c.cols / 2, LP_TASK_COLS);
        }
    }
    c.rows = lp_clamp(c.rows, LP_TASK_ROWS, lp_up(m > 0 ? m : 1, LP_TASK_ROWS));
    c.n_row = (m + c.rows - 1) / c.rows;
    c.n_col = (cols + c.cols - 1) / c.cols;
    c.n_outer = n->src[1].ne[2] * n->src[1].ne[3];
    return c;
}

static inline int lp_mm_open(const struct lp_args *a, int64_t task, struct lp_mm *t) {
    const struct lp_node *n = a->n;
    const struct lp_opnd *w = &n->src[0], *x = &n->src[1], *d = &n->dst, *e = &n->src[2];
    const struct lp_cut c = lp_cut_of(n);
    const int64_t outer = task / (c.n_row * c.n_col), in = task % (c.n_row * c.n_col);
    const int64_t i2 = outer % x->ne[2], i3 = outer / x->ne[2];
    if (outer >= c.n_outer || w->ne[2] < 1 || w->ne[3] < 1) {
        return LP_E_TYPES;
    }
    const int64_t w2 = i2 / (x->ne[2] / w->ne[2]), w3 = i3 / (x->ne[3] / w->ne[3]);
    *t = (struct lp_mm){
        .k = w->ne[0],
        .r0 = in % c.n_row * c.rows,
        .c0 = in / c.n_row * c.cols,
        .w = (const uint8_t *)a->src[0] + w2 * w->nb[2] + w3 * w->nb[3],
        .x = a->src[1] + i2 * x->nb[2] + i3 * x->nb[3],
        .dst = a->dst + i2 * d->nb[2] + i3 * d->nb[3],
        .w_nb = w->nb[1],
        .x_nb = x->nb[1],
        .dst_nb = d->nb[1],
        .pairs = n->ip[LP_MM_PAIRS] != 0,
    };
    if (n->n_src > 3) {
        t->r1 = w->ne[1], t->c1 = x->ne[1];
        t->at = (const struct lp_column *)a->src[3];
        return LP_OK;
    }
    t->r1 = t->r0 + c.rows < w->ne[1] ? t->r0 + c.rows : w->ne[1];
    t->c1 = t->c0 + c.cols < x->ne[1] ? t->c0 + c.cols : x->ne[1];
    if (n->n_src > 2) {
        t->add =
            a->src[2] + (e->ne[2] > 1 ? i2 * e->nb[2] : 0) + (e->ne[3] > 1 ? i3 * e->nb[3] : 0);
        t->add_row_nb = e->ne[0] > 1 ? e->nb[0] : 0;
        t->add_col_nb = e->ne[1] > 1 ? e->nb[1] : 0;
    }
    return LP_OK;
}

/* Fetch n bytes into the second-level cache: the first level could hold few lines in flight. */
LP_FORCE void lp_prefetch(const uint8_t *p, int64_t n) {
    for (int64_t at = 0; at < n; at += 64) {
        __builtin_prefetch(p + at, 0, 2);
    }
}

/* How far ahead to fetch when `chunk` bytes are read together: a number of chunks, LP_AHEAD at
 * least. */
static inline int64_t lp_ahead(int64_t chunk) {
    return chunk < LP_AHEAD ? lp_up(LP_AHEAD, chunk > 0 ? chunk : 1) : chunk;
}

/* Where the results of column col go, rows from r on, and what is added to them before (NULL:
 * nothing), rows row_nb apart: of the second column of a pair the first. */
struct lp_place {
    char *dst;
    const char *add;
    int64_t row_nb;
};
LP_FORCE struct lp_place lp_mm_place(const struct lp_mm *t, int64_t r, int64_t col) {
    char *dst = t->dst + (t->at ? t->at[col].dst : (col >> t->pairs) * t->dst_nb) + r * 4;
    if (t->pairs) {
        return (struct lp_place){dst, col & 1 ? dst : NULL, 4};
    }
    const char *add = t->add ? t->add + col * t->add_col_nb + r * t->add_row_nb : NULL;
    return (struct lp_place){dst, add, t->add_row_nb};
}

/* dst[i] = v[i] + the addend's, of `count` rows. */
LP_FORCE void lp_mm_add(struct lp_place p, int64_t row_nb, int64_t count, const float *v) {
    for (int64_t i = 0; i < count; i++) {
        float y;
        memcpy(&y, p.add + i * row_nb, 4);
        y = v[i] + y;
        memcpy(p.dst + i * 4, &y, 4);
    }
}

/* Store `count` results of column col, rows from r on, after adding the addend. */
LP_APART void lp_mm_store(const struct lp_mm *t, int64_t r, int64_t count, int64_t col,
                          const float *v) {
    const struct lp_place p = lp_mm_place(t, r, col);
    if (!p.add) {
        memcpy(p.dst, v, (size_t)count * 4);
    } else if (p.row_nb == 4) {
        lp_mm_add(p, 4, count, v);
    } else {
        lp_mm_add(p, p.row_nb, count, v);
    }
}

#endif
