/* xxHash against published values, in one piece and in all pairs of pieces; numbers that are none,
 * in buffers of the exact size, so that the address sanitizer sees a byte read too many. */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void expect(const char *what, uint64_t got, uint64_t want) {
    if (got != want) {
        printf("test_verify: %s: got %llx, want %llx\n", what, (unsigned long long)got,
               (unsigned long long)want);
        failed = 1;
    }
}

static uint64_t hash_of(const uint8_t *p, int64_t n, int64_t cut) {
    struct lp_xxh64 h;
    lp_xxh64_begin(&h);
    lp_xxh64_add(&h, p, cut);
    lp_xxh64_add(&h, p + cut, n - cut);
    return lp_xxh64_end(&h);
}

static void hashes(void) {
    const char *pangram = "The quick brown fox jumps over the lazy dog";
    expect("empty", hash_of((const uint8_t *)"", 0, 0), UINT64_C(0xef46db3751d8e999));
    expect("a", hash_of((const uint8_t *)"a", 1, 0), UINT64_C(0xd24ec4f1a98c6e5b));
    expect("abc", hash_of((const uint8_t *)"abc", 3, 1), UINT64_C(0x44bc2cf5ad770999));
    expect("43 bytes", hash_of((const uint8_t *)pangram, 43, 0), UINT64_C(0x0b242d361fda71bc));
    for (int64_t n = 0; n < 100; n++) {
        uint8_t *p = malloc((size_t)n + !n);
        if (!p)
            exit(1);
        for (int64_t i = 0; i < n; i++)
            p[i] = (uint8_t)(i * 7 + n);
        for (int64_t cut = 0; cut <= n; cut++)
            expect("pieces", hash_of(p, n, cut), hash_of(p, n, 0));
        free(p);
    }
}

static void one(int kind, int64_t stride, int64_t at, const uint8_t *bad, int64_t n_bytes) {
    const int64_t n = 37;
    int64_t first;
    uint8_t *p = calloc((size_t)(n * stride - at), 1);
    if (!p)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        memset(p + i * stride, 0x3b, (size_t)n_bytes); /* finite in every kind */
    expect("sound", (uint64_t)lp_nonfinite(kind, p, n, stride, &first), 0);
    expect("none", (uint64_t)first, UINT64_MAX);
    memcpy(p + 36 * stride, bad, (size_t)n_bytes);
    expect("one", (uint64_t)lp_nonfinite(kind, p, n, stride, &first), 1);
    expect("the last", (uint64_t)first, 36);
    memcpy(p + 5 * stride, bad, (size_t)n_bytes);
    expect("two", (uint64_t)lp_nonfinite(kind, p, n, stride, &first), 2);
    expect("the first", (uint64_t)first, 5);
    expect("before it", (uint64_t)lp_nonfinite(kind, p, 5, stride, &first), 0);
    free(p);
}

static void numbers(void) {
    static const uint8_t inf16[] = {0, 0x7c}, nan16[] = {1, 0xfe}, infb[] = {0x80, 0xff};
    static const uint8_t nan32[] = {0, 0, 0xc0, 0x7f}, inf32[] = {0, 0, 0x80, 0xff};
    static const uint8_t inf64[] = {0, 0, 0, 0, 0, 0, 0xf0, 0x7f}, exponent[] = {255};
    static const uint8_t pieces[] = {0, 0, 0, 0, 0, 0xc0, 0, 0x70};
    for (int64_t stride = 2; stride < 24; stride += 2) {
        one(LP_AS_F16, stride, stride - 2, inf16, 2);
        one(LP_AS_F16, stride, stride - 2, nan16, 2);
        one(LP_AS_BF16, stride, stride - 2, infb, 2);
    }
    one(LP_AS_F32, 4, 0, nan32, 4);
    one(LP_AS_F32, 292, 288, inf32, 4);
    one(LP_AS_F64, 8, 0, inf64, 8);
    one(LP_AS_E8M0, 17, 16, exponent, 1);
    one(LP_AS_IQ1_M, 56, 48, pieces, 8);
    int64_t first;
    expect("unknown", (uint64_t)lp_nonfinite(6, inf16, 1, 2, &first), UINT64_MAX);
    expect("unknown", (uint64_t)lp_nonfinite(-1, inf16, 1, 2, &first), UINT64_MAX);
}

int main(void) {
    hashes();
    numbers();
    if (!failed)
        printf("test_verify: ok\n");
    return failed;
}
