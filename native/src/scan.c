#include "scan.h"

/* Byte by byte, so that any alignment and any byte order of the host will do; a compiler makes one
 * load of it. */
static inline uint64_t u64_le(const char *at) {
    const unsigned char *b = (const unsigned char *)at;
    return (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 |
           (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 |
           (uint64_t)b[7] << 56;
}

int64_t lp_scan_strings(const char *p, int64_t n_bytes, int64_t count, int64_t *offsets) {
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        if (n_bytes - at < 8)
            return -1 - i;
        uint64_t len = u64_le(p + at);
        at += 8;
        if (offsets)
            offsets[i] = at;
        if (len > (uint64_t)(n_bytes - at))
            return -1 - i;
        at += (int64_t)len;
    }
    if (offsets)
        offsets[count] = at + 8;
    return at;
}
