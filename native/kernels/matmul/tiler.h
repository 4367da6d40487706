/* Tiles, and which one a format takes. Of a format a tile sees only how its group's sums are made,
 * so formats share tiles, and an instruction set that differs in its tiles alone is one small
 * object: tiles_<isa>.c has a function for each kind below. */
#ifndef LP_TILER_H
#define LP_TILER_H

#include "panel.h"

/* X(name, members of struct lp_fmt): weights without minimum; in bytes of their own; with a
 * minimum; with sub-scales; with both; with two scales. `max` is the largest weight the tile may
 * meet; of kinds that differ in nothing else the smallest stands first. */
#define LP_TILE_KINDS(X)                                                                           \
    X(w15, .off = 8, .max = 15)                                                                    \
    X(w31, .off = 16, .max = 31)                                                                   \
    X(w127, .off = 64, .max = 127)                                                                 \
    X(w255, .off = 128, .max = 255)                                                                \
    X(min15, .max = 15, .has_min = 1)                                                              \
    X(min31, .max = 31, .has_min = 1)                                                              \
    X(sub15, .off = 8, .max = 15, .has_sub = 1)                                                    \
    X(sub31, .off = 16, .max = 31, .has_sub = 1)                                                   \
    X(sub63, .off = 32, .max = 63, .has_sub = 1)                                                   \
    X(sub127, .off = 64, .max = 127, .has_sub = 1)                                                 \
    X(sub_min, .max = 4, .max_sub = 15, .has_sub = 1, .has_min = 1)                                \
    X(two31, .off = 16, .max = 31, .has_two = 1)

#define LP_TILE_COUNT(name, ...) +1
#define LP_N_TILES (LP_TILE_KINDS(LP_TILE_COUNT))

/* out[n_col][rows]: the results of a tile of rows by n_col columns; x[c]: the column's q. */
typedef void (*lp_tile_fn)(const uint8_t *panel, int64_t n_group, const int8_t *const *x,
                           const char *prep, int n_col, float *out);

struct lp_tiler {
    int rows, cols; /* at most LP_TILE_COLS_MAX columns */
    enum lp_panel_form form;
    lp_tile_fn tile[LP_N_TILES];
};

/* What the panel's weights are less than q + off. */
static inline int lp_panel_less(const struct lp_tiler *t, int off) {
    return t->form == LP_PANEL_SIGNED || (t->form != LP_PANEL_PLUS && off == 128) ? off : 0;
}
/* The largest byte a panel of the format holds. */
static inline int lp_panel_max(const struct lp_fmt *f) {
    return lp_folded(f) ? f->max * f->max_sub : f->max;
}
/* The format's tile; NULL where no kind fits. */
static inline lp_tile_fn lp_tile_of(const struct lp_tiler *t, const struct lp_fmt *f) {
#define LP_TILE_KIND(name, ...) {__VA_ARGS__},
    static const struct lp_fmt kinds[LP_N_TILES] = {LP_TILE_KINDS(LP_TILE_KIND)};
#undef LP_TILE_KIND
    for (int i = 0; i < LP_N_TILES; i++) {
        const struct lp_fmt *k = &kinds[i];
        if (k->has_min == f->has_min && k->has_sub == f->has_sub && k->has_two == f->has_two &&
            !k->off == !f->off && lp_folded(k) == lp_folded(f) &&
            lp_panel_max(f) <= lp_panel_max(k) && (k->off == 128) == (f->off == 128)) {
            return t->tile[i];
        }
    }
    return NULL;
}

#endif
