/* What moves or compares values and computes none: one file for all instruction sets.
 *
 * concat     dst = src 0, then src 1, along axis ip[0]; any strides
 * highest    dst[r] = where row r's highest is, of equal ones (-0 is 0) the lowest index, of all
 * but those that an optional i32 row names; -1 where one is NaN or +inf, or none above -inf
 * take_ids   dst[u, t] = values[ids[u, t], t]
 * top_k_ids  per token the ip[0] experts of the largest scores, in that order; of equal ones (-0 is
 *            0) the lower index first; NaN is less than all numbers. With ip[1] groups of n_expert
 * / ip[1] neighbours only the ip[2] groups count whose two largest scores have the largest sums
 * (f32, rounded once), of equal ones the first. */
#include "lp.h"
#include "lp_half.h"
#include "kernels/row/walk.h"
#include "src/each_logit.h"

static void copy_run(char *dst, const char *src, int64_t step, int64_t n) {
    if (step == 4) {
        memcpy(dst, src, (size_t)n * 4);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(dst + i * 4, src + i * step, 4);
    }
}
int lp_concat_f32_f32_scalar(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    const int64_t axis = n->ip[0], first = n->src[0].ne[axis];
    struct lp_walk w = lp_walk_units(&n->dst, task, n->n_tasks);
    while (lp_walk_next(&w)) {
        char *dst = a->dst + lp_row_offs(&n->dst, w.i) + w.i[0] * 4;
        for (int64_t done = 0; done < w.len;) {
            int64_t at[4] = {w.i[0] + done, w.i[1], w.i[2], w.i[3]}, len = w.len - done;
            const int second = at[axis] >= first;
            at[axis] -= second ? first : 0;
            if (axis == 0 && !second && len > first - at[0]) {
                len = first - at[0];
            }
            const struct lp_opnd *s = &n->src[second];
            const char *src = a->src[second] + lp_row_offs(s, at) + at[0] * s->nb[0];
            copy_run(dst + done * 4, src, s->nb[0], len);
            done += len;
        }
    }
    return LP_OK;
}

int lp_highest_i32_f32_scalar(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    const struct lp_opnd *s = &n->src[0];
    const int64_t end = n->dst.ne[0] * (task + 1) / n->n_tasks;
    for (int64_t r = n->dst.ne[0] * task / n->n_tasks; r < end; r++) {
        const int32_t id =
            lp_highest((const float *)(a->src[0] + r * s->nb[1]), s->ne[0],
                       (const int32_t *)a->src[1], n->n_src > 1 ? n->src[1].ne[0] : 0);
        memcpy(a->dst + r * n->dst.nb[0], &id, 4);
    }
    return LP_OK;
}

int lp_take_ids_f32_f32_scalar(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const struct lp_node *n = a->n;
    const struct lp_opnd *v = &n->src[0], *ids = &n->src[1];
    const int64_t end = n->dst.ne[1] * (task + 1) / n->n_tasks;
    for (int64_t t = n->dst.ne[1] * task / n->n_tasks; t < end; t++) {
        for (int64_t u = 0; u < n->dst.ne[0]; u++) {
            int32_t id;
            memcpy(&id, a->src[1] + u * ids->nb[0] + t * ids->nb[1], 4);
            if (id < 0 || id >= v->ne[0]) {
                return LP_E_INDEX;
            }
            memcpy(a->dst + u * n->dst.nb[0] + t * n->dst.nb[1],
                   a->src[0] + id * v->nb[0] + t * v->nb[1], 4);
        }
    }
    return LP_OK;
}

/* Grows with the score, then falls with the index; above 0. */
static uint64_t key_of(float score, int64_t i) {
    const uint32_t u = lp_bits_of(score + 0.0f); /* no -0 */
    uint32_t order = u >> 31 ? ~u : u | 0x80000000u;
    if (score != score) {
        order = 0;
    }
    return (uint64_t)order << 32 | (uint32_t)(INT32_MAX - i);
}
/* Writes the places of the k largest keys, largest first, and clears them. */
static void take_largest(uint64_t *key, int64_t n, int64_t k, char *out, int64_t nb) {
    for (int64_t j = 0; j < k; j++) {
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++) {
            best = key[i] > key[best] ? i : best;
        }
        const int32_t id = (int32_t)best;
        memcpy(out + j * nb, &id, 4);
        key[best] = 0;
    }
}
static float sum_of_two_largest(const float *score, int64_t n) {
    float first = -__builtin_inff(), second = first;
    for (int64_t i = 0; i < n; i++) {
        if (score[i] > first) {
            second = first;
            first = score[i];
        } else if (score[i] > second) {
            second = score[i];
        }
    }
    return n > 1 ? first + second : first;
}

int lp_top_k_ids_i32_f32_scalar(const struct lp_args *a, int64_t task, void *scratch) {
    const struct lp_node *n = a->n;
    const struct lp_opnd *s = &n->src[0];
    const int64_t n_expert = s->ne[0], k = n->ip[0], n_group = n->ip[1], size = n_expert / n_group;
    uint64_t *key = scratch, *group_key = key + n_expert;
    float *score = (float *)(group_key + n_group);
    int32_t *kept = (int32_t *)(score + n_expert);
    const int64_t end = n->dst.ne[1] * (task + 1) / n->n_tasks;
    for (int64_t t = n->dst.ne[1] * task / n->n_tasks; t < end; t++) {
        for (int64_t i = 0; i < n_expert; i++) {
            memcpy(&score[i], a->src[0] + i * s->nb[0] + t * s->nb[1], 4);
            key[i] = n_group > 1 ? 0 : key_of(score[i], i);
        }
        if (n_group > 1) {
            for (int64_t g = 0; g < n_group; g++) {
                group_key[g] = key_of(sum_of_two_largest(score + g * size, size), g);
            }
            take_largest(group_key, n_group, n->ip[2], (char *)kept, 4);
            for (int64_t j = 0; j < n->ip[2]; j++) {
                for (int64_t i = kept[j] * size; i < (kept[j] + 1) * size; i++) {
                    key[i] = key_of(score[i], i);
                }
            }
        }
        take_largest(key, n_expert, k, a->dst + t * n->dst.nb[1], n->dst.nb[0]);
    }
    return LP_OK;
}
