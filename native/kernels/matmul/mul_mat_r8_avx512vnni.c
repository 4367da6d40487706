/* Rows interleaved by eight by x8 activations, compiled once per format that can be. */
#define LP_R8 1
#include "int_avx512.h"
#include "each.h"
#include "gemv_r8.h"
#include "gemm_x8.h"
#include "some_r8_avx512.h"

extern const struct lp_tiler lp_tiler_avx512vnni;
int LP_OF_FORMAT(lp_mul_mat_, _r8_x8_avx512vnni)(const struct lp_args *a, int64_t task, void *s) {
    const struct lp_fmt *f = &LP_OF_FORMAT(lp_fmt_, );
    const struct lp_lanes *l = &LP_OF_FORMAT(lp_lanes_, );
    struct lp_mm t;
    int status = lp_mm_open(a, task, &t);
    const int64_t n = t.c1 - t.c0;
    if (status || n <= LP_GEMV_COLS || n > lp_some_max(f) || t.w_nb != t.k / f->block * f->bytes) {
        return lp_mul_mat_of(&lp_tiler_avx512vnni, a, task, s);
    }
    char *scratch = lp_mm_keep(a, &t, s);
    lp_some(f, l, &t, scratch);
    return LP_OK;
}
