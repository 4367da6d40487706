/* The highest of many numbers: a heap of k whose root is the one to go, and blocks that are passed
 * over when nothing in them is higher. An entry is one integer: above a number that rises with x,
 * below one that falls with the index. 0 is room for one, and as a number NaN. */
#include "top.h"
#include <string.h>
#include "each_logit.h"

struct heap {
    int64_t n;
    uint64_t *key;
};

static uint64_t key_of(float x, int64_t i) {
    uint32_t u;
    x += 0.f; /* -0 is 0 */
    memcpy(&u, &x, sizeof u);
    u ^= (0u - (u >> 31)) | 0x80000000u;
    return (uint64_t)u << 32 | (UINT32_MAX - (uint32_t)i);
}

static float x_of(uint64_t key) {
    uint32_t u = (uint32_t)(key >> 32);
    float x;
    u ^= ((u >> 31) - 1u) | 0x80000000u;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Puts `key` where `at` is, or as far below as it is higher. */
static void sink(struct heap *h, int64_t at, uint64_t key) {
    for (;;) {
        int64_t c = 2 * at + 1;
        if (c >= h->n)
            break;
        c += c + 1 < h->n && h->key[c + 1] < h->key[c];
        if (h->key[c] >= key)
            break;
        h->key[at] = h->key[c];
        at = c;
    }
    h->key[at] = key;
}

/* Highest first, as indices and values; the keys lie where the indices come. */
static void sort(struct heap *h, int64_t *id, float *top) {
    const int64_t k = h->n;
    while (h->n > 1) {
        const uint64_t last = h->key[--h->n];
        h->key[h->n] = h->key[0];
        sink(h, 0, last);
    }
    for (int64_t i = 0; i < k; i++) {
        top[i] = x_of(h->key[i]);
        id[i] = UINT32_MAX - (uint32_t)h->key[i];
    }
}

/* Adds to v, which is x from `at` to `end`, what is due there, and passes on to what comes behind.
 */
static void add(struct lp_bias *bias, int64_t at, int64_t end, float *v) {
    for (; bias->n > 0 && bias->id[0] < end; bias->n--, bias->id++, bias->add++)
        v[bias->id[0] - at] += bias->add[0];
}

/* What is surely not among the k highest is no more than this. `least`: while the heap has room. */
static float bound(const struct heap *h, float least) {
    return h->key[0] ? x_of(h->key[0]) : least;
}

/* Takes in what belongs among the highest of v, which is x from `at`. Returns -1, or where there is
 * a NaN. */
static int64_t look(struct heap *h, float least, const float *v, int64_t at, int64_t n) {
    float most = bound(h, least);
    for (int64_t i = 0; i < n; i++) {
        if (v[i] <= most) /* an equal one has the higher index */
            continue;
        if (v[i] != v[i])
            return at + i;
        sink(h, 0, key_of(v[i], at + i));
        most = bound(h, least);
    }
    return -1;
}

/* Returns -1, or where there is a NaN. */
static int64_t top_k(struct heap *h, float least, const float *x, int64_t n, struct lp_bias bias) {
    float copy[LP_BLOCK];
    int64_t bad = -1, m;
    memset(h->key, 0, (size_t)h->n * sizeof *h->key);
    for (int64_t at = 0; bad < 0 && at < n; at += m) {
        const int64_t end = bias.n > 0 && bias.id[0] < n ? bias.id[0] : n;
        at = lp_find_above(x, at, end, bound(h, least));
        if (at == n)
            break;
        m = n - at < LP_BLOCK ? n - at : LP_BLOCK;
        memcpy(copy, x + at, (size_t)m * sizeof *x);
        add(&bias, at, at + m, copy);
        bad = look(h, least, copy, at, m);
    }
    return bad;
}

/* At least k of x[n] are above this, or there is a NaN: k of 64 lanes have something as high. NaN,
 * which nothing is "no more than", where that cannot be said. */
static float below_k(const float *x, int64_t n, int64_t k) {
    float lane[LP_BLOCK];
    uint64_t key[LP_BLOCK];
    struct heap h = {k, key};
    if (k > LP_BLOCK || n < 16 * LP_BLOCK)
        return x_of(0);
    lp_lane_tops(x, n, lane);
    if (top_k(&h, x_of(0), lane, LP_BLOCK, (struct lp_bias){0, NULL, NULL}) >= 0)
        return x_of(0);
    return x_of(key[0]) == 0.f ? -0x1p-149f : x_of(key[0] - (UINT64_C(1) << 32));
}

int64_t lp_top_k_biased(const float *x, int64_t n, struct lp_bias bias, int64_t k, int64_t *id,
                        float *top) {
    struct heap h = {k, (uint64_t *)id};
    const float least = below_k(x, n, k + bias.n); /* a bias moves no more than one each */
    const int64_t bad = top_k(&h, least, x, n, bias);
    if (bad < 0)
        sort(&h, id, top);
    return bad;
}

int64_t lp_top_k(const float *x, int64_t n, int64_t k, int64_t *id, float *top) {
    return lp_top_k_biased(x, n, (struct lp_bias){0, NULL, NULL}, k, id, top);
}
