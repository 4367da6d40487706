#include "verify.h"

/* A number is NaN or infinite when all bits of its exponent are set. */
#define BAD16(mask) ((word16(p + i * stride) & (mask)) == (mask))

static inline uint32_t word16(const uint8_t *b) {
    return b[0] | (uint32_t)b[1] << 8;
}

static int64_t f16(const uint8_t *p, int64_t n, int64_t stride) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += BAD16(0x7c00u);
    return bad;
}

static int64_t bf16(const uint8_t *p, int64_t n, int64_t stride) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += BAD16(0x7f80u);
    return bad;
}

static int64_t f32(const uint8_t *p, int64_t n, int64_t stride) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += (word16(p + i * stride + 2) & 0x7f80u) == 0x7f80u;
    return bad;
}

static int64_t f64(const uint8_t *p, int64_t n, int64_t stride) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += (word16(p + i * stride + 6) & 0x7ff0u) == 0x7ff0u;
    return bad;
}

static int64_t e8m0(const uint8_t *p, int64_t n, int64_t stride) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += p[i * stride] == 255;
    return bad;
}

/* The f16's exponent is in the upper half: three bits of the fourth word, two of the third. */
static int64_t iq1_m(const uint8_t *p, int64_t n, int64_t stride) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *b = p + i * stride;
        bad += (b[7] & 0x70) == 0x70 && (b[5] & 0xc0) == 0xc0;
    }
    return bad;
}

int64_t lp_nonfinite(int kind, const uint8_t *p, int64_t n, int64_t stride, int64_t *first) {
    static int64_t (*const count[])(const uint8_t *, int64_t, int64_t) = {
        [LP_AS_F16] = f16, [LP_AS_BF16] = bf16, [LP_AS_F32] = f32,
        [LP_AS_F64] = f64, [LP_AS_E8M0] = e8m0, [LP_AS_IQ1_M] = iq1_m,
    };
    *first = -1;
    if (kind < 0 || kind >= (int)(sizeof count / sizeof *count))
        return -1;
    /* Rows of elements without gaps are what the compiler makes vectors of. */
    int64_t bad = kind == LP_AS_F32 && stride == 4    ? f32(p, n, 4)
                  : kind == LP_AS_F16 && stride == 2  ? f16(p, n, 2)
                  : kind == LP_AS_BF16 && stride == 2 ? bf16(p, n, 2)
                                                      : count[kind](p, n, stride);
    for (int64_t i = 0; bad && *first < 0; i++)
        if (count[kind](p + i * stride, 1, stride))
            *first = i;
    return bad;
}
