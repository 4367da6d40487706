/* What one row of logits says of one token, in a form that only a logarithm is missing from.
 *
 * Plain C that compilers make vectors of by themselves; no operation's result depends on how wide
 * they are. */
#include "exp.h"
#include "nll.h"

enum { BLOCK = 256, LANES = 8 };

static float row_max(const float *x, int64_t n) {
    float m[BLOCK];
    for (int j = 0; j < BLOCK; j++)
        m[j] = x[0];
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++)
            m[j] = choose(x[i + j] > m[j], x[i + j], m[j]);
    for (int j = 0; i + j < n; j++)
        m[j] = choose(x[i + j] > m[j], x[i + j], m[j]);
    for (int j = 1; j < BLOCK; j++)
        m[0] = m[j] > m[0] ? m[j] : m[0];
    return m[0];
}

static double sum_exp(const float *x, int64_t n, float max) {
    double lane[LANES] = {0};
    float e[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = 0; i < m; i++)
            e[i] = exp_below_0(x[at + i] - max);
        for (int64_t i = m; i < BLOCK; i++)
            e[i] = 0.f;
        for (int i = 0; i < BLOCK; i += LANES)
            for (int j = 0; j < LANES; j++)
                lane[j] += (double)e[i + j];
    }
    for (int step = LANES / 2; step; step /= 2)
        for (int j = 0; j < step; j++)
            lane[j] += lane[j + step];
    return lane[0];
}

void lp_softmax_sums(const float *x, int64_t n, int64_t n_rows, double *sum, float *max) {
    for (int64_t i = 0; i < n_rows; i++, x += n) {
        max[i] = row_max(x, n);
        sum[i] = sum_exp(x, n, max[i]);
    }
}

void lp_row_tops(const float *x, int64_t n, int64_t n_rows, const float *max, int32_t *top) {
    for (int64_t i = 0; i < n_rows; i++, x += n) {
        int64_t at = 0;
        while (at < n - 1 && x[at] != max[i])
            at++;
        top[i] = (int32_t)at;
    }
}
