/* Rows of the cache as f32: floats exactly, quantised values as their definition reads (scale times
 * q, then plus the minimum, each rounded once). Plain C, since the compiler finds the vectors and
 * the operations of an element are the same on every instruction set. */
#include "lp_iq4.h"
#include "kernels/matmul/fmt_q4_0.h"
#include "kernels/matmul/fmt_q4_1.h"
#include "kernels/matmul/fmt_q5_0.h"
#include "kernels/matmul/fmt_q5_1.h"
#include "kernels/matmul/fmt_q8_0.h"

/* n elements, a multiple of 32, of a format with blocks of 32 and without sub-scales. */
LP_FORCE void lp_widen_blocks(float *dst, const char *p, int64_t n, const struct lp_fmt *f) {
    for (int64_t i = 0; i < n; i += 32, p += f->bytes, dst += 32) {
        int8_t q[32];
        struct lp_scales s = {0};
        f->weights((const uint8_t *)p, 0, q);
        f->scales((const uint8_t *)p, 0, &s);
        for (int k = 0; k < 32; k++) {
            float x = s.ws * (float)q[k];
            dst[k] = f->has_min ? x + s.wm : x;
        }
    }
}
static void lp_widen_iq4_nl(float *dst, const char *p, int64_t n) {
    for (int64_t i = 0; i < n; i += 32, p += 18, dst += 32) {
        float d = lp_half_at((const uint8_t *)p), value[16];
        const uint8_t *b = (const uint8_t *)p + 2;
        for (int k = 0; k < 16; k++) {
            value[k] = d * (float)lp_iq4_values[k];
        }
        for (int k = 0; k < 16; k++) {
            dst[k] = value[b[k] & 15];
            dst[k + 16] = value[b[k] >> 4];
        }
    }
}
static void lp_widen_bf16(float *dst, const char *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, 2);
        dst[i] = lp_float_of((uint32_t)h << 16);
    }
}
LP_INLINE void lp_widen_floats(float *dst, const char *p, int64_t n, int type) {
    int64_t size = lp_type_bytes(type);
    for (int64_t d = 0; d < n; d += 16) {
        v_store(dst + d, lp_load_as(p + d * size, type, n - d < 16 ? (int)(n - d) : 16));
    }
}

/* The row of n elements at p, padded with zeros to a multiple of 16, at dst. */
static void lp_widen(float *dst, const char *p, int type, int64_t n) {
    switch (type) {
    case LP_T_F32:
        lp_widen_floats(dst, p, n, LP_T_F32);
        break;
    case LP_T_F16:
        lp_widen_floats(dst, p, n, LP_T_F16);
        break;
    case LP_T_Q4_0:
        lp_widen_blocks(dst, p, n, &lp_fmt_q4_0);
        break;
    case LP_T_Q4_1:
        lp_widen_blocks(dst, p, n, &lp_fmt_q4_1);
        break;
    case LP_T_Q5_0:
        lp_widen_blocks(dst, p, n, &lp_fmt_q5_0);
        break;
    case LP_T_Q5_1:
        lp_widen_blocks(dst, p, n, &lp_fmt_q5_1);
        break;
    case LP_T_Q8_0:
        lp_widen_blocks(dst, p, n, &lp_fmt_q8_0);
        break;
    case LP_T_IQ4_NL:
        lp_widen_iq4_nl(dst, p, n);
        break;
    default: /* LP_T_BF16: others have been refused */
        lp_widen_bf16(dst, p, n);
        memset(dst + n, 0, (size_t)((16 - n % 16) % 16) * 4);
    }
}
