/* Products of bytes without a dot product: they are added in 16 bits as long as they cannot
 * overflow, 8 steps for weights up to 15, 4 up to 31, 2 up to 63. 8-bit weights stand signed in the
 * panel and go in as |w| times x with w's sign; where that is ~x, which is 1 less than -x, the |w|
 * that are missing are added in the end. */
#ifndef LP_STEPS_H
#define LP_STEPS_H

LP_FORCE int32_t lp_word(const int8_t *p) {
    int32_t x;
    memcpy(&x, p, 4);
    return x;
}
/* What the sums start at is off times the activations' sum, negated. */
LP_FORCE int lp_tile_rest(int off) {
    return off == 128 ? 0 : off;
}
LP_FORCE int lp_steps(const struct lp_fmt *f) {
    const int max = lp_folded(f) ? f->max * f->max_sub : f->max;
    return max <= 15 ? 8 : max <= 31 ? 4 : max <= 63 ? 2 : 1;
}

/* Add weights 4 i0.. of a group, n_step steps of 4, to s. */
LP_FORCE void lp_tile_steps(const struct lp_fmt *f, const uint8_t *rec, int i0, int n_step,
                            const int8_t *const *x, int64_t at, const int n_col, t_int *s) {
    const t_int ones = t_set1(0x10001);
    const int steps = lp_steps(f) < n_step ? lp_steps(f) : n_step;
    t_int pairs[LP_TILE_COLS], less = t_set1(0);
#pragma GCC unroll 8
    for (int i = 0; i < n_step; i++) {
        t_int w = t_load(rec + (i0 + i) * 4 * LP_TILE_ROWS);
        const t_minus minus = t_minus8(w);
        w = f->off == 128 ? t_abs8(w) : w;
        if (f->off == 128 && t_less) {
            less = t_add16(less, t_bytes(w, t_bytes_of(minus)));
            t_keep(less);
        }
#pragma GCC unroll 6
        for (int c = 0; c < n_col; c++) {
            t_int v = t_set1(lp_word(x[c] + at + 4 * (i0 + i)));
            const t_int p = t_bytes(w, f->off == 128 ? t_under(v, minus) : v);
            pairs[c] = i % steps ? t_add16(pairs[c], p) : p;
            if (i % steps == steps - 1) {
                s[c] = t_add(s[c], t_pairs(pairs[c], ones));
                t_keep(s[c]);
            } else {
                t_keep(pairs[c]);
            }
        }
    }
    if (f->off == 128 && t_less) {
        less = t_pairs(less, t_set1(-1));
        for (int c = 0; c < n_col; c++) {
            s[c] = t_add(s[c], less);
        }
    }
}

#endif
