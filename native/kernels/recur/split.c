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
    if (lp_conv_seen(n->src[2].ne[0], lp_conv_step(n)) > LP_CONV_TAPS || x->nb[0] != 4) {
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

int64_t lp_split_token_shift(const struct lp_node *n, int n_threads) {
    const struct lp_opnd *x = &n->src[1];
    return x->nb[0] != 4 ? -1 : tasks_of(n, 1, lp_shift_blocks(x), x->ne[1], n_threads);
}
int64_t lp_scratch_token_shift(const struct lp_node *n) {
    (void)n;
    return 0;
}

/* Sources 1 to `vectors` have no gaps along their axis 0. */
static int64_t split_heads(const struct lp_node *n, int vectors, int n_threads) {
    for (int i = 1; i <= vectors; i++) {
        if (n->src[i].ne[0] > 1 && n->src[i].nb[0] != 4) {
            return -1;
        }
    }
    int64_t blocks = blocks_of(n->src[0].ne[1]) * n->src[0].ne[2];
    return tasks_of(n, 3, blocks, n->dst.ne[2], n_threads);
}
static int64_t vector_bytes(const struct lp_node *n) {
    return 2 * lp_padded(n->src[0].ne[0]) * 4;
}

int64_t lp_split_gated_delta_net(const struct lp_node *n, int n_threads) {
    return split_heads(n, lp_per_channel(&n->src[4], &n->src[3]) ? 4 : 3, n_threads);
}
int64_t lp_scratch_gated_delta_net(const struct lp_node *n) {
    return vector_bytes(n);
}
int64_t lp_split_gated_linear_attn(const struct lp_node *n, int n_threads) {
    return split_heads(n, lp_decay_changes(&n->src[4], &n->src[3]) ? 4 : 3, n_threads);
}
int64_t lp_scratch_gated_linear_attn(const struct lp_node *n) {
    return vector_bytes(n);
}
int64_t lp_split_rwkv_wkv6(const struct lp_node *n, int n_threads) {
    return split_heads(n, 5, n_threads);
}
int64_t lp_scratch_rwkv_wkv6(const struct lp_node *n) {
    return vector_bytes(n);
}
int64_t lp_split_rwkv_wkv7(const struct lp_node *n, int n_threads) {
    return split_heads(n, 6, n_threads);
}
int64_t lp_scratch_rwkv_wkv7(const struct lp_node *n) {
    return vector_bytes(n);
}
