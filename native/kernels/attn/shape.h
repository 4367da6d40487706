/* The geometry of an attention node and what a task keeps in its scratch. No instruction set.
 *
 * A row is one query of one head. The rows of a kv head are its tokens times the `group` query
 * heads that share it, token by token; a task computes a block of at most LP_ROWS of them. */
#ifndef LP_ATTN_SHAPE_H
#define LP_ATTN_SHAPE_H

#include "lp.h"

#define LP_TILE 64 /* places that are summed before they are merged: part of the meaning */
#define LP_ROWS 64
#define LP_PAD 16 /* rows beyond the block that a register block may read and write */

/* Sources and parameters in the order of the op's row. Sinks [n_head] and bias [n_head, 2 reach +
 * 1] may follow, in any order: a bias has columns. */
enum { LP_Q, LP_K, LP_V, LP_IDX, LP_RANGE, LP_N_SRC };
enum { LP_SCALE, LP_MAX_BIAS, LP_SOFTCAP };

struct lp_attn {
    const struct lp_args *args;
    int64_t dk, dv, dk_pad, dv_pad; /* head sizes, and rounded up to 16 */
    int k_type, v_type;
    int64_t k_bytes, v_bytes; /* of a row */
    int64_t n_head, n_head_kv, group, n_tokens, n_rows;
    int64_t n_places, n_tiles, n_lists, n_cells;
    float scale, cap; /* cap 0: none */
    double max_bias;
    int sinks, bias; /* sources, 0: none */
    int64_t reach;   /* places to either side that have a bias of their own */

    /* Scratch. [rows] stands for LP_ROWS + LP_PAD. */
    float *q;                      /* [rows][dk_pad] */
    float *k;                      /* a tile of K, transposed [LP_TILE][dk_pad] */
    float *wide;                   /* 16 rows of K as f32 [16][dk_pad] */
    float *v;                      /* a tile of V [LP_TILE][dv_pad] */
    float *s;                      /* [rows][LP_TILE] scores, then p */
    float *o, *sum;                /* [rows][dv_pad] of the tile, and merged */
    float *m, *l, *M, *L;          /* [rows] maximum and sum of the tile, and merged */
    float *a, *b, *slope;          /* [rows] factors of a merge; ALiBi slopes */
    int64_t *lo, *hi, *own, *list; /* [rows] what the row's query sees */
    int64_t *head;                 /* [rows] of q */
    float *zero;                   /* bytes of a row of an absent cell */
};

/* Reads the node; scratch may be NULL. LP_OK, or LP_E_TYPES when the shapes do not fit together, K
 * or V is of a type that no cache has, or a head is not a whole number of blocks. */
int lp_attn_open(struct lp_attn *t, const struct lp_node *n, void *scratch);
int64_t lp_attn_scratch_bytes(const struct lp_node *n);
/* Blocks into which flash_attn cuts the rows of one kv head: n_tasks / n_head_kv of them. */
int64_t lp_attn_blocks(const struct lp_attn *t, int n_threads);
/* Fill lo, hi, own, list, head and slope of n rows from row r0 of a kv head. LP_E_INDEX for a range
 * that does not lie within the lists. */
int lp_attn_rows(struct lp_attn *t, int64_t kv_head, int64_t r0, int64_t n);

static inline int64_t lp_attn_token(const struct lp_attn *t, int64_t row) {
    return row / t->group;
}
static inline int64_t lp_attn_head(const struct lp_attn *t, int64_t kv_head, int64_t row) {
    return kv_head * t->group + row % t->group;
}

#endif
