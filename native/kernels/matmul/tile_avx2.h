/* A tile of 8 rows by up to 4 columns with AVX2. Products of bytes are added in 16 bits as long as
 * they cannot overflow: 8 steps for weights up to 15, 4 up to 31, 2 up to 63. 8-bit weights stand
 * signed in the panel and go in as |w| times x with w's sign. */
#ifndef LP_TILE_H
#define LP_TILE_H

#include "panel.h"

#define LP_TILE_ROWS 8
#define LP_TILE_COLS 4

LP_FORCE int32_t lp_word(const int8_t *p) {
    int32_t x;
    memcpy(&x, p, 4);
    return x;
}
LP_FORCE int lp_steps(const struct lp_fmt *f) {
    const int max = lp_folded(f) ? f->max * f->max_sub : f->max;
    return max <= 15 ? 8 : max <= 31 ? 4 : max <= 63 ? 2 : 1;
}

/* Add weights 4 i0.. of a group, n_step steps of 4, to s. */
LP_FORCE void lp_tile_steps(const struct lp_fmt *f, const uint8_t *rec, int i0, int n_step,
                            const int8_t *const *x, int64_t at, const int n_col, __m256i *s) {
    const __m256i ones = _mm256_set1_epi16(1);
    const int steps = lp_steps(f) < n_step ? lp_steps(f) : n_step;
    __m256i pairs[LP_TILE_COLS];
#pragma GCC unroll 8
    for (int i = 0; i < n_step; i++) {
        const __m256i w = b32_load(rec + (i0 + i) * 32);
#pragma GCC unroll 4
        for (int c = 0; c < n_col; c++) {
            __m256i v = _mm256_set1_epi32(lp_word(x[c] + at + 4 * (i0 + i)));
            __m256i p = f->off == 128
                            ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(v, w))
                            : _mm256_maddubs_epi16(w, v);
            pairs[c] = i % steps ? _mm256_add_epi16(pairs[c], p) : p;
            if (i % steps == steps - 1) {
                s[c] = _mm256_add_epi32(s[c], _mm256_madd_epi16(pairs[c], ones));
            }
        }
    }
}

LP_FORCE i32x8 lp_tile_word(const char *prep) {
    int32_t x;
    memcpy(&x, prep, 4);
    return i8_set1(x);
}

LP_FORCE void lp_tile_group(const struct lp_fmt *f, const uint8_t *rec, const int8_t *const *x,
                            int64_t at, const char *prep, const int n_col, f32x8 *acc) {
    const int32_t *sub = (const int32_t *)(rec + lp_at_s(f, LP_TILE_ROWS));
    const f32x8 ws = f8_load((const float *)(rec + lp_at_ws(LP_TILE_ROWS)));
    i32x8 s[LP_TILE_COLS], t[LP_TILE_COLS];
    const int from_prep = i8_dot_rest(f->off);
    for (int c = 0; c < n_col; c++) {
        s[c] = from_prep ? lp_tile_word(prep + c * LP_PREP_BYTES + 64) : i8_set1(0);
    }
    if (lp_tile_halves(f)) {
        lp_tile_steps(f, rec, 0, 4, x, at, n_col, s);
        for (int c = 0; c < n_col; c++) {
            t[c] = lp_tile_sub(f) ? i8_mul(s[c], i8_load(sub)) : s[c];
            s[c] = from_prep ? lp_tile_word(prep + c * LP_PREP_BYTES + 96) : i8_set1(0);
        }
        lp_tile_steps(f, rec, 4, 4, x, at, n_col, s);
        for (int c = 0; lp_tile_sub(f) && c < n_col; c++) {
            s[c] = i8_add(t[c], i8_mul(s[c], i8_load(sub + LP_TILE_ROWS)));
        }
    } else {
        lp_tile_steps(f, rec, 0, 8, x, at, n_col, s);
    }
    for (int c = 0; c < n_col; c++) {
        float d;
        memcpy(&d, prep + c * LP_PREP_BYTES, 4);
        acc[c] = f8_fma(f8_mul(ws, f8_set1(d)), f8_from_i(f->has_two ? t[c] : s[c]), acc[c]);
        if (f->has_two) {
            const f32x8 second = f8_load((const float *)(rec + lp_at_wm(LP_TILE_ROWS)));
            acc[c] = f8_fma(f8_mul(second, f8_set1(d)), f8_from_i(s[c]), acc[c]);
        }
    }
}

LP_FORCE void lp_tile(const struct lp_fmt *f, const uint8_t *panel, int64_t n_group,
                      const int8_t *const *x, const char *prep, const int n_col, float *out) {
    const int64_t record = lp_record_bytes(f, LP_TILE_ROWS);
    f32x8 acc[LP_TILE_COLS], accm[LP_TILE_COLS];
    for (int c = 0; c < n_col; c++) {
        acc[c] = accm[c] = f8_zero();
    }
    for (int64_t g = 0; g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
        lp_tile_group(f, panel + g * record, x, g * 32, p, n_col, acc);
    }
    for (int64_t g = 0; f->has_min && g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
        const f32x8 wm = f8_load((const float *)(panel + g * record + lp_at_wm(LP_TILE_ROWS)));
        for (int c = 0; c < n_col; c++) {
            float d, sum;
            memcpy(&d, p + c * LP_PREP_BYTES, 4);
            memcpy(&sum, p + c * LP_PREP_BYTES + 32, 4);
            f32x8 x = f8_set1(sum);
            if (f->has_sub) {
                const i32x8 m = i8_load((const int32_t *)(panel + g * record + lp_at_m(f, 8)));
                const i32x8 pairs = lp_tile_word(p + c * LP_PREP_BYTES + 32);
                x = f8_mul(f8_set1(d), f8_from_i(i8_pairs(m, pairs)));
            }
            accm[c] = f8_fma(wm, x, accm[c]);
        }
    }
    for (int c = 0; c < n_col; c++) {
        f8_store(out + c * LP_TILE_ROWS, f->has_min ? f8_add(acc[c], accm[c]) : acc[c]);
    }
}

#endif
