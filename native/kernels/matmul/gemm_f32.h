/* Float weights by many columns where registers are few. The 16 accumulators of an element
 * (dot_f32.h) are summed in two passes of eight, so that one register is enough for an element and
 * a tile of rows by columns loads little for each fma.
 *
 * LP_WIDE_ROWS rows by LP_WIDE_K of k are widened to f32 once for all columns, in the order in
 * which tiles read them: what comes in order the machine brings to its first-level cache in time.
 * Columns are brought together, a few at a time: at strides of whole pages they would displace each
 * other. Between blocks of k the accumulators lie in memory. Their order stays, and so do the bits.
 *
 * Panel, for n of k: for both halves of 16 lanes and every LP_F_ROWS rows
 * [n / 16][LP_F_ROWS][8]. Columns: for both halves [n / 16][LP_WIDE_COLS][8]. */
#ifndef LP_GEMM_F32_H
#define LP_GEMM_F32_H

#include "dot_f32.h"
#include "panel_f32.h"

enum {
    LP_F_ROWS = 2, /* of a tile by LP_WIDE_COLS columns */
    LP_F_ELEMENTS = LP_F_ROWS * LP_WIDE_COLS,
    LP_F_TILE = LP_F_ELEMENTS * 8, /* accumulators of half of 16 lanes */
};

/* Rows of a panel from row r of a task on; the last row of the task stands in for a missing one. */
LP_FORCE int64_t lp_wide_rows(const struct lp_mm *t, int64_t r) {
    return lp_clamp(lp_up(t->r1 - r, LP_F_ROWS), 0, LP_WIDE_ROWS);
}

/* acc[column][row][8] += the products of n times 8 lanes. */
static void lp_wide_tile(const float *w, const float *x, int64_t n, int begins, float *acc) {
    v8 s[LP_WIDE_COLS][LP_F_ROWS];
#pragma GCC unroll 12
    for (int i = 0; i < LP_F_ELEMENTS; i++) {
        s[i / LP_F_ROWS][i % LP_F_ROWS] = begins ? v8_zero() : v8_load(acc + i * 8);
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i++) {
        const v8 a0 = v8_load(w), a1 = v8_load(w + 8);
#pragma GCC unroll 6
        for (int c = 0; c < LP_WIDE_COLS; c++) {
            v8 b = v8_load(x + c * 8);
            v8_keep(b); /* one load for both rows */
            s[c][0] = v8_fma(a0, b, s[c][0]);
            s[c][1] = v8_fma(a1, b, s[c][1]);
        }
        w += LP_F_ROWS * 8;
        x += LP_WIDE_COLS * 8;
    }
#pragma GCC unroll 12
    for (int i = 0; i < LP_F_ELEMENTS; i++) {
        v8_store(acc + i * 8, s[i / LP_F_ROWS][i % LP_F_ROWS]);
    }
}

/* n of the columns side by side, zeros for what is missing of 16. */
static void lp_wide_pack(const float *const *x, int64_t n, float *out) {
    const int64_t half = lp_up(n, 16) / 2 * LP_WIDE_COLS;
    for (int64_t i = 0; i < n; i += 16) {
        for (int c = 0; c < LP_WIDE_COLS; c++) {
            const v16 a = n - i < 16 ? v_load_n(x[c] + i, (int)(n - i)) : v_load(x[c] + i);
            v8_store(out, v_half(a, 0));
            v8_store(out + half, v_half(a, 1));
            out += 8;
        }
    }
}

/* Rows r.. of a task as a panel, n of k from k0 on; zeros for what is missing of 16. */
LP_FORCE void lp_widen(const struct lp_reader *rd, const struct lp_mm *t, int64_t r, int64_t k0,
                       int64_t n, float *panel) {
    const int64_t rows = lp_wide_rows(t, r), row = lp_up(n, 16) / 2, half = rows * row;
    for (int64_t j = 0; j < rows; j++) {
        const uint8_t *w = t->w + (r + j < t->r1 ? r + j : t->r1 - 1) * t->w_nb + k0 * rd->bytes;
        float *to = panel + j / LP_F_ROWS * LP_F_ROWS * row + j % LP_F_ROWS * 8;
        for (int64_t i = 0; i < n; i += 16) {
            const uint8_t *p = w + i * rd->bytes;
            const v16 a = n - i < 16 ? rd->load_n(p, (int)(n - i)) : rd->load(p);
            v8_store(to, v_half(a, 0));
            v8_store(to + half, v_half(a, 1));
            to += LP_F_ROWS * 8;
        }
    }
}

/* A panel of `rows` rows by LP_WIDE_COLS columns, n of k, at which x points. The columns after
 * these (`next`) are fetched meanwhile: their lines are from too many places for the machine to
 * foresee. acc: for both halves [rows / LP_F_ROWS][LP_F_TILE]. */
static void lp_wide_by(const float *panel, int64_t rows, const float *const *x,
                       const float *const *next, int64_t n, int begins, float *acc) {
    _Alignas(64) float packed[LP_WIDE_COLS * LP_WIDE_K];
    const int64_t steps = (n + 15) / 16, tiles = rows / LP_F_ROWS;
    lp_wide_pack(x, n, packed);
    for (int64_t i = 0; i < 2 * tiles; i++) {
        for (int64_t line = i; line < steps; line += 2 * tiles) {
            for (int c = 0; c < LP_WIDE_COLS; c++) {
                __builtin_prefetch(next[c] + line * 16, 0, 2);
            }
        }
        lp_wide_tile(panel + i * steps * LP_F_ROWS * 8,
                     packed + i / tiles * steps * LP_WIDE_COLS * 8, steps, begins,
                     acc + i * LP_F_TILE);
    }
}

/* Sum up what n_col columns from col on have, and store it: rows r.. of a task. */
static void lp_wide_store(const struct lp_mm *t, int64_t r, int64_t col, int n_col,
                          const float *acc) {
    const int64_t rows = lp_wide_rows(t, r), half = rows * LP_WIDE_COLS * 8;
    for (int c = 0; c < n_col; c++) {
        float out[LP_WIDE_ROWS];
        for (int64_t i = 0; i < rows; i += 16) {
            v16 a[16];
            for (int64_t j = 0; j < 16; j++) { /* the last row stands in for missing ones */
                const int64_t row = i + j < rows ? i + j : rows - 1;
                const float *p = acc + row / LP_F_ROWS * LP_F_TILE;
                p += (c * LP_F_ROWS + row % LP_F_ROWS) * 8;
                a[j] = v_of_halves(v8_load(p), v8_load(p + half));
            }
            v_store(out + i, v_sum16(a));
        }
        lp_mm_store(t, r, t->r1 - r < rows ? t->r1 - r : rows, col + c, out);
    }
}

/* Rows r.. of a task, a panel of them, by its columns c0..c1. */
LP_FORCE void lp_wide_panel(const struct lp_reader *rd, const struct lp_mm *t, int64_t r,
                            int64_t c0, int64_t c1, float *panel) {
    const int64_t rows = lp_wide_rows(t, r), wait = lp_wide_waits(t->k) ? LP_WIDE_ACC : 0;
    float *acc = panel + LP_WIDE_ROWS * lp_wide_k(t->k);
    for (int64_t k = 0; k < t->k; k += LP_WIDE_K) {
        const int64_t n = lp_clamp(t->k - k, 0, LP_WIDE_K);
        lp_widen(rd, t, r, k, n, panel);
        for (int64_t col = c0; col < c1; col += LP_WIDE_COLS) {
            const int n_col = (int)lp_clamp(c1 - col, 0, LP_WIDE_COLS);
            float *own = acc + (col - c0) / LP_WIDE_COLS * wait;
            const float *x[2 * LP_WIDE_COLS];
            /* The last one stands in for missing ones. */
            for (int c = 0; c < 2 * LP_WIDE_COLS; c++) {
                x[c] = (const float *)lp_mm_x(t, col + c < c1 ? col + c : c1 - 1) + k;
            }
            lp_wide_by(panel, rows, x, x + LP_WIDE_COLS, n, k == 0, own);
            if (k + n == t->k) {
                lp_wide_store(t, r, col, n_col, own);
            }
        }
    }
}

/* scratch: lp_wide_bytes. */
LP_FORCE void lp_gemm_f32(const struct lp_reader *rd, const struct lp_mm *t, float *scratch) {
    for (int64_t col = t->c0; col < t->c1; col += LP_TASK_COLS_MAX) {
        const int64_t end = col + LP_TASK_COLS_MAX < t->c1 ? col + LP_TASK_COLS_MAX : t->c1;
        for (int64_t r = t->r0; r < t->r1; r += LP_WIDE_ROWS) {
            lp_wide_panel(rd, t, r, col, end, scratch);
        }
    }
}

#endif
