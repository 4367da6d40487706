/* Tasks and scratch of repack, for every format. */
#include "repack.h"

static int rows_lie_together(const struct lp_opnd *t) {
    return t->nb[2] == t->nb[1] * t->ne[1] && t->nb[3] == t->nb[2] * t->ne[2];
}

/* -1 when the shapes are none of ours. */
int64_t lp_split_repack(const struct lp_node *n, int n_threads) {
    const struct lp_opnd *d = &n->dst, *s = &n->src[0];
    (void)n_threads;
    if (n->n_src != 1 || d->ne[1] % LP_R8_ROWS || d->nb[1] < 1 || s->nb[1] != d->nb[1] ||
        !rows_lie_together(d) || !rows_lie_together(s)) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        if (d->ne[i] != s->ne[i]) {
            return -1;
        }
    }
    const int64_t step = lp_repack_step(n);
    return (lp_repack_eights(n) + step - 1) / step;
}

int64_t lp_scratch_repack(const struct lp_node *n) {
    (void)n;
    return 0;
}
