/* What the recurrent ops share (llamapy/graph/recur.py). No instruction set.
 *
 * Source 0 is the state, f32, its last axis counting cells; a kernel writes it. The last source is
 * runs, i32 [4, n_runs]: first token, number of tokens, cell to read (-1: zeros), cell to write. A
 * run of no tokens copies its state, or does nothing when it writes cell -1. Tokens are taken one
 * after the other, and what one does to the state is rounded to f32, so where a prompt is cut
 * cannot be seen.
 *
 * A node's work is a line of units, block of rows after block of rows, and for each block the runs:
 * units do not depend on each other as long as no run reads a cell that another one writes. */
#ifndef LP_RECUR_RUNS_H
#define LP_RECUR_RUNS_H

#include <stdbool.h>
#include <string.h>
#include "lp.h"

enum {
    LP_CONV_TAPS = 32, /* tokens that the longest convolution spans */
    LP_SCAN_ROWS = 32, /* rows of a state in a block: with 128 floats each, half of a first level */
    LP_SCAN_AHEAD = 4, /* tokens whose operands are fetched before their turn */
    LP_SHIFT_BLOCK = 1024,
};

/* Of ssm_conv: how far its taps are apart, and how many tokens they span. */
static inline int64_t lp_conv_step(const struct lp_node *n) {
    return n->ip[0] > 1 ? n->ip[0] : 1;
}
static inline int64_t lp_conv_seen(int64_t taps, int64_t step) {
    return (taps - 1) * step + 1;
}

struct lp_seq {
    int64_t first, n, read, write;
};

/* The units of a task. */
struct lp_recur {
    const struct lp_args *a;
    const char *runs;
    int64_t n_runs, runs_nb, n_cells, n_tokens, unit, end;
};

static inline struct lp_seq lp_seq_at(const struct lp_recur *c, int64_t i) {
    int32_t x[4];
    memcpy(x, c->runs + i * c->runs_nb, sizeof x);
    return (struct lp_seq){x[0], x[1], x[2], x[3]};
}

/* LP_E_INDEX for a token or a cell that is not there, and when tokens are left out. cells: the
 * state's axis that counts them. */
static inline int lp_recur_open(struct lp_recur *c, const struct lp_args *a, int64_t task,
                                int64_t n_blocks, int64_t n_tokens, int cells) {
    const struct lp_node *n = a->n;
    const struct lp_opnd *runs = &n->src[n->n_src - 1];
    int64_t units = n_blocks * runs->ne[1], sum = 0;
    *c = (struct lp_recur){.a = a,
                           .runs = a->src[n->n_src - 1],
                           .n_runs = runs->ne[1],
                           .runs_nb = runs->nb[1],
                           .n_cells = n->src[0].ne[cells],
                           .n_tokens = n_tokens,
                           .unit = units * task / n->n_tasks,
                           .end = units * (task + 1) / n->n_tasks};
    for (int64_t i = 0; i < c->n_runs; i++) {
        struct lp_seq s = lp_seq_at(c, i);
        if (s.first < 0 || s.n < 0 || s.first + s.n > n_tokens || s.read < -1 ||
            s.read >= c->n_cells || s.write < (s.n ? 0 : -1) || s.write >= c->n_cells) {
            return LP_E_INDEX;
        }
        sum += s.n;
    }
    return sum == n_tokens ? LP_OK : LP_E_INDEX;
}
/* The next unit: false when the task is done. Runs that do nothing are passed over. */
static inline bool lp_recur_next(struct lp_recur *c, int64_t *block, struct lp_seq *s) {
    while (c->unit < c->end) {
        *block = c->unit / c->n_runs;
        *s = lp_seq_at(c, c->unit++ % c->n_runs);
        if (s->write >= 0) {
            return true;
        }
    }
    return false;
}

/* n floats at `offs` bytes of the run's cells, which are nb bytes each: where to write, and
 * where the first token reads. A state of zeros is made where it will be written. */
struct lp_state {
    float *to;
    const float *from;
};
static inline struct lp_state lp_state_of(const struct lp_recur *c, const struct lp_seq *s,
                                          int64_t nb, int64_t offs, int64_t n) {
    char *cells = (char *)(uintptr_t)c->a->src[0];
    struct lp_state p = {.to = (float *)(cells + s->write * nb + offs)};
    p.from = s->read < 0 ? p.to : (const float *)(cells + s->read * nb + offs);
    if (s->read < 0) {
        memset(p.to, 0, (size_t)n * 4);
    } else if (!s->n && p.from != p.to) {
        memcpy(p.to, p.from, (size_t)n * 4);
    }
    return p;
}

/* Whether the decay g of gated_delta_net is [d_k, n_head, T], not [n_head, T], where v is [d_v,
 * n_head, T]. */
static inline bool lp_per_channel(const struct lp_opnd *g, const struct lp_opnd *v) {
    return !(g->ne[0] == v->ne[1] && g->ne[1] == v->ne[2] && g->ne[2] == 1);
}
/* Whether the decay of gated_linear_attn is [d_k, n_head, T], not [n_head]. */
static inline bool lp_decay_changes(const struct lp_opnd *decay, const struct lp_opnd *v) {
    return !(decay->ne[0] == v->ne[1] && decay->ne[1] == 1 && decay->ne[2] == 1);
}
static inline int64_t lp_shift_blocks(const struct lp_opnd *x) {
    return (x->ne[0] + LP_SHIFT_BLOCK - 1) / LP_SHIFT_BLOCK;
}
/* Floats that n take in whole vectors of 16. */
static inline int64_t lp_padded(int64_t n) {
    return (n + 15) / 16 * 16;
}

#endif
