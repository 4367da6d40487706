/* Few columns: the weights are unpacked in registers, eight rows at a time, each row's bytes once.
 * The dot products of eight rows with a group are summed across lanes together, so that floats
 * accumulate with lane = row, in k order. */
#ifndef LP_GEMV_X8_H
#define LP_GEMV_X8_H

#include "x8_rows.h"

struct lp_col {
    const int8_t *q;
    const float *d;
    const int32_t *sum;
    f32x8 acc, accm;
};

/* Add group g of eight rows to a column. */
LP_FORCE void lp_gemv_add(const struct lp_fmt *f, const b32 *w, const b32 *sub, f32x8 ws, f32x8 wm,
                          int64_t g, struct lp_col *c) {
    const b32 x = b32_load(c->q + g * 32);
    i32x8 d[8], isum;
    for (int i = 0; i < 8; i++) {
        d[i] = f->has_sub ? i8_dot_sub(w[i], x, f->off, sub[i]) : i8_dot(w[i], x, f->off);
    }
    isum = i8_sums(d);
    if (!f->has_sub && i8_dot_rest(f->off)) {
        isum = i8_sub(isum, i8_set1(i8_dot_rest(f->off) * c->sum[g]));
    }
    c->acc = f8_fma(f8_mul(ws, f8_set1(c->d[g])), f8_from_i(isum), c->acc);
    if (f->has_min) {
        c->accm = f8_fma(wm, f8_set1(c->d[g] * (float)c->sum[g]), c->accm);
    }
}

LP_FORCE void lp_gemv_group(const struct lp_fmt *f, const struct lp_lanes *l,
                            const uint8_t *const *row, int64_t g, int j, f32x8 ws, f32x8 wm,
                            const int n_col, struct lp_col *c) {
    b32 w[8], sub[8];
    lp_rows_lanes(f, l, row, g, j, w);
    for (int i = 0; i < 8; i++) {
        sub[i] = f->has_sub ? b32_sub_scales(l->sub(lp_block_of(f, row[i], g)), j) : w[i];
    }
    for (int i = 0; i < n_col; i++) {
        lp_gemv_add(f, w, sub, ws, wm, g, &c[i]);
    }
}

/* Rows r.. (eight at most) of a task by its columns, n_col at most; the last one stands in for
 * missing ones. A block of 256 is unrolled where that pays: its groups differ in their shifts. */
LP_FORCE void lp_gemv8(const struct lp_fmt *f, const struct lp_lanes *l, const struct lp_mm *t,
                       int64_t r, const int n_col) {
    const int64_t n_group = t->k / 32;
    const uint8_t *row[8];
    const int last = (int)(t->c1 - t->c0) - 1;
    struct lp_col c[LP_GEMV_COLS];
    f32x8 ws[8], wm[8];
    int64_t g = 0;
    lp_rows_at(t, r, row);
    for (int i = 0; i < n_col; i++) {
        const char *x = t->x + (t->c0 + (i < last ? i : last)) * t->x_nb;
        c[i] =
            (struct lp_col){lp_x8_q(x), lp_x8_d(x, t->k), lp_x8_sum(x, t->k), f8_zero(), f8_zero()};
    }
    for (; g + 8 <= n_group; g += 8) {
        lp_rows_scales8(f, l, row, g, ws, wm);
        if (f->block == 256 && n_col == 1) {
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++) {
                lp_gemv_group(f, l, row, g + j, j, ws[j], wm[j], n_col, c);
            }
        } else {
#pragma GCC unroll 1
            for (int j = 0; j < 8; j++) {
                lp_gemv_group(f, l, row, g + j, lp_lane_group(f, j), ws[j], wm[j], n_col, c);
            }
        }
    }
    for (; g < n_group; g++) {
        lp_rows_scales1(f, row, g, ws, wm);
        lp_gemv_group(f, l, row, g, 0, ws[0], wm[0], n_col, c);
    }
    for (int i = 0; i <= last; i++) {
        float v[8];
        f8_store(v, f->has_min ? f8_add(c[i].acc, c[i].accm) : c[i].acc);
        lp_mm_store(t, r, t->r1 - r < 8 ? t->r1 - r : 8, t->c0 + i, v);
    }
}

LP_FORCE void lp_gemv(const struct lp_fmt *f, const struct lp_lanes *l, const struct lp_mm *t) {
    for (int64_t r = t->r0; r < t->r1; r += 8) {
        if (t->c1 - t->c0 == 1) {
            lp_gemv8(f, l, t, r, 1);
        } else if (t->c1 - t->c0 == 2) {
            lp_gemv8(f, l, t, r, 2);
        } else {
            lp_gemv8(f, l, t, r, LP_GEMV_COLS);
        }
    }
}

#endif
