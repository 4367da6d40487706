/* Rows interleaved by eight by x8 activations, in plain C. Compiled once per format that can be. */
#include "each.h"
#include "dot_scalar.h"
#include "r8.h"

static const uint8_t *block_at(const struct lp_mm *t, int64_t r, int64_t g, uint8_t *made) {
    const struct lp_fmt *f = &LP_OF_FORMAT(lp_fmt_, );
    const uint8_t *eight = t->w + r / LP_R8_ROWS * LP_R8_ROWS * t->w_nb;
    lp_r8_take(f, eight + LP_R8_ROWS * (g * 32 / f->block * f->bytes), (int)(r % LP_R8_ROWS), made);
    return made;
}

int LP_OF_FORMAT(lp_mul_mat_, _r8_x8_scalar)(const struct lp_args *a, int64_t task, void *s) {
    return lp_mul_mat_scalar(&LP_OF_FORMAT(lp_fmt_, ), block_at, a, task, s);
}
