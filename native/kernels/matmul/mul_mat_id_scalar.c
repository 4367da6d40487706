/* mul_mat_id: dst[:, u, t] = w[:, :, ids[u, t]] by x[:, u, t], or by x[:, 0, t] where there is one
 * column a token. w [k, m, n_expert]; x [k, n_used or 1, n_tokens]; ids i32 [n_used, n_tokens]; dst
 * f32 [m, n_used, n_tokens]. An id outside 0..n_expert - 1 is LP_E_INDEX.
 *
 * Nothing is computed here: an expert's columns go through mul_mat's kernel of the same types and
 * instruction set together, so that its weights are read once, and the bits are mul_mat's.
 *
 * How a node is cut is settled before the ids are known. A task is some rows of the expert of a
 * slot. There is a slot for every expert, or, where they are fewer, for every (used, token) pair:
 * then an expert's slot is the first pair that names it. The task of a slot without columns has
 * nothing to do. */
#include "matmul.h"

struct cut {
    int64_t n_pair, n_slot, rows, n_row;
};

static struct cut cut_of(const struct lp_node *n) {
    const struct lp_opnd *w = &n->src[0], *ids = &n->src[2];
    const int64_t k = w->ne[0] > 0 ? w->ne[0] : 1, m = w->ne[1];
    const int64_t row_bytes = lp_clamp(w->nb[1], 1, INT64_C(1) << 40);
    struct cut c = {.n_pair = ids->ne[0] * ids->ne[1]};
    c.n_slot = c.n_pair < w->ne[2] ? c.n_pair : w->ne[2];
    const int64_t cols = c.n_slot > 0 ? c.n_pair / c.n_slot : 0; /* of a slot, on the average */
    if (cols <= LP_GEMV_COLS) {
        c.rows = lp_clamp(c.n_slot * m * row_bytes / 64, 32 << 10, 512 << 10) / row_bytes;
    } else {
        c.rows = lp_clamp(c.n_pair * m * k / 128, 1 << 20, 64 << 20) / (cols * k);
        c.rows = c.rows < LP_PANEL_ROWS_MAX ? LP_PANEL_ROWS_MAX : c.rows;
    }
    c.rows = lp_clamp(lp_up(c.rows, LP_TASK_ROWS), LP_TASK_ROWS, lp_up(m > 0 ? m : 1, 32));
    c.n_row = (m + c.rows - 1) / c.rows;
    return c;
}

/* mul_mat of n columns by rows of one expert. */
static struct lp_node node_of(const struct lp_node *n, int64_t rows, int64_t cols) {
    struct lp_node one = {.n_src = 2, .dst = n->dst};
    one.src[0] = n->src[0];
    one.src[1] = n->src[1];
    one.src[0].ne[1] = one.dst.ne[0] = rows;
    one.src[1].ne[1] = one.dst.ne[1] = cols;
    for (int i = 2; i < 4; i++) {
        one.src[0].ne[i] = one.src[1].ne[i] = one.dst.ne[i] = 1;
    }
    return one;
}

/* -1 when the shapes are none of ours. */
int64_t lp_split_mul_mat_id(const struct lp_node *n, int n_threads) {
    const struct lp_opnd *w = &n->src[0], *x = &n->src[1], *ids = &n->src[2], *d = &n->dst;
    if (n->n_src != 3 || d->ne[0] != w->ne[1] || d->ne[1] != ids->ne[0] || d->ne[2] != ids->ne[1] ||
        x->ne[2] != ids->ne[1] || (x->ne[1] != 1 && x->ne[1] != ids->ne[0]) ||
        w->ne[3] * x->ne[3] * d->ne[3] != 1) {
        return -1;
    }
    const struct lp_node one = node_of(n, w->ne[1], 1);
    const struct cut c = cut_of(n);
    return lp_split_mul_mat(&one, n_threads) < 0 ? -1 : c.n_slot * c.n_row;
}

static int64_t columns_bytes(int64_t n_pair) {
    return lp_up(n_pair * (int64_t)sizeof(struct lp_column), 64);
}
int64_t lp_scratch_mul_mat_id(const struct lp_node *n) {
    const struct cut c = cut_of(n);
    const struct lp_node one = node_of(n, c.rows, c.n_pair);
    return columns_bytes(c.n_pair) + lp_scratch_mul_mat(&one);
}

static int32_t id_at(const struct lp_args *a, int64_t u, int64_t t) {
    const struct lp_opnd *ids = &a->n->src[2];
    int32_t id;
    memcpy(&id, a->src[2] + u * ids->nb[0] + t * ids->nb[1], 4);
    return id;
}

/* The expert of a slot and its columns, how many of which is returned: 0 where an earlier pair
 * names the expert; negative for an id outside the experts. */
static int64_t columns_of(const struct lp_args *a, const struct cut *c, int64_t slot, int64_t *who,
                          struct lp_column *at) {
    const struct lp_opnd *x = &a->n->src[1], *ids = &a->n->src[2], *d = &a->n->dst;
    const int64_t n_used = ids->ne[0], n_expert = a->n->src[0].ne[2];
    const int64_t x_nb = x->ne[1] == 1 ? 0 : x->nb[1];
    const int by_pair = c->n_slot < n_expert;
    *who = by_pair ? id_at(a, slot % n_used, slot / n_used) : slot;
    int64_t n = 0;
    for (int64_t t = 0; t < ids->ne[1]; t++) {
        for (int64_t u = 0; u < n_used; u++) {
            const int64_t id = id_at(a, u, t);
            if (id < 0 || id >= n_expert) {
                return -1;
            }
            if (id == *who) {
                if (by_pair && t * n_used + u < slot) {
                    return 0;
                }
                at[n++] = (struct lp_column){u * x_nb + t * x->nb[2], u * d->nb[1] + t * d->nb[2]};
            }
        }
    }
    return n;
}

static int multiply(lp_run_fn mul_mat, const struct lp_args *a, int64_t task, char *scratch) {
    const struct lp_opnd *w = &a->n->src[0];
    const struct cut c = cut_of(a->n);
    const int64_t r0 = task % c.n_row * c.rows;
    struct lp_column *at = (struct lp_column *)scratch;
    int64_t who;
    const int64_t cols = columns_of(a, &c, task / c.n_row, &who, at);
    if (cols <= 0) {
        return cols < 0 ? LP_E_INDEX : LP_OK;
    }
    struct lp_node one = node_of(a->n, w->ne[1] - r0 < c.rows ? w->ne[1] - r0 : c.rows, cols);
    one.n_src = 4;
    const struct lp_args args = {
        .n = &one,
        .dst = a->dst + r0 * 4,
        .src = {a->src[0] + who * w->nb[2] + r0 * w->nb[1], a->src[1], NULL, scratch}};
    return mul_mat(&args, 0, scratch + columns_bytes(c.n_pair));
}

/* A function for every row of the family. */
#define LP_ID_mul_mat(w, x, isa)
#define LP_ID_get_rows(w, x, isa)
#define LP_ID_repack(w, x, isa)
#define LP_ID_highest_sum(w, x, isa)
#define LP_ID_mul_mat_id(w, x, isa)                                                                \
    int lp_mul_mat_##w##_##x##_##isa(const struct lp_args *a, int64_t task, void *s);              \
    int lp_mul_mat_id_##w##_##x##_##isa(const struct lp_args *a, int64_t task, void *s) {          \
        return multiply(lp_mul_mat_##w##_##x##_##isa, a, task, s);                                 \
    }
#define LP_KERNEL(family, w, x, isa, need) LP_ID_##family(w, x, isa)
#include "rows.def"
