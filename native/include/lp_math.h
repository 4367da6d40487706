/* Functions of one value over the thin vector layer (include a vec_*.h first). Each is one fixed
 * sequence of roundings, so every instruction set gives the same bits. The coefficients are minimax
 * fits of our own, made for the stated intervals and rounded to f32 one after the other. Errors are
 * against the exact value; tests/native/test_vec_math.py holds them to it. NaN gives NaN. */
#ifndef LP_MATH_H
#define LP_MATH_H

#define V_INF __builtin_inff()

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1), by fma from the highest power down. */
LP_INLINE v16 v_poly(v16 x, const float *c, int n) {
    v16 r = v_set1(c[n - 1]);
#pragma GCC unroll 16
    for (int k = n - 2; k >= 0; k--) {
        r = v_fma(r, x, v_set1(c[k]));
    }
    return r;
}
#define V_POLY(x, ...)                                                                             \
    v_poly(x, (const float[]){__VA_ARGS__}, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))

LP_INLINE v16 v_abs(v16 x) {
    return v_from_bits(i_and(v_bits(x), i_set1(0x7fffffff)));
}
LP_INLINE v16 v_neg(v16 x) {
    return v_from_bits(i_xor(v_bits(x), i_set1(INT32_MIN)));
}
/* |x| with the sign of s; x >= 0. */
LP_INLINE v16 v_with_sign(v16 x, v16 s) {
    return v_from_bits(i_or(v_bits(x), i_and(v_bits(s), i_set1(INT32_MIN))));
}

/* x = n ln 2 + r with |r| <= ln 2 / 2, x in [-104, 89]: e^r - 1 = r + r^2 q(r); *n is whole. */
LP_INLINE v16 v_exp_rest_(v16 x, v16 *n) {
    v16 magic = v_set1(0x1.8p23f); /* brings the integer next to x / ln 2 into the mantissa */
    *n = v_sub(v_fma(x, v_set1(1.44269504f), magic), magic);
    v16 r = v_fnma(*n, v_set1(0.693147182f), x); /* exact */
    r = v_fnma(*n, v_set1(-1.90465430e-9f), r);
    v16 q = V_POLY(r, 0.5f, 0.166665196f, 0.0416664146f, 0.00836882181f, 0.00139395392f);
    return v_fma(v_mul(r, r), q, r);
}
/* e^x within 1.1 ulp; subnormal results are kept, 0 below -103.98, inf above 88.72. */
LP_INLINE v16 v_exp(v16 x) {
    v16 n, p = v_exp_rest_(v_max(v_set1(-104.0f), v_min(v_set1(89.0f), x)), &n);
    return v_ldexp(v_add(v_set1(1.0f), p), n);
}
/* e^x - 1 for x <= 0 within 2 ulp: 2^n (e^r - 1) + (2^n - 1). */
LP_INLINE v16 v_expm1(v16 x) {
    v16 n, p = v_exp_rest_(v_max(v_set1(-87.0f), x), &n), one = v_set1(1.0f);
    v16 power = v_ldexp(one, n);
    return v_fma(power, p, v_sub(power, one));
}

/* Natural logarithm within 1 ulp; -inf at 0, NaN below. x = m 2^e with m in [sqrt(1/2), sqrt(2)).
 */
LP_INLINE v16 v_log(v16 x) {
    m16 tiny = v_lt(x, v_set1(0x1p-126f));
    v16 y = v_sel(tiny, v_mul(x, v_set1(0x1p23f)), x);
    i16v low = i_set1(0x3f3504f3), i = i_sub(v_bits(y), low); /* bits of sqrt(1/2) */
    v16 e = v_sub(v_from_i(i_sar(i, 23)), v_sel(tiny, v_set1(23.0f), v_zero()));
    v16 m = v_from_bits(i_add(i_and(i, i_set1(0x007fffff)), low));
    v16 f = v_sub(m, v_set1(1.0f)), f2 = v_mul(f, f); /* f is exact */
    v16 p = V_POLY(f, 0.333333105f, -0.249999866f, 0.200022236f, -0.166692495f, 0.142187163f,
                   -0.12384402f, 0.118726194f, -0.117893703f, 0.0691561252f);
    v16 t = v_fma(e, v_set1(-1.90465430e-9f), v_mul(v_mul(f2, f), p));
    v16 r = v_fma(e, v_set1(0.693147182f), v_add(f, v_fnma(v_set1(0.5f), f2, t)));
    r = v_sel(v_eq(x, v_set1(V_INF)), x, r);
    r = v_sel(v_eq(x, v_zero()), v_set1(-V_INF), r);
    m16 valid = v_ge(x, v_zero());
    return v_sel(valid, r, v_sub(v_mul(x, v_zero()), v_sqrt(v_set1(-1.0f))));
}

/* log(1 + e^x) within 2.5 ulp, as max(x, 0) + log(u) - ((u - 1) - e) / u, where e = e^-|x| and u =
 * 1
 * + e, rounded: the last term is what u lost. */
LP_INLINE v16 v_softplus(v16 x) {
    v16 e = v_exp(v_neg(v_abs(x))), one = v_set1(1.0f), u = v_add(one, e);
    v16 lost = v_div(v_sub(v_sub(u, one), e), u);
    return v_add(v_max(v_zero(), x), v_sub(v_log(u), lost));
}

/* The parts of 1 / (1 + e^-x): num / den, neither of which over- or underflows. */
LP_INLINE void v_logistic(v16 x, v16 *num, v16 *den) {
    v16 e = v_exp(v_neg(v_abs(x)));
    *num = v_sel(v_lt(x, v_zero()), e, v_set1(1.0f));
    *den = v_add(v_set1(1.0f), e);
}
/* 1 / (1 + e^-x) within 2.5 ulp. */
LP_INLINE v16 v_sigmoid(v16 x) {
    v16 num, den;
    v_logistic(x, &num, &den);
    return v_div(num, den);
}
/* x / (1 + e^-y), rounded as (x * num) / den. NaN where x is infinite and the rest is 0. */
LP_INLINE v16 v_gate(v16 x, v16 y) {
    v16 num, den;
    v_logistic(y, &num, &den);
    return v_div(v_mul(x, num), den);
}

/* Within 2 ulp. x + x^3 P(x^2) below 0.55, else 1 - 2 / (e^2|x| + 1) with the sign of x. */
LP_INLINE v16 v_tanh(v16 x) {
    v16 a = v_abs(x), x2 = v_mul(x, x), one = v_set1(1.0f);
    v16 p = V_POLY(x2, -0.333333194f, 0.133326367f, -0.0538568497f, 0.0210883114f, -0.00629566517f);
    v16 near = v_fma(v_mul(x2, x), p, x);
    v16 e = v_exp(v_add(a, a));
    v16 far = v_sub(one, v_div(v_set1(2.0f), v_add(e, one)));
    return v_sel(v_lt(a, v_set1(0.55f)), near, v_with_sign(far, x));
}

/* Within 2 ulp. x + x P(x^2) below 1, else 1 - e^-Q(|x|) with the sign of x; 1 from 4 on. */
LP_INLINE v16 v_erf(v16 x) {
    v16 a = v_abs(x), x2 = v_mul(x, x);
    v16 p = V_POLY(x2, 0.128379166f, -0.376126289f, 0.112836182f, -0.026855126f, 0.00519073382f,
                   -0.000803076138f, 7.92036808e-05f);
    v16 near = v_fma(x, p, x);
    v16 t = v_min(v_set1(4.0f), a);
    v16 q = V_POLY(t, -0.000188040227f, 1.12957847f, 0.633219719f, 0.108418837f, -0.0252084546f,
                   0.00420464203f, -0.000441352546f, 2.16881035e-05f);
    v16 far = v_sub(v_set1(1.0f), v_exp(v_neg(q)));
    return v_sel(v_lt(a, v_set1(1.0f)), near, v_with_sign(far, x));
}

/* sin(x + quarter * pi / 2). Absolute error below 1e-7 for |x| <= 1e5; beyond that it loses digits,
 * and inf gives NaN. */
LP_INLINE v16 v_sin_shifted_(v16 x, int quarter) {
    i16v n = v_round_i(v_mul(x, v_set1(0.636619772f)));
    v16 t = v_from_i(n);
    v16 r = v_fnma(t, v_set1(1.57079637f), x); /* pi / 2 in three parts */
    r = v_fnma(t, v_set1(-4.37113883e-8f), r);
    r = v_fnma(t, v_set1(-1.71512450e-15f), r);
    v16 r2 = v_mul(r, r);
    v16 s = v_fma(v_mul(r2, r),
                  V_POLY(r2, -0.166666672f, 0.00833338033f, -0.000198535054f, 2.83739519e-06f), r);
    v16 c = V_POLY(r2, 0.0416666679f, -0.00138889824f, 2.48229771e-05f, -2.89759072e-07f);
    c = v_add(v_set1(1.0f), v_fma(v_mul(r2, r2), c, v_mul(v_set1(-0.5f), r2)));
    i16v k = i_add(n, i_set1(quarter));
    v16 y = v_sel(i_eq(i_and(k, i_set1(1)), i_set1(0)), s, c);
    y = v_from_bits(i_xor(v_bits(y), i_shl(i_and(k, i_set1(2)), 30)));
    return v_sel(v_lt(v_abs(x), v_set1(V_INF)), y, v_sub(x, x));
}
LP_INLINE v16 v_sin(v16 x) {
    return v_sin_shifted_(x, 0);
}
LP_INLINE v16 v_cos(v16 x) {
    return v_sin_shifted_(x, 1);
}

LP_INLINE v16 v_silu(v16 x) {
    return v_gate(x, x);
}
/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as x times the logistic of twice the argument,
 * which keeps its digits for negative x. */
LP_INLINE v16 v_gelu(v16 x) {
    v16 y = v_mul(x, v_fma(v_mul(x, x), v_set1(0.0713548163f), v_set1(1.59576912f)));
    return v_gate(x, y);
}
LP_INLINE v16 v_gelu_quick(v16 x) { /* x / (1 + e^(-1.702 x)) */
    return v_gate(x, v_mul(v_set1(1.702f), x));
}
LP_INLINE v16 v_gelu_erf(v16 x) { /* x / 2 (1 + erf(x / sqrt(2))) */
    v16 e = v_erf(v_mul(x, v_set1(0.707106781f)));
    return v_mul(v_mul(v_set1(0.5f), x), v_add(v_set1(1.0f), e));
}
LP_INLINE v16 v_relu(v16 x) { /* keeps NaN, and -0 */
    return v_max(v_zero(), x);
}
LP_INLINE v16 v_relu_sqr(v16 x) {
    return v_mul(v_relu(x), v_relu(x));
}
LP_INLINE v16 v_softcap(v16 x, v16 cap) { /* cap * tanh(x / cap) */
    return v_mul(cap, v_tanh(v_div(x, cap)));
}

#endif
