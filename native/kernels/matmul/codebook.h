/* What the iq formats with codebooks share. A weight is a codebook value under a sign (iq2, iq3) or
 * with 1/8 added or taken off (iq1); the codebooks are in grids.h.
 *
 * Signs come as one bit a weight, set for minus. Where a format keeps only seven bits for eight
 * weights, the eighth makes their number even. */
#ifndef LP_CODEBOOK_H
#define LP_CODEBOOK_H

#include "fmt.h"
#include "grids.h"

LP_FORCE uint32_t lp_u16_at(const uint8_t *p) {
    uint16_t x;
    memcpy(&x, p, 2);
    return x;
}
LP_FORCE uint32_t lp_u32_at(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}
LP_FORCE int lp_eight_signs(uint32_t seven) {
    return (int)(seven | (uint32_t)__builtin_parity(seven) << 7);
}
/* n values of a codebook, under the n lowest signs. */
LP_FORCE void lp_signed(const void *entry, int n, int signs, int8_t *q) {
    memcpy(q, entry, (size_t)n);
    for (int i = 0; i < n; i++) {
        q[i] = (int8_t)(signs >> i & 1 ? -q[i] : q[i]);
    }
}
/* Eight values of iq1 in eighths: 8 value + 1, or - 1 where minus is set. */
LP_FORCE void lp_eighths(uint64_t entry, int minus, int8_t *q) {
    memcpy(q, &entry, 8);
    for (int i = 0; i < 8; i++) {
        q[i] = (int8_t)(q[i] - 8 + (minus ? -1 : 1));
    }
}

#ifdef LP_INT_H
/* Patterns for b32_lookup, to which a number of bytes may be added: every byte as two, four or
 * eight 16-bit lanes; every 16 bits four times. */
#define LP_Z 0x80
static const uint8_t lp_by2[32] = {0,    LP_Z, 0,    LP_Z, 1,    LP_Z, 1,    LP_Z, 2,    LP_Z, 2,
                                   LP_Z, 3,    LP_Z, 3,    LP_Z, 4,    LP_Z, 4,    LP_Z, 5,    LP_Z,
                                   5,    LP_Z, 6,    LP_Z, 6,    LP_Z, 7,    LP_Z, 7,    LP_Z};
static const uint8_t lp_by4[32] = {0,    LP_Z, 0,    LP_Z, 0,    LP_Z, 0,    LP_Z, 1,    LP_Z, 1,
                                   LP_Z, 1,    LP_Z, 1,    LP_Z, 2,    LP_Z, 2,    LP_Z, 2,    LP_Z,
                                   2,    LP_Z, 3,    LP_Z, 3,    LP_Z, 3,    LP_Z, 3,    LP_Z};
static const uint8_t lp_by8[32] = {0,    LP_Z, 0,    LP_Z, 0,    LP_Z, 0,    LP_Z, 0,    LP_Z, 0,
                                   LP_Z, 0,    LP_Z, 0,    LP_Z, 1,    LP_Z, 1,    LP_Z, 1,    LP_Z,
                                   1,    LP_Z, 1,    LP_Z, 1,    LP_Z, 1,    LP_Z, 1,    LP_Z};
static const uint8_t lp_words_by4[32] = {0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3,
                                         4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7};
#undef LP_Z
LP_FORCE b32 lp_lanes_of(const uint8_t *p, const uint8_t *pattern, int skip) {
    return b32_lookup(p, b32_add(b32_load(pattern), b32_set1(skip)));
}
/* Every byte gets its parity as its top bit, which is clear. */
LP_FORCE b32 lp_with_parity(b32 x) {
    b32 p = b32_xor(x, b32_shr(x, 4));
    p = b32_xor(p, b32_shr(p, 2));
    p = b32_xor(p, b32_shr(p, 1));
    return b32_or(x, b32_and(b32_shl(p, 7), b32_set1(128)));
}
/* The 28 lowest bits of every lane, four times seven, as 32 signs. */
LP_FORCE b32 lp_signs_of_28(i32x8 w) {
    const i32x8 a = i8_and(w, i8_set1(0x7f)), b = i8_and(i8_shl(w, 1), i8_set1(0x7f00));
    const i32x8 c = i8_and(i8_shl(w, 2), i8_set1(0x7f0000));
    const i32x8 d = i8_and(i8_shl(w, 3), i8_set1(0x7f000000));
    return lp_with_parity(i8_or(i8_or(a, b), i8_or(c, d)));
}
/* 32 magnitudes under 32 signs, plus off. */
LP_FORCE void lp_store_signed(b32 magnitude, uint32_t signs, int off, uint8_t *q) {
    const b32 minus = b32_bits(signs);
    b32_store(q, b32_add(b32_xor(magnitude, minus), b32_sub(b32_set1(off), minus)));
}
/* What is looked up for a block of 256, made for all rows before the first lookup: numbers that
 * went through memory are late. `at`: indices; signs: 32 bits a group, or for iq1 what is added to
 * eight weights, in 16 bits. */
struct lp_lookup {
    _Alignas(32) uint16_t at[64];
    union {
        uint32_t signs[8];
        uint16_t plus[32];
    };
};
/* 256 weights of iq1 in eighths, plus 9: the codebook holds 8 (value + 1), to which 2 is added
 * unless the delta is taken off. qs: 32 bytes of indices; in 16-bit lanes of high[2] and minus[2]
 * the indices' upper bits, and 0 or 1. */
LP_FORCE void lp_look_up_eighths(const uint8_t *qs, const b32 *high, const b32 *minus,
                                 struct lp_lookup *l) {
    for (int h = 0; h < 2; h++) {
        const b32 two = b32_set1(2), less = b32_mul16(minus[h], b32_set1_16(0x0202));
        b32_store(l->at + 16 * h, b32_or(b32_widen(qs + 16 * h), high[h]));
        b32_store(l->plus + 16 * h, b32_xor(less, two));
    }
}
LP_FORCE void lp_store_eighths(const struct lp_lookup *l, uint8_t *q) {
    for (int j = 0; j < 8; j++) {
        const uint8_t *p = (const uint8_t *)(l->plus + j / 2 * 8);
        const b32 v = b32_doubles_at(lp_grid_iq1, l->at + 4 * j);
        b32_store(q + 32 * j, b32_add(v, lp_lanes_of(p, lp_words_by4, j % 2 * 8)));
    }
}
/* d, an f16 at the beginning of every block, times `unit`. */
LP_FORCE f32x8 lp_iq_unit(const uint8_t *const *b, float unit) {
    f32x8 d, rest;
    f8_split(i8_words(b, 0), &d, &rest);
    return f8_mul(d, f8_set1(unit));
}
/* One scale for the whole block. */
LP_FORCE void lp_same_scales(f32x8 d, f32x8 *ws) {
    for (int j = 0; j < 8; j++) {
        ws[j] = d;
    }
}
/* 2 s + 1 of the low (h = 0) or high (h = 1) nibbles s, in bytes. */
LP_FORCE i32x8 lp_odd_nibbles(i32x8 w, int h) {
    const i32x8 twice = h ? i8_shr(w, 3) : i8_shl(w, 1);
    return i8_or(i8_and(twice, i8_set1(0x1e1e1e1e)), i8_set1(0x01010101));
}
/* Sub-scales of 16 weights as 16 nibbles at `at`. */
LP_FORCE void lp_nibble_sub(const uint8_t *const *b, int64_t at, i32x8 *s) {
    for (int i = 0; i < 2; i++) {
        const i32x8 w = i8_last_words(b, at + 4 * i);
        const i32x8 low = lp_odd_nibbles(w, 0), high = lp_odd_nibbles(w, 1);
        for (int j = 0; j < 4; j++) {
            s[8 * i + 2 * j] = i8_byte(low, j);
            s[8 * i + 2 * j + 1] = i8_byte(high, j);
        }
    }
}
#endif

#endif
