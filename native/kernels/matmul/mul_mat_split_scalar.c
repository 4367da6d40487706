/* Tasks and scratch of mul_mat, for every type and instruction set. */
#include "matmul.h"
#include "panel.h"
#include "panel_f32.h"
#include "r8.h"

static int fits(const struct lp_node *n) {
    const struct lp_opnd *w = &n->src[0], *x = &n->src[1], *d = &n->dst;
    if (n->n_src < 2 || n->n_src > 3 || w->ne[0] != x->ne[0] || d->nb[0] != 4 ||
        d->ne[0] != w->ne[1]) {
        return 0;
    }
    if (n->ip[LP_MM_PAIRS] && (n->n_src > 2 || x->ne[1] % 2 || d->ne[1] * 2 != x->ne[1])) {
        return 0;
    }
    for (int i = 2; i < 4; i++) {
        if (x->ne[i] > 0 && (w->ne[i] < 1 || x->ne[i] % w->ne[i])) {
            return 0;
        }
    }
    if (x->type == LP_X8_TYPE) {
        return w->ne[0] % 32 == 0 && (w->type < LP_R8_TYPE || w->ne[1] % LP_R8_ROWS == 0);
    }
    return x->nb[0] == 4 && (w->nb[0] == 4 || w->nb[0] == 2);
}

/* -1 when the shapes are none of ours. */
int64_t lp_split_mul_mat(const struct lp_node *n, int n_threads) {
    (void)n_threads;
    if (!fits(n)) {
        return -1;
    }
    const struct lp_cut c = lp_cut_of(n);
    return c.n_row * c.n_col * c.n_outer;
}

/* Of quantised weights the scalar kernel holds an unpacked row, the others a panel of rows and what
 * they make of columns, or the latter alone. */
int64_t lp_scratch_mul_mat(const struct lp_node *n) {
    const int64_t k = n->src[0].ne[0];
    if (n->src[1].type != LP_X8_TYPE) {
        return lp_wide_bytes(k, lp_cut_of(n).cols);
    }
    const int64_t row = lp_up(k, 64) + k / 32 * (int64_t)sizeof(struct lp_scales);
    const int64_t all = lp_prep_all(k, lp_cut_of(n).cols);
    int64_t panel = LP_KEPT_BYTES + lp_prep_bytes(k);
    if (n->src[1].ne[1] > LP_GEMV_COLS) {
        panel += lp_up(all, 64) + lp_panel_rows(k) * lp_panel_row_bytes_max(k);
    }
    return panel > row ? panel : row;
}
