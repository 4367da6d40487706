/* The cosines and sines of rotary position embedding, in double, a row per token. No instruction
 * set: one compiled copy serves all of them, so they cannot differ. */
#ifndef LP_ROPE_TABLE_H
#define LP_ROPE_TABLE_H

#include "lp.h"

/* Modes (ggml's numbers). Pairs are (2i, 2i + 1) in NORMAL and (i, i + n_pairs) in the others. */
enum {
    LP_ROPE_NORMAL = 0,
    LP_ROPE_NEOX = 2,
    LP_ROPE_MROPE = 8,
    LP_ROPE_VISION = 24,
    LP_ROPE_IMROPE = 40
};

/* What does not change from token to token. */
struct lp_rope {
    int64_t mode, n_dims, n_pairs;
    int64_t sections[4];
    const float *factors; /* [n_pairs] or NULL: the angle of pair i is divided by factors[i] */
    double freq_scale, ext_factor, mscale, low, high;
    double *freqs; /* [n_pairs] base^(-2i / n_dims), by repeated multiplication in order of i */
};

/* A token's row is cos [n_pairs], sin [n_pairs]. NORMAL has them as its lanes want them: cos twice
 * [2 n_pairs], then -sin, sin [2 n_pairs]. */
static inline int64_t lp_rope_row(int64_t mode, int64_t n_pairs) {
    return (mode == LP_ROPE_NORMAL ? 4 : 2) * n_pairs;
}
/* Of freqs and one row. */
int64_t lp_rope_bytes(const struct lp_node *n);
/* Reads the parameters of rope or rope_table and fills freqs, at the start of scratch; what follows
 * there, r->freqs + r->n_pairs, has room for a row. LP_OK, or LP_E_TYPES for a mode or a size that
 * is not known. */
int lp_rope_open(struct lp_rope *r, const struct lp_args *a, int factors, void *scratch);
/* The row of token t. pos i32 [n_tokens], or [4 n_tokens] (time, height, width, extra) for MROPE,
 * IMROPE and VISION. */
void lp_rope_fill(const struct lp_rope *r, float *row, const char *pos, const struct lp_opnd *p,
                  int64_t t, int64_t n_tokens);

#endif
