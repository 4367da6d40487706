/* The kernel table, made from the rows of kernels.def. */
#include "lp.h"

#define LP_KERNEL(family, wtype, xtype, isa, need)                                                 \
    int lp_##family##_##wtype##_##xtype##_##isa(const struct lp_args *a, int64_t task, void *s);   \
    int64_t lp_split_##family(const struct lp_node *n, int n_threads);                             \
    int64_t lp_scratch_##family(const struct lp_node *n);
#include "kernels.def"
#undef LP_KERNEL

/* The last row is empty, so that the array exists even without kernels. */
static const struct lp_kernel kernels[] = {
#define LP_KERNEL(family, wtype, xtype, isa, need)                                                 \
    {#family,                                                                                      \
     #wtype,                                                                                       \
     #xtype,                                                                                       \
     #isa,                                                                                         \
     need,                                                                                         \
     lp_##family##_##wtype##_##xtype##_##isa,                                                      \
     lp_split_##family,                                                                            \
     lp_scratch_##family},
#include "kernels.def"
#undef LP_KERNEL
    {0},
};

int64_t lp_kernel_count(void) {
    return (int64_t)(sizeof kernels / sizeof kernels[0]) - 1;
}

const struct lp_kernel *lp_kernel_at(int64_t i) {
    return i >= 0 && i < lp_kernel_count() ? &kernels[i] : NULL;
}
