/* Rows interleaved by eight by x8 activations, compiled once per format that can be. */
#define LP_R8 1
#include "int_neondot.h"
#include "each.h"
#include "tile_neon.h"
#include "gemv_r8.h"
#include "gemm_x8.h"

int LP_OF_FORMAT(lp_mul_mat_, _r8_x8_neondot)(const struct lp_args *a, int64_t task, void *s) {
    return lp_mul_mat_x8(&LP_OF_FORMAT(lp_fmt_, ), &LP_OF_FORMAT(lp_lanes_, ), a, task, s);
}
