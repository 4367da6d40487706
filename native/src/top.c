/* The highest of many numbers: a heap of k whose root is the one to go, and blocks that are passed
 * over when nothing in them is higher. */
#include "top.h"
#include <string.h>

enum { BLOCK = 64 };

struct heap {
    int64_t n, *id;
    float *x;
};

/* Whether entry a goes before entry b. No two have the same id. */
static int worse(const struct heap *h, int64_t a, int64_t b) {
    return h->x[a] < h->x[b] || (h->x[a] == h->x[b] && h->id[a] > h->id[b]);
}

static void swap(struct heap *h, int64_t a, int64_t b) {
    const float x = h->x[a];
    const int64_t id = h->id[a];
    h->x[a] = h->x[b], h->id[a] = h->id[b];
    h->x[b] = x, h->id[b] = id;
}

static void sink(struct heap *h, int64_t at) {
    for (;;) {
        int64_t low = at, child = 2 * at + 1;
        for (int64_t c = child; c < child + 2 && c < h->n; c++)
            low = worse(h, c, low) ? c : low;
        if (low == at)
            return;
        swap(h, at, low);
        at = low;
    }
}

/* Whether x[0..n) holds anything above `bound`, or a NaN. */
static int worth_a_look(const float *x, int64_t n, float bound) {
    int found = 0;
    for (int64_t i = 0; i < n; i++)
        found |= !(x[i] <= bound);
    return found;
}

/* Adds to v, which is x from `at` to `end`, what is due there, and passes on to what comes behind.
 */
static void add(struct lp_bias *bias, int64_t at, int64_t end, float *v) {
    for (; bias->n > 0 && bias->id[0] < end; bias->n--, bias->id++, bias->add++)
        v[bias->id[0] - at] += bias->add[0];
}

/* The first k. Returns -1, or where there is a NaN. */
static int64_t fill(struct heap *h, const float *x, struct lp_bias *bias) {
    for (int64_t i = 0; i < h->n; i++)
        h->x[i] = x[i], h->id[i] = i;
    add(bias, 0, h->n, h->x);
    for (int64_t i = 0; i < h->n; i++)
        if (h->x[i] != h->x[i])
            return i;
    for (int64_t i = h->n / 2 - 1; i >= 0; i--)
        sink(h, i);
    return -1;
}

static void sort(struct heap *h) {
    while (h->n > 1) {
        h->n--;
        swap(h, 0, h->n);
        sink(h, 0);
    }
}

int64_t lp_top_k_biased(const float *x, int64_t n, struct lp_bias bias, int64_t k, int64_t *id,
                        float *top) {
    struct heap h = {k, id, top};
    float copy[BLOCK];
    const int64_t bad = fill(&h, x, &bias);
    if (bad >= 0)
        return bad;
    for (int64_t at = k; at < n; at += BLOCK) {
        const int64_t m = n - at < BLOCK ? n - at : BLOCK;
        const float *v = x + at;
        if (bias.n > 0 && bias.id[0] < at + m) {
            memcpy(copy, v, (size_t)m * sizeof *v);
            add(&bias, at, at + m, copy);
            v = copy;
        }
        if (!worth_a_look(v, m, h.x[0]))
            continue;
        for (int64_t i = 0; i < m; i++) {
            if (v[i] != v[i])
                return at + i;
            if (v[i] > h.x[0]) { /* an equal one has the higher id */
                h.x[0] = v[i], h.id[0] = at + i;
                sink(&h, 0);
            }
        }
    }
    sort(&h);
    return -1;
}

int64_t lp_top_k(const float *x, int64_t n, int64_t k, int64_t *id, float *top) {
    return lp_top_k_biased(x, n, (struct lp_bias){0, NULL, NULL}, k, id, top);
}
