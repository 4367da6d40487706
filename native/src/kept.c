/* Rows of log-probabilities as records (kept.h), and what another model's rows are beside them.
 *
 * As in nll.c, sums go through LANES accumulators in one order whatever the machine. */
#include <math.h>

#include "exp.h"
#include "kept.h"

enum { BLOCK = 256, LANES = 8, CODES = 65535, DEPTH = 16 };
static const float STEP = 4.f / CODES; /* sqrt(DEPTH) / CODES */

static int64_t words_of(int64_t n_vocab) {
    return (n_vocab + 63) / 64;
}

static int64_t bytes_of(int64_t n_vocab, int64_t n) {
    int64_t raw = (int64_t)sizeof(struct lp_kept) + 8 * words_of(n_vocab) + 2 * n;
    return (raw + 7) / 8 * 8;
}

int64_t lp_kept_most(int64_t n_vocab) {
    return bytes_of(n_vocab, n_vocab);
}

/* x[0..m) by LANES sums. */
static void add_up(double lane[LANES], const float *x, int m) {
    int i = 0;
    for (; i + LANES <= m; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += (double)x[i + j];
    for (; i < m; i++)
        lane[i % LANES] += (double)x[i];
}

static double total(const double lane[LANES]) {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* Differences to the maximum become codes; returns the sum of their exponentials. */
static double encode(const float *below, int64_t n, float log_sum, uint16_t *code) {
    double lane[LANES] = {0};
    float e[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int m = n - at < BLOCK ? (int)(n - at) : BLOCK;
        for (int i = 0; i < m; i++) {
            float d = log_sum - below[at + i];
            float q = sqrtf(choose(d > 0.f, d, 0.f)) * (1.f / STEP) + 0.5f;
            code[at + i] = (uint16_t)(int32_t)choose(q < CODES, q, CODES);
            e[i] = exp_below_0(below[at + i]);
        }
        add_up(lane, e, m);
    }
    return total(lane);
}

int64_t lp_keep_row(const float *x, int64_t n_vocab, float max, double sum, double log_sum,
                    double nll, int32_t top, void *out) {
    uint64_t *word = (uint64_t *)((char *)out + sizeof(struct lp_kept));
    uint16_t *code = (uint16_t *)(word + words_of(n_vocab));
    const float floor = (float)(log_sum - DEPTH);
    float below[BLOCK + 64];
    int64_t n = 0;
    int held = 0;
    double kept = 0;
    for (int64_t at = 0; at < n_vocab; at += 64) {
        int m = n_vocab - at < 64 ? (int)(n_vocab - at) : 64;
        uint64_t bits = 0;
        for (int i = 0; i < m; i++) {
            float d = x[at + i] - max;
            uint64_t keep = d > floor;
            below[held] = d;
            held += (int)keep;
            bits |= keep << i;
        }
        *word++ = bits;
        if (held >= BLOCK || at + 64 >= n_vocab) {
            kept += encode(below, held, (float)log_sum, code + n);
            n += held;
            held = 0;
        }
    }
    struct lp_kept head = {nll, n == n_vocab ? 0 : (sum - kept) / sum, top, (int32_t)n};
    head.rest = head.rest > 0 ? head.rest : 0;
    memcpy(out, &head, sizeof head);
    int64_t n_bytes = bytes_of(n_vocab, n);
    char *end = (char *)(code + n);
    memset(end, 0, (size_t)((char *)out + n_bytes - end));
    return n_bytes;
}

/* The record's own count of bits, if it fits into n_bytes and no bit lies behind the vocabulary. */
static int well_formed(const struct lp_kept *head, int64_t n_bytes, const uint64_t *word,
                       int64_t n_vocab) {
    if (head->n < 0 || head->n > n_vocab || bytes_of(n_vocab, head->n) > n_bytes)
        return 0;
    int64_t n = 0, n_words = words_of(n_vocab);
    for (int64_t i = 0; i < n_words; i++)
        n += __builtin_popcountll(word[i]);
    int spare = (int)(64 * n_words - n_vocab);
    return n == head->n && (spare == 0 || word[n_words - 1] >> (64 - spare) == 0);
}

/* `n` tokens: their codes, and the other model's differences to its maximum. */
static void compare(const uint16_t *code, const float *below, int n, double lane[3][LANES]) {
    float e[BLOCK + 64], f[BLOCK + 64], t[BLOCK + 64];
    if (n <= 0)
        return;
    for (int i = 0; i < n; i++) {
        float root = (float)code[i] * STEP;
        float d = choose(below[i] < -87.f, -87.f, below[i]);
        t[i] = -(root * root) - d;
        e[i] = exp_below_0(-(root * root));
        f[i] = exp_below_0(d);
    }
    add_up(lane[0], e, n);
    add_up(lane[2], f, n);
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[1][j] += (double)e[i + j] * (double)t[i + j];
    for (; i < n; i++)
        lane[1][i % LANES] += (double)e[i] * (double)t[i];
}

int64_t lp_kept_against(const void *record, int64_t n_bytes, const float *x, int64_t n_vocab,
                        float max, double *out) {
    struct lp_kept head;
    if (n_bytes < bytes_of(n_vocab, 0))
        return 0;
    memcpy(&head, record, sizeof head);
    const uint64_t *word = (const uint64_t *)((const char *)record + sizeof head);
    if (!well_formed(&head, n_bytes, word, n_vocab))
        return 0;
    const uint16_t *code = (const uint16_t *)(word + words_of(n_vocab));
    double lane[3][LANES] = {{0}};
    float below[BLOCK + 64];
    int held = 0;
    for (int64_t at = 0; at < n_vocab; at += 64) {
        for (uint64_t bits = *word++; bits; bits &= bits - 1)
            below[held++] = x[at + __builtin_ctzll(bits)] - max;
        if (held >= BLOCK || at + 64 >= n_vocab) {
            compare(code, below, held, lane);
            code += held;
            held = 0;
        }
    }
    for (int i = 0; i < 3; i++)
        out[i] = total(lane[i]);
    return bytes_of(n_vocab, head.n);
}
