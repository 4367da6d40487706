/* How many tasks, and how much scratch, the row families want. */
#include "kernels/row/walk.h"
#include "kernels/row/rope_table.h"

/* Bytes of f32 that are worth a task: a task costs some hundred nanoseconds to hand out. */
enum { PLAIN = 16384, COSTLY = 8192 };

static int64_t at_most(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t tasks_of(int64_t units, int64_t bytes, int64_t grain, int n_threads) {
    if (units == 0 || bytes == 0) {
        return 0;
    }
    int64_t want = at_most((bytes + grain - 1) / grain, 4 * (int64_t)n_threads);
    return at_most(want, units);
}
static int64_t split_units(const struct lp_opnd *t, int64_t grain, int n_threads) {
    return tasks_of(lp_units(t), t->ne[0] * lp_rows(t) * 4, grain, n_threads);
}
static int64_t split_rows(const struct lp_opnd *t, int64_t grain, int n_threads) {
    return tasks_of(lp_rows(t), t->ne[0] * lp_rows(t) * 4, grain, n_threads);
}

#define SPLIT(family, how, operand, grain)                                                         \
    int64_t lp_split_##family(const struct lp_node *n, int n_threads) {                            \
        return how(&n->operand, grain, n_threads);                                                 \
    }
#define NO_SCRATCH(family)                                                                         \
    int64_t lp_scratch_##family(const struct lp_node *n) {                                         \
        (void)n;                                                                                   \
        return 0;                                                                                  \
    }
#define ELEMENTS(family, grain) SPLIT(family, split_units, dst, grain) NO_SCRATCH(family)
#define ROWS(family) SPLIT(family, split_rows, dst, COSTLY) NO_SCRATCH(family)

ELEMENTS(add, PLAIN)
ELEMENTS(sub, PLAIN)
ELEMENTS(mul, PLAIN)
ELEMENTS(div, PLAIN)
ELEMENTS(scale, PLAIN)
ELEMENTS(softcap, COSTLY)
ELEMENTS(silu, COSTLY)
ELEMENTS(gelu, COSTLY)
ELEMENTS(gelu_erf, COSTLY)
ELEMENTS(gelu_quick, COSTLY)
ELEMENTS(relu, PLAIN)
ELEMENTS(relu_sqr, PLAIN)
ELEMENTS(sigmoid, COSTLY)
ELEMENTS(tanh, COSTLY)
ELEMENTS(exp, COSTLY)
ELEMENTS(log, COSTLY)
ELEMENTS(softplus, COSTLY)
ELEMENTS(neg, PLAIN)
ELEMENTS(abs, PLAIN)
ELEMENTS(sqr, PLAIN)
ELEMENTS(sqrt, COSTLY)
ELEMENTS(clamp, PLAIN)
ELEMENTS(xielu, COSTLY)
ELEMENTS(swiglu_oai, COSTLY)
ELEMENTS(swiglu_oai_quant, COSTLY)
ELEMENTS(swiglu, COSTLY)
ELEMENTS(geglu, COSTLY)
ELEMENTS(geglu_erf, COSTLY)
ELEMENTS(geglu_quick, COSTLY)
ELEMENTS(reglu, PLAIN)
ELEMENTS(swiglu_quant, COSTLY)
ELEMENTS(geglu_quant, COSTLY)
ELEMENTS(geglu_erf_quant, COSTLY)
ELEMENTS(geglu_quick_quant, COSTLY)
ELEMENTS(reglu_quant, COSTLY)
ELEMENTS(quant_act, COSTLY)
ELEMENTS(cpy, PLAIN)
ROWS(rms_norm)
ROWS(rms_norm_quant)
ROWS(norm)
ROWS(norm_quant)
ROWS(l2_norm)
ROWS(soft_max)

/* The rows that are read. */
SPLIT(sum_rows, split_rows, src[0], PLAIN)
NO_SCRATCH(sum_rows)
SPLIT(weighted_sum, split_units, dst, PLAIN / 8)
NO_SCRATCH(weighted_sum)
ELEMENTS(add_id, PLAIN)

int64_t lp_split_concat(const struct lp_node *n, int n_threads) {
    return n->ip[0] < 0 || n->ip[0] > 3 ? -1 : split_units(&n->dst, PLAIN, n_threads);
}
NO_SCRATCH(concat)

/* Of whole tokens, some microseconds each. */
static int64_t split_tokens(const struct lp_node *n, int64_t bytes, int n_threads) {
    return tasks_of(n->dst.ne[1], n->dst.ne[1] * bytes, PLAIN, n_threads);
}
int64_t lp_split_take_ids(const struct lp_node *n, int n_threads) {
    return split_tokens(n, 4 * n->dst.ne[0], n_threads);
}
NO_SCRATCH(take_ids)
int64_t lp_split_highest(const struct lp_node *n, int n_threads) {
    const struct lp_opnd *x = &n->src[0];
    if (x->nb[0] != 4 || x->ne[0] > INT32_MAX || n->dst.ne[0] != x->ne[1] ||
        (n->n_src > 1 && n->src[1].nb[0] != 4)) {
        return -1;
    }
    return split_rows(x, PLAIN, n_threads);
}
NO_SCRATCH(highest)
int64_t lp_split_top_k_ids(const struct lp_node *n, int n_threads) {
    const int64_t n_expert = n->src[0].ne[0], k = n->ip[0], n_group = n->ip[1];
    if (n_group < 1 || n_expert % n_group || n->ip[2] < 1 || n->ip[2] > n_group || k < 1 ||
        k > n_expert / n_group * n->ip[2] || k != n->dst.ne[0] || n->dst.ne[1] != n->src[0].ne[1]) {
        return -1;
    }
    return split_tokens(n, n_expert * k, n_threads);
}
/* Keys of experts and of groups, scores, and the groups that are kept. */
int64_t lp_scratch_top_k_ids(const struct lp_node *n) {
    return 12 * n->src[0].ne[0] + 12 * n->ip[1];
}

SPLIT(quant_act_pair, split_units, src[0], COSTLY)
NO_SCRATCH(quant_act_pair)

/* The rows that are written, not the cache they are written to. */
SPLIT(set_rows, split_units, src[1], PLAIN)
NO_SCRATCH(set_rows)

/* A task of rope owns whole tokens: a row of the table serves all heads. */
static int64_t split_heads(const struct lp_opnd *t, int64_t grain, int n_threads) {
    return tasks_of(t->ne[2] * t->ne[3], t->ne[0] * lp_rows(t) * 4, grain, n_threads);
}
SPLIT(rope, split_heads, dst, COSTLY)
int64_t lp_scratch_rope(const struct lp_node *n) {
    return lp_rope_bytes(n);
}
SPLIT(rope_apply, split_heads, dst, PLAIN)
NO_SCRATCH(rope_apply)
SPLIT(rope_table, split_rows, dst, COSTLY)
int64_t lp_scratch_rope_table(const struct lp_node *n) {
    return lp_rope_bytes(n);
}
SPLIT(rope_set_rows, split_heads, src[1], PLAIN)
int64_t lp_scratch_rope_set_rows(const struct lp_node *n) {
    return n->src[1].ne[0] * 4;
}
