/* Eight weight rows at once, for the vector kernels: lane = row. Included after an int_*.h. */
#ifndef LP_X8_ROWS_H
#define LP_X8_ROWS_H

#include "formats.h"
#include "matmul.h"

/* Rows r..r+7 of a task; beyond the last one (rows - 1) it stands in for the missing. */
LP_FORCE void lp_rows_at(const struct lp_mm *t, int64_t r, const uint8_t **row) {
    for (int i = 0; i < 8; i++) {
        row[i] = t->w + (r + i < t->r1 ? r + i : t->r1 - 1) * t->w_nb;
    }
}

/* The scales and minima of groups g..g+7: ws[j], wm[j] belong to group g + j. */
LP_FORCE void lp_rows_scales8(const struct lp_fmt *f, const struct lp_lanes *l,
                              const uint8_t *const *row, int64_t g, f32x8 *ws, f32x8 *wm) {
    for (int i = 0; i < 8; i++) {
        l->scales8(lp_block_of(f, row[i], g), &ws[i], &wm[i]);
    }
    f8_transpose(ws);
    if (f->has_min) {
        f8_transpose(wm);
    }
}
/* The same of the single group g. */
LP_FORCE void lp_rows_scales1(const struct lp_fmt *f, const uint8_t *const *row, int64_t g,
                              f32x8 *ws, f32x8 *wm) {
    float a[8], b[8] = {0};
    for (int i = 0; i < 8; i++) {
        struct lp_scales s = {0};
        f->scales(lp_block_of(f, row[i], g), lp_group_in_block(f, g), &s);
        a[i] = s.ws;
        b[i] = s.wm;
    }
    *ws = f8_load(a);
    *wm = f8_load(b);
}

/* Group j of the block of each row that holds group g. */
LP_FORCE void lp_rows_lanes(const struct lp_fmt *f, const struct lp_lanes *l,
                            const uint8_t *const *row, int64_t g, int j, b32 *w) {
    for (int i = 0; i < 8; i++) {
        w[i] = l->lanes(lp_block_of(f, row[i], g), j);
    }
}
LP_FORCE int lp_lane_group(const struct lp_fmt *f, int j) {
    return f->block == 32 ? 0 : j;
}

#endif
