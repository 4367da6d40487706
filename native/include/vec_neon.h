/* The thin vector layer on NEON (AArch64): a v16 is four quads. Meaning: vec_scalar.h. */
#ifndef LP_VEC_H
#define LP_VEC_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>
#include "lp_half.h"

#define LP_FN(name) name##_neon
#define LP_INLINE static inline __attribute__((always_inline))
#define V_REGS 8

typedef struct {
    float32x4_t a, b, c, d;
} v16;
typedef struct {
    int32x4_t a, b, c, d;
} i16v;
typedef struct {
    uint32x4_t a, b, c, d; /* all ones or zero per lane */
} m16;

/* f of every quad of one, two or three operands. */
#define V_1(type, f, x) ((type){f((x).a), f((x).b), f((x).c), f((x).d)})
#define V_2(type, f, x, y)                                                                         \
    ((type){f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)})
#define V_3(type, f, x, y, z)                                                                      \
    ((type){f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c),                \
            f((x).d, (y).d, (z).d)})

LP_INLINE v16 v_set1(float x) {
    float32x4_t r = vdupq_n_f32(x);
    return (v16){r, r, r, r};
}
LP_INLINE v16 v_zero(void) {
    return v_set1(0.0f);
}
LP_INLINE v16 v_load(const float *p) {
    return (v16){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
LP_INLINE void v_store(float *p, v16 a) {
    vst1q_f32(p, a.a);
    vst1q_f32(p + 4, a.b);
    vst1q_f32(p + 8, a.c);
    vst1q_f32(p + 12, a.d);
}
LP_INLINE v16 v_load_n(const float *p, int n) {
    float x[16] = {0};
    memcpy(x, p, (size_t)n * 4);
    return v_load(x);
}
LP_INLINE void v_store_n(float *p, v16 a, int n) {
    float x[16];
    v_store(x, a);
    memcpy(p, x, (size_t)n * 4);
}
LP_INLINE float32x4_t v_widen_(uint16x4_t h) {
    return vcvt_f32_f16(vreinterpret_f16_u16(h));
}
LP_INLINE uint16x4_t v_narrow_(float32x4_t x) {
    return vreinterpret_u16_f16(vcvt_f16_f32(x));
}
LP_INLINE v16 v_load_f16(const uint16_t *p) {
    return (v16){v_widen_(vld1_u16(p)), v_widen_(vld1_u16(p + 4)), v_widen_(vld1_u16(p + 8)),
                 v_widen_(vld1_u16(p + 12))};
}
LP_INLINE v16 v_load_f16_n(const uint16_t *p, int n) {
    uint16_t h[16] = {0};
    memcpy(h, p, (size_t)n * 2);
    return v_load_f16(h);
}
LP_INLINE void v_store_f16(uint16_t *p, v16 a) {
    vst1_u16(p, v_narrow_(a.a));
    vst1_u16(p + 4, v_narrow_(a.b));
    vst1_u16(p + 8, v_narrow_(a.c));
    vst1_u16(p + 12, v_narrow_(a.d));
}
LP_INLINE void v_store_f16_n(uint16_t *p, v16 a, int n) {
    uint16_t h[16];
    v_store_f16(h, a);
    memcpy(p, h, (size_t)n * 2);
}

LP_INLINE float32x4_t v_load4_bf16_(const uint16_t *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
LP_INLINE v16 v_load_bf16(const uint16_t *p) {
    return (v16){v_load4_bf16_(p), v_load4_bf16_(p + 4), v_load4_bf16_(p + 8),
                 v_load4_bf16_(p + 12)};
}
LP_INLINE v16 v_set1_f16(const void *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return v_set1(lp_f32_of_f16(h));
}

LP_INLINE v16 v_add(v16 a, v16 b) {
    return V_2(v16, vaddq_f32, a, b);
}
LP_INLINE v16 v_sub(v16 a, v16 b) {
    return V_2(v16, vsubq_f32, a, b);
}
LP_INLINE v16 v_mul(v16 a, v16 b) {
    return V_2(v16, vmulq_f32, a, b);
}
LP_INLINE v16 v_div(v16 a, v16 b) {
    return V_2(v16, vdivq_f32, a, b);
}
LP_INLINE v16 v_sqrt(v16 a) {
    return V_1(v16, vsqrtq_f32, a);
}
/* The machine's own maximum and minimum order zeros and pass NaN on. */
LP_INLINE float32x4_t v_max_(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
LP_INLINE float32x4_t v_min_(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
LP_INLINE v16 v_max(v16 a, v16 b) {
    return V_2(v16, v_max_, a, b);
}
LP_INLINE v16 v_min(v16 a, v16 b) {
    return V_2(v16, v_min_, a, b);
}
LP_INLINE v16 v_fma(v16 a, v16 b, v16 c) {
    return V_3(v16, vfmaq_f32, c, a, b);
}
LP_INLINE v16 v_fnma(v16 a, v16 b, v16 c) {
    return V_3(v16, vfmsq_f32, c, a, b);
}

LP_INLINE i16v i_set1(int32_t x) {
    int32x4_t r = vdupq_n_s32(x);
    return (i16v){r, r, r, r};
}
LP_INLINE i16v i_load(const int32_t *p) {
    return (i16v){vld1q_s32(p), vld1q_s32(p + 4), vld1q_s32(p + 8), vld1q_s32(p + 12)};
}
LP_INLINE i16v i_load_i8(const int8_t *p) {
    int16x8_t low = vmovl_s8(vld1_s8(p)), high = vmovl_s8(vld1_s8(p + 8));
    return (i16v){vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)),
                  vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))};
}
LP_INLINE int32x4_t i_from_u16_(uint16x4_t a) {
    return vreinterpretq_s32_u32(vmovl_u16(a));
}
LP_INLINE i16v i_load_u8(const uint8_t *p) {
    uint16x8_t low = vmovl_u8(vld1_u8(p)), high = vmovl_u8(vld1_u8(p + 8));
    return (i16v){i_from_u16_(vget_low_u16(low)), i_from_u16_(vget_high_u16(low)),
                  i_from_u16_(vget_low_u16(high)), i_from_u16_(vget_high_u16(high))};
}
LP_INLINE void i_store(int32_t *p, i16v a) {
    vst1q_s32(p, a.a);
    vst1q_s32(p + 4, a.b);
    vst1q_s32(p + 8, a.c);
    vst1q_s32(p + 12, a.d);
}
LP_INLINE void i_store_i8(int8_t *p, i16v a) {
    int16x8_t low = vcombine_s16(vmovn_s32(a.a), vmovn_s32(a.b));
    int16x8_t high = vcombine_s16(vmovn_s32(a.c), vmovn_s32(a.d));
    vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
LP_INLINE i16v i_add(i16v a, i16v b) {
    return V_2(i16v, vaddq_s32, a, b);
}
LP_INLINE i16v i_sub(i16v a, i16v b) {
    return V_2(i16v, vsubq_s32, a, b);
}
LP_INLINE i16v i_and(i16v a, i16v b) {
    return V_2(i16v, vandq_s32, a, b);
}
LP_INLINE i16v i_or(i16v a, i16v b) {
    return V_2(i16v, vorrq_s32, a, b);
}
LP_INLINE i16v i_xor(i16v a, i16v b) {
    return V_2(i16v, veorq_s32, a, b);
}
LP_INLINE int32x4_t i_shift_(int32x4_t a, int32x4_t left) { /* right where negative, with signs */
    return vshlq_s32(a, left);
}
LP_INLINE int32x4_t i_shift_bits_(int32x4_t a, int32x4_t left) { /* zeros come in */
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), left));
}
LP_INLINE i16v i_shl(i16v a, int n) {
    return V_2(i16v, i_shift_, a, i_set1(n));
}
LP_INLINE i16v i_shr(i16v a, int n) {
    return V_2(i16v, i_shift_bits_, a, i_set1(-n));
}
LP_INLINE i16v i_sar(i16v a, int n) {
    return V_2(i16v, i_shift_, a, i_set1(-n));
}
LP_INLINE i16v i_max(i16v a, i16v b) {
    return V_2(i16v, vmaxq_s32, a, b);
}
LP_INLINE i16v i_min(i16v a, i16v b) {
    return V_2(i16v, vminq_s32, a, b);
}
LP_INLINE i16v v_bits(v16 a) {
    return V_1(i16v, vreinterpretq_s32_f32, a);
}
LP_INLINE v16 v_from_bits(i16v a) {
    return V_1(v16, vreinterpretq_f32_s32, a);
}
LP_INLINE v16 v_from_i(i16v a) {
    return V_1(v16, vcvtq_f32_s32, a);
}
LP_INLINE int32x4_t v_round_(float32x4_t a) { /* the conversion saturates, and makes NaN 0 */
    return vbslq_s32(vcltq_f32(a, vdupq_n_f32(0x1p31f)), vcvtnq_s32_f32(a), vdupq_n_s32(INT32_MIN));
}
LP_INLINE i16v v_round_i(v16 a) {
    return V_1(i16v, v_round_, a);
}

LP_INLINE m16 v_gt(v16 a, v16 b) {
    return V_2(m16, vcgtq_f32, a, b);
}
LP_INLINE m16 v_ge(v16 a, v16 b) {
    return V_2(m16, vcgeq_f32, a, b);
}
LP_INLINE m16 v_lt(v16 a, v16 b) {
    return V_2(m16, vcltq_f32, a, b);
}
LP_INLINE m16 v_eq(v16 a, v16 b) {
    return V_2(m16, vceqq_f32, a, b);
}
LP_INLINE m16 v_nan(v16 a) {
    m16 same = v_eq(a, a);
    return V_1(m16, vmvnq_u32, same);
}
LP_INLINE m16 i_gt(i16v a, i16v b) {
    return V_2(m16, vcgtq_s32, a, b);
}
LP_INLINE m16 i_eq(i16v a, i16v b) {
    return V_2(m16, vceqq_s32, a, b);
}
LP_INLINE m16 m_and(m16 a, m16 b) {
    return V_2(m16, vandq_u32, a, b);
}
LP_INLINE m16 m_or(m16 a, m16 b) {
    return V_2(m16, vorrq_u32, a, b);
}
LP_INLINE v16 v_sel(m16 m, v16 yes, v16 no) {
    return V_3(v16, vbslq_f32, m, yes, no);
}
LP_INLINE i16v i_sel(m16 m, i16v yes, i16v no) {
    return V_3(i16v, vbslq_s32, m, yes, no);
}

LP_INLINE v16 v_ldexp(v16 a, v16 n) {
    i16v all = v_round_i(n), half = i_sar(all, 1), rest = i_sub(all, half), bias = i_set1(127);
    v16 first = v_from_bits(i_shl(i_add(half, bias), 23));
    v16 second = v_from_bits(i_shl(i_add(rest, bias), 23));
    return v_mul(v_mul(a, first), second);
}

/* The first two steps of the canonical tree. */
LP_INLINE float32x4_t v_fold_(v16 a) {
    return vaddq_f32(vaddq_f32(a.a, a.c), vaddq_f32(a.b, a.d));
}
LP_INLINE float v_sum(v16 a) {
    float32x4_t s4 = v_fold_(a);
    return vpadds_f32(vadd_f32(vget_low_f32(s4), vget_high_f32(s4)));
}
LP_INLINE float v_hmax(v16 a) {
    float32x4_t s4 = v_max_(v_max_(a.a, a.c), v_max_(a.b, a.d));
    float32x4_t s2 = v_max_(s4, vextq_f32(s4, s4, 2));
    return vgetq_lane_f32(v_max_(s2, vextq_f32(s2, s2, 1)), 0);
}
LP_INLINE int32_t i_hmax(i16v a) {
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(a.a, a.c), vmaxq_s32(a.b, a.d)));
}
LP_INLINE int32_t i_hsum(i16v a) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(a.a, a.c), vaddq_s32(a.b, a.d)));
}

LP_INLINE float32x4_t v_low_pairs_(float32x4_t a, float32x4_t b) {
    return vcombine_f32(vget_low_f32(a), vget_low_f32(b));
}
LP_INLINE float32x4_t v_high_pairs_(float32x4_t a, float32x4_t b) {
    return vcombine_f32(vget_high_f32(a), vget_high_f32(b));
}
/* The third step for two quads: the sums of a and of b end up side by side. */
LP_INLINE float32x4_t v_fold2_(float32x4_t a, float32x4_t b) {
    return vaddq_f32(v_low_pairs_(a, b), v_high_pairs_(a, b));
}
LP_INLINE float32x4_t v_sum4_(const v16 *a) {
    return vpaddq_f32(v_fold2_(v_fold_(a[0]), v_fold_(a[1])),
                      v_fold2_(v_fold_(a[2]), v_fold_(a[3])));
}
LP_INLINE v16 v_sum16(const v16 *a) {
    return (v16){v_sum4_(a), v_sum4_(a + 4), v_sum4_(a + 8), v_sum4_(a + 12)};
}

/* Columns of the 4 x 4 matrix of four rows. */
LP_INLINE v16 v_turn_(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d) {
    float32x4_t ab0 = vtrn1q_f32(a, b), ab1 = vtrn2q_f32(a, b);
    float32x4_t cd0 = vtrn1q_f32(c, d), cd1 = vtrn2q_f32(c, d);
    return (v16){v_low_pairs_(ab0, cd0), v_low_pairs_(ab1, cd1), v_high_pairs_(ab0, cd0),
                 v_high_pairs_(ab1, cd1)};
}
LP_INLINE void v_transpose16(v16 *a) {
    v16 t[4][4]; /* [band of rows][band of columns], turned */
    for (int k = 0; k < 4; k++) {
        const v16 *r = a + 4 * k;
        t[k][0] = v_turn_(r[0].a, r[1].a, r[2].a, r[3].a);
        t[k][1] = v_turn_(r[0].b, r[1].b, r[2].b, r[3].b);
        t[k][2] = v_turn_(r[0].c, r[1].c, r[2].c, r[3].c);
        t[k][3] = v_turn_(r[0].d, r[1].d, r[2].d, r[3].d);
    }
    for (int k = 0; k < 4; k++) {
        a[4 * k] = (v16){t[0][k].a, t[1][k].a, t[2][k].a, t[3][k].a};
        a[4 * k + 1] = (v16){t[0][k].b, t[1][k].b, t[2][k].b, t[3][k].b};
        a[4 * k + 2] = (v16){t[0][k].c, t[1][k].c, t[2][k].c, t[3][k].c};
        a[4 * k + 3] = (v16){t[0][k].d, t[1][k].d, t[2][k].d, t[3][k].d};
    }
}
LP_INLINE v16 v_swap_pairs(v16 a) {
    return V_1(v16, vrev64q_f32, a);
}

LP_INLINE v16 v_pick(v16 table, i16v at) {
    float from[16], to[16];
    int32_t i[16];
    v_store(from, table);
    i_store(i, at);
    for (int k = 0; k < 16; k++) {
        to[k] = from[i[k]];
    }
    return v_load(to);
}

LP_INLINE v16 v_load_part(const float *p, int64_t n) {
    return __builtin_expect(n >= 16, 1) ? v_load(p) : v_load_n(p, (int)n);
}
LP_INLINE void v_store_part(float *p, v16 a, int64_t n) {
    if (__builtin_expect(n >= 16, 1)) {
        v_store(p, a);
    } else {
        v_store_n(p, a, (int)n);
    }
}

#endif
