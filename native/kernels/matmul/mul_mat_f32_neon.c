/* Float weights by f32 activations. */
#include "vec_neon.h"
#include "dot_f32.h"

#define KERNEL(w)                                                                                  \
    int lp_mul_mat_##w##_f32_neon(const struct lp_args *a, int64_t task, void *s) {                \
        (void)s;                                                                                   \
        return lp_mul_mat_f32(&lp_reader_##w, a, task);                                            \
    }
KERNEL(f32)
KERNEL(f16)
KERNEL(bf16)
