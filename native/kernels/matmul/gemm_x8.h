/* Many columns: rows are unpacked into a panel once (panel.h), then multiplied with tiles of
 * columns (tiler.h). */
#ifndef LP_GEMM_X8_H
#define LP_GEMM_X8_H

#include "x8_rows.h"
#include "prep.h"
#include "tiler.h"

/* Signed weights as magnitudes, and signs apart. */
LP_FORCE void lp_unpack_signs(const struct lp_fmt *f, const b32 *w, int rows, uint8_t *at) {
    i32x8 less = i8_set1(0);
    for (int i = 0; i < 8; i++) {
        const b32 minus = b32_minus(w[i]), q = b32_sub(b32_xor(w[i], minus), minus);
        less = i8_dot(less, q, minus, 0);
        b32_store(at + i * rows * 4, q);
        b32_store(at + lp_at_signs(f, rows) + i * rows * 4, minus);
    }
    i8_store((int32_t *)(at + lp_at_less(f, rows)), i8_sub(i8_set1(0), less));
}

LP_FORCE void lp_unpack_sub(const struct lp_fmt *f, const struct lp_tiler *tiler, i32x8 s0,
                            i32x8 s1, uint8_t *at) {
    int32_t *sub = (int32_t *)(at + lp_at_s(f, tiler->rows));
    const i32x8 less = i8_set1(-f->off);
    if (lp_panel_twice(f, tiler->form)) {
        i8_store(sub, lp_pairs_of(s0, s0));
        i8_store(sub + tiler->rows, lp_pairs_of(s1, s1));
        if (f->off) {
            i8_store((int32_t *)(at + lp_at_less(f, tiler->rows)),
                     lp_pairs_of(i8_mul(s0, less), i8_mul(s1, less)));
        }
    } else if (lp_tile_pairs(f) && tiler->form != LP_PANEL_SIGNED) {
        i8_store(sub, lp_pairs_of(s1, s0));
    } else {
        i8_store(sub, s0);
        i8_store(sub + tiler->rows, s1);
    }
}

/* The j-th group of those that were opened; at: its record, moved to the first of the eight lanes.
 */
LP_FORCE void lp_unpack_group(const struct lp_fmt *f, const struct lp_lanes *l,
                              const struct lp_tiler *tiler, const uint8_t *const *block,
                              const struct lp_rows_scales *s, int j, uint8_t *at) {
    const int rows = tiler->rows;
    const b32 less = b32_set1(lp_panel_less(tiler, f->off));
    b32 w[8];
    f32x8 ws, wm;
    lp_rows_lanes(f, l, block, j, w);
    lp_rows_scale(f, l, block, s, j, &ws, &wm);
    if (!LP_R8) {
        b32_transpose4(w);
        b32_transpose4(w + 4);
    }
    for (int i = 0; lp_folded(f) && i < 8; i++) { /* four products a lane, none above 127 */
        w[i] = i8_mul(w[i], s->sub[2 * j + i / 4]);
    }
    for (int i = 0; i < 8; i++) {
        w[i] = b32_sub(w[i], less);
        b32_store(at + i * rows * 4, w[i]);
    }
    if (lp_panel_apart(f, tiler->form)) {
        lp_unpack_signs(f, w, rows, at);
    }
    f8_store((float *)(at + lp_at_ws(rows)), ws);
    if (f->has_min || f->has_two) {
        f8_store((float *)(at + lp_at_wm(rows)), wm);
    }
    if (lp_tile_sub(f)) {
        lp_unpack_sub(f, tiler, s->sub[2 * j], s->sub[2 * j + 1], at);
    }
    if (lp_sub_min(f)) {
        i8_store((int32_t *)(at + lp_at_m(f, rows)), s->min[j]);
    }
}

/* n groups (8, or the last ones of a row) of eight rows, from group g on. */
LP_FORCE void lp_unpack8(const struct lp_fmt *f, const struct lp_lanes *l,
                         const struct lp_tiler *tiler, const uint8_t *const *row, int64_t g, int n,
                         uint8_t *at) {
    const uint8_t *block[8];
    struct lp_rows_scales s;
    lp_rows_open(f, l, row, g, block, &s);
#pragma GCC unroll 1
    for (int j = 0; j < n; j++) {
        lp_unpack_group(f, l, tiler, block, &s, j, at);
        at += lp_panel_record(f, tiler->form, tiler->rows);
    }
}

/* A tile of rows from row r on, 8 groups at a time so that the records being filled stay in the
 * first-level cache; the next tile's bytes are fetched ahead. */
LP_FORCE void lp_unpack(const struct lp_fmt *f, const struct lp_lanes *l,
                        const struct lp_tiler *tiler, const struct lp_mm *t, int64_t r,
                        uint8_t *at) {
    const int64_t n_group = t->k / 32, unit = 256 / f->block * f->bytes;
    for (int64_t g = 0; g < n_group; g += 8) {
        const int n = f->block == 256 || n_group - g > 8 ? 8 : (int)(n_group - g);
        for (int i = 0; i < tiler->rows; i += 8) {
            const uint8_t *row[8];
            lp_rows_at(t, r + i, row);
            lp_prefetch(row[0] + tiler->rows * t->w_nb + g / 8 * unit * 8, unit * 8);
            lp_unpack8(f, l, tiler, row, g, n, at + i * 4);
        }
        at += 8 * lp_panel_record(f, tiler->form, tiler->rows);
    }
}

/* Rows r..end of a task, unpacked, by all its columns. What prep.h makes of them is made once, if
 * there is room for it: `all`. */
LP_FORCE void lp_gemm_panel(const struct lp_fmt *f, const struct lp_tiler *tiler,
                            lp_tile_fn multiply, const struct lp_mm *t, int64_t r, int64_t end,
                            const uint8_t *panel, char *prep, int all) {
    const int made = all && (t->kept || r > t->r0);
    const int64_t n_group = t->k / 32,
                  tile = n_group * lp_panel_record(f, tiler->form, tiler->rows);
    float out[LP_TILE_OUT];
    for (int64_t col = t->c0; col < t->c1; col += tiler->cols) {
        const int n_col = (int)(t->c1 - col < tiler->cols ? t->c1 - col : tiler->cols);
        const int8_t *x[LP_TILE_COLS_MAX];
        for (int c = 0; c < tiler->cols; c++) { /* the last one stands in for missing ones */
            const char *at = lp_mm_x(t, col + (c < n_col ? c : n_col - 1));
            x[c] = lp_x8_q(at);
            if (!made) {
                lp_prep(f, at, t->k, prep + c * LP_PREP_BYTES);
            }
        }
        for (int64_t i = r; i < end; i += tiler->rows) {
            const uint8_t *w = panel + (i - r) / tiler->rows * tile;
            multiply(w, n_group, x, prep, n_col, out);
            for (int c = 0; c < n_col; c++) {
                lp_mm_store(t, i, end - i < tiler->rows ? end - i : tiler->rows, col + c,
                            out + c * tiler->rows);
            }
        }
        prep += all ? lp_prep_bytes(t->k) : 0;
    }
}

LP_FORCE int lp_gemm(const struct lp_fmt *f, const struct lp_lanes *l, const struct lp_tiler *tiler,
                     const struct lp_mm *t, char *scratch) {
    const lp_tile_fn multiply = lp_tile_of(tiler, f);
    if (!multiply) {
        return LP_E_TYPES;
    }
    const int64_t n_group = t->k / 32,
                  tile = n_group * lp_panel_record(f, tiler->form, tiler->rows);
    const int64_t rows = lp_panel_rows(t->k), all = t->at ? 0 : lp_prep_all(t->k, t->c1 - t->c0);
    uint8_t *panel = (uint8_t *)scratch + lp_up(all ? all : lp_prep_bytes(t->k), 64);
    for (int64_t r = t->r0; r < t->r1; r += rows) {
        const int64_t end = r + rows < t->r1 ? r + rows : t->r1;
        for (int64_t i = r; i < end; i += tiler->rows) {
            lp_unpack(f, l, tiler, t, i, panel + (i - r) / tiler->rows * tile);
        }
        lp_gemm_panel(f, tiler, multiply, t, r, end, panel, scratch, all > 0);
    }
    return LP_OK;
}

LP_FORCE int lp_mul_mat_x8(const struct lp_fmt *f, const struct lp_lanes *l,
                           const struct lp_tiler *tiler, const struct lp_args *a, int64_t task,
                           char *scratch) {
    struct lp_mm t;
    int status = lp_mm_open(a, task, &t);
    if (status || t.k % f->block || (LP_R8 && t.w_nb != t.k / f->block * f->bytes)) {
        return status ? status : LP_E_TYPES;
    }
    scratch = lp_mm_keep(a, &t, scratch);
    if (t.c1 - t.c0 <= lp_gemv_max(f)) {
        lp_gemv(f, l, &t, scratch);
        return LP_OK;
    }
    return lp_gemm(f, l, tiler, &t, scratch);
}

LP_APART int lp_mul_mat_of(const struct lp_tiler *tiler, const struct lp_args *a, int64_t task,
                           void *scratch) {
    return lp_mul_mat_x8(&LP_OF_FORMAT(lp_fmt_, ), &LP_OF_FORMAT(lp_lanes_, ), tiler, a, task,
                         scratch);
}

/* The kernel of an instruction set that brings tiles; the rest may be compiled for a lower one.
 * x: _x8_, or _r8_x8_ for interleaved rows. */
#define LP_MUL_MAT(x, isa)                                                                         \
    extern const struct lp_tiler lp_tiler_##isa;                                                   \
    int LP_OF_FORMAT(lp_mul_mat_, x##isa)(const struct lp_args *a, int64_t task, void *s) {        \
        return lp_mul_mat_of(&lp_tiler_##isa, a, task, s);                                         \
    }

#endif
