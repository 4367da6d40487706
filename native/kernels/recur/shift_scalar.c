/* token_shift(state [n, n_cells], x [n, T], runs): the token before each, of its own run; before
 * the run's first stands its state, and the last one is the state after. Copies. */
#include "kernels/recur/runs.h"

int lp_token_shift_f32_f32_scalar(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_opnd *x = &a->n->src[1];
    struct lp_recur c;
    struct lp_seq s;
    int64_t block;
    int status = lp_recur_open(&c, a, task, lp_shift_blocks(x), x->ne[1], 1);
    while (!status && lp_recur_next(&c, &block, &s)) {
        int64_t at = block * LP_SHIFT_BLOCK, rest = x->ne[0] - at;
        int64_t n = rest < LP_SHIFT_BLOCK ? rest : LP_SHIFT_BLOCK;
        struct lp_state st = lp_state_of(&c, &s, a->n->src[0].nb[1], at * 4, n);
        const char *in = a->src[1] + s.first * x->nb[1] + at * 4;
        char *out = a->dst + s.first * a->n->dst.nb[1] + at * 4;
        for (int64_t t = 0; t < s.n; t++) {
            const char *before = t ? in + (t - 1) * x->nb[1] : (const char *)st.from;
            memcpy(out + t * a->n->dst.nb[1], before, (size_t)n * 4);
        }
        if (s.n) {
            memcpy(st.to, in + (s.n - 1) * x->nb[1], (size_t)n * 4);
        }
    }
    return status;
}
