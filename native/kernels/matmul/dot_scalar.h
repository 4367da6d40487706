/* Quantised weights by x8 activations, the scalar definition: shared by rows that lie by themselves
 * and rows interleaved by eight.
 *
 * One output element: for each group of 32 in k order isum = sum of q * x (exact, sub-scales
 * applied), acc = fma(ws * xd, (float)isum, acc); with a minimum accm = fma(wm, xd * (float)xsum,
 * accm), where sub-minima are applied to the sums of both halves in integers; with two scales the
 * halves go into acc one after the other; the result is acc, or acc + accm; then the addend. */
#ifndef LP_DOT_SCALAR_H
#define LP_DOT_SCALAR_H

#include "matmul.h"

static const int8_t lp_ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static int32_t lp_sum16(const int8_t *w, const int8_t *x) {
    int32_t s = 0;
    for (int i = 0; i < 16; i++) {
        s += w[i] * x[i];
    }
    return s;
}

LP_FORCE float lp_dot_scalar(const struct lp_fmt *f, const int8_t *w, const struct lp_scales *s,
                             const char *x, int64_t k) {
    const int8_t *q = lp_x8_q(x);
    const float *d = lp_x8_d(x, k);
    const int32_t *sum = lp_x8_sum(x, k);
    float acc = 0.0f, accm = 0.0f;
    for (int64_t g = 0; g < k / 32; g++) {
        const int8_t *x0 = q + g * 32, *x1 = x0 + 16;
        int32_t s0 = lp_sum16(w + g * 32, x0), s1 = lp_sum16(w + g * 32 + 16, x1);
        if (f->has_two) {
            acc = __builtin_fmaf(s[g].ws * d[g], (float)s0, acc);
            acc = __builtin_fmaf(s[g].wm * d[g], (float)s1, acc);
            continue;
        }
        int32_t isum = f->has_sub ? s[g].s[0] * s0 + s[g].s[1] * s1 : s0 + s1;
        acc = __builtin_fmaf(s[g].ws * d[g], (float)isum, acc);
        if (f->has_min) {
            int32_t xsum =
                f->has_sub ? s[g].m[0] * lp_sum16(lp_ones, x0) + s[g].m[1] * lp_sum16(lp_ones, x1)
                           : sum[g];
            accm = __builtin_fmaf(s[g].wm, d[g] * (float)xsum, accm);
        }
    }
    return f->has_min ? acc + accm : acc;
}

/* Row r of the task, unpacked. block: where a block of r8 rows may be put together. */
typedef const uint8_t *(*lp_block_at)(const struct lp_mm *t, int64_t r, int64_t g, uint8_t *block);

LP_FORCE int lp_mul_mat_scalar(const struct lp_fmt *f, lp_block_at block_at,
                               const struct lp_args *a, int64_t task, char *scratch) {
    struct lp_mm t;
    int status = lp_mm_open(a, task, &t);
    if (status || t.k % f->block) {
        return status ? status : LP_E_TYPES;
    }
    int8_t *q = (int8_t *)scratch;
    struct lp_scales *s = (struct lp_scales *)(scratch + lp_up(t.k, 64));
    for (int64_t r = t.r0; r < t.r1; r++) {
        uint8_t made[256];
        const uint8_t *block = NULL;
        for (int64_t g = 0; g < t.k / 32; g++) {
            const int j = lp_group_in_block(f, g);
            if (j == 0) {
                block = block_at(&t, r, g, made);
            }
            f->weights(block, j, q + g * 32);
            f->scales(block, j, &s[g]);
        }
        for (int64_t c = t.c0; c < t.c1; c++) {
            float v = lp_dot_scalar(f, q, s, lp_mm_x(&t, c), t.k);
            lp_mm_store(&t, r, 1, c, &v);
        }
    }
    return LP_OK;
}

#endif
