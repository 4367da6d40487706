/* Products of bytes with the dot product that AVX-VNNI encodes in VEX. Without it, EVEX: what tests
 * compile for a CPU that has only that. */
#ifndef LP_STEPS_H
#define LP_STEPS_H

#ifdef __AVXVNNI__
#define t_dot(acc, w, x) _mm256_dpbusd_avx_epi32(acc, w, x)
#else
#define t_dot(acc, w, x) _mm256_dpbusd_epi32(acc, w, x)
#endif

LP_FORCE int32_t lp_word(const int8_t *p) {
    int32_t x;
    memcpy(&x, p, 4);
    return x;
}
/* What the sums start at is off times the activations' sum, negated. */
LP_FORCE int lp_tile_rest(int off) {
    return off;
}

/* Add weights 4 i0.. of a group, n_step steps of 4, to s. */
LP_FORCE void lp_tile_steps(const struct lp_fmt *f, const uint8_t *rec, int i0, int n_step,
                            const int8_t *const *x, int64_t at, const int n_col, t_int *s) {
    (void)f;
#pragma GCC unroll 8
    for (int i = i0; i < i0 + n_step; i++) {
        const t_int w = t_load(rec + i * 4 * LP_TILE_ROWS);
#pragma GCC unroll 6
        for (int c = 0; c < n_col; c++) {
            s[c] = t_dot(s[c], w, t_set1(lp_word(x[c] + at + 4 * i)));
        }
    }
}

#endif
