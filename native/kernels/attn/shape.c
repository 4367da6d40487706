/* Geometry, task counts and scratch of the attention families. */
#include <string.h>
#include "lp_double.h"
#include "lp_types.h"
#include "x8.h"
#include "kernels/attn/shape.h"

static int64_t up16(int64_t x) {
    return (x + 15) / 16 * 16;
}
static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The next n floats of the scratch, in lines of 64 bytes; NULL while it is only measured. */
static float *take(char *start, int64_t *used, int64_t n) {
    char *p = start ? start + *used : NULL;
    *used += (n * 4 + 63) / 64 * 64;
    return (float *)(void *)p;
}

static int64_t lay_out(struct lp_attn *t, char *start) {
    const int64_t rows = LP_ROWS + LP_PAD;
    int64_t used = 0;
    t->q = take(start, &used, rows * t->dk_pad);
    t->k = take(start, &used, LP_TILE * t->dk_pad);
    t->wide = take(start, &used, 16 * t->dk_pad);
    t->v = take(start, &used, LP_TILE * t->dv_pad);
    t->s = take(start, &used, rows * LP_TILE);
    t->o = take(start, &used, rows * t->dv_pad);
    t->sum = take(start, &used, rows * t->dv_pad);
    float **of_row[] = {&t->m, &t->l, &t->M, &t->L, &t->a, &t->b, &t->slope};
    for (size_t i = 0; i < sizeof of_row / sizeof of_row[0]; i++) {
        *of_row[i] = take(start, &used, rows);
    }
    int64_t **seen[] = {&t->lo, &t->hi, &t->own, &t->list, &t->head};
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        *seen[i] = (int64_t *)(void *)take(start, &used, 2 * rows);
    }
    t->zero = take(start, &used, most(t->dk_pad, t->dv_pad));
    return used;
}

/* Bytes of a row of n elements; 0 for a type that no cache has, or where n splits a block. */
static int64_t row_bytes(int64_t type, int64_t n) {
    static const struct {
        int block, bytes;
    } types[] = {
        [LP_T_F32] = {1, 4},    [LP_T_F16] = {1, 2},    [LP_T_BF16] = {1, 2},
        [LP_T_Q4_0] = {32, 18}, [LP_T_Q4_1] = {32, 20}, [LP_T_Q5_0] = {32, 22},
        [LP_T_Q5_1] = {32, 24}, [LP_T_Q8_0] = {32, 34}, [LP_T_IQ4_NL] = {32, 18},
    };
    if (type < 0 || type >= (int64_t)(sizeof types / sizeof types[0]) || !types[type].block ||
        n % types[type].block) {
        return 0;
    }
    return n / types[type].block * types[type].bytes;
}

/* Sinks and bias among the last sources. */
static int find_more(struct lp_attn *t, const struct lp_node *n) {
    for (int i = LP_N_SRC; i < n->n_src; i++) {
        const int64_t *ne = n->src[i].ne;
        int *of_kind = ne[1] > 1 ? &t->bias : &t->sinks;
        if (*of_kind || ne[0] != t->n_head || ne[1] % 2 == 0) {
            return LP_E_TYPES;
        }
        *of_kind = i;
    }
    t->reach = t->bias ? n->src[t->bias].ne[1] / 2 : 0;
    return n->n_src < LP_N_SRC ? LP_E_TYPES : LP_OK;
}

int lp_attn_open(struct lp_attn *t, const struct lp_node *n, void *scratch) {
    const struct lp_opnd *q = &n->src[LP_Q], *k = &n->src[LP_K], *v = &n->src[LP_V];
    const struct lp_opnd *idx = &n->src[LP_IDX];
    *t = (struct lp_attn){.dk = q->ne[0],
                          .dv = v->ne[0],
                          .dk_pad = up16(q->ne[0]),
                          .dv_pad = up16(v->ne[0]),
                          .k_type = (int)k->type,
                          .v_type = (int)v->type,
                          .k_bytes = row_bytes(k->type, k->ne[0]),
                          .v_bytes = row_bytes(v->type, v->ne[0]),
                          .n_head = q->ne[1],
                          .n_head_kv = k->ne[1],
                          .n_tokens = q->ne[2],
                          .n_places = idx->ne[0],
                          .n_tiles = (idx->ne[0] + LP_TILE - 1) / LP_TILE,
                          .n_lists = idx->ne[1],
                          .n_cells = k->ne[2],
                          .scale = (float)n->fp[LP_SCALE],
                          .cap = (float)n->fp[LP_SOFTCAP],
                          .max_bias = n->fp[LP_MAX_BIAS]};
    if (find_more(t, n) || k->ne[0] != t->dk || t->n_head_kv < 1 || t->n_head % t->n_head_kv ||
        v->ne[1] != t->n_head_kv || v->ne[2] != t->n_cells || t->k_bytes < 1 || t->v_bytes < 1) {
        return LP_E_TYPES;
    }
    t->group = t->n_head / t->n_head_kv;
    t->n_rows = t->n_tokens * t->group;
    if (scratch) {
        lay_out(t, scratch);
        memset(t->zero, 0, (size_t)most(t->dk_pad, t->dv_pad) * 4);
    }
    return LP_OK;
}

int64_t lp_attn_scratch_bytes(const struct lp_node *n) {
    struct lp_attn t;
    if (lp_attn_open(&t, n, NULL)) {
        return 0;
    }
    return lay_out(&t, NULL);
}

int64_t lp_attn_blocks(const struct lp_attn *t, int n_threads) {
    int64_t fewest = (t->n_rows + LP_ROWS - 1) / LP_ROWS;
    /* Two tasks a thread, but no blocks so small that unpacking a tile costs more than using it. */
    int64_t wanted = (2 * (int64_t)n_threads + t->n_head_kv - 1) / t->n_head_kv;
    return most(fewest, least(wanted, (t->n_rows + 15) / 16));
}

/* ALiBi (Press et al. 2022): heads take slopes 2^(-max_bias (h + 1) / n2), n2 the power of two at
 * or below n_head; the heads beyond n2 take the odd steps of half the size. */
static float slope_of(const struct lp_attn *t, int64_t head) {
    if (!(t->max_bias > 0.0)) {
        return 0.0f;
    }
    int64_t n2 = 1;
    while (2 * n2 <= t->n_head) {
        n2 *= 2;
    }
    double step = head < n2 ? (double)(head + 1) : (double)(2 * (head - n2) + 1) / 2.0;
    return (float)lp_exp_of(-t->max_bias * step / (double)n2 * LP_LN2);
}

int lp_attn_rows(struct lp_attn *t, int64_t kv_head, int64_t r0, int64_t n) {
    const struct lp_opnd *range = &t->args->n->src[LP_RANGE];
    for (int64_t i = 0; i < n; i++) {
        int64_t token = lp_attn_token(t, r0 + i);
        int32_t w[4];
        for (int c = 0; c < 4; c++) {
            const char *at = t->args->src[LP_RANGE] + token * range->nb[1] + c * range->nb[0];
            memcpy(&w[c], at, 4);
        }
        t->list[i] = w[0], t->lo[i] = w[1], t->hi[i] = w[2], t->own[i] = w[3];
        if (w[0] < 0 || w[0] >= t->n_lists || w[1] < 0 || w[2] < w[1] || w[2] > t->n_places) {
            return LP_E_INDEX;
        }
        t->head[i] = lp_attn_head(t, kv_head, r0 + i);
        t->slope[i] = slope_of(t, t->head[i]);
    }
    return LP_OK;
}

int64_t lp_split_flash_attn(const struct lp_node *n, int n_threads) {
    struct lp_attn t;
    return lp_attn_open(&t, n, NULL) ? -1 : t.n_head_kv * lp_attn_blocks(&t, n_threads);
}
int64_t lp_scratch_flash_attn(const struct lp_node *n) {
    return lp_attn_scratch_bytes(n);
}
/* A head is whole groups of X8. */
int64_t lp_split_flash_attn_quant(const struct lp_node *n, int n_threads) {
    return n->src[LP_V].ne[0] % LP_X8_GROUP ? -1 : lp_split_flash_attn(n, n_threads);
}
int64_t lp_scratch_flash_attn_quant(const struct lp_node *n) {
    return lp_attn_scratch_bytes(n);
}

/* A task of flash_attn_part: a range of tiles of one kv head. Ranges are short and their heads
 * follow each other, so that the heads of a cell, which share its pages, are read at about one
 * time. */
enum { TILES_OF_TASK = 4 };

int64_t lp_split_flash_attn_part(const struct lp_node *n, int n_threads) {
    struct lp_attn t;
    if (lp_attn_open(&t, n, NULL)) {
        return -1;
    }
    int64_t wanted = most((2 * (int64_t)n_threads + t.n_head_kv - 1) / t.n_head_kv,
                          (t.n_tiles + TILES_OF_TASK - 1) / TILES_OF_TASK);
    return t.n_rows ? t.n_head_kv * least(t.n_tiles, wanted) : 0;
}
int64_t lp_scratch_flash_attn_part(const struct lp_node *n) {
    return lp_attn_scratch_bytes(n);
}

/* A task of flash_attn_merge: some rows; parts [dv + 2, n_tiles, n_head, n_tokens]. */
int64_t lp_split_flash_attn_merge(const struct lp_node *n, int n_threads) {
    const int64_t *ne = n->src[0].ne;
    int64_t bytes = ne[0] * ne[1] * ne[2] * ne[3] * 4;
    int64_t wanted = least((bytes + 16383) / 16384, 2 * (int64_t)n_threads);
    return least(ne[2] * ne[3], most(wanted, 1));
}
int64_t lp_scratch_flash_attn_merge(const struct lp_node *n) {
    return up16(n->src[0].ne[0]) * 4;
}
int64_t lp_split_flash_attn_merge_quant(const struct lp_node *n, int n_threads) {
    return (n->src[0].ne[0] - 2) % LP_X8_GROUP ? -1 : lp_split_flash_attn_merge(n, n_threads);
}
int64_t lp_scratch_flash_attn_merge_quant(const struct lp_node *n) {
    return lp_scratch_flash_attn_merge(n);
}
