/* Eight weight rows at once, for the vector kernels. Included after an int_*.h. */
#ifndef LP_X8_ROWS_H
#define LP_X8_ROWS_H

#include "matmul.h"

/* Whether lines are fetched ahead with each group of 32 columns that is computed, or those of eight
 * groups at once. Some of them only would keep the machine from fetching the others by itself. */
#ifndef LP_FETCH_EVENLY
#define LP_FETCH_EVENLY 0
#endif

/* The lines that begin with the groups i..j, of eight rows, of those at p. */
LP_FORCE void lp_fetch(const struct lp_fmt *f, const uint8_t *p, int i, int j) {
    const int64_t group = 8 * 32 * f->bytes / f->block, from = lp_up(i * group, 64);
    if (i < j) {
        __asm__ volatile("" ::: "memory"); /* or groups' lines would be asked for together */
        lp_prefetch(p + from, j * group - from);
    }
}

/* The scales of a block of 256 of eight rows, lane = row; q: their weights, where the format
 * expands them. */
struct lp_rows_scales {
    f32x8 ws[8], wm[8];
    i32x8 sub[16], min[8];
    uint8_t q[8][256];
};

/* Rows r..r+7 of a task; beyond the last one (the last eight), it stands in for the missing. */
LP_FORCE void lp_rows_at(const struct lp_mm *t, int64_t r, const uint8_t **row) {
    for (int i = 0; i < LP_LINES; i++) {
        row[i] = t->w + (r + i < t->r1 ? r + i : t->r1 - LP_WIDE) * t->w_nb;
    }
}

/* The rows' blocks that hold group g, or what they were expanded to; of blocks of 256 the scales
 * too. */
LP_FORCE void lp_rows_open(const struct lp_fmt *f, const struct lp_lanes *l,
                           const uint8_t *const *row, int64_t g, const uint8_t **block,
                           struct lp_rows_scales *s) {
    for (int i = 0; i < LP_LINES; i++) {
        block[i] = row[i] + LP_WIDE * (g * 32 / f->block * f->bytes);
    }
    if (f->block == 256) {
        l->scales8(block, s->ws, s->wm);
    }
    if (f->has_sub) {
        l->sub(block, s->sub);
    }
    if (lp_sub_min(f)) {
        l->mins(block, s->min);
    }
    if (l->expand) {
        l->expand(block, s->q);
        for (int i = 0; i < 8; i++) {
            block[i] = s->q[i];
        }
    }
}

/* Where the j-th group's block (0 <= j < 8) lies after one at a multiple of 8 groups, in bytes. */
LP_FORCE int lp_block_after(const struct lp_fmt *f, int j) {
    return f->block < 256 ? LP_WIDE * (j / (f->block / 32) * f->bytes) : 0;
}

/* The scales of the j-th group after `block`. */
LP_FORCE void lp_rows_scale(const struct lp_fmt *f, const struct lp_lanes *l,
                            const uint8_t *const *block, const struct lp_rows_scales *s, int j,
                            f32x8 *ws, f32x8 *wm) {
    const uint8_t *b[8];
    if (f->block == 256) {
        *ws = s->ws[j];
        *wm = s->wm[j];
        return;
    }
    for (int i = 0; i < LP_LINES; i++) {
        b[i] = block[i] + lp_block_after(f, j);
    }
    l->scales(b, j % (f->block / 32), ws, wm);
}

/* Of the j-th group after `block`, w[4h + i]: weights 16h..16h+15 of rows i and i + 4; of
 * interleaved rows weights 16h + 4i..16h + 4i + 3 of all eight. */
LP_FORCE void lp_rows_lanes(const struct lp_fmt *f, const struct lp_lanes *l,
                            const uint8_t *const *block, int j, b32 *w) {
    const int next = lp_block_after(f, j), in = f->block < 256 ? j % (f->block / 32) : j;
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < 4; i++) {
            if (LP_R8) {
                w[4 * h + i] = l->lanes((struct lp_at){block[0] + next, block[0] + next, i}, in, h);
                continue;
            }
            const uint8_t *a = block[i * (LP_LINES / 8)], *b = block[i * (LP_LINES / 8) + 4];
            w[4 * h + i] = l->expand ? b32_two(a + 32 * j + 16 * h, b + 32 * j + 16 * h)
                                     : l->lanes((struct lp_at){a + next, b + next, 0}, in, h);
        }
    }
}

/* acc plus the j-th group's products: isum are its exact sums, of both halves where they are summed
 * apart; d the activations' scale. */
LP_FORCE f32x8 lp_rows_add(const struct lp_fmt *f, const struct lp_rows_scales *s, int j, f32x8 ws,
                           f32x8 wm, f32x8 d, const i32x8 *isum, f32x8 acc) {
    const i32x8 sum =
        f->has_sub ? i8_add(i8_mul(isum[0], s->sub[2 * j]), i8_mul(isum[1], s->sub[2 * j + 1]))
                   : isum[0];
    acc = f8_fma(f8_mul(ws, d), f8_from_i(sum), acc);
    return f->has_two ? f8_fma(f8_mul(wm, d), f8_from_i(isum[1]), acc) : acc;
}

/* lp_mm_store of eight rows, without a call where it is simple. */
LP_FORCE void lp_rows_store(const struct lp_mm *t, int64_t r, int64_t col, f32x8 v) {
    const struct lp_place p = lp_mm_place(t, r, col);
    if (p.add && p.row_nb != 4) {
        float x[8];
        f8_store(x, v);
        lp_mm_store(t, r, 8, col, x);
        return;
    }
    f8_store((float *)p.dst, p.add ? f8_add(v, f8_load((const float *)p.add)) : v);
}

/* The sums of the halves of n <= 8 groups of a column, 0 beyond. */
LP_FORCE void lp_half_sums(const int8_t *q, int n, i32x8 *first, i32x8 *second) {
    i32x8 p[8];
    for (int i = 0; i < 8; i++) {
        p[i] = i < n ? i8_dot(i8_set1(0), b32_set1(1), b32_load(q + i * 32), 0) : i8_set1(0);
    }
    const i32x8 a = i8_sums4(p), b = i8_sums4(p + 4); /* halves 0, then halves 1, of 4 groups */
    *first = i8_lower(a, b);
    *second = i8_upper(a, b);
}
/* Both in one, for i8_pairs. */
LP_FORCE i32x8 lp_pairs_of(i32x8 first, i32x8 second) {
    return i8_or(i8_and(first, i8_set1(0xffff)), i8_shl(second, 16));
}

#endif
