/* Quantised weights by x8 activations, in plain C: what every other set must give bit for bit.
 * Compiled once per format. */
#include "each.h"
#include "dot_scalar.h"

static const uint8_t *block_at(const struct lp_mm *t, int64_t r, int64_t g, uint8_t *made) {
    (void)made;
    return lp_block_of(&LP_OF_FORMAT(lp_fmt_, ), t->w + r * t->w_nb, g);
}

int LP_OF_FORMAT(lp_mul_mat_, _x8_scalar)(const struct lp_args *a, int64_t task, void *s) {
    return lp_mul_mat_scalar(&LP_OF_FORMAT(lp_fmt_, ), block_at, a, task, s);
}
