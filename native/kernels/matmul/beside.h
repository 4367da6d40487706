/* Columns of a task side by side, so that a product with some of them reads one stream: for every
 * group in k order a struct lp_beside, whose last axis is the column. */
#ifndef LP_BESIDE_H
#define LP_BESIDE_H

#include "prep.h"

#define LP_SOME_COLS 8

/* What prep.h makes of a column, and its q, four to a word. sum: floats, or pairs of int16. */
struct lp_beside {
    int32_t q[8][LP_SOME_COLS];
    float d[LP_SOME_COLS];
    int32_t sum[LP_SOME_COLS];
    int32_t start[2][LP_SOME_COLS];
};

/* Lane c of the j-th to lane j of the c-th. */
LP_FORCE void lp_transpose8(__m256i *x) {
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        x[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* n groups (8, or the last ones) of eight columns x. */
LP_FORCE void lp_beside8(const struct lp_fmt *f, const char *const *x, int64_t k, int64_t g, int n,
                         struct lp_beside *out) {
    _Alignas(32) char prep[LP_SOME_COLS][LP_PREP_BYTES] = {{0}};
    __m256i v[8];
    for (int c = 0; c < LP_SOME_COLS; c++) {
        lp_prep8(f, lp_x8_q(x[c]) + g * 32, lp_x8_d(x[c], k) + g, lp_x8_sum(x[c], k) + g, n,
                 prep[c]);
    }
    for (int part = 0; part < 4; part++) {
        for (int c = 0; c < 8; c++) {
            v[c] = _mm256_load_si256((const __m256i *)(prep[c] + 32 * part));
        }
        lp_transpose8(v);
        for (int j = 0; j < n; j++) {
            char *to = (char *)out[j].d + 32 * part;
            _mm256_storeu_si256((__m256i *)to, v[j]);
        }
    }
    for (int j = 0; j < n; j++) {
        for (int c = 0; c < 8; c++) {
            const int8_t *q = lp_x8_q(x[c]) + (g + j) * 32;
            v[c] = _mm256_loadu_si256((const __m256i *)q);
        }
        lp_transpose8(v);
        for (int i = 0; i < 8; i++) {
            _mm256_storeu_si256((__m256i *)out[j].q[i], v[i]);
        }
    }
}

/* Columns c.. of a task, the last one in place of missing ones. */
LP_APART void lp_beside(const struct lp_fmt *f, const struct lp_mm *t, int64_t c,
                        struct lp_beside *out) {
    const int64_t n_group = t->k / 32;
    const char *x[LP_SOME_COLS];
    for (int i = 0; i < LP_SOME_COLS; i++) {
        x[i] = lp_mm_x(t, c + i < t->c1 ? c + i : t->c1 - 1);
    }
    for (int64_t g = 0; g < n_group; g += 8) {
        lp_beside8(f, x, t->k, g, n_group - g < 8 ? (int)(n_group - g) : 8, out + g);
    }
}

#endif
