/* How the vector kernels reach the blocks of eight rows. The formats' functions are written once
 * for both ways in which the rows of a weight can lie:
 *
 *   plain          every row by itself; b[0..7] are the rows' blocks
 *   LP_R8 (1)      rows interleaved by eight (r8.h); b[0] is the block of all eight rows
 *
 * `at` is the offset in the block of one row. Included by fmt.h after an int_*.h. */
#ifndef LP_LANES_H
#define LP_LANES_H

#include <stdint.h>

/* Where the format's `lanes` reads: of two rows' blocks a and b all 16 weights, or of the block a
 * of eight rows weights 4i..4i+3. */
struct lp_at {
    const uint8_t *a, *b;
    int i;
};

#if defined(LP_R8)
#define LP_LINES 1 /* pointers to eight rows, and how much longer what they point to is */
#define LP_WIDE 8

LP_FORCE struct lp_at lp_skip(struct lp_at p, int at) {
    return (struct lp_at){p.a + 8 * at, p.b, p.i};
}
/* The word at `at` of eight rows, whichever weights it stands for. */
LP_FORCE b32 lp_word_of(struct lp_at p, int at) {
    return b32_load(p.a + 8 * at);
}
/* 4 of the 16 bytes from `at` on, of eight rows (plain: all 16, of two). */
LP_FORCE b32 lp_bytes(struct lp_at p, int at) {
    return b32_load(p.a + 8 * at + 32 * p.i);
}
/* Bit n of every byte moved to bit m, alone. */
LP_FORCE b32 lp_bit_to(b32 x, int n, int m) {
    return b32_and(n > m ? b32_shr(x, n - m) : n < m ? b32_shl(x, m - n) : x, b32_set1(1 << m));
}
/* low + 2^bit in every byte whose bit is set among bits 16h.. of the 32 at `at`. */
LP_FORCE b32 lp_add_bits(b32 low, struct lp_at p, int at, int h, int bit) {
    return b32_or(low, lp_bit_to(lp_word_of(p, at), 4 * h + p.i, bit));
}
/* The bit pairs of the 4 bytes at `at`. */
LP_FORCE b32 lp_bit_pairs(struct lp_at p, int at) {
    const b32 x = lp_word_of(p, at);
    return b32_and(p.i ? b32_shr(x, 2 * p.i) : x, b32_set1(3));
}
/* Half h (8 bytes) of the 16 bytes at `at`: their low nibbles, then their high nibbles. */
LP_FORCE b32 lp_nibbles8(struct lp_at p, int at, int h) {
    return b32_nibbles(b32_load(p.a + 8 * (at + 8 * h) + 32 * (p.i % 2)), p.i / 2);
}
/* Lane = row: the word at `at`, four of them, a word at the end of the block; the byte and the f16
 * that begin it; the f16 that ends it. */
LP_FORCE i32x8 lp_words(const uint8_t *const *b, int64_t at) {
    return b32_load(b[0] + 8 * at);
}
LP_FORCE void lp_words4(const uint8_t *const *b, int64_t at, i32x8 *w) {
    for (int i = 0; i < 4; i++) {
        w[i] = lp_words(b, at + 4 * i);
    }
}
LP_FORCE i32x8 lp_last_words(const uint8_t *const *b, int64_t at) {
    return lp_words(b, at);
}
LP_FORCE i32x8 lp_first_byte(const uint8_t *const *b) {
    return i8_bytes(b[0]);
}
LP_FORCE f32x8 lp_first_half(const uint8_t *const *b) {
    return f8_halves(b[0]);
}
LP_FORCE f32x8 lp_last_half(const uint8_t *const *b, int64_t at) {
    return f8_halves(b[0] + 8 * at);
}

#else
#define LP_R8 0
#define LP_LINES 8
#define LP_WIDE 1

LP_FORCE struct lp_at lp_skip(struct lp_at p, int at) {
    return (struct lp_at){p.a + at, p.b + at, p.i};
}
LP_FORCE b32 lp_word_of(struct lp_at p, int at) { /* nobody asks */
    return b32_load(p.a + at);
}
LP_FORCE b32 lp_bytes(struct lp_at p, int at) {
    return b32_two(p.a + at, p.b + at);
}
LP_FORCE b32 lp_add_bits(b32 low, struct lp_at p, int at, int h, int bit) {
    return b32_add_bits(low, p.a + at + 2 * h, p.b + at + 2 * h, 1 << bit);
}
LP_FORCE b32 lp_bit_pairs(struct lp_at p, int at) {
    return b32_bit_pairs(p.a + at, p.b + at);
}
LP_FORCE b32 lp_nibbles8(struct lp_at p, int at, int h) {
    return b32_nibbles8(lp_bytes(p, at), h);
}
LP_FORCE i32x8 lp_words(const uint8_t *const *b, int64_t at) {
    return i8_words(b, at);
}
LP_FORCE void lp_words4(const uint8_t *const *b, int64_t at, i32x8 *w) {
    for (int i = 0; i < 4; i++) {
        w[i] = b32_two(b[i] + at, b[i + 4] + at);
    }
    b32_transpose4(w);
}
LP_FORCE i32x8 lp_last_words(const uint8_t *const *b, int64_t at) {
    return i8_last_words(b, at);
}
LP_FORCE i32x8 lp_first_byte(const uint8_t *const *b) {
    return i8_byte(i8_words(b, 0), 0);
}
LP_FORCE f32x8 lp_first_half(const uint8_t *const *b) {
    f32x8 d, rest;
    f8_split(i8_words(b, 0), &d, &rest);
    return d;
}
LP_FORCE f32x8 lp_last_half(const uint8_t *const *b, int64_t at) {
    f32x8 low, d;
    f8_split(i8_last_words(b, at - 2), &low, &d);
    return d;
}
#endif

#endif
