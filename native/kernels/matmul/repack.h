/* How repacking is cut into tasks: some rows of eight each. */
#ifndef LP_REPACK_H
#define LP_REPACK_H

#include "lp.h"
#include "r8.h"

#define LP_REPACK_TASK (256 << 10) /* bytes of a task, at least */

typedef void (*lp_repack_eight)(const uint8_t *src, int64_t row_bytes, int64_t n_block,
                                uint8_t *dst);

/* Eights of rows of a task, and in all. */
static inline int64_t lp_repack_step(const struct lp_node *n) {
    const int64_t bytes = LP_R8_ROWS * n->dst.nb[1];
    return bytes < 1 ? 1 : (LP_REPACK_TASK + bytes - 1) / bytes;
}
static inline int64_t lp_repack_eights(const struct lp_node *n) {
    return n->dst.ne[1] / LP_R8_ROWS * n->dst.ne[2] * n->dst.ne[3];
}

static inline int lp_repack(const struct lp_fmt *f, lp_repack_eight eight, const struct lp_args *a,
                            int64_t task) {
    const int64_t n_block = a->n->dst.ne[0] / f->block, row_bytes = n_block * f->bytes;
    const int64_t step = lp_repack_step(a->n), all = lp_repack_eights(a->n);
    if (a->n->dst.ne[0] % f->block || a->n->dst.nb[1] != row_bytes) {
        return LP_E_TYPES;
    }
    for (int64_t i = task * step; i < (task + 1) * step && i < all; i++) {
        const int64_t at = i * LP_R8_ROWS * row_bytes;
        eight((const uint8_t *)a->src[0] + at, row_bytes, n_block, (uint8_t *)a->dst + at);
    }
    return LP_OK;
}

#endif
