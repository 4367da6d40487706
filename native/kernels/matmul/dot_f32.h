/* f32, f16 and bf16 weights by f32 activations, on the float layer (a vec_*.h comes first).
 *
 * One output element: 16 accumulators, element i of the row goes to accumulator i mod 16 by fma, in
 * k order; a tail shorter than 16 is padded with zeros; then the canonical tree; then the addend.
 * Halves are widened exactly. */
#ifndef LP_DOT_F32_H
#define LP_DOT_F32_H

#include "matmul.h"

/* A block of rows by columns whose accumulators fit the registers. */
#define LP_DOT_ROWS (V_REGS >= 32 ? 4 : 2)
#define LP_DOT_COLS (V_REGS >= 32 ? 4 : 2)
#define LP_DOT_ALL (LP_DOT_ROWS * LP_DOT_COLS)
/* Rows by a single column, where reading takes the time. */
#define LP_DOT_ALONE 4
/* Bytes of a row between the line in use and the one brought to the first-level cache. */
#define LP_DOT_NEAR 384
/* Bytes of weights that stay in the second-level cache while all columns go by. */
#define LP_DOT_STAY (512 << 10)

/* How 16 weights, or n < 16 and zeros, are read. */
struct lp_reader {
    int bytes;
    v16 (*load)(const uint8_t *p);
    v16 (*load_n)(const uint8_t *p, int n);
};

static inline v16 lp_load_f32(const uint8_t *p) {
    return v_load((const float *)p);
}
static inline v16 lp_load_f32_n(const uint8_t *p, int n) {
    return v_load_n((const float *)p, n);
}
static inline v16 lp_load_f16(const uint8_t *p) {
    return v_load_f16((const uint16_t *)p);
}
static inline v16 lp_load_f16_n(const uint8_t *p, int n) {
    return v_load_f16_n((const uint16_t *)p, n);
}
static inline v16 lp_load_bf16_n(const uint8_t *p, int n) {
    uint16_t h[16] = {0};
    uint32_t u[16];
    float x[16];
    memcpy(h, p, (size_t)n * 2);
    for (int i = 0; i < 16; i++) {
        u[i] = (uint32_t)h[i] << 16;
    }
    memcpy(x, u, sizeof x);
    return v_load(x);
}
static inline v16 lp_load_bf16(const uint8_t *p) {
    const uint16_t *h = (const uint16_t *)p;
    int32_t u[16];
    for (int i = 0; i < 16; i++) {
        u[i] = h[i];
    }
    return v_from_bits(i_shl(i_load(u), 16));
}
static const struct lp_reader lp_reader_f32 = {4, lp_load_f32, lp_load_f32_n};
static const struct lp_reader lp_reader_f16 = {2, lp_load_f16, lp_load_f16_n};
static const struct lp_reader lp_reader_bf16 = {2, lp_load_bf16, lp_load_bf16_n};

/* acc[c * n_row + r] += 16 products (n < 16 where tail is set) at element i of row r and column c.
 */
LP_FORCE void lp_dot_step(const struct lp_reader *rd, const uint8_t *const *w, const char *const *x,
                          int64_t i, const int tail, int n, const int n_row, const int n_col,
                          v16 *acc) {
    v16 a[LP_DOT_ALL];
    for (int r = 0; r < n_row; r++) {
        const uint8_t *p = w[r] + i * rd->bytes;
        a[r] = tail ? rd->load_n(p, n) : rd->load(p);
    }
    for (int c = 0; c < n_col; c++) {
        const float *p = (const float *)x[c] + i;
        const v16 b = tail ? v_load_n(p, n) : v_load(p);
        for (int r = 0; r < n_row; r++) {
            acc[c * n_row + r] = v_fma(a[r], b, acc[c * n_row + r]);
        }
    }
}

LP_FORCE void lp_dot_sums(const v16 *acc, const int n, float *out) {
    if (n == 16) {
        v_store(out, v_sum16(acc));
        return;
    }
    for (int i = 0; i < n; i++) {
        out[i] = v_sum(acc[i]);
    }
}

/* Lines of n rows that come soon, where 32 weights and more are in one: so many rows by turns are
 * not what the machine foresees, and a line is used up too soon to wait for it. */
LP_FORCE void lp_dot_near(const struct lp_reader *rd, const uint8_t *const *w, int64_t at,
                          const int n) {
    for (int r = 0; r < n && rd->bytes == 2; r++) {
        __builtin_prefetch(w[r] + at + LP_DOT_NEAR, 0, 3);
    }
}

/* Rows r.. by columns col.. of a task; the last row stands in for missing ones. */
LP_FORCE void lp_dot_block(const struct lp_reader *rd, const struct lp_mm *t, int64_t r,
                           int64_t col, const int n_row, const int n_col) {
    const uint8_t *w[LP_DOT_ALL];
    const char *x[LP_DOT_COLS];
    v16 acc[LP_DOT_ALL];
    float out[LP_DOT_ALL];
    int64_t i = 0;
    for (int j = 0; j < n_row; j++) {
        w[j] = t->w + (r + j < t->r1 ? r + j : t->r1 - 1) * t->w_nb;
    }
    for (int j = 0; j < n_col; j++) {
        x[j] = lp_mm_x(t, col + j);
    }
    for (int j = 0; j < n_row * n_col; j++) {
        acc[j] = v_zero();
    }
    const int line = 64 / rd->bytes;
    const int64_t ahead = lp_ahead(n_row * t->w_nb);
    for (; i + line <= t->k; i += line) {
        if (col == t->c0) { /* later columns find the weights in the cache */
            lp_prefetch(w[0] + ahead + i * rd->bytes * n_row, 64 * n_row);
            lp_dot_near(rd, w, i * rd->bytes, n_row);
        }
        for (int j = 0; j < line; j += 16) {
            lp_dot_step(rd, w, x, i + j, 0, 16, n_row, n_col, acc);
        }
    }
    for (; i + 16 <= t->k; i += 16) {
        lp_dot_step(rd, w, x, i, 0, 16, n_row, n_col, acc);
    }
    if (i < t->k) {
        lp_dot_step(rd, w, x, i, 1, (int)(t->k - i), n_row, n_col, acc);
    }
    lp_dot_sums(acc, n_row * n_col, out);
    for (int j = 0; j < n_col; j++) {
        lp_mm_store(t, r, t->r1 - r < n_row ? t->r1 - r : n_row, col + j, out + j * n_row);
    }
}

LP_FORCE int lp_open_f32(const struct lp_reader *rd, const struct lp_args *a, int64_t task,
                         struct lp_mm *t) {
    const int status = lp_mm_open(a, task, t);
    return status ? status : a->n->src[0].nb[0] == rd->bytes ? LP_OK : LP_E_TYPES;
}

LP_FORCE void lp_dot_rows(const struct lp_reader *rd, const struct lp_mm *t) {
    int64_t col = t->c0;
    for (; col + LP_DOT_COLS <= t->c1; col += LP_DOT_COLS) {
        for (int64_t r = t->r0; r < t->r1; r += LP_DOT_ROWS) {
            lp_dot_block(rd, t, r, col, LP_DOT_ROWS, LP_DOT_COLS);
        }
    }
    for (; LP_DOT_COLS > 2 && col + 2 <= t->c1; col += 2) {
        for (int64_t r = t->r0; r < t->r1; r += LP_DOT_ROWS) {
            lp_dot_block(rd, t, r, col, LP_DOT_ROWS, 2);
        }
    }
    for (; col < t->c1; col++) {
        for (int64_t r = t->r0; r < t->r1; r += LP_DOT_ALONE) {
            lp_dot_block(rd, t, r, col, LP_DOT_ALONE, 1);
        }
    }
}

LP_FORCE void lp_dot_task(const struct lp_reader *rd, const struct lp_mm *t) {
    const int64_t stay = LP_DOT_STAY / lp_clamp(t->w_nb, 1, LP_DOT_STAY);
    const int many = t->c1 - t->c0 >= LP_FLOAT_COLS; /* then lp_cut_of makes larger tasks */
    const int64_t rows = many ? lp_up(stay, LP_TASK_ROWS) : t->r1 - t->r0;
    struct lp_mm part = *t;
    for (part.r0 = t->r0; part.r0 < t->r1; part.r0 = part.r1) {
        part.r1 = lp_clamp(part.r0 + rows, 0, t->r1);
        lp_dot_rows(rd, &part);
    }
}

LP_FORCE int lp_mul_mat_f32(const struct lp_reader *rd, const struct lp_args *a, int64_t task) {
    struct lp_mm t;
    const int status = lp_open_f32(rd, a, task, &t);
    if (!status) {
        lp_dot_task(rd, &t);
    }
    return status;
}

#endif
