/* A tile of one vector of rows (vector_*.h) by up to LP_TILE_COLS columns, whose products are added
 * by the lp_tile_steps of steps_*.h. */
#ifndef LP_TILE_H
#define LP_TILE_H

LP_FORCE t_int lp_tile_word(const char *prep) {
    int32_t x;
    memcpy(&x, prep, 4);
    return t_set1(x);
}

LP_FORCE void lp_tile_group(const struct lp_fmt *f, const uint8_t *rec, const int8_t *const *x,
                            int64_t at, const char *prep, const int n_col, t_float *acc) {
    const uint8_t *sub = rec + lp_at_s(f, LP_TILE_ROWS);
    const t_float ws = tf_load(rec + lp_at_ws(LP_TILE_ROWS));
    t_int s[LP_TILE_COLS], t[LP_TILE_COLS];
    const int from_prep = lp_tile_rest(f->off);
    for (int c = 0; c < n_col; c++) {
        s[c] = from_prep ? lp_tile_word(prep + c * LP_PREP_BYTES + 64) : t_set1(0);
    }
    if (lp_tile_halves(f)) {
        lp_tile_steps(f, rec, 0, 4, x, at, n_col, s);
        for (int c = 0; c < n_col; c++) {
            t[c] = lp_tile_sub(f) && !lp_tile_pairs(f) ? t_mul(s[c], t_load(sub)) : s[c];
            s[c] = from_prep ? lp_tile_word(prep + c * LP_PREP_BYTES + 96) : t_set1(0);
        }
        lp_tile_steps(f, rec, 4, 4, x, at, n_col, s);
        for (int c = 0; lp_tile_sub(f) && c < n_col; c++) {
            if (lp_tile_pairs(f)) {
                s[c] = t_pairs(t_pair(s[c], t[c]), t_load(sub));
            } else {
                s[c] = t_add(t[c], t_mul(s[c], t_load(sub + 4 * LP_TILE_ROWS)));
            }
        }
    } else {
        lp_tile_steps(f, rec, 0, 8, x, at, n_col, s);
    }
    for (int c = 0; c < n_col; c++) {
        float d;
        memcpy(&d, prep + c * LP_PREP_BYTES, 4);
        acc[c] = tf_fma(tf_mul(ws, tf_set1(d)), tf_from(f->has_two ? t[c] : s[c]), acc[c]);
        if (f->has_two) {
            const t_float second = tf_load((rec + lp_at_wm(LP_TILE_ROWS)));
            acc[c] = tf_fma(tf_mul(second, tf_set1(d)), tf_from(s[c]), acc[c]);
        }
    }
}

LP_FORCE void lp_tile(const struct lp_fmt *f, const uint8_t *panel, int64_t n_group,
                      const int8_t *const *x, const char *prep, const int n_col, float *out) {
    const int64_t record = lp_record_bytes(f, LP_TILE_ROWS);
    t_float acc[LP_TILE_COLS], accm[LP_TILE_COLS];
    for (int c = 0; c < n_col; c++) {
        acc[c] = accm[c] = tf_set1(0.0f);
    }
    for (int64_t g = 0; g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
        lp_tile_group(f, panel + g * record, x, g * 32, p, n_col, acc);
    }
    for (int64_t g = 0; f->has_min && g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
        const t_float wm = tf_load((panel + g * record + lp_at_wm(LP_TILE_ROWS)));
        for (int c = 0; c < n_col; c++) {
            float d, sum;
            memcpy(&d, p + c * LP_PREP_BYTES, 4);
            memcpy(&sum, p + c * LP_PREP_BYTES + 32, 4);
            t_float x = tf_set1(sum);
            if (f->has_sub) {
                const t_int m = t_load((panel + g * record + lp_at_m(f, LP_TILE_ROWS)));
                const t_int pairs = lp_tile_word(p + c * LP_PREP_BYTES + 32);
                x = tf_mul(tf_set1(d), tf_from(t_pairs(m, pairs)));
            }
            accm[c] = tf_fma(wm, x, accm[c]);
        }
    }
    for (int c = 0; c < n_col; c++) {
        tf_store(out + c * LP_TILE_ROWS, f->has_min ? tf_add(acc[c], accm[c]) : acc[c]);
    }
}

#endif
