/* repack: rows that lie by themselves become rows interleaved by eight. Compiled once per format
 * that can be. dst [k, m, ...] and src[0] of the same shape, both contiguous; m a multiple of 8. */
#include "each.h"
#include "r8.h"
#include "repack.h"

static void eight(const uint8_t *src, int64_t row_bytes, int64_t n_block, uint8_t *dst) {
    const struct lp_fmt *f = &LP_OF_FORMAT(lp_fmt_, );
    const uint8_t *row[LP_R8_ROWS];
    for (int64_t b = 0; b < n_block; b++) {
        for (int r = 0; r < LP_R8_ROWS; r++) {
            row[r] = src + r * row_bytes + b * f->bytes;
        }
        lp_r8_join(f, row, dst + LP_R8_ROWS * b * f->bytes);
    }
}

int LP_JOIN(LP_OF_FORMAT(lp_repack_, _r8_), LP_FORMAT, _scalar)(const struct lp_args *a,
                                                                int64_t task, void *s) {
    (void)s;
    return lp_repack(&LP_OF_FORMAT(lp_fmt_, ), eight, a, task);
}
