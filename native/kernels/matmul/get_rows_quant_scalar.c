/* get_rows of a quantised table, compiled once per format. Values are rounded as their definition
 * reads (fmt.h): scale times sub-scale, times q, plus the minimum, one rounding each. */
#include "each.h"
#include "get_rows.h"

/* One group of 32 as floats. */
LP_FORCE void group_values(const struct lp_fmt *f, const uint8_t *block, int j, float *v) {
    int8_t q[32];
    struct lp_scales s = {0};
    f->weights(block, j, q);
    f->scales(block, j, &s);
    for (int i = 0; i < 32; i++) {
        float ws = f->has_sub ? s.ws * (float)s.s[i / 16] : s.ws;
        if (f->has_two) {
            v[i] = (i < 16 ? s.ws : s.wm) * (float)q[i];
            continue;
        }
        float wm = f->has_sub ? s.wm * (float)s.m[i / 16] : s.wm;
        v[i] = ws * (float)q[i];
        if (f->has_min) {
            v[i] = v[i] + wm;
        }
    }
}

static void row_of(const uint8_t *row, int64_t k, char *dst) {
    const struct lp_fmt *f = &LP_OF_FORMAT(lp_fmt_, );
    for (int64_t g = 0; g < k / 32; g++) {
        float v[32];
        group_values(f, lp_block_of(f, row, g), lp_group_in_block(f, g), v);
        memcpy(dst + g * 128, v, 128);
    }
}

int LP_OF_FORMAT(lp_get_rows_, _f32_scalar)(const struct lp_args *a, int64_t task, void *s) {
    (void)s;
    return lp_get_rows(a, task, row_of);
}
