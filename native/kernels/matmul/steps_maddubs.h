/* Products of bytes without a dot product: they are added in 16 bits as long as they cannot
 * overflow, 8 steps for weights up to 15, 4 up to 31, 2 up to 63. 8-bit weights stand signed in the
 * panel, or their signs apart, and go in as |w| times x with w's sign; where that is ~x, which is 1
 * less than -x, the |w| that are missing are what the sums start at. */
#ifndef LP_STEPS_H
#define LP_STEPS_H

/* Sub-scales are multiplied with sums of 16 bits on the way. */
LP_FORCE int lp_sub_after(const struct lp_fmt *f) {
    (void)f;
    return 0;
}
/* How many times off the activations' sum is taken off. */
LP_FORCE int lp_tile_rest(int off) {
    return off == 128 ? 0 : off;
}
LP_FORCE int lp_steps(const struct lp_fmt *f) {
    const int max = lp_folded(f) ? f->max * f->max_sub : f->max;
    return max <= 15 ? 8 : max <= 31 ? 4 : max <= 63 ? 2 : 1;
}
/* Whether registers are enough for the sums of all columns, or for those of half of them. */
LP_FORCE int lp_tile_at_once(const struct lp_fmt *f, int n_col) {
    const int all = lp_steps(f) <= 2 || (lp_steps(f) == 8 && !lp_tile_halves(f));
    return LP_TILE_VECS == 1 || all || n_col < LP_TILE_COLS ? n_col : n_col / 2;
}

/* The sums of weights 4 i0.. of a group, n_step steps of 4. */
LP_FORCE void lp_tile_steps(const struct lp_fmt *f, const uint8_t *rec, int i0, int n_step,
                            const int8_t *const *x, int64_t at, const int n_col, const char *start,
                            t_int (*s)[LP_TILE_VECS]) {
    const t_int ones = t_set1(0x10001);
    const int most = lp_tile_halves(f) ? 4 : 8, steps = lp_steps(f) < most ? lp_steps(f) : most;
    const uint8_t *sub = rec + lp_at_s(f, LP_TILE_ROWS);
    const int block = steps == 2 ? 2 : 1;
    t_int pairs[LP_TILE_COLS][LP_TILE_VECS], w[2][LP_TILE_VECS];
    t_minus minus[LP_TILE_VECS];
#pragma GCC unroll 8
    for (int i = 0; i < n_step; i += block) {
        lp_tile_fence();
        for (int j = 0; j < block * LP_TILE_VECS; j++) {
            const int b = j / LP_TILE_VECS, v = j % LP_TILE_VECS;
            const uint8_t *q = rec + ((i0 + i + b) * LP_TILE_VECS + v) * 4 * LP_TILE_LANES;
            w[b][v] = t_load(q);
            if (f->off == 128) {
                minus[v] = t_minus8(w[b][v], q + lp_at_signs(f, LP_TILE_ROWS));
                w[b][v] = t_magnitude(w[b][v]);
            }
        }
#pragma GCC unroll 12
        for (int j = 0; j < n_col * block; j++) {
            const int c = j / block, b = j % block, at_step = (i + b) % steps;
            const t_int y = lp_tile_word(x[c] + at + 4 * (i0 + i + b));
            for (int v = 0; v < LP_TILE_VECS; v++) {
                const t_int p = t_bytes(w[b][v], f->off == 128 ? t_under(y, minus[v]) : y);
                pairs[c][v] = at_step ? t_add16(pairs[c][v], p) : p;
                if (at_step < steps - 1) {
                    t_keep(pairs[c][v]);
                    continue;
                }
                const t_int by =
                    lp_tile_sub(f) ? lp_tile_plane(sub + i / 4 * 4 * LP_TILE_ROWS, v) : ones;
                const t_int sum = t_pairs(pairs[c][v], by);
                s[c][v] = i < steps ? sum : t_add(s[c][v], sum);
                t_keep(s[c][v]);
            }
        }
    }
    for (int c = 0; c < n_col; c++) {
        for (int v = 0; v < LP_TILE_VECS; v++) {
            if (lp_tile_sub(f) && f->off) {
                const t_int sums = lp_tile_word(start + c * LP_PREP_BYTES - 32);
                s[c][v] = t_add(s[c][v],
                                t_pairs(lp_tile_plane(rec + lp_at_less(f, LP_TILE_ROWS), v), sums));
            } else if (lp_tile_rest(f->off)) {
                s[c][v] = t_add(s[c][v], lp_tile_word(start + c * LP_PREP_BYTES));
            } else if (lp_panel_apart(f, LP_TILE_FORM)) {
                s[c][v] = t_add(s[c][v], lp_tile_plane(rec + lp_at_less(f, LP_TILE_ROWS), v));
            }
        }
    }
}

#endif
