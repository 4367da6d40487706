/* lp_scan_strings: sound arrays, and every length that does not fit what is left. The buffers are
 * of the exact size, so that the address sanitizer sees a byte read too many. */
#include "scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void expect(const char *what, int64_t got, int64_t want) {
    if (got != want) {
        printf("test_scan: %s: got %lld, want %lld\n", what, (long long)got, (long long)want);
        failed = 1;
    }
}

static void put(char *at, uint64_t len) {
    for (int i = 0; i < 8; i++)
        at[i] = (char)(len >> 8 * i);
}

/* "ab", "", "xyz" */
static char *three(size_t *n) {
    *n = 3 * 8 + 5;
    char *p = malloc(*n);
    if (!p)
        exit(1);
    put(p, 2);
    memcpy(p + 8, "ab", 2);
    put(p + 10, 0);
    put(p + 18, 3);
    memcpy(p + 26, "xyz", 3);
    return p;
}

static void sound(void) {
    size_t n;
    int64_t offsets[4];
    char *p = three(&n);
    expect("bytes", lp_scan_strings(p, (int64_t)n, 3, offsets), (int64_t)n);
    const int64_t want[4] = {8, 18, 26, 37};
    for (int i = 0; i < 4; i++)
        expect("offset", offsets[i], want[i]);
    expect("without offsets", lp_scan_strings(p, (int64_t)n, 3, NULL), (int64_t)n);
    expect("fewer", lp_scan_strings(p, (int64_t)n, 1, NULL), 10);
    expect("none", lp_scan_strings(p, (int64_t)n, 0, offsets), 0);
    expect("offset of none", offsets[0], 8);
    expect("one too many", lp_scan_strings(p, (int64_t)n, 4, NULL), -4);
    free(p);
}

static void cut(void) {
    size_t n;
    char *whole = three(&n);
    for (size_t k = 0; k < n; k++) {
        char *p = malloc(k + (k == 0));
        if (!p)
            exit(1);
        memcpy(p, whole, k);
        int64_t offsets[4];
        int64_t at = k < 10 ? 0 : k < 18 ? 1 : 2;
        expect("cut", lp_scan_strings(p, (int64_t)k, 3, offsets), -1 - at);
        free(p);
    }
    free(whole);
}

static void bombs(void) {
    static const uint64_t lengths[] = {4, UINT64_C(1) << 31, UINT64_C(1) << 63, UINT64_MAX,
                                       UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n;
        char *p = three(&n);
        put(p + 18, lengths[i]);
        expect("bomb", lp_scan_strings(p, (int64_t)n, 3, NULL), -3);
        free(p);
    }
}

int main(void) {
    sound();
    cut();
    bombs();
    if (!failed)
        printf("test_scan: ok\n");
    return failed;
}
