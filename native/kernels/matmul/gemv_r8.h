/* Few columns and rows interleaved by eight: weights are unpacked in registers with lane = row, and
 * read in one sequential stream. */
#ifndef LP_GEMV_R8_H
#define LP_GEMV_R8_H

#include "x8_rows.h"
#include "prep.h"

/* What a column of a task is: its q, what prep.h makes of the rest, and the sums of eight rows. */
struct lp_col {
    const int8_t *q;
    const char *prep;
    f32x8 acc, accm;
};

LP_FORCE f32x8 lp_prep_float(const char *p) {
    float x;
    memcpy(&x, p, 4);
    return f8_set1(x);
}
LP_FORCE i32x8 lp_prep_word(const char *p) {
    int32_t x;
    memcpy(&x, p, 4);
    return i8_set1(x);
}

/* Exact sums of a group of eight rows: of both halves where they are summed apart, else of all. */
LP_FORCE void lp_gemv_isum(const struct lp_fmt *f, const b32 *w, const int8_t *q, const char *prep,
                           i32x8 *isum) {
    i32x8 a = i8_set1(0), b = a;
    if (i8_dot_rest(f->off)) {
        a = lp_prep_word(prep + 64);
        b = lp_in_halves(f) ? lp_prep_word(prep + 96) : b;
    }
    isum[0] = i8_dot4(a, w, q, f->off, f->max);
    isum[1] = i8_dot4(b, w + 4, q + 16, f->off, f->max);
    if (!lp_in_halves(f)) {
        isum[0] = i8_add(isum[0], isum[1]);
    }
}

/* The same, of all columns, where bytes have signs: what is made of a word of weights serves all.
 */
LP_FORCE void lp_gemv_signed(const struct lp_fmt *f, const b32 *w, const int8_t *const *q, int j,
                             const int n_col, i32x8 *isum) {
    for (int c = 0; c < n_col; c++) {
        isum[c] = i8_set1(0);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        for (int c = 0; c < n_col; c++) {
            const b32 x = lp_prep_word((const char *)q[c] + j * 32 + 4 * i);
            isum[c] = i8_dot(isum[c], w[i], x, f->off);
        }
        __asm__ volatile("" ::: "memory"); /* or weights would be loaded long before their use */
    }
}

/* Add the j-th of the eight groups that were opened to every column. */
LP_FORCE void lp_gemv_group(const struct lp_fmt *f, const struct lp_lanes *l,
                            const uint8_t *const *block, const struct lp_rows_scales *s, int j,
                            const int8_t *const *q, const char *const *prep, const int n_col,
                            struct lp_col *c) {
    const int by_words = f->off == 128 && !i8_dot_rest(128);
    b32 w[8];
    f32x8 ws, wm;
    i32x8 isum[LP_GEMV_COLS];
    lp_rows_lanes(f, l, block, j, w);
    lp_rows_scale(f, l, block, s, j, &ws, &wm);
    if (by_words) {
        lp_gemv_signed(f, w, q, j, n_col, isum);
    }
    for (int i = 0; i < n_col; i++) {
        const char *p = prep[i] + 4 * j;
        const f32x8 d = lp_prep_float(p);
        i32x8 half[2];
        if (by_words) {
            half[0] = isum[i];
        } else {
            lp_gemv_isum(f, w, q[i] + j * 32, p, half);
        }
        c[i].acc = lp_rows_add(f, s, j, ws, wm, d, half, c[i].acc);
        if (lp_sub_min(f)) {
            const i32x8 sum = i8_pairs(lp_prep_word(p + 32), s->min[j]);
            c[i].accm = f8_fma(wm, f8_mul(d, f8_from_i(sum)), c[i].accm);
        } else if (f->has_min) {
            c[i].accm = f8_fma(wm, lp_prep_float(p + 32), c[i].accm);
        }
    }
}

/* Bytes ahead. Measured, of a token's time: with each group 0.85 to 0.92 of eight at once on a Zen
 * 3, not so on a Zen 4. There bytes of their own, the quickest used, are better left to the
 * machine: 0.8 to 0.97. */
#define LP_FETCH (LP_FETCH_EVENLY ? 4096 : 6144)

/* Eight rows at `row` by n_col columns. Blocks of several groups are unrolled where that pays:
 * groups differ in their shifts. */
LP_FORCE void lp_gemv8(const struct lp_fmt *f, const struct lp_lanes *l, const uint8_t *row,
                       int64_t n_group, const int n_col, struct lp_col *c) {
    const int64_t unit = 8 * 256 / f->block * f->bytes;
    const int evenly = LP_FETCH_EVENLY, at_once = !evenly && f->max < 255;
    const uint8_t *block[1];
    struct lp_rows_scales s;
    for (int i = 0; i < n_col; i++) {
        c[i].acc = c[i].accm = f8_zero();
    }
    for (int64_t g = 0; g < n_group; g += 8) {
        const int64_t n = n_group - g < 8 ? n_group - g : 8;
        const int8_t *q[LP_GEMV_COLS];
        const char *prep[LP_GEMV_COLS];
        for (int i = 0; i < n_col; i++) {
            q[i] = c[i].q + g * 32;
            prep[i] = c[i].prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES;
        }
        lp_rows_open(f, l, &row, g, block, &s);
        const uint8_t *at = row + g / 8 * unit + LP_FETCH;
        lp_fetch(f, at, 0, at_once ? 8 : 0);
        if (f->block > 32 && n == 8) {
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++) {
                lp_fetch(f, at, j, j + evenly);
                lp_gemv_group(f, l, block, &s, j, q, prep, n_col, c);
            }
        } else {
#pragma GCC unroll 1
            for (int j = 0; j < n; j++) {
                lp_fetch(f, at, j, j + evenly);
                lp_gemv_group(f, l, block, &s, j, q, prep, n_col, c);
            }
        }
    }
}

/* Up to so many columns a panel would cost more than it saves: four, and four again while the eight
 * rows are in the first-level cache, unless the scales of their blocks take long to unpack. */
LP_FORCE int lp_gemv_max(const struct lp_fmt *f) {
    return f->block < 256 ? 2 * LP_GEMV_COLS - 1 : LP_GEMV_COLS;
}

/* Rows r..end of a task by n_col columns from column `first` on, whose places are in `of`. */
LP_FORCE void lp_gemv_cols(const struct lp_fmt *f, const struct lp_lanes *l, const struct lp_mm *t,
                           int64_t r, int64_t end, int first, const int n_col,
                           const struct lp_col *of) {
    struct lp_col c[LP_GEMV_COLS];
    for (int i = 0; i < n_col; i++) {
        c[i] = of[first + i];
    }
    for (; r < end; r += 8) {
        lp_gemv8(f, l, t->w + r * t->w_nb, t->k / 32, n_col, c);
        for (int i = 0; i < n_col; i++) {
            lp_rows_store(t, r, t->c0 + first + i,
                          f->has_min ? f8_add(c[i].acc, c[i].accm) : c[i].acc);
        }
    }
}

/* scratch: lp_prep_bytes for every LP_GEMV_COLS columns. */
LP_FORCE void lp_gemv(const struct lp_fmt *f, const struct lp_lanes *l, const struct lp_mm *t,
                      char *scratch) {
    const int n_col = (int)(t->c1 - t->c0);
    const int64_t rows = n_col <= LP_GEMV_COLS ? t->r1 - t->r0 : 8;
    struct lp_col c[2 * LP_GEMV_COLS];
    for (int i = 0; i < n_col; i++) {
        const char *x = lp_mm_x(t, t->c0 + i);
        char *prep = scratch + i / LP_GEMV_COLS * lp_prep_bytes(t->k);
        c[i].q = lp_x8_q(x);
        c[i].prep = prep + i % LP_GEMV_COLS * LP_PREP_BYTES;
        if (!t->kept) {
            lp_prep(f, x, t->k, prep + i % LP_GEMV_COLS * LP_PREP_BYTES);
        }
    }
    for (int64_t r = t->r0; r < t->r1; r += rows) {
        for (int i = 0; i < n_col; i += LP_GEMV_COLS) {
            if (n_col - i == 1) {
                lp_gemv_cols(f, l, t, r, r + rows, i, 1, c);
            } else if (n_col - i == 2) {
                lp_gemv_cols(f, l, t, r, r + rows, i, 2, c);
            } else if (n_col - i == 3) {
                lp_gemv_cols(f, l, t, r, r + rows, i, 3, c);
            } else {
                lp_gemv_cols(f, l, t, r, r + rows, i, LP_GEMV_COLS, c);
            }
        }
    }
}

#endif
