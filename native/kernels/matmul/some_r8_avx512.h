/* Some columns and rows interleaved by eight, 512 bits: sixteen rows are unpacked in registers and
 * meet up to eight columns there. A panel would cost more than it saves: it is written once and
 * read once or twice. */
#ifndef LP_SOME_R8_H
#define LP_SOME_R8_H

#include "beside.h"

#define LP_SOME_COLS_MAX 16

/* With more columns a panel pays. */
LP_FORCE int lp_some_max(const struct lp_fmt *f) {
    return lp_in_halves(f) ? LP_SOME_COLS : LP_SOME_COLS_MAX;
}

LP_FORCE __m512 lp_two_f(f32x8 a, f32x8 b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}
LP_FORCE __m512i lp_two_i(i32x8 a, i32x8 b) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* Rows 0..7 and 8..15: the blocks that are open, those of the next sixteen, and scales. */
struct lp_sixteen {
    const uint8_t *block[2][1], *next[2];
    struct lp_rows_scales s[2];
};

/* Half h of group j of sixteen rows by n_col columns. */
LP_FORCE void lp_some_half(const struct lp_fmt *f, const struct lp_lanes *l,
                           const struct lp_sixteen *r, int j, int h, const struct lp_beside *x,
                           const int n_col, __m512i *s) {
    const int next = lp_block_after(f, j), in = f->block < 256 ? j % (f->block / 32) : j;
    const uint8_t *a = r->block[0][0] + next, *b = r->block[1][0] + next;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512i w = lp_two_i(l->lanes((struct lp_at){a, a, i}, in, h),
                                   l->lanes((struct lp_at){b, b, i}, in, h));
#pragma GCC unroll 8
        for (int c = 0; c < n_col; c++) {
            s[c] = _mm512_dpbusd_epi32(s[c], w, _mm512_set1_epi32(x->q[4 * h + i][c]));
        }
        __asm__ volatile("" ::: "memory"); /* or weights would be unpacked long before their use */
    }
}

/* Where half h's sums of every column start: at what the weights' offset adds, negated. */
LP_FORCE void lp_some_start(const struct lp_fmt *f, const struct lp_beside *x, int h,
                            const int n_col, __m512i *s) {
#pragma GCC unroll 8
    for (int c = 0; c < n_col; c++) {
        s[c] = f->off ? _mm512_set1_epi32(x->start[h][c]) : _mm512_setzero_si512();
    }
}

LP_FORCE __m512 lp_some_add(float d, __m512 scale, __m512i s, __m512 acc) {
    return _mm512_fmadd_ps(_mm512_mul_ps(scale, _mm512_set1_ps(d)), _mm512_cvtepi32_ps(s), acc);
}

/* The minimum's term of a group; min: the sub-minima, where there are some. */
LP_FORCE __m512 lp_some_min(const struct lp_fmt *f, const struct lp_beside *x, int c, __m512 wm,
                            __m512i min, __m512 accm) {
    const __m512i word = _mm512_set1_epi32(x->sum[c]);
    __m512 sum = _mm512_castsi512_ps(word);
    if (f->has_sub) {
        const __m512i pairs = _mm512_madd_epi16(word, min);
        sum = _mm512_mul_ps(_mm512_set1_ps(x->d[c]), _mm512_cvtepi32_ps(pairs));
    }
    return _mm512_fmadd_ps(wm, sum, accm);
}

/* The j-th of the eight groups that are open, of all columns. The lines of that group sixteen rows
 * on are fetched: all at once would be more than the machine has room for. */
LP_FORCE void lp_some_group(const struct lp_fmt *f, const struct lp_lanes *l,
                            const struct lp_sixteen *r, int j, const struct lp_beside *x,
                            const int n_col, __m512 *acc, __m512 *accm) {
    const int bytes = 8 * 32 * f->bytes / f->block;
    __m512i s[LP_SOME_COLS], t[LP_SOME_COLS], sub[2], min = _mm512_setzero_si512();
    f32x8 scale[2], low[2];
    for (int i = 0; i < 2; i++) {
        lp_rows_scale(f, l, r->block[i], &r->s[i], j, &scale[i], &low[i]);
        if (f->has_sub) {
            sub[i] = lp_two_i(r->s[0].sub[2 * j + i], r->s[1].sub[2 * j + i]);
        }
#pragma GCC unroll 8
        for (int at = 0; at < bytes; at += 64) {
            __builtin_prefetch(r->next[i] + j * bytes + at, 0, 2);
        }
    }
    if (lp_sub_min(f)) {
        min = lp_two_i(r->s[0].min[j], r->s[1].min[j]);
    }
    const __m512 ws = lp_two_f(scale[0], scale[1]), wm = lp_two_f(low[0], low[1]);
    lp_some_start(f, x, 0, n_col, s);
    lp_some_half(f, l, r, j, 0, x, n_col, s);
    if (lp_in_halves(f)) {
#pragma GCC unroll 8
        for (int c = 0; c < n_col; c++) {
            if (f->has_two) {
                acc[c] = lp_some_add(x->d[c], ws, s[c], acc[c]);
            } else {
                t[c] = _mm512_mullo_epi32(s[c], sub[0]);
            }
        }
        lp_some_start(f, x, 1, n_col, s);
    }
    lp_some_half(f, l, r, j, 1, x, n_col, s);
#pragma GCC unroll 8
    for (int c = 0; c < n_col; c++) {
        if (f->has_sub) {
            s[c] = _mm512_add_epi32(t[c], _mm512_mullo_epi32(s[c], sub[1]));
        }
        acc[c] = lp_some_add(x->d[c], f->has_two ? wm : ws, s[c], acc[c]);
        if (f->has_min) {
            accm[c] = lp_some_min(f, x, c, wm, min, accm[c]);
        }
    }
}

/* lp_mm_store without the call, where it is simple. */
LP_FORCE void lp_some_store(const struct lp_mm *t, int64_t r, int wide, int64_t col, __m512 v) {
    const struct lp_place p = lp_mm_place(t, r, col);
    const __mmask16 m = wide == 16 ? 0xffff : 0xff;
    if (p.add && p.row_nb != 4) {
        float x[16];
        _mm512_storeu_ps(x, v);
        lp_mm_store(t, r, wide, col, x);
        return;
    }
    v = p.add ? _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, p.add)) : v;
    _mm512_mask_storeu_ps(p.dst, m, v);
}

/* Rows r.. (16, or the last 8) of a task by n_col columns, from its c-th on. */
LP_FORCE void lp_some_rows(const struct lp_fmt *f, const struct lp_lanes *l, const struct lp_mm *t,
                           int64_t r, const struct lp_beside *x, int64_t c, const int n_col) {
    const int64_t n_group = t->k / 32, unit = 8 * 256 / f->block * f->bytes;
    const int wide = t->r1 - r > 8 ? 16 : 8;
    const uint8_t *row[2] = {t->w + r * t->w_nb, t->w + (r + wide - 8) * t->w_nb};
    __m512 acc[LP_SOME_COLS], accm[LP_SOME_COLS];
    struct lp_sixteen open;
#pragma GCC unroll 8
    for (int i = 0; i < n_col; i++) {
        acc[i] = accm[i] = _mm512_setzero_ps();
    }
    for (int64_t g = 0; g < n_group; g += 8) {
        const int n = f->block == 256 || n_group - g > 8 ? 8 : (int)(n_group - g);
        for (int i = 0; i < 2; i++) {
            lp_rows_open(f, l, &row[i], g, open.block[i], &open.s[i]);
            open.next[i] = row[i] + 16 * t->w_nb + g / 8 * unit;
        }
        if (f->block == 256) {
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++) {
                lp_some_group(f, l, &open, j, x + g + j, n_col, acc, accm);
            }
        } else {
#pragma GCC unroll 1
            for (int j = 0; j < n; j++) {
                lp_some_group(f, l, &open, j, x + g + j, n_col, acc, accm);
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < n_col; i++) {
        if (c + i < t->c1) {
            lp_some_store(t, r, wide, c + i, f->has_min ? _mm512_add_ps(acc[i], accm[i]) : acc[i]);
        }
    }
}

/* scratch: a struct lp_beside for every group of every LP_SOME_COLS columns. */
LP_FORCE void lp_some(const struct lp_fmt *f, const struct lp_lanes *l, const struct lp_mm *t,
                      char *scratch) {
    const int64_t n = t->c1 - t->c0, step = n > 8 && n <= 12 ? 6 : LP_SOME_COLS;
    struct lp_beside *x = (struct lp_beside *)scratch;
    for (int64_t c = 0; c < n && !t->kept; c += step) {
        lp_beside(f, t, t->c0 + c, x + c / step * (t->k / 32));
    }
    for (int64_t r = t->r0; r < t->r1; r += 16) {
        for (int64_t c = 0; c < n; c += step) {
            const struct lp_beside *at = x + c / step * (t->k / 32);
            if (n - c <= 6 || step == 6) {
                lp_some_rows(f, l, t, r, at, t->c0 + c, 6);
            } else {
                lp_some_rows(f, l, t, r, at, t->c0 + c, LP_SOME_COLS);
            }
        }
    }
}

#endif
