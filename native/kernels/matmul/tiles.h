/* A function for every kind of tile, from an instruction set's lp_tile. Included last by tiles_*.c.
 * lp_tile takes the number of columns as a constant: all there are, or half of them. */
#ifndef LP_TILES_H
#define LP_TILES_H

#include "tiler.h"

#define LP_TILE_FUNCTION(name, ...)                                                                \
    static void tile_##name(const uint8_t *panel, int64_t n_group, const int8_t *const *x,         \
                            const char *prep, int n_col, float *out) {                             \
        static const struct lp_fmt f = {__VA_ARGS__};                                              \
        if (n_col <= LP_TILE_COLS / 2) {                                                           \
            lp_tile(&f, panel, n_group, x, prep, LP_TILE_COLS / 2, out);                           \
        } else {                                                                                   \
            lp_tile(&f, panel, n_group, x, prep, LP_TILE_COLS, out);                               \
        }                                                                                          \
    }
#define LP_TILE_NAME(name, ...) tile_##name,

#define LP_TILER(isa, how)                                                                         \
    LP_TILE_KINDS(LP_TILE_FUNCTION)                                                                \
    const struct lp_tiler lp_tiler_##isa = {                                                       \
        LP_TILE_ROWS, LP_TILE_COLS, how, {LP_TILE_KINDS(LP_TILE_NAME)}};

#endif
