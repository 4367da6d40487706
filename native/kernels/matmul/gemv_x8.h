/* Few columns: the weights are unpacked in registers, eight rows at a time, each row's bytes once.
 * Products of eight rows with a group are summed across lanes together, so that floats accumulate
 * with lane = row, in k order. */
#ifndef LP_GEMV_X8_H
#define LP_GEMV_X8_H

#include "x8_rows.h"

LP_FORCE int lp_gemv_max(const struct lp_fmt *f) {
    (void)f;
    return LP_GEMV_COLS;
}

struct lp_col {
    const int8_t *q;
    const float *d;
    const int32_t *sum; /* with sub-minima: the sums of both halves, pairs of int16 */
    f32x8 acc, accm;
};

/* Exact sums of a group of eight rows, lane = row, the halves' where they are summed apart. w as
 * from lp_rows_lanes. What the lanes hold too much is where the sums start. */
LP_FORCE void lp_gemv_isum(const struct lp_fmt *f, const b32 *w, const int8_t *q, i32x8 *isum) {
    const b32 x0 = b32_twice(q), x1 = b32_twice(q + 16), off = b32_set1(i8_dot_rest(f->off));
    const i32x8 zero = i8_set1(0);
    i32x8 d[8], start0 = zero, start1 = zero;
    if (i8_dot_rest(f->off)) {
        start0 = i8_sub(zero, i8_dot(zero, off, x0, 0));
        start1 = i8_sub(lp_in_halves(f) ? zero : start0, i8_dot(zero, off, x1, 0));
    }
    for (int i = 0; i < 4; i++) {
        d[i] = i8_dot(lp_in_halves(f) ? start0 : start1, w[i], x0, f->off);
        d[i + 4] = i8_dot(lp_in_halves(f) ? start1 : d[i], w[i + 4], x1, f->off);
    }
    isum[0] = i8_sums4(lp_in_halves(f) ? d : d + 4);
    if (lp_in_halves(f)) {
        isum[1] = i8_sums4(d + 4);
    }
}

/* With sub-minima: the sums of both halves of every group of a column, to out [k / 32]. */
LP_FORCE void lp_gemv_pairs(const int8_t *q, int64_t k, int32_t *out) {
    for (int64_t g = 0; g < k / 32; g += 8) {
        i32x8 first, second;
        lp_half_sums(q + g * 32, 8, &first, &second);
        i8_store(out + g, lp_pairs_of(first, second));
    }
}

/* Add group g, the j-th of those that were opened, to every column. */
LP_FORCE void lp_gemv_group(const struct lp_fmt *f, const struct lp_lanes *l,
                            const uint8_t *const *block, const struct lp_rows_scales *s, int64_t g,
                            int j, const int n_col, struct lp_col *c) {
    b32 w[8];
    f32x8 ws, wm;
    lp_rows_lanes(f, l, block, j, w);
    lp_rows_scale(f, l, block, s, j, &ws, &wm);
    for (int i = 0; i < n_col; i++) {
        const f32x8 d = f8_set1(c[i].d[g]);
        i32x8 half[2], sum = i8_set1(c[i].sum[g]);
        lp_gemv_isum(f, w, c[i].q + g * 32, half);
        c[i].acc = lp_rows_add(f, s, j, ws, wm, d, half, c[i].acc);
        if (lp_sub_min(f)) {
            sum = i8_pairs(sum, s->min[j]);
        }
        if (f->has_min) {
            c[i].accm = f8_fma(wm, f8_mul(d, f8_from_i(sum)), c[i].accm);
        }
    }
}

/* Rows r.. (eight at most) of a task by columns c, n_col of which some may stand in for missing
 * ones. Blocks of several groups are unrolled where that pays: groups differ in their shifts. */
LP_FORCE void lp_gemv8(const struct lp_fmt *f, const struct lp_lanes *l, const struct lp_mm *t,
                       int64_t r, const int n_col, struct lp_col *c) {
    const int64_t n_group = t->k / 32;
    const int evenly = LP_FETCH_EVENLY && f->max >= 63; /* with fewer bits a group takes longer */
    const int64_t unit = 8 * 256 / f->block * f->bytes, ahead = lp_ahead(8 * t->w_nb);
    const uint8_t *row[8], *block[8];
    struct lp_rows_scales s;
    int64_t g = 0;
    lp_rows_at(t, r, row);
    for (int i = 0; i < n_col; i++) {
        c[i].acc = c[i].accm = f8_zero();
    }
    for (; g + 8 <= n_group; g += 8) {
        lp_rows_open(f, l, row, g, block, &s);
        const uint8_t *at = row[0] + ahead + g / 8 * unit;
        lp_fetch(f, at, 0, evenly ? 0 : 8);
        if (f->block > 32 && n_col == 1) {
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++) {
                lp_fetch(f, at, j, j + evenly);
                lp_gemv_group(f, l, block, &s, g + j, j, n_col, c);
            }
        } else {
#pragma GCC unroll 1
            for (int j = 0; j < 8; j++) {
                lp_fetch(f, at, j, j + evenly);
                lp_gemv_group(f, l, block, &s, g + j, j, n_col, c);
            }
        }
    }
    if (f->block < 256 && g < n_group) {
        const int n = (int)(n_group - g);
        lp_rows_open(f, l, row, g, block, &s);
        lp_prefetch(row[0] + ahead + g / 8 * unit, n * unit / 8);
#pragma GCC unroll 1
        for (int j = 0; j < n; j++) {
            lp_gemv_group(f, l, block, &s, g + j, j, n_col, c);
        }
    }
    for (int i = 0; i < n_col && t->c0 + i < t->c1; i++) {
        const f32x8 sum = f->has_min ? f8_add(c[i].acc, c[i].accm) : c[i].acc;
        if (t->r1 - r >= 8) {
            lp_rows_store(t, r, t->c0 + i, sum);
            continue;
        }
        float v[8];
        f8_store(v, sum);
        lp_mm_store(t, r, t->r1 - r, t->c0 + i, v);
    }
}

/* scratch: int32 [LP_GEMV_COLS][k / 32] */
LP_FORCE void lp_gemv(const struct lp_fmt *f, const struct lp_lanes *l, const struct lp_mm *t,
                      char *scratch) {
    const int n_col = (int)(t->c1 - t->c0);
    struct lp_col c[LP_GEMV_COLS];
    for (int i = 0; i < LP_GEMV_COLS; i++) {
        const char *x = lp_mm_x(t, t->c0 + (i < n_col ? i : n_col - 1));
        int32_t *pairs = (int32_t *)scratch + i * (t->k / 32);
        c[i].q = lp_x8_q(x);
        c[i].d = lp_x8_d(x, t->k);
        c[i].sum = lp_sub_min(f) ? pairs : lp_x8_sum(x, t->k);
        if (lp_sub_min(f) && !t->kept) {
            lp_gemv_pairs(c[i].q, t->k, pairs);
        }
    }
    for (int64_t r = t->r0; r < t->r1; r += 8) {
        if (n_col == 1) {
            lp_gemv8(f, l, t, r, 1, c);
        } else if (n_col == 2) {
            lp_gemv8(f, l, t, r, 2, c);
        } else {
            lp_gemv8(f, l, t, r, LP_GEMV_COLS, c);
        }
    }
}

#endif
