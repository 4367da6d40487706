/* What `verify` asks of a file's bytes: checksums, and numbers that are none. */
#ifndef LP_VERIFY_H
#define LP_VERIFY_H

#include "lp.h"

/* xxHash, 64 bits, seed 0, over bytes that come in pieces. */
struct lp_xxh64 {
    uint64_t v[4];    /* a lane for every fourth word */
    uint64_t n;       /* bytes so far */
    uint8_t rest[32]; /* n % 32 of them, not in the lanes yet */
};
LP_API void lp_xxh64_begin(struct lp_xxh64 *h);
LP_API void lp_xxh64_add(struct lp_xxh64 *h, const uint8_t *p, int64_t n);
LP_API uint64_t lp_xxh64_end(const struct lp_xxh64 *h);

/* How a block holds a number that may be NaN or infinite. */
enum {
    LP_AS_F16 = 0,
    LP_AS_BF16 = 1,
    LP_AS_F32 = 2,
    LP_AS_F64 = 3,
    LP_AS_E8M0 = 4,  /* an exponent of 8 bits, 255 for NaN */
    LP_AS_IQ1_M = 5, /* an f16 in the highest four bits of four 16-bit words */
};
/* How many of n numbers, `stride` bytes apart from p on, are NaN or infinite; *first is the number
 * of the first of them, or -1. Any alignment will do. -1 for an unknown `kind`. */
LP_API int64_t lp_nonfinite(int kind, const uint8_t *p, int64_t n, int64_t stride, int64_t *first);

#endif
