/* highest_sum: where the highest of main + w x is in each column, without computing all of w x.
 *
 * main f32 [m, n]; w [k, m]; x x8 [k, n]; length f32 [m]; never i32 [n_never], may be left out; dst
 * i32 [n]: what `highest` says of main + w x, mul_mat's bits and one rounded addition.
 *
 * length[i] is an upper bound of the length of row i of w (NaN: none is known), with room for the
 * roundings of a product, and fp[LONGEST] one of all of them. So no product of a column exceeds
 * length[i] |x| in magnitude, and since rounding keeps order, no sum the rounded main + length[i]
 * |x|. A row for which that is less than a sum that is known is passed over. The first sum is that
 * of the highest of main: where x is what quantising an activation left, as of a `precise` matmul,
 * hardly a row is not passed over then. */
#include "matmul.h"
#include "src/each_logit.h"

enum { MAIN, W, X, LENGTH, NEVER };
enum { LONGEST }; /* fp */
#define GROUP 8   /* rows that are computed together: interleaved rows are stored so */

/* mul_mat of GROUP rows, or those there are from row r on, by one column. */
static struct lp_node product_of(const struct lp_node *n, int64_t r) {
    struct lp_node one = {.n_src = 2, .dst = n->dst};
    const int64_t left = n->src[W].ne[1] - r;
    one.src[0] = n->src[W];
    one.src[1] = n->src[X];
    one.src[0].ne[1] = one.dst.ne[0] = left < GROUP ? left : GROUP;
    one.src[1].ne[1] = one.dst.ne[1] = 1;
    return one;
}

/* A task is a column. -1 when the shapes are none of ours. */
int64_t lp_split_highest_sum(const struct lp_node *n, int n_threads) {
    const struct lp_opnd *sum = &n->src[MAIN], *w = &n->src[W], *x = &n->src[X];
    const struct lp_opnd *length = &n->src[LENGTH], *never = &n->src[NEVER];
    const int64_t m = w->ne[1], cols = x->ne[1];
    if (n->n_src < 4 || n->n_src > 5 || sum->ne[0] != m || sum->ne[1] != cols || sum->nb[0] != 4 ||
        length->ne[0] != m || length->nb[0] != 4 || n->dst.ne[0] != cols || m > INT32_MAX ||
        w->ne[2] * w->ne[3] * x->ne[2] * x->ne[3] != 1 || (n->n_src == 5 && never->nb[0] != 4)) {
        return -1;
    }
    const struct lp_node one = product_of(n, 0);
    return lp_split_mul_mat(&one, n_threads) < 0 ? -1 : cols;
}

int64_t lp_scratch_highest_sum(const struct lp_node *n) {
    const struct lp_node one = product_of(n, 0);
    return lp_scratch_mul_mat(&one);
}

/* The length of an x8 column, rounded up. */
static float length_of(const char *x, int64_t k) {
    const int8_t *q = lp_x8_q(x);
    const float *d = lp_x8_d(x, k);
    double sum = 0;
    for (int64_t g = 0; g < k / LP_X8_GROUP; g++, q += LP_X8_GROUP) {
        int32_t squares = 0;
        for (int i = 0; i < LP_X8_GROUP; i++) {
            squares += q[i] * q[i];
        }
        sum += (double)d[g] * d[g] * squares;
    }
    return (float)(__builtin_sqrt(sum) * (1 + 1e-6));
}

struct column {
    const struct lp_args *a;
    lp_run_fn mul_mat;
    char *scratch;
    const float *main, *length;
    const int32_t *never;
    int64_t col, n_never;
    int64_t group; /* whose products `out` holds */
    float out[GROUP];
};

/* The sum of row i. */
static int sum_of(struct column *c, int64_t i, float *sum) {
    if (i / GROUP != c->group) {
        const struct lp_opnd *w = &c->a->n->src[W], *x = &c->a->n->src[X];
        c->group = i / GROUP;
        const int64_t r = c->group * GROUP;
        const struct lp_node one = product_of(c->a->n, r);
        const struct lp_args args = {
            .n = &one,
            .dst = (char *)c->out,
            .src = {c->a->src[W] + r * w->nb[1], c->a->src[X] + c->col * x->nb[1]}};
        const int status = c->mul_mat(&args, 0, c->scratch);
        if (status) {
            return status;
        }
    }
    *sum = c->out[i % GROUP] + c->main[i];
    return LP_OK;
}

/* What x, a number of magnitude `most` added, is no more than. */
static float reach(float x, float most) {
    return x + (most + 1e-30f); /* underflow hides less */
}

static int highest_of(struct column *c, int32_t *id) {
    const struct lp_node *n = c->a->n;
    const int64_t m = n->src[W].ne[1];
    const float x = length_of(c->a->src[X] + c->col * n->src[X].nb[1], n->src[X].ne[0]);
    float most, y;
    *id = lp_highest(c->main, m, c->never, c->n_never);
    if (*id < 0) {
        return LP_OK;
    }
    int status = sum_of(c, *id, &most);
    for (int64_t at = 0; !status; at += LP_BLOCK) {
        /* Below it by more than the roundings of this: no sum of the block comes near. */
        const float low = most - reach(__builtin_fabsf(most) * 1e-6f, n->fp[LONGEST] * x);
        at = lp_find_above(c->main, at, m, low);
        if (at >= m) {
            break;
        }
        for (int64_t i = at; i < m && i < at + LP_BLOCK && !status; i++) {
            if (reach(c->main[i], c->length[i] * x) < most) {
                continue;
            }
            status = sum_of(c, i, &y);
            if (!status && !(y < __builtin_inff())) { /* or NaN */
                *id = -1;
                return LP_OK;
            }
            const int more = y > most || (y == most && i < *id);
            if (!status && more && !is_among(i, c->never, c->n_never)) {
                most = y;
                *id = (int32_t)i;
            }
        }
    }
    *id = most == -__builtin_inff() ? -1 : *id;
    return status;
}

static int highest_sum(lp_run_fn mul_mat, const struct lp_args *a, int64_t task, char *scratch) {
    const struct lp_node *n = a->n;
    struct column c = {
        .a = a,
        .mul_mat = mul_mat,
        .scratch = scratch,
        .main = (const float *)(a->src[MAIN] + task * n->src[MAIN].nb[1]),
        .length = (const float *)a->src[LENGTH],
        .never = (const int32_t *)a->src[NEVER],
        .col = task,
        .n_never = n->n_src > NEVER ? n->src[NEVER].ne[0] : 0,
        .group = -1,
    };
    int32_t id;
    const int status = highest_of(&c, &id);
    memcpy(a->dst + task * n->dst.nb[0], &id, 4);
    return status;
}

/* A function for every row of the family. */
#define LP_TOP_mul_mat(w, x, isa)
#define LP_TOP_mul_mat_id(w, x, isa)
#define LP_TOP_get_rows(w, x, isa)
#define LP_TOP_repack(w, x, isa)
#define LP_TOP_highest_sum(w, x, isa)                                                              \
    int lp_mul_mat_##w##_##x##_##isa(const struct lp_args *a, int64_t task, void *s);              \
    int lp_highest_sum_##w##_##x##_##isa(const struct lp_args *a, int64_t task, void *s) {         \
        return highest_sum(lp_mul_mat_##w##_##x##_##isa, a, task, s);                              \
    }
#define LP_KERNEL(family, w, x, isa, need) LP_TOP_##family(w, x, isa)
#include "rows.def"
