/* How many tasks, and how much scratch, the recurrent families want. */
#include "kernels/recur/runs.h"

/* Bytes of f32 passed through that are worth a task. */
enum { GRAIN = 32768 };

/* `cells`: the state's axis that counts them; below it the state has no gaps. */
static int64_t tasks_of(const struct lp_node *n, int cells, int64_t n_blocks, int64_t n_tokens,
                        int n_threads) {
    const struct lp_opnd *state = &n->src[0];
    int64_t floats = 1;
    for (int i = 0; i < cells; i++) {
        if (state->ne[i] > 1 && state->nb[i] != floats * 4) {
            return -1;
        }
        floats *= state->ne[i];
    }
    int64_t units = n_blocks * n->src[n->n_src - 1].ne[1];
    int64_t want = (floats * n_tokens * 4 + GRAIN - 1) / GRAIN;
    want = want < 4 * (int64_t)n_threads ? want : 4 * (int64_t)n_threads;
    return want < units ? want : units;
}
static int64_t blocks_of(int64_t rows) {
    return (rows + LP_SCAN_ROWS - 1) / LP_SCAN_ROWS;
}

int64_t lp_split_ssm_conv(const struct lp_node *n, int n_threads) {
    const struct lp_opnd *x = &n->src[1];
    if (n->src[2].ne[0] > LP_CONV_TAPS || x->nb[0] != 4) {
        return -1;
    }
    return tasks_of(n, 2, (x->ne[0] + 15) / 16, x->ne[1], n_threads);
}
int64_t lp_scratch_ssm_conv(const struct lp_node *n) {
    (void)n;
    return 0;
}

int64_t lp_split_ssm_scan(const struct lp_node *n, int n_threads) {
    const struct lp_opnd *x = &n->src[1], *a = &n->src[3], *b = &n->src[4];
    if (b->nb[0] != 4 || n->src[5].nb[0] != 4 || (a->ne[0] > 1 && a->nb[0] != 4)) {
        return -1;
    }
    int64_t blocks = blocks_of(x->ne[0] * x->ne[1] / b->ne[1]) * b->ne[1];
    return tasks_of(n, 3, blocks, x->ne[2], n_threads);
}
int64_t lp_scratch_ssm_scan(const struct lp_node *n) {
    (void)n;
    return 0;
}

int64_t lp_split_gated_delta_net(const struct lp_node *n, int n_threads) {
    const struct lp_opnd *state = &n->src[0], *q = &n->src[1], *k = &n->src[2], *v = &n->src[3];
    if (q->nb[0] != 4 || k->nb[0] != 4 || v->nb[0] != 4 ||
        (lp_per_channel(&n->src[4], v) && n->src[4].nb[0] != 4)) {
        return -1;
    }
    return tasks_of(n, 3, blocks_of(state->ne[1]) * state->ne[2], q->ne[2], n_threads);
}
int64_t lp_scratch_gated_delta_net(const struct lp_node *n) {
    return (n->src[0].ne[0] + 15) / 16 * 64;
}
