/* Float weights by many columns where registers are few. The 16 accumulators of an element
 * (dot_f32.h) are summed in two passes of eight, so that one register is enough for an element and
 * a tile of rows by columns loads little for each fma.
 *
 * Rows are widened to f32 once for all columns, LP_WIDE_K of k at a time; between those the
 * accumulators lie in memory. Their order stays, and so do the bits. Columns are brought together,
 * LP_F_STEP of k at a time: at strides of whole pages they would displace each other.
 *
 * Panel: for every LP_F_ROWS rows and half of 16 lanes [lp_wide_k / 16][rows][8]. */
#ifndef LP_GEMM_F32_H
#define LP_GEMM_F32_H

#include "dot_f32.h"
#include "panel_f32.h"

enum {
    LP_F_ROWS = 2, /* of a tile by LP_WIDE_COLS columns */
    LP_F_ELEMENTS = LP_F_ROWS * LP_WIDE_COLS,
    LP_F_TILES = LP_WIDE_ROWS / LP_F_ROWS, /* of a panel */
    LP_F_STEP = 512, /* of k: so much of LP_WIDE_COLS columns stays in the first-level cache */
    LP_F_PACK = LP_WIDE_COLS * LP_F_STEP,
};

/* acc[column][row][8 of 16 lanes] += the products of n times 8 lanes. */
static void lp_wide_tile(const float *w, const float *x, int64_t n, int begins, float *acc) {
    v8 s[LP_WIDE_COLS][LP_F_ROWS];
#pragma GCC unroll 12
    for (int i = 0; i < LP_F_ELEMENTS; i++) {
        s[i / LP_F_ROWS][i % LP_F_ROWS] = begins ? v8_zero() : v8_load(acc + i * 16);
    }
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
        v8_store(acc + i * 16, s[i / LP_F_ROWS][i % LP_F_ROWS]);
    }
}

/* n <= LP_F_STEP of k of the columns side by side: for both halves of 16 lanes
 * [LP_F_STEP / 16][LP_WIDE_COLS][8], zeros for what is missing of 16. */
static void lp_wide_pack(const float *const *x, int64_t k, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += 16) {
        for (int c = 0; c < LP_WIDE_COLS; c++) {
            const float *p = x[c] + k + i;
            const v16 a = n - i < 16 ? v_load_n(p, (int)(n - i)) : v_load(p);
            v8_store(out + (i / 16 * LP_WIDE_COLS + c) * 8, v_half(a, 0));
            v8_store(out + (i / 16 * LP_WIDE_COLS + c) * 8 + LP_F_PACK / 2, v_half(a, 1));
        }
    }
}

/* Rows r.. of a task as a panel, n of k from k0 on: the last row stands in for missing ones, zeros
 * for what is missing of 16. */
LP_FORCE void lp_widen(const struct lp_reader *rd, const struct lp_mm *t, int64_t r, int64_t k0,
                       int64_t n, float *panel) {
    const int64_t half = lp_wide_k(t->k) / 16 * LP_F_ROWS * 8;
    for (int64_t j = 0; j < LP_WIDE_ROWS; j++) {
        const uint8_t *w = t->w + (r + j < t->r1 ? r + j : t->r1 - 1) * t->w_nb + k0 * rd->bytes;
        float *to = panel + j / LP_F_ROWS * 2 * half + j % LP_F_ROWS * 8;
        for (int64_t i = 0; i < n; i += 16) {
            const uint8_t *p = w + i * rd->bytes;
            const v16 a = n - i < 16 ? rd->load_n(p, (int)(n - i)) : rd->load(p);
            v8_store(to, v_half(a, 0));
            v8_store(to + half, v_half(a, 1));
            to += LP_F_ROWS * 8;
        }
    }
}

/* A panel by LP_WIDE_COLS columns; n of k, of which x points at the first. What is packed next is
 * fetched meanwhile: its lines are from too many places for the machine to foresee. `next`: of the
 * columns after these. half: floats of half a tile of the panel.
 * acc [LP_F_TILES][LP_F_ELEMENTS][16]. */
static void lp_wide_columns_by(const float *panel, int64_t half, const float *const *x,
                               const float *const *next, int64_t n, int begins, float *acc) {
    _Alignas(64) float packed[LP_F_PACK];
    for (int64_t k = 0; k < n; k += LP_F_STEP) {
        const int64_t most = n - k < LP_F_STEP ? n - k : LP_F_STEP;
        const int in = k + LP_F_STEP < n;
        lp_wide_pack(x, k, most, packed);
        for (int i = 0; i < LP_F_TILES * 2; i++) {
            const float *w = panel + i * half + k / 2 * LP_F_ROWS;
            for (int c = 0; c < LP_WIDE_COLS; c++) {
                __builtin_prefetch((in ? x[c] + k + LP_F_STEP : next[c]) + i * 16, 0, 2);
            }
            lp_wide_tile(w, packed + i % 2 * (LP_F_PACK / 2), (most + 15) / 16, begins && k == 0,
                         acc + i / 2 * LP_F_ELEMENTS * 16 + i % 2 * 8);
        }
    }
}

/* Sum up what n_col columns from col on have, and store it: rows r.. of a task. */
static void lp_wide_store(const struct lp_mm *t, int64_t r, int64_t col, int n_col,
                          const float *acc) {
    const int64_t rows = t->r1 - r < LP_WIDE_ROWS ? t->r1 - r : LP_WIDE_ROWS;
    float sums[LP_WIDE_ACC / 16];
    for (int i = 0; i < LP_WIDE_ACC / 16; i += 16) {
        v16 a[16];
        for (int j = 0; j < 16; j++) {
            a[j] = v_load(acc + (i + j) * 16);
        }
        v_store(sums + i, v_sum16(a));
    }
    for (int c = 0; c < n_col; c++) {
        float out[LP_WIDE_ROWS];
        for (int i = 0; i < LP_WIDE_ROWS; i++) {
            out[i] = sums[(i / LP_F_ROWS * LP_WIDE_COLS + c) * LP_F_ROWS + i % LP_F_ROWS];
        }
        lp_mm_store(t, r, rows, col + c, out);
    }
}

/* Rows r.. of a task, a panel of them, by its columns c0..c1. */
LP_FORCE void lp_wide_panel(const struct lp_reader *rd, const struct lp_mm *t, int64_t r,
                            int64_t c0, int64_t c1, float *panel) {
    const int64_t wide = lp_wide_k(t->k), half = wide / 16 * LP_F_ROWS * 8;
    float *acc = panel + LP_WIDE_ROWS * wide;
    for (int64_t k = 0; k < t->k; k += LP_WIDE_K) {
        const int64_t n = t->k - k < LP_WIDE_K ? t->k - k : LP_WIDE_K;
        lp_widen(rd, t, r, k, n, panel);
        for (int64_t col = c0; col < c1; col += LP_WIDE_COLS) {
            const int n_col = (int)(c1 - col < LP_WIDE_COLS ? c1 - col : LP_WIDE_COLS);
            float *own = acc + (t->k > LP_WIDE_K ? (col - c0) / LP_WIDE_COLS * LP_WIDE_ACC : 0);
            const float *x[2 * LP_WIDE_COLS];
            /* The last one stands in for missing ones. */
            for (int c = 0; c < 2 * LP_WIDE_COLS; c++) {
                x[c] = (const float *)lp_mm_x(t, col + c < c1 ? col + c : c1 - 1) + k;
            }
            lp_wide_columns_by(panel, half, x, x + LP_WIDE_COLS, n, k == 0, own);
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
