/* What a weight format is. Adding one: a fmt_<type>.h and its line in rows.def.
 *
 * A row of k weights is k / block blocks of `bytes` bytes. Weights come in groups of 32; group j of
 * a block (0 <= j < block / 32) is 32 small integers q and its scales, and weight i of it is
 *
 *     without sub-scales:  ws * q[i]  (+ wm)
 *     with sub-scales:     ws * s[i / 16] * q[i]  (+ wm * m[i / 16])
 *     with two scales:     (i < 16 ? ws : wm) * q[i]
 *
 * where s, m are integers. Both functions below are the definition of the format: the scalar
 * kernels and get_rows use nothing else, and the other instruction sets must agree with them bit
 * for bit.
 *
 * struct lp_lanes holds what the vector kernels use besides: a group unpacked to 32 unsigned bytes
 * q + off, at most `max`, which keeps products with activations inside what a machine can add. */
#ifndef LP_FMT_H
#define LP_FMT_H

#include <stdint.h>
#include <string.h>
#include "lp_half.h"

#define LP_FORCE static inline __attribute__((always_inline))
/* Called once for many groups: a copy in every loop would only cost code and compile time. */
#define LP_APART static __attribute__((noinline, unused))

struct lp_scales {
    float ws, wm;       /* wm: the minimum's, or that of the second 16 weights */
    int32_t s[2], m[2]; /* only with sub-scales */
};

/* `words` words of `unit` bytes of a block. LP_BITS, LP_PAIRS: bits, or pairs of bits, that stand
 * for 32 or 16 weights in order. from: where in the block, told by every field or by none, which
 * follow each other then; the first of those that tell is not at 0. */
#define LP_FIELDS 6
enum { LP_PLAIN, LP_BITS, LP_PAIRS };
struct lp_field {
    uint8_t words, unit, kind, from;
};

struct lp_fmt {
    int block, bytes;
    struct lp_field
        field[LP_FIELDS]; /* what a block is made of, if its rows can be interleaved: r8.h */
    int off, max;
    int max_sub; /* where sub-scales are at least 0: the largest one */
    int has_min, has_sub, has_two;
    void (*weights)(const uint8_t *block, int j, int8_t *q);
    void (*scales)(const uint8_t *block, int j, struct lp_scales *s);
};

#ifdef LP_INT_H
#include "lanes.h"

/* For the vector kernels, which take eight rows at a time, row r and row r + 4 in one register; b
 * are the rows' blocks, and lane = row in what follows.
 * lanes: weights 16h..16h+15 (h = 0, 1) of group j of two rows' blocks (or 4 of them of eight
 * rows', see lanes.h).
 * expand: instead, where weights are looked up one by one: all 256 of every block, in order.
 * scales: of group j of blocks of less than 256. scales8: of blocks of 256, ws[j] and wm[j] for
 * group j. sub: s[i] gets sub-scale i (0..15) of blocks of 256. mins: m[j] gets the two sub-minima
 * of group j, the second one in the upper 16 bits. */
struct lp_lanes {
    b32 (*lanes)(struct lp_at p, int j, int h);
    void (*expand)(const uint8_t *const *b, uint8_t (*q)[256]);
    void (*scales)(const uint8_t *const *b, int j, f32x8 *ws, f32x8 *wm);
    void (*scales8)(const uint8_t *const *b, f32x8 *ws, f32x8 *wm);
    void (*sub)(const uint8_t *const *b, i32x8 *s);
    void (*mins)(const uint8_t *const *b, i32x8 *m);
};

/* Blocks that begin with f16 d, and with f16 d, m. */
LP_FORCE void lp_half_pair(const uint8_t *const *b, int j, f32x8 *ws, f32x8 *wm) {
    (void)j;
    f8_split(lp_words(b, 0), ws, wm);
}
LP_FORCE void lp_half_alone(const uint8_t *const *b, int j, f32x8 *ws, f32x8 *wm) {
    (void)j;
    *ws = lp_first_half(b);
    *wm = f8_zero();
}
/* d, an f16 at the end of blocks of 256, at `at`, is the scale of all groups. */
LP_FORCE void lp_half_last(const uint8_t *const *b, int64_t at, f32x8 *ws) {
    ws[0] = lp_last_half(b, at);
    for (int j = 1; j < 8; j++) {
        ws[j] = ws[0];
    }
}
#endif

/* The f16 at p, exactly. */
LP_FORCE float lp_half_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return lp_f32_of_f16(h);
}

/* Group g of the row at w: its block, and which group of that block. */
LP_FORCE const uint8_t *lp_block_of(const struct lp_fmt *f, const uint8_t *w, int64_t g) {
    return w + g * 32 / f->block * f->bytes;
}
LP_FORCE int lp_group_in_block(const struct lp_fmt *f, int64_t g) {
    return (int)(g % (f->block / 32));
}
/* Whether the two halves of a group are summed apart, and whether each has a minimum. */
LP_FORCE int lp_in_halves(const struct lp_fmt *f) {
    return f->has_sub || f->has_two;
}
LP_FORCE int lp_sub_min(const struct lp_fmt *f) {
    return f->has_sub && f->has_min;
}

/* 16 bytes of nibbles: the low ones are q[0..15], the high ones q[16..31]. */
LP_FORCE void lp_nibbles(const uint8_t *p, int8_t *q) {
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)(p[i] & 15);
        q[i + 16] = (int8_t)(p[i] >> 4);
    }
}

#endif
