/* The thin integer layer of the matmul kernels on NEON (AArch64), without the dot product of bytes:
 * what every name means stands in int_x86.h. Included by int_neon.h and int_neondot.h only. */
#ifndef LP_INT_ARM_H
#define LP_INT_ARM_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define LP_FORCE static inline __attribute__((always_inline))

/* Bytes and int32 are one type, as they are in the formats. */
typedef struct {
    uint8x16_t lo, hi;
} b32;
typedef b32 i32x8;
typedef struct {
    float32x4_t lo, hi;
} f32x8;

/* f of both halves of one or two operands. */
#define B_1(type, f, x) ((type){f((x).lo), f((x).hi)})
#define B_2(type, f, x, y) ((type){f((x).lo, (y).lo), f((x).hi, (y).hi)})

LP_FORCE int32x4_t q_words(uint8x16_t a) {
    return vreinterpretq_s32_u8(a);
}
LP_FORCE uint8x16_t q_bytes(int32x4_t a) {
    return vreinterpretq_u8_s32(a);
}

LP_FORCE b32 b32_load(const void *p) {
    return (b32){vld1q_u8(p), vld1q_u8((const uint8_t *)p + 16)};
}
LP_FORCE void b32_store(void *p, b32 a) {
    vst1q_u8(p, a.lo);
    vst1q_u8((uint8_t *)p + 16, a.hi);
}
LP_FORCE b32 b32_set1(int x) {
    const uint8x16_t r = vdupq_n_u8((uint8_t)x);
    return (b32){r, r};
}
LP_FORCE b32 b32_and(b32 a, b32 b) {
    return B_2(b32, vandq_u8, a, b);
}
LP_FORCE b32 b32_or(b32 a, b32 b) {
    return B_2(b32, vorrq_u8, a, b);
}
LP_FORCE b32 b32_xor(b32 a, b32 b) {
    return B_2(b32, veorq_u8, a, b);
}
LP_FORCE b32 b32_add(b32 a, b32 b) {
    return B_2(b32, vaddq_u8, a, b);
}
LP_FORCE b32 b32_sub(b32 a, b32 b) {
    return B_2(b32, vsubq_u8, a, b);
}
/* Bytes of ones where negative. */
LP_FORCE b32 b32_minus(b32 a) {
    return (b32){vcltzq_s8(vreinterpretq_s8_u8(a.lo)), vcltzq_s8(vreinterpretq_s8_u8(a.hi))};
}
LP_FORCE b32 b32_words_at(const uint32_t *table, const uint16_t *at) {
    uint32_t w[8];
    for (int i = 0; i < 8; i++) {
        w[i] = table[at[i]];
    }
    return b32_load(w);
}
LP_FORCE b32 b32_doubles_at(const uint64_t *table, const uint16_t *at) {
    uint64_t w[4];
    for (int i = 0; i < 4; i++) {
        w[i] = table[at[i]];
    }
    return b32_load(w);
}
LP_FORCE b32 b32_widen(const void *p) {
    const uint8x16_t x = vld1q_u8(p), zero = vdupq_n_u8(0);
    return (b32){vzip1q_u8(x, zero), vzip2q_u8(x, zero)};
}
LP_FORCE b32 b32_set1_16(int x) {
    const uint8x16_t r = vreinterpretq_u8_s16(vdupq_n_s16((int16_t)x));
    return (b32){r, r};
}
LP_FORCE uint8x16_t q_mul16(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_u8_u16(vmulq_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
}
LP_FORCE b32 b32_mul16(b32 a, b32 b) {
    return B_2(b32, q_mul16, a, b);
}
/* Within 16 bits, to the right for negative n. */
LP_FORCE uint8x16_t q_shift16(uint8x16_t a, int n) {
    return vreinterpretq_u8_u16(vshlq_u16(vreinterpretq_u16_u8(a), vdupq_n_s16((int16_t)n)));
}
LP_FORCE b32 b32_shr(b32 a, int n) {
    return (b32){q_shift16(a.lo, -n), q_shift16(a.hi, -n)};
}
LP_FORCE b32 b32_shl(b32 a, int n) {
    return (b32){q_shift16(a.lo, n), q_shift16(a.hi, n)};
}
LP_FORCE b32 b32_two(const void *a, const void *b) {
    return (b32){vld1q_u8(a), vld1q_u8(b)};
}
LP_FORCE b32 b32_twice(const void *p) {
    return b32_two(p, p);
}
LP_FORCE b32 b32_nibbles(b32 a, int h) {
    return h ? (b32){vshrq_n_u8(a.lo, 4), vshrq_n_u8(a.hi, 4)} : b32_and(a, b32_set1(15));
}
LP_FORCE uint8x16_t q_nibbles8(uint8x16_t a, int h) {
    const uint8x8_t x = h ? vget_high_u8(a) : vget_low_u8(a);
    return vcombine_u8(vand_u8(x, vdup_n_u8(15)), vshr_n_u8(x, 4));
}
LP_FORCE b32 b32_nibbles8(b32 a, int h) {
    return (b32){q_nibbles8(a.lo, h), q_nibbles8(a.hi, h)};
}
LP_FORCE b32 b32_lookup(const void *table, b32 i) {
    const uint8x16_t t = vld1q_u8(table);
    return (b32){vqtbl1q_u8(t, i.lo), vqtbl1q_u8(t, i.hi)};
}
LP_FORCE uint8x16_t q_thirds(uint8x16_t x) { /* comparisons give 0 or -1 */
    const uint8x16_t one = vcgeq_u8(x, vdupq_n_u8(86)), two = vcgeq_u8(x, vdupq_n_u8(171));
    return vsubq_u8(vdupq_n_u8(0), vaddq_u8(one, two));
}
LP_FORCE b32 b32_thirds(b32 x) {
    return B_1(b32, q_thirds, x);
}
/* The 16 bit pairs of 4 bytes: every byte four times, each shifted by its own number of bits. */
LP_FORCE uint8x16_t q_bit_pairs(const void *p) {
    static const int8_t shift[16] = {0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6};
    static const uint8_t from[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    uint32_t w;
    memcpy(&w, p, 4);
    const uint8x16_t x = vqtbl1q_u8(vreinterpretq_u8_u32(vdupq_n_u32(w)), vld1q_u8(from));
    return vandq_u8(vshlq_u8(x, vld1q_s8(shift)), vdupq_n_u8(3));
}
LP_FORCE b32 b32_bit_pairs(const void *a, const void *b) {
    return (b32){q_bit_pairs(a), q_bit_pairs(b)};
}
LP_FORCE uint8x16_t q_pack(uint8x16_t a, uint8x16_t b) {
    return vcombine_u8(vmovn_u16(vreinterpretq_u16_u8(a)), vmovn_u16(vreinterpretq_u16_u8(b)));
}
LP_FORCE b32 b32_pack(b32 a, b32 b) {
    return B_2(b32, q_pack, a, b);
}
/* All bits set in byte i where bit i of the 2 bytes is. */
LP_FORCE uint8x16_t q_bits(uint16_t bits) {
    static const uint8_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x8_t low = vdup_n_u8((uint8_t)(bits & 255)), high = vdup_n_u8((uint8_t)(bits >> 8));
    const uint8x8_t one = vld1_u8(bit);
    return vtstq_u8(vcombine_u8(low, high), vcombine_u8(one, one));
}
LP_FORCE b32 b32_bits(uint32_t bits) {
    return (b32){q_bits((uint16_t)(bits & 0xffff)), q_bits((uint16_t)(bits >> 16))};
}
LP_FORCE b32 b32_add_bits(b32 x, const void *a, const void *b, int value) {
    uint16_t low, high;
    memcpy(&low, a, 2);
    memcpy(&high, b, 2);
    return b32_add(x, b32_and(b32_bits(low | (uint32_t)high << 16), b32_set1(value)));
}
/* The 4 x 4 transpose of one half. */
LP_FORCE void q_transpose4(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d,
                           uint8x16_t *out) {
    const int32x4_t ab0 = vtrn1q_s32(q_words(a), q_words(b));
    const int32x4_t ab1 = vtrn2q_s32(q_words(a), q_words(b));
    const int32x4_t cd0 = vtrn1q_s32(q_words(c), q_words(d));
    const int32x4_t cd1 = vtrn2q_s32(q_words(c), q_words(d));
    out[0] = q_bytes(vcombine_s32(vget_low_s32(ab0), vget_low_s32(cd0)));
    out[1] = q_bytes(vcombine_s32(vget_low_s32(ab1), vget_low_s32(cd1)));
    out[2] = q_bytes(vcombine_s32(vget_high_s32(ab0), vget_high_s32(cd0)));
    out[3] = q_bytes(vcombine_s32(vget_high_s32(ab1), vget_high_s32(cd1)));
}
LP_FORCE void b32_transpose4(b32 *a) {
    uint8x16_t lo[4], hi[4];
    q_transpose4(a[0].lo, a[1].lo, a[2].lo, a[3].lo, lo);
    q_transpose4(a[0].hi, a[1].hi, a[2].hi, a[3].hi, hi);
    for (int i = 0; i < 4; i++) {
        a[i] = (b32){lo[i], hi[i]};
    }
}

/* An operation on int32 lanes, made from the one on a quad. */
#define I_2(name, f)                                                                               \
    LP_FORCE i32x8 name(i32x8 a, i32x8 b) {                                                        \
        return (i32x8){q_bytes(f(q_words(a.lo), q_words(b.lo))),                                   \
                       q_bytes(f(q_words(a.hi), q_words(b.hi)))};                                  \
    }
LP_FORCE int32x4_t q_differ(int32x4_t a, int32x4_t b) {
    return vreinterpretq_s32_u32(vmvnq_u32(vceqq_s32(a, b)));
}
LP_FORCE int32x4_t q_pairs(int32x4_t a, int32x4_t b) {
    const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
I_2(i8_add, vaddq_s32)
I_2(i8_sub, vsubq_s32)
I_2(i8_mul, vmulq_s32)
I_2(i8_and, vandq_s32)
I_2(i8_or, vorrq_s32)
I_2(i8_max, vmaxq_s32)
I_2(i8_differ, q_differ)
I_2(i8_pairs, q_pairs)

LP_FORCE i32x8 i8_set1(int32_t x) {
    const uint8x16_t r = q_bytes(vdupq_n_s32(x));
    return (i32x8){r, r};
}
LP_FORCE i32x8 i8_load(const int32_t *p) {
    return b32_load(p);
}
LP_FORCE void i8_store(int32_t *p, i32x8 a) {
    b32_store(p, a);
}
/* To the right for negative n; zeros come in. */
LP_FORCE uint8x16_t q_shift32(uint8x16_t a, int n) {
    return vreinterpretq_u8_u32(vshlq_u32(vreinterpretq_u32_u8(a), vdupq_n_s32(n)));
}
LP_FORCE i32x8 i8_shr(i32x8 a, int n) {
    return (i32x8){q_shift32(a.lo, -n), q_shift32(a.hi, -n)};
}
LP_FORCE i32x8 i8_shl(i32x8 a, int n) {
    return (i32x8){q_shift32(a.lo, n), q_shift32(a.hi, n)};
}
LP_FORCE i32x8 i8_byte(i32x8 a, int i) {
    return i8_and(i8_shr(a, 8 * i), i8_set1(255));
}
LP_FORCE uint8x16_t q_sign8(uint8x16_t a) {
    return q_bytes(vshrq_n_s32(q_words(a), 24));
}
LP_FORCE i32x8 i8_signed_byte(i32x8 a, int i) {
    const i32x8 top = i8_shl(a, 24 - 8 * i);
    return B_1(i32x8, q_sign8, top);
}

LP_FORCE f32x8 f8_set1(float x) {
    const float32x4_t r = vdupq_n_f32(x);
    return (f32x8){r, r};
}
LP_FORCE f32x8 f8_zero(void) {
    return f8_set1(0.0f);
}
LP_FORCE f32x8 f8_load(const float *p) {
    return (f32x8){vld1q_f32(p), vld1q_f32(p + 4)};
}
LP_FORCE void f8_store(float *p, f32x8 a) {
    vst1q_f32(p, a.lo);
    vst1q_f32(p + 4, a.hi);
}
LP_FORCE f32x8 f8_add(f32x8 a, f32x8 b) {
    return B_2(f32x8, vaddq_f32, a, b);
}
LP_FORCE f32x8 f8_mul(f32x8 a, f32x8 b) {
    return B_2(f32x8, vmulq_f32, a, b);
}
LP_FORCE f32x8 f8_fma(f32x8 a, f32x8 b, f32x8 c) {
    return (f32x8){vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}
LP_FORCE f32x8 f8_neg(f32x8 a) {
    return B_1(f32x8, vnegq_f32, a);
}
LP_FORCE f32x8 f8_from_bits(i32x8 a) {
    return B_1(f32x8, vreinterpretq_f32_u8, a);
}
LP_FORCE f32x8 f8_from_i(i32x8 a) {
    return (f32x8){vcvtq_f32_s32(q_words(a.lo)), vcvtq_f32_s32(q_words(a.hi))};
}
LP_FORCE float32x4_t q_widen(uint16x4_t h) {
    return vcvt_f32_f16(vreinterpret_f16_u16(h));
}
LP_FORCE void f8_split(i32x8 a, f32x8 *low, f32x8 *high) {
    const uint32x4_t lo = vreinterpretq_u32_u8(a.lo), hi = vreinterpretq_u32_u8(a.hi);
    *low = (f32x8){q_widen(vmovn_u32(lo)), q_widen(vmovn_u32(hi))};
    *high = (f32x8){q_widen(vshrn_n_u32(lo, 16)), q_widen(vshrn_n_u32(hi, 16))};
}

LP_FORCE f32x8 f8_halves(const void *p) {
    uint16_t h[8];
    memcpy(h, p, 16);
    const uint16x8_t x = vld1q_u16(h);
    return (f32x8){q_widen(vget_low_u16(x)), q_widen(vget_high_u16(x))};
}
LP_FORCE i32x8 i8_bytes(const void *p) {
    const uint16x8_t x = vmovl_u8(vld1_u8(p));
    return (i32x8){vreinterpretq_u8_u32(vmovl_u16(vget_low_u16(x))),
                   vreinterpretq_u8_u32(vmovl_u16(vget_high_u16(x)))};
}

LP_FORCE i32x8 i8_words(const uint8_t *const *b, int64_t at) {
    int32_t w[8];
    for (int i = 0; i < 8; i++) {
        memcpy(&w[i], b[i] + at, 4);
    }
    return i8_load(w);
}
LP_FORCE i32x8 i8_last_words(const uint8_t *const *b, int64_t at) {
    return i8_words(b, at);
}
I_2(i8_odd, vuzp2q_s32)
LP_FORCE i32x8 i8_lower(i32x8 a, i32x8 b) {
    return (i32x8){a.lo, b.lo};
}
LP_FORCE i32x8 i8_upper(i32x8 a, i32x8 b) {
    return (i32x8){a.hi, b.hi};
}
LP_FORCE int32x4_t q_sums4(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
    return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
}
LP_FORCE i32x8 i8_sums4(const i32x8 *d) {
    return (i32x8){
        q_bytes(q_sums4(q_words(d[0].lo), q_words(d[1].lo), q_words(d[2].lo), q_words(d[3].lo))),
        q_bytes(q_sums4(q_words(d[0].hi), q_words(d[1].hi), q_words(d[2].hi), q_words(d[3].hi)))};
}

#endif
