/* A tile of 32 rows by up to 6 columns with VNNI: 12 integer and 12 float accumulators, 2 registers
 * of weights. */
#ifndef LP_TILE_H
#define LP_TILE_H

#include "panel.h"

#define LP_TILE_ROWS 32
#define LP_TILE_COLS 6

LP_FORCE int32_t lp_word(const int8_t *p) {
    int32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* Add weights 16 h + 0..15 of a group (h = 0, 1). */
LP_FORCE void lp_tile_half(const uint8_t *rec, int h, const int8_t *const *x, int64_t at,
                           const int n_col, __m512i (*s)[2]) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __asm__ volatile("" ::: "memory"); /* or weights would be loaded long before their use */
        __m512i w0 = _mm512_loadu_si512(rec + (4 * h + i) * 128);
        __m512i w1 = _mm512_loadu_si512(rec + (4 * h + i) * 128 + 64);
#pragma GCC unroll 6
        for (int c = 0; c < n_col; c++) {
            __m512i v = _mm512_set1_epi32(lp_word(x[c] + at + 16 * h + 4 * i));
            s[c][0] = _mm512_dpbusd_epi32(s[c][0], w0, v);
            s[c][1] = _mm512_dpbusd_epi32(s[c][1], w1, v);
        }
    }
}

/* The lower 16 bits of high above those of low, in every lane. */
LP_FORCE __m512i lp_tile_pair(__m512i low, __m512i high) {
    const __m512i up = _mm512_set4_epi32(0x0d0c0000, 0x09080000, 0x05040000, 0x01000000);
    return _mm512_mask_shuffle_epi8(low, 0xccccccccccccccccull, high, up);
}

/* Rows 16 i.. (i = 0, 1) of a plane of 32-bit values. */
LP_FORCE __m512i lp_plane(const uint8_t *plane, int i) {
    return _mm512_loadu_si512(plane + 64 * i);
}
LP_FORCE __m512 lp_tile_scaled(const uint8_t *ws, int i, const char *prep, __m512i s, __m512 acc) {
    float d;
    memcpy(&d, prep, 4);
    const __m512 scale = _mm512_mul_ps(_mm512_castsi512_ps(lp_plane(ws, i)), _mm512_set1_ps(d));
    return _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(s), acc);
}

/* The exact sums of a group, and their way into the float accumulators. g: the group's place among
 * its 8 in prep. */
LP_FORCE void lp_tile_group(const struct lp_fmt *f, const uint8_t *rec, const int8_t *const *x,
                            int64_t at, const char *prep, const int n_col, __m512 (*acc)[2]) {
    __m512i s[LP_TILE_COLS][2], t[LP_TILE_COLS][2];
    const uint8_t *sub = rec + lp_at_s(f, LP_TILE_ROWS), *ws = rec + lp_at_ws(LP_TILE_ROWS);
    const uint8_t *wm = rec + lp_at_wm(LP_TILE_ROWS);
#pragma GCC unroll 6
    for (int c = 0; c < n_col; c++) {
        int32_t start = 0;
        if (f->off) {
            memcpy(&start, prep + c * LP_PREP_BYTES + 64, 4);
        }
        s[c][0] = s[c][1] = _mm512_set1_epi32(start);
    }
    lp_tile_half(rec, 0, x, at, n_col, s);
    if (lp_tile_halves(f)) {
#pragma GCC unroll 6
        for (int c = 0; c < n_col; c++) {
            int32_t start = 0;
            if (f->off) {
                memcpy(&start, prep + c * LP_PREP_BYTES + 96, 4);
            }
            for (int i = 0; i < 2; i++) {
                if (f->has_two) {
                    acc[c][i] = lp_tile_scaled(ws, i, prep + c * LP_PREP_BYTES, s[c][i], acc[c][i]);
                } else if (lp_tile_pairs(f)) {
                    t[c][i] = s[c][i];
                } else {
                    t[c][i] = _mm512_mullo_epi32(s[c][i], lp_plane(sub, i));
                    __asm__("" : "+v"(t[c][i])); /* now, or both sums would wait for the end */
                }
                s[c][i] = _mm512_set1_epi32(start);
            }
        }
    }
    lp_tile_half(rec, 1, x, at, n_col, s);
#pragma GCC unroll 6
    for (int c = 0; c < n_col; c++) {
        for (int i = 0; i < 2; i++) {
            if (lp_tile_pairs(f)) {
                s[c][i] = _mm512_madd_epi16(lp_tile_pair(s[c][i], t[c][i]), lp_plane(sub, i));
            } else if (lp_tile_sub(f)) {
                s[c][i] =
                    _mm512_add_epi32(t[c][i], _mm512_mullo_epi32(s[c][i], lp_plane(sub + 128, i)));
            }
            acc[c][i] = lp_tile_scaled(f->has_two ? wm : ws, i, prep + c * LP_PREP_BYTES, s[c][i],
                                       acc[c][i]);
        }
    }
}

/* The minimum term, a second pass over the small planes. */
LP_FORCE void lp_tile_min(const struct lp_fmt *f, const uint8_t *panel, int64_t n_group,
                          const char *prep, const int n_col, __m512 (*accm)[2]) {
    for (int64_t g = 0; g < n_group; g++) {
        const uint8_t *rec = panel + g * lp_record_bytes(f, LP_TILE_ROWS);
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
#pragma GCC unroll 6
        for (int c = 0; c < n_col; c++) {
            float d, sum;
            memcpy(&d, p + c * LP_PREP_BYTES, 4);
            memcpy(&sum, p + c * LP_PREP_BYTES + 32, 4);
            for (int i = 0; i < 2; i++) {
                const __m512 wm = _mm512_castsi512_ps(lp_plane(rec + lp_at_wm(LP_TILE_ROWS), i));
                __m512 x = _mm512_set1_ps(sum);
                if (f->has_sub) {
                    __m512i m = lp_plane(rec + lp_at_m(f, LP_TILE_ROWS), i);
                    m = _mm512_madd_epi16(m, _mm512_castps_si512(x));
                    x = _mm512_mul_ps(_mm512_set1_ps(d), _mm512_cvtepi32_ps(m));
                }
                accm[c][i] = _mm512_fmadd_ps(wm, x, accm[c][i]);
            }
        }
    }
}

LP_FORCE void lp_tile(const struct lp_fmt *f, const uint8_t *panel, int64_t n_group,
                      const int8_t *const *from, const char *prep, const int n_col, float *out) {
    const int64_t record = lp_record_bytes(f, LP_TILE_ROWS);
    /* Where the first half's sums wait for the second's, registers are enough for 3 columns. */
    const int step = lp_tile_sub(f) ? LP_TILE_COLS / 2 : n_col;
    const int8_t *x[LP_TILE_COLS];
    __m512 acc[LP_TILE_COLS][2], accm[LP_TILE_COLS][2];
#pragma GCC unroll 6
    for (int c = 0; c < n_col; c++) {
        acc[c][0] = acc[c][1] = accm[c][0] = accm[c][1] = _mm512_setzero_ps();
        x[c] = from[c];
    }
    for (int64_t g = 0; g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
#pragma GCC unroll 2
        for (int c = 0; c < n_col; c += step) {
            lp_tile_group(f, panel + g * record, x + c, g * 32, p + c * LP_PREP_BYTES, step,
                          acc + c);
        }
    }
    if (f->has_min) {
        lp_tile_min(f, panel, n_group, prep, n_col, accm);
    }
#pragma GCC unroll 6
    for (int c = 0; c < n_col; c++) {
        for (int i = 0; i < 2; i++) {
            __m512 v = f->has_min ? _mm512_add_ps(acc[c][i], accm[c][i]) : acc[c][i];
            _mm512_storeu_ps(out + c * LP_TILE_ROWS + 16 * i, v);
        }
    }
}

#endif
