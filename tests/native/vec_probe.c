/* The vector layer and its mathematics, laid open for test_vec_math.py, which compiles this file
 * with
 * `-include vec_<isa>.h`. Each function takes n floats (a multiple of 16) per operand. */
#include "lp_math.h"
#include "lp_load.h"

#define EACH for (int64_t i = 0; i < n; i += 16)
#define SIGNATURE const float *x, const float *y, const float *z, float *out, int64_t n
#define X v_load(x + i)
#define Y v_load(y + i)
#define Z v_load(z + i)

#define PROBE(name, expr)                                                                          \
    void probe_##name(SIGNATURE) {                                                                 \
        (void)x, (void)y, (void)z;                                                                 \
        EACH v_store(out + i, expr);                                                               \
    }
#define MASK(m) v_sel(m, v_set1(1.0f), v_zero())
#define BITS(i) v_from_bits(i)

PROBE(add, v_add(X, Y))
PROBE(sub, v_sub(X, Y))
PROBE(mul, v_mul(X, Y))
PROBE(div, v_div(X, Y))
PROBE(sqrt, v_sqrt(X))
PROBE(max, v_max(X, Y))
PROBE(min, v_min(X, Y))
PROBE(fma, v_fma(X, Y, Z))
PROBE(fnma, v_fnma(X, Y, Z))
PROBE(gt, MASK(v_gt(X, Y)))
PROBE(ge, MASK(v_ge(X, Y)))
PROBE(lt, MASK(v_lt(X, Y)))
PROBE(eq, MASK(v_eq(X, Y)))
PROBE(nan, MASK(v_nan(X)))
PROBE(and_or, MASK(m_or(m_and(v_gt(X, Y), v_gt(Y, Z)), v_nan(X))))
PROBE(round_i, BITS(v_round_i(X)))
PROBE(from_i, v_from_i(v_bits(X)))
PROBE(i_add, BITS(i_add(v_bits(X), v_bits(Y))))
PROBE(i_sub, BITS(i_sub(v_bits(X), v_bits(Y))))
PROBE(i_bits, BITS(i_xor(i_and(v_bits(X), v_bits(Y)), i_or(v_bits(X), v_bits(Z)))))
PROBE(i_shifts, BITS(i_xor(i_shl(v_bits(X), 3), i_xor(i_shr(v_bits(X), 9), i_sar(v_bits(Y), 5)))))
PROBE(i_minmax, BITS(i_max(i_min(v_bits(X), v_bits(Y)), v_bits(Z))))
PROBE(i_compare, BITS(i_sel(i_gt(v_bits(X), v_bits(Y)), v_bits(X), v_bits(Z))))
PROBE(i_equal, MASK(i_eq(v_bits(X), v_bits(Y))))
PROBE(ldexp, v_ldexp(X, Y))
PROBE(sum, v_set1(v_sum(X)))
PROBE(hmax, v_set1(v_hmax(X)))
PROBE(i_hmax, BITS(i_set1(i_hmax(v_bits(X)))))
PROBE(i_hsum, BITS(i_set1(i_hsum(v_bits(X)))))
PROBE(swap_pairs, v_swap_pairs(X))
PROBE(exp, v_exp(X))
PROBE(expm1, v_expm1(v_min(v_zero(), X)))
PROBE(softplus, v_softplus(X))
PROBE(log, v_log(X))
PROBE(sigmoid, v_sigmoid(X))
PROBE(tanh, v_tanh(X))
PROBE(erf, v_erf(X))
PROBE(sin, v_sin(X))
PROBE(cos, v_cos(X))

PROBE(pick, v_pick(Y, i_and(v_bits(X), i_set1(15))))
PROBE(load_u8, BITS(i_load_u8((const uint8_t *)x + i)))
PROBE(load_i8, BITS(i_load_i8((const int8_t *)x + i)))
PROBE(load_bf16, v_load_bf16((const uint16_t *)x + i))
PROBE(set1_f16, v_set1_f16((const char *)x + i / 16 * 2))

void probe_store_i8(SIGNATURE) {
    (void)y, (void)z;
    EACH i_store_i8((int8_t *)out + i, v_bits(v_load(x + i)));
}
/* Rows of 16 x 16. */
void probe_sum16(SIGNATURE) {
    (void)y, (void)z;
    for (int64_t i = 0; i < n; i += 256) {
        v16 a[16];
        for (int k = 0; k < 16; k++) {
            a[k] = v_load(x + i + 16 * k);
        }
        v_store(out + i / 16, v_sum16(a));
    }
}
void probe_transpose16(SIGNATURE) {
    (void)y, (void)z;
    for (int64_t i = 0; i < n; i += 256) {
        v16 a[16];
        for (int k = 0; k < 16; k++) {
            a[k] = v_load(x + i + 16 * k);
        }
        v_transpose16(a);
        for (int k = 0; k < 16; k++) {
            v_store(out + i + 16 * k, a[k]);
        }
    }
}
/* Loads and stores of exactly m values, m = 0 .. 16, through f32 and f16. */
void probe_part(SIGNATURE) {
    (void)y, (void)z, (void)n;
    for (int m = 0; m <= 16; m++) {
        v_store_n(out + 16 * m, v_load_n(x, m), m);
        v_store(out + 272 + 16 * m, v_load_n(x, m));
        uint16_t h[16];
        v_store_f16(h, v_load(x));
        v_store(out + 544 + 16 * m, v_load_f16_n(h, m));
        v_store_f16_n((uint16_t *)(out + 816 + 16 * m), v_load(x), m);
    }
}
