/* get_rows: dst[., i, j, l] = row ids[i, j, l] of the table, as f32.
 *
 * The table is [k, n_rows, c2, c3]; ids i32 [n, c2, c3] pick a row in their own matrix (a table
 * with one matrix serves all). A task is 16 rows. Here: the walk, and tables of floats. */
#include "get_rows.h"
#include "fmt.h"

#define TASK_ROWS 16

int64_t lp_split_get_rows(const struct lp_node *n, int n_threads) {
    const struct lp_opnd *table = &n->src[0], *ids = &n->src[1], *d = &n->dst;
    (void)n_threads;
    if (n->n_src < 2 || d->nb[0] != 4 || d->ne[0] != table->ne[0]) {
        return -1;
    }
    for (int i = 2; i < 4; i++) {
        if (table->ne[i] < 1 || (table->ne[i] > 1 && table->ne[i] != ids->ne[i - 1])) {
            return -1;
        }
    }
    return (ids->ne[0] * ids->ne[1] * ids->ne[2] + TASK_ROWS - 1) / TASK_ROWS;
}

int64_t lp_scratch_get_rows(const struct lp_node *n) {
    (void)n;
    return 0;
}

/* The source row and the destination of place p of ids; NULL when the id lies outside the table. */
static const char *place(const struct lp_args *a, int64_t p, char **dst) {
    const struct lp_opnd *table = &a->n->src[0], *ids = &a->n->src[1], *d = &a->n->dst;
    const int64_t i0 = p % ids->ne[0], i1 = p / ids->ne[0] % ids->ne[1];
    const int64_t i2 = p / ids->ne[0] / ids->ne[1];
    int32_t id;
    memcpy(&id, a->src[1] + i0 * ids->nb[0] + i1 * ids->nb[1] + i2 * ids->nb[2], 4);
    *dst = a->dst + i0 * d->nb[1] + i1 * d->nb[2] + i2 * d->nb[3];
    if (id < 0 || id >= table->ne[1]) {
        return NULL;
    }
    return a->src[0] + id * table->nb[1] + (table->ne[2] > 1 ? i1 : 0) * table->nb[2] +
           (table->ne[3] > 1 ? i2 : 0) * table->nb[3];
}

int lp_get_rows(const struct lp_args *a, int64_t task, lp_row_fn row) {
    const struct lp_opnd *ids = &a->n->src[1];
    const int64_t all = ids->ne[0] * ids->ne[1] * ids->ne[2];
    const int64_t from = task * TASK_ROWS, end = from + TASK_ROWS < all ? from + TASK_ROWS : all;
    for (int64_t p = from; p < end; p++) {
        char *dst;
        const char *src = place(a, p, &dst);
        if (!src) {
            return LP_E_INDEX;
        }
        row((const uint8_t *)src, a->n->dst.ne[0], dst);
    }
    return LP_OK;
}

static void row_f32(const uint8_t *row, int64_t k, char *dst) {
    memcpy(dst, row, (size_t)k * 4);
}
static void row_f16(const uint8_t *row, int64_t k, char *dst) {
    for (int64_t i = 0; i < k; i++) {
        float v = lp_half_at(row + 2 * i);
        memcpy(dst + 4 * i, &v, 4);
    }
}
static void row_bf16(const uint8_t *row, int64_t k, char *dst) {
    for (int64_t i = 0; i < k; i++) {
        uint16_t h;
        memcpy(&h, row + 2 * i, 2);
        uint32_t v = (uint32_t)h << 16;
        memcpy(dst + 4 * i, &v, 4);
    }
}

#define KERNEL(w)                                                                                  \
    int lp_get_rows_##w##_f32_scalar(const struct lp_args *a, int64_t task, void *s) {             \
        (void)s;                                                                                   \
        return lp_get_rows(a, task, row_##w);                                                      \
    }
KERNEL(f32)
KERNEL(f16)
KERNEL(bf16)
