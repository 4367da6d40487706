/* What a tile or a GEMV needs of a column besides its q: see panel.h. */
#ifndef LP_PREP_H
#define LP_PREP_H

#include "x8_rows.h"
#include "panel.h"

/* n_group <= 8 groups of a column, see panel.h. */
LP_FORCE void lp_prep8(const struct lp_fmt *f, const int8_t *q, const float *d, const int32_t *sum,
                       int n_group, char *out) {
    float d8[8] = {0};
    int32_t s8[8] = {0};
    if (n_group < 8) { /* bytes on the way through memory would be late */
        memcpy(d8, d, (size_t)n_group * 4);
        memcpy(s8, sum, (size_t)n_group * 4);
        d = d8;
        sum = s8;
    }
    const f32x8 vd = f8_load(d);
    const i32x8 vs = i8_load(sum);
    f8_store((float *)out, vd);
    if (f->has_min && !f->has_sub) {
        f8_store((float *)(out + 32), f8_mul(vd, f8_from_i(vs)));
    }
    i32x8 first = i8_set1(0), second = first; /* where they are not asked for */
    if (lp_sub_min(f) || (lp_in_halves(f) && f->off)) {
        lp_half_sums(q, n_group, &first, &second);
    }
    if (f->has_sub && (f->has_min || f->off)) {
        i8_store((int32_t *)(out + 32), lp_pairs_of(first, second));
    }
    if (lp_in_halves(f) && f->off) {
        const i32x8 off = i8_set1(-f->off);
        i8_store((int32_t *)(out + 64), i8_mul(first, off));
        i8_store((int32_t *)(out + 96), i8_mul(second, off));
    } else if (f->off) {
        i8_store((int32_t *)(out + 64), i8_mul(vs, i8_set1(-f->off)));
    }
}

LP_FORCE void lp_prep(const struct lp_fmt *f, const char *x, int64_t k, char *out) {
    const int64_t n_group = k / 32;
    const int8_t *q = lp_x8_q(x);
    const float *d = lp_x8_d(x, k);
    const int32_t *sum = lp_x8_sum(x, k);
    int64_t g = 0;
    for (; g + 8 <= n_group; g += 8) {
        lp_prep8(f, q + g * 32, d + g, sum + g, 8, out);
        out += LP_TILE_COLS_MAX * LP_PREP_BYTES;
    }
    if (g < n_group) {
        lp_prep8(f, q + g * 32, d + g, sum + g, (int)(n_group - g), out);
    }
}

#endif
