/* Products of bytes with the dot product that AVX-VNNI encodes in VEX. Without it, EVEX: what tests
 * compile for a CPU that has only that. */
#ifndef LP_STEPS_H
#define LP_STEPS_H

#ifdef __AVXVNNI__
#define t_dot(acc, w, x) _mm256_dpbusd_avx_epi32(acc, w, x)
#else
#define t_dot(acc, w, x) _mm256_dpbusd_epi32(acc, w, x)
#endif

LP_FORCE int lp_sub_after(const struct lp_fmt *f) {
    return lp_tile_sub(f);
}
LP_FORCE int lp_tile_at_once(const struct lp_fmt *f, int n_col) {
    (void)f;
    return n_col;
}

/* The sums of weights 4 i0.. of a group, n_step steps of 4. */
LP_FORCE void lp_tile_steps(const struct lp_fmt *f, const uint8_t *rec, int i0, int n_step,
                            const int8_t *const *x, int64_t at, const int n_col, const char *start,
                            t_int (*s)[LP_TILE_VECS]) {
    for (int c = 0; c < n_col; c++) {
        s[c][0] = f->off ? lp_tile_word(start + c * LP_PREP_BYTES) : t_set1(0);
    }
#pragma GCC unroll 8
    for (int i = i0; i < i0 + n_step; i++) {
        const t_int w = t_load(rec + i * 4 * LP_TILE_ROWS);
#pragma GCC unroll 6
        for (int c = 0; c < n_col; c++) {
            s[c][0] = t_dot(s[c][0], w, lp_tile_word(x[c] + at + 4 * i));
        }
    }
}

#endif
