/* A tile of 8 rows by up to 4 columns with NEON. Weights stand signed in the panel, so that sums
 * start at 0: of prep only the activations' scales and sums are read. */
#ifndef LP_TILE_H
#define LP_TILE_H

#include "panel.h"

#define LP_TILE_ROWS 8
#define LP_TILE_COLS 4

LP_FORCE i32x8 lp_tile_word(const void *p) {
    int32_t x;
    memcpy(&x, p, 4);
    return i8_set1(x);
}
LP_FORCE f32x8 lp_tile_float(const void *p) {
    return f8_from_bits(lp_tile_word(p));
}

/* The sums of weights 4 i0..4 i0 + 15 of a group with every column. */
LP_FORCE void lp_tile_half(const uint8_t *rec, int i0, const int8_t *const *x, int64_t at,
                           const int n_col, i32x8 *s) {
#pragma GCC unroll 4
    for (int i = i0; i < i0 + 4; i++) {
        const b32 w = b32_load(rec + i * 32);
#pragma GCC unroll 4
        for (int c = 0; c < n_col; c++) {
            s[c] = i8_dot_signed(s[c], w, lp_tile_word(x[c] + at + 4 * i));
        }
    }
}

LP_FORCE void lp_tile_group(const struct lp_fmt *f, const uint8_t *rec, const int8_t *const *x,
                            int64_t at, const char *prep, const int n_col, f32x8 *acc) {
    const int32_t *sub = (const int32_t *)(rec + lp_at_s(f, LP_TILE_ROWS));
    const f32x8 ws = f8_load((const float *)(rec + lp_at_ws(LP_TILE_ROWS)));
    i32x8 s[LP_TILE_COLS], first[LP_TILE_COLS];
    for (int c = 0; c < n_col; c++) {
        s[c] = i8_set1(0);
    }
    lp_tile_half(rec, 0, x, at, n_col, s);
    for (int c = 0; lp_tile_halves(f) && c < n_col; c++) {
        first[c] = s[c];
        s[c] = i8_set1(0);
    }
    lp_tile_half(rec, 4, x, at, n_col, s);
    for (int c = 0; c < n_col; c++) {
        const f32x8 d = lp_tile_float(prep + c * LP_PREP_BYTES);
        if (lp_tile_sub(f)) {
            s[c] =
                i8_add(i8_mul(first[c], i8_load(sub)), i8_mul(s[c], i8_load(sub + LP_TILE_ROWS)));
        }
        if (f->has_two) {
            const f32x8 second = f8_load((const float *)(rec + lp_at_wm(LP_TILE_ROWS)));
            acc[c] = f8_fma(f8_mul(ws, d), f8_from_i(first[c]), acc[c]);
            acc[c] = f8_fma(f8_mul(second, d), f8_from_i(s[c]), acc[c]);
        } else {
            acc[c] = f8_fma(f8_mul(ws, d), f8_from_i(s[c]), acc[c]);
        }
    }
}

/* The minimum's share of a group. */
LP_FORCE void lp_tile_min(const struct lp_fmt *f, const uint8_t *rec, const char *prep,
                          const int n_col, f32x8 *accm) {
    const f32x8 wm = f8_load((const float *)(rec + lp_at_wm(LP_TILE_ROWS)));
    for (int c = 0; c < n_col; c++) {
        const char *p = prep + c * LP_PREP_BYTES;
        f32x8 x = lp_tile_float(p + 32);
        if (lp_sub_min(f)) {
            const i32x8 m = i8_load((const int32_t *)(rec + lp_at_m(f, LP_TILE_ROWS)));
            x = f8_mul(lp_tile_float(p), f8_from_i(i8_pairs(m, lp_tile_word(p + 32))));
        }
        accm[c] = f8_fma(wm, x, accm[c]);
    }
}

LP_FORCE void lp_tile(const struct lp_fmt *f, const uint8_t *panel, int64_t n_group,
                      const int8_t *const *x, const char *prep, const int n_col, float *out) {
    const int64_t record = lp_record_bytes(f, LP_TILE_ROWS);
    f32x8 acc[LP_TILE_COLS], accm[LP_TILE_COLS];
    for (int c = 0; c < n_col; c++) {
        acc[c] = accm[c] = f8_zero();
    }
    for (int64_t g = 0; g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
        lp_tile_group(f, panel + g * record, x, g * 32, p, n_col, acc);
    }
    for (int64_t g = 0; f->has_min && g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
        lp_tile_min(f, panel + g * record, p, n_col, accm);
    }
    for (int c = 0; c < n_col; c++) {
        f8_store(out + c * LP_TILE_ROWS, f->has_min ? f8_add(acc[c], accm[c]) : acc[c]);
    }
}

#endif
