/* Float weights by f32 activations. */
#include "vec_avx2.h"
#include "dot_f32.h"
#include "gemm_f32.h"

LP_FORCE int mul_mat(const struct lp_reader *rd, const struct lp_args *a, int64_t task, void *s) {
    struct lp_mm t;
    const int status = lp_open_f32(rd, a, task, &t);
    if (status) {
        return status;
    }
    if (t.c1 - t.c0 < LP_FLOAT_COLS || t.k < 1) {
        lp_dot_task(rd, &t);
    } else {
        lp_gemm_f32(rd, &t, s);
    }
    return LP_OK;
}

#define KERNEL(w)                                                                                  \
    int lp_mul_mat_##w##_f32_avx2(const struct lp_args *a, int64_t task, void *s) {                \
        return mul_mat(&lp_reader_##w, a, task, s);                                                \
    }
KERNEL(f32)
KERNEL(f16)
KERNEL(bf16)
