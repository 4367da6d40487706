/* Quantised weights by x8 activations. */
#include "int_avx512.h"
#include "tile_avx512.h"
#include "gemv_x8.h"
#include "gemm_x8.h"

#define LP_INST_mul_mat_x8_avx512vnni(w)                                                           \
    int lp_mul_mat_##w##_x8_avx512vnni(const struct lp_args *a, int64_t task, void *s) {           \
        return lp_mul_mat_x8(&lp_fmt_##w, &lp_lanes_##w, a, task, s);                              \
    }
#include "inst.h"
