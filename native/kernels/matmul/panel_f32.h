/* The scratch of float weights by many columns (gemm_f32.h): a panel of rows widened to f32, then
 * 16 accumulators for every one of its rows and of some columns. */
#ifndef LP_PANEL_F32_H
#define LP_PANEL_F32_H

#include "matmul.h"

#define LP_WIDE_ROWS 64
#define LP_WIDE_K 1024 /* of k at once: 256 KiB of a second-level cache */
#define LP_WIDE_COLS 6 /* at once, too: 24 KiB, half of it used by turns */
#define LP_WIDE_ACC (LP_WIDE_COLS * LP_WIDE_ROWS * 16) /* floats */

/* Of k in a panel, a multiple of 16. */
static inline int64_t lp_wide_k(int64_t k) {
    return lp_up(lp_clamp(k, 0, LP_WIDE_K), 16);
}
/* Whether accumulators wait in scratch while those of other columns are summed. */
static inline int lp_wide_waits(int64_t k) {
    return k > LP_WIDE_K;
}
static inline int64_t lp_wide_columns(int64_t k, int64_t cols) {
    return lp_wide_waits(k) ? lp_clamp(cols, 0, LP_TASK_COLS_MAX) : LP_WIDE_COLS;
}
static inline int64_t lp_wide_bytes(int64_t k, int64_t cols) {
    const int64_t n = lp_up(lp_wide_columns(k, cols), LP_WIDE_COLS) / LP_WIDE_COLS;
    return cols < LP_FLOAT_COLS ? 0 : 4 * (LP_WIDE_ROWS * lp_wide_k(k) + n * LP_WIDE_ACC);
}

#endif
