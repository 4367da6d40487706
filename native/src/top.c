/* The highest of many numbers: a heap of k whose root is the one to go, and blocks that are passed
 * over when nothing in them is higher. */
#include "top.h"

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

int64_t lp_top_k(const float *x, int64_t n, int64_t k, int64_t *id, float *top) {
    struct heap h = {k, id, top};
    for (int64_t i = 0; i < k; i++) {
        if (x[i] != x[i])
            return i;
        h.x[i] = x[i], h.id[i] = i;
    }
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sink(&h, i);
    for (int64_t at = k; at < n; at += BLOCK) {
        const int64_t end = n - at < BLOCK ? n : at + BLOCK;
        if (!worth_a_look(x + at, end - at, h.x[0]))
            continue;
        for (int64_t i = at; i < end; i++) {
            if (x[i] != x[i])
                return i;
            if (x[i] > h.x[0]) { /* an equal one has the higher id */
                h.x[0] = x[i], h.id[0] = i;
                sink(&h, 0);
            }
        }
    }
    while (h.n > 1) {
        h.n--;
        swap(&h, 0, h.n);
        sink(&h, 0);
    }
    return -1;
}
