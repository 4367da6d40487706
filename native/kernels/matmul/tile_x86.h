/* A tile of LP_TILE_VECS vectors of rows (vector_*.h) by up to LP_TILE_COLS columns, whose products
 * are added by the lp_tile_steps of steps_*.h. */
#ifndef LP_TILE_H
#define LP_TILE_H

/* The exact sums of a group, and their way into the float accumulators. */
LP_FORCE void lp_tile_group(const struct lp_fmt *f, const uint8_t *rec, const int8_t *const *x,
                            int64_t at, const char *prep, const int n_col,
                            t_float (*acc)[LP_TILE_VECS]) {
    t_int s[LP_TILE_COLS][LP_TILE_VECS], t[LP_TILE_COLS][LP_TILE_VECS];
    if (!f->has_two && !lp_sub_after(f)) {
        lp_tile_steps(f, rec, 0, 8, x, at, n_col, prep + 64, s);
    } else {
        lp_tile_steps(f, rec, 0, 4, x, at, n_col, prep + 64, t);
        for (int i = 0; lp_sub_after(f) && !lp_tile_pairs(f) && i < n_col * LP_TILE_VECS; i++) {
            const int c = i / LP_TILE_VECS, v = i % LP_TILE_VECS;
            t[c][v] = t_mul(t[c][v], lp_tile_plane(rec + lp_at_s(f, LP_TILE_ROWS), v));
        }
        lp_tile_steps(f, rec, 4, 4, x, at, n_col, prep + 96, s);
    }
#pragma GCC unroll 12
    for (int i = 0; i < n_col * LP_TILE_VECS; i++) {
        const int c = i / LP_TILE_VECS, v = i % LP_TILE_VECS;
        const uint8_t *sub = rec + lp_at_s(f, LP_TILE_ROWS);
        if (lp_sub_after(f) && lp_tile_pairs(f)) {
            s[c][v] = t_pairs(t_pair(s[c][v], t[c][v]), lp_tile_plane(sub, v));
        } else if (lp_sub_after(f)) {
            s[c][v] = t_add(t[c][v], t_mul(s[c][v], lp_tile_plane(sub + 4 * LP_TILE_ROWS, v)));
        }
        const t_float d = lp_tile_float(prep + c * LP_PREP_BYTES);
        const t_float ws = lp_tile_floats(rec + lp_at_ws(LP_TILE_ROWS), v);
        acc[c][v] = tf_fma(tf_mul(ws, d), tf_from(f->has_two ? t[c][v] : s[c][v]), acc[c][v]);
        if (f->has_two) {
            const t_float second = lp_tile_floats(rec + lp_at_wm(LP_TILE_ROWS), v);
            acc[c][v] = tf_fma(tf_mul(second, d), tf_from(s[c][v]), acc[c][v]);
        }
    }
}

/* The minimum term, a second pass over the small planes. */
LP_FORCE void lp_tile_min(const struct lp_fmt *f, const uint8_t *rec, const char *prep,
                          const int n_col, t_float (*accm)[LP_TILE_VECS]) {
#pragma GCC unroll 12
    for (int i = 0; i < n_col * LP_TILE_VECS; i++) {
        const int c = i / LP_TILE_VECS, v = i % LP_TILE_VECS;
        const char *p = prep + c * LP_PREP_BYTES;
        t_float x = lp_tile_float(p + 32);
        if (f->has_sub) {
            const t_int m = lp_tile_plane(rec + lp_at_m(f, LP_TILE_ROWS), v);
            x = tf_mul(lp_tile_float(p), tf_from(t_pairs(m, lp_tile_word(p + 32))));
        }
        accm[c][v] = tf_fma(lp_tile_floats(rec + lp_at_wm(LP_TILE_ROWS), v), x, accm[c][v]);
    }
}

LP_FORCE void lp_tile(const struct lp_fmt *f, const uint8_t *panel, int64_t n_group,
                      const int8_t *const *from, const char *prep, const int n_col, float *out) {
    const int64_t record = lp_panel_record(f, LP_TILE_FORM, LP_TILE_ROWS);
    const int step = lp_tile_at_once(f, n_col);
    const int8_t *x[LP_TILE_COLS];
    t_float acc[LP_TILE_COLS][LP_TILE_VECS], accm[LP_TILE_COLS][LP_TILE_VECS];
#pragma GCC unroll 6
    for (int c = 0; c < n_col; c++) {
        for (int v = 0; v < LP_TILE_VECS; v++) {
            acc[c][v] = accm[c][v] = tf_set1(0.0f);
        }
        x[c] = from[c];
    }
    lp_tile_wait(acc);
    for (int64_t g = 0; g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
#pragma GCC unroll 2
        for (int c = 0; c < n_col; c += step) {
            lp_tile_group(f, panel + g * record, x + c, g * 32, p + c * LP_PREP_BYTES, step,
                          acc + c);
        }
    }
    for (int64_t g = 0; f->has_min && g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
        lp_tile_min(f, panel + g * record, p, n_col, accm);
    }
#pragma GCC unroll 12
    for (int i = 0; i < n_col * LP_TILE_VECS; i++) {
        const int c = i / LP_TILE_VECS, v = i % LP_TILE_VECS;
        tf_store(out + c * LP_TILE_ROWS + v * LP_TILE_LANES,
                 f->has_min ? tf_add(acc[c][v], accm[c][v]) : acc[c][v]);
    }
}

#endif
