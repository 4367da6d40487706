/* The cosines and sines of rotary position embedding, in double, once per token. No instruction
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
    double *freqs;    /* [n_pairs] base^(-2i / n_dims), by repeated multiplication in order of i */
    float *cos, *sin; /* [n_pairs] of one token */
    float *spread;    /* [4 n_pairs] for the kernel's own use */
};

int64_t lp_rope_table_bytes(const struct lp_node *n);
/* Reads the parameters and fills freqs; scratch holds lp_rope_table_bytes. LP_OK, or LP_E_TYPES for
 * a mode or a size that is not known. */
int lp_rope_open(struct lp_rope *r, const struct lp_args *a, void *scratch);
/* Fill cos and sin for one token. pos: one position, or four (time, height, width, extra) for
 * MROPE, IMROPE and VISION. */
void lp_rope_fill(const struct lp_rope *r, const int32_t *pos);

#endif
