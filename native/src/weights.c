/* Weights of candidates: plain C that compilers make vectors of by themselves; no operation's
 * result depends on how wide they are. */
#include "weights.h"
#include "each_logit.h"
#include "exp.h"
#include "lp_double.h"

enum { BLOCK = 256, LANES = 8 };

static float highest(const float *x, int64_t n) {
    float m[LANES * 2];
    for (int j = 0; j < LANES * 2; j++)
        m[j] = x[0];
    int64_t i = 0;
    for (; i + LANES * 2 <= n; i += LANES * 2)
        for (int j = 0; j < LANES * 2; j++)
            m[j] = choose(x[i + j] > m[j], x[i + j], m[j]);
    for (int j = 0; i + j < n; j++)
        m[j] = choose(x[i + j] > m[j], x[i + j], m[j]);
    for (int j = 1; j < LANES * 2; j++)
        m[0] = choose(m[j] > m[0], m[j], m[0]);
    return m[0];
}

double lp_weights(const float *x, int64_t n, double *e) {
    double lane[LANES] = {0}, room[BLOCK];
    const float most = highest(x, n);
    const double top = most - most == 0.f ? (double)most : 0.;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t m = n - at < BLOCK ? n - at : BLOCK;
        double *to = e ? e + at : room;
        int64_t i = 0;
        lp_exp_row(x + at, m, top, to);
        for (; i + LANES <= m; i += LANES)
            for (int j = 0; j < LANES; j++)
                lane[j] += to[i + j];
        for (int j = 0; i + j < m; j++)
            lane[j] += to[i + j];
    }
    for (int step = LANES / 2; step; step /= 2)
        for (int j = 0; j < step; j++)
            lane[j] += lane[j + step];
    return lane[0];
}

double lp_exp(double x) {
    return exp_double(x < 709. ? x : 709.);
}

double lp_log(double x) {
    const double least = 0x1p-1022; /* of those whose first bit is not in sight */
    return x < least ? lp_log_of(x * 0x1p54) - 54. * LP_LN2 : lp_log_of(x);
}
