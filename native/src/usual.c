/* The usual chain. Its candidates are few and sorted, so that every filter keeps a beginning. */
#include "usual.h"
#include "weights.h"

static int64_t between(int64_t low, int64_t i, int64_t high) {
    i = i < low ? low : i;
    return i < high ? i : high;
}

/* The first place where the weights so far come to `enough`, or to more than it; n: nowhere. */
static int64_t reach(const double *e, int64_t n, double enough, int more) {
    double sum = 0.;
    for (int64_t i = 0; i < n; i++) {
        sum += e[i];
        if (more ? sum > enough : sum >= enough)
            return i;
    }
    return n;
}

static int64_t top_p(const struct lp_usual *c, int64_t n) {
    const double total = lp_weights(c->x, n, c->e);
    return reach(c->e, n, c->top_p * total, 0) + 1;
}

static int64_t min_p(const struct lp_usual *c, int64_t n) {
    const float bound = c->x[0] + c->min_p;
    int64_t kept = 0;
    while (kept < n && c->x[kept] >= bound)
        kept++;
    return kept;
}

static void temperature(const struct lp_usual *c) {
    const float top = c->x[0];
    for (int64_t i = 0; i < c->n; i++)
        c->x[i] = (c->x[i] - top) / c->temp;
}

static int64_t draw(const struct lp_usual *c, double u) {
    double total = 0.;
    lp_weights(c->x, c->n, c->e);
    for (int64_t i = 0; i < c->n; i++)
        total += c->e[i];
    return between(0, reach(c->e, c->n, u * total, 1), c->n - 1);
}

int64_t lp_usual(const float *x, int64_t n, struct lp_usual *c, double u) {
    const int64_t k = c->k < n ? c->k : n, least = c->min_keep > 1 ? c->min_keep : 1;
    if (lp_top_k_biased(x, n, c->bias, k, c->id, c->x) >= 0 || c->x[0] - c->x[0] != 0.f)
        return -1;
    c->n = k;
    if (c->top_p < 1.)
        c->n = between(least, top_p(c, c->n), c->n);
    c->n = between(least, min_p(c, c->n), c->n);
    temperature(c);
    c->at = draw(c, u);
    return c->id[c->at];
}
