/* xxHash's 64-bit variant, after its specification. Words are little-endian. */
#include "verify.h"

#include <string.h>

#define P1 UINT64_C(0x9e3779b185ebca87)
#define P2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define P3 UINT64_C(0x165667b19e3779f9)
#define P4 UINT64_C(0x85ebca77c2b2ae63)
#define P5 UINT64_C(0x27d4eb2f165667c5)

static inline uint64_t rotl(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

static inline uint64_t word(const uint8_t *b, int n) {
    uint64_t x = 0;
    for (int i = 0; i < n; i++)
        x |= (uint64_t)b[i] << 8 * i;
    return x;
}

static inline uint64_t step(uint64_t lane, uint64_t x) {
    return rotl(lane + x * P2, 31) * P1;
}

void lp_xxh64_begin(struct lp_xxh64 *h) {
    *h = (struct lp_xxh64){.v = {P1 + P2, P2, 0, -P1}};
}

/* Stripes of 32 bytes. */
static void stripes(uint64_t *v, const uint8_t *p, int64_t n) {
    uint64_t a = v[0], b = v[1], c = v[2], d = v[3];
    for (; n >= 32; n -= 32, p += 32) {
        a = step(a, word(p, 8));
        b = step(b, word(p + 8, 8));
        c = step(c, word(p + 16, 8));
        d = step(d, word(p + 24, 8));
    }
    v[0] = a, v[1] = b, v[2] = c, v[3] = d;
}

void lp_xxh64_add(struct lp_xxh64 *h, const uint8_t *p, int64_t n) {
    const int64_t held = (int64_t)(h->n % 32);
    h->n += (uint64_t)n;
    if (held) {
        const int64_t take = n < 32 - held ? n : 32 - held;
        memcpy(h->rest + held, p, (size_t)take);
        p += take, n -= take;
        if (held + take < 32)
            return;
        stripes(h->v, h->rest, 32);
    }
    stripes(h->v, p, n);
    if (n % 32)
        memcpy(h->rest, p + n / 32 * 32, (size_t)(n % 32));
}

uint64_t lp_xxh64_end(const struct lp_xxh64 *h) {
    const uint64_t *v = h->v;
    uint64_t x = P5;
    if (h->n >= 32) {
        x = rotl(v[0], 1) + rotl(v[1], 7) + rotl(v[2], 12) + rotl(v[3], 18);
        for (int i = 0; i < 4; i++)
            x = (x ^ step(0, v[i])) * P1 + P4;
    }
    x += h->n;
    const uint8_t *p = h->rest, *end = p + h->n % 32;
    for (; end - p >= 8; p += 8)
        x = rotl(x ^ step(0, word(p, 8)), 27) * P1 + P4;
    for (; end - p >= 4; p += 4)
        x = rotl(x ^ word(p, 4) * P1, 23) * P2 + P3;
    for (; p < end; p++)
        x = rotl(x ^ *p * P5, 11) * P1;
    x = (x ^ x >> 33) * P2;
    x = (x ^ x >> 29) * P3;
    return x ^ x >> 32;
}
