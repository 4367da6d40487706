#ifndef LP_KEPT_H
#define LP_KEPT_H
#include "lp.h"

/* A row of log-probabilities, kept small: those above -16, by 16 bits each, and what is left
 * together. Followed by a bit per token of the vocabulary (64-bit words, the lowest bit first) that
 * says which are kept, their codes (uint16) in order, and zeros to a multiple of 8 bytes.
 * Code q stands for the log-probability -(q * 4 / 65535)^2: a step of 1e-5 where the probability is
 * near 1, of 5e-4 where it is near e^-16. All fields are in the machine's byte order. */
struct lp_kept {
    double nll;  /* of the token that came */
    double rest; /* the sum of the probabilities that are not kept */
    int32_t top; /* the most likely token */
    int32_t n;   /* tokens kept */
};

/* Of row x[n_vocab], its maximum, the sum of exp(x - max), the logarithm of that: the record, into
 * `out` with room for lp_kept_most(n_vocab) bytes. Returns its bytes. nll and top are as given. */
LP_API int64_t lp_keep_row(const float *x, int64_t n_vocab, float max, double sum, double log_sum,
                           double nll, int32_t top, void *out);
LP_API int64_t lp_kept_most(int64_t n_vocab);

/* A record against another model's row. With e_i the probability that code i stands for, over the
 * tokens kept: out[0] = sum e_i, out[1] = sum e_i (log e_i - (x_i - max)), out[2] = sum
 * exp(x_i - max); x_i - max counts as -87 where it is less. Returns the bytes of the record, 0 when
 * `n_bytes` do not begin with a well-formed one. */
LP_API int64_t lp_kept_against(const void *record, int64_t n_bytes, const float *x, int64_t n_vocab,
                               float max, double *out);

#endif
