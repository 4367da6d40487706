/* Rows interleaved by eight: the type <format>_r8, id 2000 + the format's.
 *
 * Every 8 rows of n blocks of B bytes take 8 n B bytes, block after block. Inside the block of 8
 * rows the format's fields follow in order: word i of row r of a field at `o` lies at
 * 8 o + (8 i + r) unit. So a vector load gets the same word of eight rows, which is what kernels
 * with lane = row want, and rows are read in one sequential stream.
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

/* Weight i of a word of 32 / width goes where weight 4 s + e stands in byte e. */
LP_FORCE int lp_r8_place(int i, int width) {
    return (i % 4 * (8 / width) + i / 4) * width;
}
LP_FORCE uint32_t lp_r8_spread(uint32_t x, int width) {
    uint32_t y = 0;
    for (int i = 0; i < 32 / width; i++) {
        y |= (x >> i * width & ((1u << width) - 1)) << lp_r8_place(i, width);
    }
    return y;
}
LP_FORCE uint32_t lp_r8_gather(uint32_t y, int width) {
    uint32_t x = 0;
    for (int i = 0; i < 32 / width; i++) {
        x |= (y >> lp_r8_place(i, width) & ((1u << width) - 1)) << i * width;
    }
    return x;
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
        const int width = d.kind == LP_PAIRS ? 2 : 1;
        x = gather ? lp_r8_gather(x, width) : lp_r8_spread(x, width);
    }
    memcpy(to, &x, 4);
}

/* The block of eight rows made of row[0..7], and row r's block taken out of it again. */
LP_FORCE void lp_r8_join(const struct lp_fmt *f, const uint8_t *const *row, uint8_t *out) {
    int at = 0;
    for (int n = 0; n < LP_FIELDS; n++) {
        const struct lp_field d = f->field[n];
        for (int i = 0; i < d.words; i++, at += d.unit) {
            for (int r = 0; r < LP_R8_ROWS; r++) {
                lp_r8_word(d, 0, row[r] + at, out + 8 * at + r * d.unit);
            }
        }
    }
}
LP_FORCE void lp_r8_take(const struct lp_fmt *f, const uint8_t *block, int r, uint8_t *out) {
    int at = 0;
    for (int n = 0; n < LP_FIELDS; n++) {
        const struct lp_field d = f->field[n];
        for (int i = 0; i < d.words; i++, at += d.unit) {
            lp_r8_word(d, 1, block + 8 * at + r * d.unit, out + at);
        }
    }
}

#endif
