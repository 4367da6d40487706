/* The scratch of a task with many columns: a panel of unpacked weight rows and what a tile of
 * columns needs besides the activations themselves.
 *
 * Panel: tiles of R rows (R is the instruction set's), a record per group of 32 in k order:
 *   uint8 q[8][R][4]   weight 4 i + l of the group and row r is q[i][r][l], where lp_folded times
 *                      its sub-scale
 *   float ws[R]        then, where the format has them, float wm[R], int32 s0[R], s1[R] (pairs of
 *                      int16 instead, s0 s0 [R] and s1 s1 [R] where lp_panel_twice; otherwise,
 *                      where lp_tile_pairs, one plane s1 s0 [R], unless the panel is
 *                      LP_PANEL_SIGNED) and the sub-minima, pairs of int16 [R]
 *   int32 less[R]      where lp_panel_apart: the sum of the |q| of what is negative, and then uint8
 *                      signs[8][R][4], bytes of ones there; where lp_panel_twice and off is not 0
 *                      pairs of int16: -off s0, -off s1
 *
 * Prep: for every 8 groups and column of the tile: float d[8], float d * sum [8] (with sub-scales
 * the sums of both halves instead, pairs of int16 [8]), and what the sum of (q + off) * x over the
 * group (the first half, the second half) exceeds that of q * x, negated: int32 [8], int32 [8]. */
#ifndef LP_PANEL_H
#define LP_PANEL_H

#include "matmul.h"

#define LP_TILE_COLS_MIN 4 /* of a tiler */
#define LP_TILE_COLS_MAX 6
#define LP_TILE_OUT (32 * LP_TILE_COLS_MAX)
#define LP_PREP_BYTES 128 /* of one column and 8 groups */
#define LP_PREP_ALL_MAX (4 << 20)

/* Rows unpacked at once: 128 KiB of weights stay in the second-level cache. */
static inline int64_t lp_panel_rows(int64_t k) {
    return lp_clamp((128 << 10) / (k > 0 ? k : 1), 32, LP_PANEL_ROWS_MAX) / 32 * 32;
}
static inline int64_t lp_panel_row_bytes_max(int64_t k) {
    return k / 32 * (32 + 4 * 10);
}
static inline int64_t lp_prep_bytes(int64_t k) {
    return (k / 32 + 7) / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES;
}
/* Of all tiles of that many columns, for a thread's next tasks; 0 where it would be too much. */
static inline int64_t lp_prep_all(int64_t k, int64_t cols) {
    const int64_t bytes = (cols + LP_TILE_COLS_MIN - 1) / LP_TILE_COLS_MIN * lp_prep_bytes(k);
    return bytes <= LP_PREP_ALL_MAX ? bytes : 0;
}

/* Whether sub-scales are multiplied into the panel's weights: where the products stay small. */
LP_FORCE int lp_folded(const struct lp_fmt *f) {
    return f->has_sub && f->off == 0 && f->max_sub > 0 && f->max * f->max_sub < 128;
}
/* Whether a tile has sub-scales to apply, and whether it sums halves apart. */
LP_FORCE int lp_tile_sub(const struct lp_fmt *f) {
    return f->has_sub && !lp_folded(f);
}
LP_FORCE int lp_tile_halves(const struct lp_fmt *f) {
    return lp_tile_sub(f) || f->has_two;
}
/* Whether a half's sum of q * x, 16 * 16 * 127 at most with off in the middle, fits 16 bits: the
 * halves' sums can stand in one lane, s0 above s1, and meet both sub-scales in one instruction. */
LP_FORCE int lp_tile_pairs(const struct lp_fmt *f) {
    return lp_tile_sub(f) && f->max <= 31;
}

/* Offsets in a record of a tile of `rows` rows. */
LP_FORCE int64_t lp_at_ws(int rows) {
    return rows * 32;
}
LP_FORCE int64_t lp_at_wm(int rows) {
    return rows * 36;
}
LP_FORCE int64_t lp_at_s(const struct lp_fmt *f, int rows) {
    return rows * (36 + (f->has_min || f->has_two ? 4 : 0));
}
LP_FORCE int64_t lp_at_m(const struct lp_fmt *f, int rows) {
    return lp_at_s(f, rows) + (lp_tile_sub(f) ? rows * 8 : 0);
}
LP_FORCE int64_t lp_record_bytes(const struct lp_fmt *f, int rows) {
    return lp_at_m(f, rows) + (lp_sub_min(f) ? rows * 4 : 0);
}
/* How weights stand in the panel. */
enum lp_panel_form {
    LP_PANEL_PLUS,  /* q + off, unsigned */
    LP_PANEL_BYTES, /* so, but bytes of their own (off 128) signed */
    LP_PANEL_APART, /* so, but of such bytes |q|, and their signs apart */
    LP_PANEL_SIGNED /* q */
};
/* Whether sub-scales stand twice in a lane, to be multiplied with sums of 16 bits. */
LP_FORCE int lp_panel_twice(const struct lp_fmt *f, enum lp_panel_form form) {
    return lp_tile_sub(f) && (form == LP_PANEL_BYTES || form == LP_PANEL_APART);
}
LP_FORCE int lp_panel_apart(const struct lp_fmt *f, enum lp_panel_form form) {
    return f->off == 128 && form == LP_PANEL_APART;
}
LP_FORCE int64_t lp_at_less(const struct lp_fmt *f, int rows) {
    return lp_record_bytes(f, rows);
}
LP_FORCE int64_t lp_at_signs(const struct lp_fmt *f, int rows) {
    return lp_at_less(f, rows) + rows * 4;
}
LP_FORCE int64_t lp_panel_record(const struct lp_fmt *f, enum lp_panel_form form, int rows) {
    const int less = lp_panel_twice(f, form) && f->off;
    return lp_record_bytes(f, rows) + (lp_panel_apart(f, form) ? rows * 36 : less ? rows * 4 : 0);
}

#endif
