/* A tile of 8 rows by up to 6 columns with the products of 2 x 8 by 8 x 2 bytes (Armv8.6 I8MM). All
 * that is added up stands in squares: lanes 0..3 are row 0 with columns 0 and 1, then row 1.
 * Weights stand signed in the panel, as for tile_neon.h. */
#ifndef LP_TILE_H
#define LP_TILE_H

#include "panel.h"

#define LP_TILE_ROWS 8
#define LP_TILE_COLS 6
#define LP_PAIRS_OF_ROWS 4

/* Rows 2 i and 2 i + 1 of a plane of words, every one twice. */
LP_FORCE int32x4_t lp_plane_square(const uint8_t *plane, int i) {
    const int32x2_t x = vreinterpret_s32_u8(vld1_u8(plane + 8 * i));
    return vcombine_s32(vdup_lane_s32(x, 0), vdup_lane_s32(x, 1));
}
LP_FORCE float32x4_t lp_plane_floats(const uint8_t *plane, int i) {
    return vreinterpretq_f32_s32(lp_plane_square(plane, i));
}
/* The words at `at` of columns 2 c and 2 c + 1, twice. */
LP_FORCE int32x4_t lp_prep_square(const char *prep, int c, int at) {
    int32_t x[2];
    memcpy(&x[0], prep + 2 * c * LP_PREP_BYTES + at, 4);
    memcpy(&x[1], prep + (2 * c + 1) * LP_PREP_BYTES + at, 4);
    const int32x2_t pair = vld1_s32(x);
    return vcombine_s32(pair, pair);
}
LP_FORCE float32x4_t lp_prep_floats(const char *prep, int c, int at) {
    return vreinterpretq_f32_s32(lp_prep_square(prep, c, at));
}

/* Add weights 16 h.. of a group (h = 0, 1) to s[pair of rows][pair of columns]. */
LP_FORCE void lp_tile_half(const uint8_t *rec, int h, const int8_t *const *x, int64_t at,
                           const int n_pair, int32x4_t (*s)[LP_TILE_COLS / 2]) {
#pragma GCC unroll 2
    for (int i = 4 * h; i < 4 * h + 4; i += 2) {
        int8x16_t w[LP_PAIRS_OF_ROWS], v[LP_TILE_COLS / 2];
#pragma GCC unroll 2
        for (int r = 0; r < LP_PAIRS_OF_ROWS; r += 2) {
            const uint8_t *p = rec + i * 4 * LP_TILE_ROWS + 8 * r;
            const int32x4_t first = vreinterpretq_s32_u8(vld1q_u8(p));
            const int32x4_t second = vreinterpretq_s32_u8(vld1q_u8(p + 4 * LP_TILE_ROWS));
            w[r] = vreinterpretq_s8_s32(vzip1q_s32(first, second));
            w[r + 1] = vreinterpretq_s8_s32(vzip2q_s32(first, second));
        }
#pragma GCC unroll 3
        for (int c = 0; c < n_pair; c++) {
            v[c] = vcombine_s8(vld1_s8(x[2 * c] + at + 4 * i), vld1_s8(x[2 * c + 1] + at + 4 * i));
        }
#pragma GCC unroll 4
        for (int r = 0; r < LP_PAIRS_OF_ROWS; r++) {
#pragma GCC unroll 3
            for (int c = 0; c < n_pair; c++) {
                s[r][c] = vmmlaq_s32(s[r][c], w[r], v[c]);
            }
        }
    }
}

LP_FORCE void lp_tile_group(const struct lp_fmt *f, const uint8_t *rec, const int8_t *const *x,
                            int64_t at, const char *prep, const int n_pair,
                            float32x4_t (*acc)[LP_TILE_COLS / 2]) {
    const uint8_t *sub = rec + lp_at_s(f, LP_TILE_ROWS), *ws = rec + lp_at_ws(LP_TILE_ROWS);
    const uint8_t *wm = rec + lp_at_wm(LP_TILE_ROWS);
    int32x4_t s[LP_PAIRS_OF_ROWS][LP_TILE_COLS / 2], first[LP_PAIRS_OF_ROWS][LP_TILE_COLS / 2];
    for (int r = 0; r < LP_PAIRS_OF_ROWS; r++) {
        for (int c = 0; c < n_pair; c++) {
            s[r][c] = vdupq_n_s32(0);
        }
    }
    lp_tile_half(rec, 0, x, at, n_pair, s);
    for (int r = 0; lp_tile_halves(f) && r < LP_PAIRS_OF_ROWS; r++) {
        for (int c = 0; c < n_pair; c++) {
            first[r][c] = s[r][c];
            s[r][c] = vdupq_n_s32(0);
        }
    }
    lp_tile_half(rec, 1, x, at, n_pair, s);
    for (int r = 0; r < LP_PAIRS_OF_ROWS; r++) {
        for (int c = 0; c < n_pair; c++) {
            const float32x4_t d = lp_prep_floats(prep, c, 0);
            float32x4_t scale = vmulq_f32(lp_plane_floats(ws, r), d);
            int32x4_t sum = s[r][c];
            if (lp_tile_sub(f)) {
                sum = vmulq_s32(sum, lp_plane_square(sub + 4 * LP_TILE_ROWS, r));
                sum = vmlaq_s32(sum, first[r][c], lp_plane_square(sub, r));
            }
            if (f->has_two) {
                acc[r][c] = vfmaq_f32(acc[r][c], scale, vcvtq_f32_s32(first[r][c]));
                scale = vmulq_f32(lp_plane_floats(wm, r), d);
            }
            acc[r][c] = vfmaq_f32(acc[r][c], scale, vcvtq_f32_s32(sum));
        }
    }
}

/* The minimum's share of a group. */
LP_FORCE void lp_tile_min(const struct lp_fmt *f, const uint8_t *rec, const char *prep,
                          const int n_pair, float32x4_t (*accm)[LP_TILE_COLS / 2]) {
    for (int r = 0; r < LP_PAIRS_OF_ROWS; r++) {
        const float32x4_t wm = lp_plane_floats(rec + lp_at_wm(LP_TILE_ROWS), r);
        for (int c = 0; c < n_pair; c++) {
            float32x4_t x = lp_prep_floats(prep, c, 32);
            if (lp_sub_min(f)) {
                const int32x4_t m = lp_plane_square(rec + lp_at_m(f, LP_TILE_ROWS), r);
                const int32x4_t sum = q_pairs(m, vreinterpretq_s32_f32(x));
                x = vmulq_f32(lp_prep_floats(prep, c, 0), vcvtq_f32_s32(sum));
            }
            accm[r][c] = vfmaq_f32(accm[r][c], wm, x);
        }
    }
}

LP_FORCE void lp_tile(const struct lp_fmt *f, const uint8_t *panel, int64_t n_group,
                      const int8_t *const *x, const char *prep, const int n_col, float *out) {
    const int64_t record = lp_record_bytes(f, LP_TILE_ROWS);
    const int n_pair = (n_col + 1) / 2;
    float32x4_t acc[LP_PAIRS_OF_ROWS][LP_TILE_COLS / 2], accm[LP_PAIRS_OF_ROWS][LP_TILE_COLS / 2];
    for (int r = 0; r < LP_PAIRS_OF_ROWS; r++) {
        for (int c = 0; c < n_pair; c++) {
            acc[r][c] = accm[r][c] = vdupq_n_f32(0.0f);
        }
    }
    for (int64_t g = 0; g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
        lp_tile_group(f, panel + g * record, x, g * 32, p, n_pair, acc);
    }
    for (int64_t g = 0; f->has_min && g < n_group; g++) {
        const char *p = prep + g / 8 * LP_TILE_COLS_MAX * LP_PREP_BYTES + g % 8 * 4;
        lp_tile_min(f, panel + g * record, p, n_pair, accm);
    }
    for (int r = 0; r < LP_PAIRS_OF_ROWS; r++) {
        for (int c = 0; c < n_pair; c++) {
            float v[4];
            vst1q_f32(v, f->has_min ? vaddq_f32(acc[r][c], accm[r][c]) : acc[r][c]);
            for (int i = 0; i < 4; i++) { /* row i / 2, column i % 2 */
                out[(2 * c + i % 2) * LP_TILE_ROWS + 2 * r + i / 2] = v[i];
            }
        }
    }
}

#endif
