/* Rows interleaved by eight: the type <format>_r8, id 2000 + the format's.
 *
 * Every 8 rows of n blocks of B bytes take 8 n B bytes, block after block. Inside the block of 8
 * rows the format's fields follow in the order of its table: word i of row r of a field with o
 * bytes of fields before it lies at 8 o + (8 i + r) unit. So a vector load gets the same word of
 * eight rows, which is what kernels with lane = row want, and rows are read in one sequential
 * stream: a table's order is the one in which a kernel wants the fields, which is why q6_K, whose
 * blocks hold upper bits behind all lower ones, has another than its blocks.
 *
 * In words of bits (LP_BITS) bit 16 h + 4 s + e becomes bit 8 e + 4 h + s, in words of bit pairs
 * (LP_PAIRS) pair 4 s + e becomes pair 4 e + s: so that weights 4 s + e (of half h) stand in byte
 * e.
 */
#ifndef LP_R8_H
#define LP_R8_H

#include "fmt.h"

#define LP_R8_ROWS 8
#define LP_R8_TYPE 2000

/* Weight 4 s + e of a word goes to place s of byte e: the bits of a weight's number change places,
 * the number of a weight's own bit the last. Each step exchanges two of them, which moves half of
 * the word's bits by n. */
LP_FORCE uint32_t lp_r8_swap(uint32_t x, uint32_t mask, int n) {
    const uint32_t t = (x >> n ^ x) & mask;
    return x ^ t ^ t << n;
}
LP_FORCE uint32_t lp_r8_spread(uint32_t x, int kind) {
    if (kind == LP_BITS) { /* s2 s1 s0 e1 e0: e0 with e1, then with s0 */
        x = lp_r8_swap(lp_r8_swap(x, 0x22222222, 1), 0x0a0a0a0a, 3);
    }
    return lp_r8_swap(lp_r8_swap(x, 0x00cc00cc, 6), 0x0000f0f0, 12);
}
LP_FORCE uint32_t lp_r8_gather(uint32_t x, int kind) {
    x = lp_r8_swap(lp_r8_swap(x, 0x0000f0f0, 12), 0x00cc00cc, 6);
    return kind == LP_BITS ? lp_r8_swap(lp_r8_swap(x, 0x0a0a0a0a, 3), 0x22222222, 1) : x;
}

/* One word between a row's block and the block of eight: to `to` from `from`. */
LP_FORCE void lp_r8_word(struct lp_field d, int gather, const uint8_t *from, uint8_t *to) {
    uint32_t x;
    if (d.unit < 4) {
        memcpy(to, from, d.unit);
        return;
    }
    memcpy(&x, from, 4);
    if (d.kind != LP_PLAIN) {
        x = gather ? lp_r8_gather(x, d.kind) : lp_r8_spread(x, d.kind);
    }
    memcpy(to, &x, 4);
}

/* Where the n-th field stands in a row's block, `at` bytes of fields before it. */
LP_FORCE int lp_r8_from(const struct lp_fmt *f, int n, int at) {
    return f->field[0].from ? f->field[n].from : at;
}

/* The block of eight rows made of row[0..7], and row r's block taken out of it again. */
LP_FORCE void lp_r8_join(const struct lp_fmt *f, const uint8_t *const *row, uint8_t *out) {
    int at = 0;
#pragma GCC unroll 6
    for (int n = 0; n < LP_FIELDS; n++) {
        const struct lp_field d = f->field[n];
        int from = lp_r8_from(f, n, at);
        for (int i = 0; i < d.words; i++, at += d.unit, from += d.unit) {
#pragma GCC unroll 8
            for (int r = 0; r < LP_R8_ROWS; r++) {
                lp_r8_word(d, 0, row[r] + from, out + 8 * at + r * d.unit);
            }
        }
    }
}
LP_FORCE void lp_r8_take(const struct lp_fmt *f, const uint8_t *block, int r, uint8_t *out) {
    int at = 0;
#pragma GCC unroll 6
    for (int n = 0; n < LP_FIELDS; n++) {
        const struct lp_field d = f->field[n];
        int from = lp_r8_from(f, n, at);
        for (int i = 0; i < d.words; i++, at += d.unit, from += d.unit) {
            lp_r8_word(d, 1, block + 8 * at + r * d.unit, out + from);
        }
    }
}

#endif
