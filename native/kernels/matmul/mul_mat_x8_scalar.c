/* Quantised weights by x8 activations, in plain C: what every other set must give bit for bit.
 * Compiled once per format.
 *
 * One output element: for each group of 32 in k order isum = sum of q * x (exact, sub-scales
 * applied), acc = fma(ws * xd, (float)isum, acc); with a minimum accm = fma(wm, xd * (float)xsum,
 * accm), where sub-minima are applied to the sums of both halves in integers; with two scales the
 * halves go into acc one after the other; the result is acc, or acc + accm; then the addend. */
#include "each.h"
#include "matmul.h"

static const int8_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static int32_t sum16(const int8_t *w, const int8_t *x) {
    int32_t s = 0;
    for (int i = 0; i < 16; i++) {
        s += w[i] * x[i];
    }
    return s;
}

LP_FORCE float dot(const struct lp_fmt *f, const int8_t *w, const struct lp_scales *s,
                   const char *x, int64_t k) {
    const int8_t *q = lp_x8_q(x);
    const float *d = lp_x8_d(x, k);
    const int32_t *sum = lp_x8_sum(x, k);
    float acc = 0.0f, accm = 0.0f;
    for (int64_t g = 0; g < k / 32; g++) {
        const int8_t *x0 = q + g * 32, *x1 = x0 + 16;
        int32_t s0 = sum16(w + g * 32, x0), s1 = sum16(w + g * 32 + 16, x1);
        if (f->has_two) {
            acc = __builtin_fmaf(s[g].ws * d[g], (float)s0, acc);
            acc = __builtin_fmaf(s[g].wm * d[g], (float)s1, acc);
            continue;
        }
        int32_t isum = f->has_sub ? s[g].s[0] * s0 + s[g].s[1] * s1 : s0 + s1;
        acc = __builtin_fmaf(s[g].ws * d[g], (float)isum, acc);
        if (f->has_min) {
            int32_t xsum =
                f->has_sub ? s[g].m[0] * sum16(ones, x0) + s[g].m[1] * sum16(ones, x1) : sum[g];
            accm = __builtin_fmaf(s[g].wm, d[g] * (float)xsum, accm);
        }
    }
    return f->has_min ? acc + accm : acc;
}

LP_FORCE int run(const struct lp_fmt *f, const struct lp_args *a, int64_t task, void *scratch) {
    struct lp_mm t;
    int status = lp_mm_open(a, task, &t);
    if (status || t.k % f->block) {
        return status ? status : LP_E_TYPES;
    }
    int8_t *q = scratch;
    struct lp_scales *s = (struct lp_scales *)((char *)scratch + lp_up(t.k, 64));
    for (int64_t r = t.r0; r < t.r1; r++) {
        const uint8_t *w = t.w + r * t.w_nb;
        for (int64_t g = 0; g < t.k / 32; g++) {
            f->weights(lp_block_of(f, w, g), lp_group_in_block(f, g), q + g * 32);
            f->scales(lp_block_of(f, w, g), lp_group_in_block(f, g), &s[g]);
        }
        for (int64_t c = t.c0; c < t.c1; c++) {
            float v = dot(f, q, s, t.x + c * t.x_nb, t.k);
            lp_mm_store(&t, r, 1, c, &v);
        }
    }
    return LP_OK;
}

int LP_OF_FORMAT(lp_mul_mat_, _x8_scalar)(const struct lp_args *a, int64_t task, void *s) {
    return run(&LP_OF_FORMAT(lp_fmt_, ), a, task, s);
}
