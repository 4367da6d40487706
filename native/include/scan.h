/* Walking over length-prefixed strings, as GGUF stores arrays of them. */
#ifndef LP_SCAN_H
#define LP_SCAN_H

#include "lp.h"

/* p[0 .. n_bytes) starts with `count` strings, each a little-endian u64 length and that many bytes.
 * Returns the number of bytes they take, or -1 - i when string i does not fit into what is left.
 * offsets may be NULL; else it has count + 1 places: offsets[i] is where the bytes of string i
 * start, and string i ends 8 bytes before offsets[i + 1] (the last place is filled as if one more
 * string followed). On failure the places up to i are filled. Reads nothing beyond n_bytes. */
LP_API int64_t lp_scan_strings(const char *p, int64_t n_bytes, int64_t count, int64_t *offsets);

#endif
