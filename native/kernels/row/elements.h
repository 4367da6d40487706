/* Element by element. y[i] depends on x[i] (and the same place of a second operand) only, so how a
 * row is cut does not matter; y may be x. All f32, axis 0 without gaps, any strides on the others.
 *
 * add sub mul div   one rounding; source 1 repeats along every axis
 * scale             fma(x, scale, bias)
 * softcap           cap * tanh(x / cap), rounded at each step
 * clamp             min(max, max(min, x)); NaN stays
 * one-value ops     lp_math.h
 * gated ops         act(gate) * up; gate and up are two sources, or the halves of one row
 * swiglu_oai        (g * logistic(alpha g)) * (u + 1), g = min(gate, limit), u = up within +-limit
 */

#define LP_UNARY(name, expr)                                                                       \
    int LP_FN(lp_##name##_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {         \
        (void)scratch;                                                                             \
        const struct lp_node *n = a->n;                                                            \
        v16 p0 = v_set1((float)n->fp[0]), p1 = v_set1((float)n->fp[1]);                            \
        (void)p0, (void)p1;                                                                        \
        struct lp_walk w = lp_walk_units(&n->dst, task, n->n_tasks);                               \
        while (lp_walk_next(&w)) {                                                                 \
            const float *src = (const float *)(a->src[0] + lp_row_offs(&n->src[0], w.i)) + w.i[0]; \
            float *dst = (float *)(a->dst + lp_row_offs(&n->dst, w.i)) + w.i[0];                   \
            for (int64_t i = 0; i < w.len; i += 16) {                                              \
                v16 x = v_load_part(src + i, w.len - i);                                           \
                v_store_part(dst + i, expr, w.len - i);                                            \
            }                                                                                      \
        }                                                                                          \
        return LP_OK;                                                                              \
    }

/* alpha_n, alpha_p, beta, eps */
LP_INLINE v16 lp_xielu(v16 x, const double *fp) {
    v16 n = v_set1((float)fp[0]), p = v_set1((float)fp[1]), line = v_mul(v_set1((float)fp[2]), x);
    v16 below = v_sub(v_expm1(v_min(v_set1((float)fp[3]), v_min(v_zero(), x))), x);
    return v_sel(v_gt(x, v_zero()), v_fma(v_mul(p, x), x, line), v_fma(below, n, line));
}

LP_UNARY(scale, v_fma(x, p0, p1))
LP_UNARY(softcap, v_softcap(x, p0))
LP_UNARY(silu, v_silu(x))
LP_UNARY(gelu, v_gelu(x))
LP_UNARY(gelu_erf, v_gelu_erf(x))
LP_UNARY(gelu_quick, v_gelu_quick(x))
LP_UNARY(relu, v_relu(x))
LP_UNARY(relu_sqr, v_relu_sqr(x))
LP_UNARY(sigmoid, v_sigmoid(x))
LP_UNARY(tanh, v_tanh(x))
LP_UNARY(exp, v_exp(x))
LP_UNARY(log, v_log(x))
LP_UNARY(softplus, v_softplus(x))
LP_UNARY(neg, v_neg(x))
LP_UNARY(abs, v_abs(x))
LP_UNARY(sqr, v_mul(x, x))
LP_UNARY(sqrt, v_sqrt(x))
LP_UNARY(xielu, lp_xielu(x, n->fp))
LP_UNARY(clamp, v_min(p1, v_max(p0, x)))

typedef v16 (*v_binary)(v16, v16);

/* y[i] = op(x[i], z[i]) for n values; z_step 0 repeats z[0]. */
LP_INLINE void lp_binary_run(v_binary op, float *y, const float *x, const float *z, int z_step,
                             int64_t n) {
    v16 one = v_set1(z[0]);
    for (int64_t i = 0; i < n; i += 16) {
        v16 second = z_step ? v_load_part(z + i, n - i) : one;
        v_store_part(y + i, op(v_load_part(x + i, n - i), second), n - i);
    }
}

LP_INLINE int lp_binary(const struct lp_args *a, int64_t task, v_binary op) {
    const struct lp_node *n = a->n;
    int64_t period = n->src[1].ne[0];
    struct lp_walk w = lp_walk_units(&n->dst, task, n->n_tasks);
    while (lp_walk_next(&w)) {
        const float *x = (const float *)(a->src[0] + lp_row_offs(&n->src[0], w.i)) + w.i[0];
        const float *z = (const float *)(a->src[1] + lp_row_offs(&n->src[1], w.i));
        float *y = (float *)(a->dst + lp_row_offs(&n->dst, w.i)) + w.i[0];
        if (period == 1) {
            lp_binary_run(op, y, x, z, 0, w.len);
            continue;
        }
        for (int64_t i = 0; i < w.len;) {
            int64_t k = (w.i[0] + i) % period;
            int64_t run = period - k < w.len - i ? period - k : w.len - i;
            lp_binary_run(op, y + i, x + i, z + k, 1, run);
            i += run;
        }
    }
    return LP_OK;
}

#define LP_BINARY(name)                                                                            \
    int LP_FN(lp_##name##_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {         \
        (void)scratch;                                                                             \
        return lp_binary(a, task, v_##name);                                                       \
    }
LP_BINARY(add)
LP_BINARY(sub)
LP_BINARY(mul)
LP_BINARY(div)

/* Gate and up of a stretch. */
struct lp_gated {
    const float *gate, *up;
};
LP_INLINE struct lp_gated lp_gated_of(const struct lp_args *a, const struct lp_walk *w) {
    const struct lp_node *n = a->n;
    const float *gate = (const float *)(a->src[0] + lp_row_offs(&n->src[0], w->i)) + w->i[0];
    if (n->n_src < 2) {
        return (struct lp_gated){gate, gate + n->dst.ne[0]};
    }
    const char *up = a->src[1] + lp_row_offs(&n->src[1], w->i);
    return (struct lp_gated){gate, (const float *)up + w->i[0]};
}

/* Of gate and up, and of the node's two parameters. */
typedef v16 (*v_gated)(v16 gate, v16 up, v16 p0, v16 p1);

LP_INLINE int lp_glu(const struct lp_args *a, int64_t task, v_gated f) {
    v16 p0 = v_set1((float)a->n->fp[0]), p1 = v_set1((float)a->n->fp[1]);
    struct lp_walk w = lp_walk_units(&a->n->dst, task, a->n->n_tasks);
    while (lp_walk_next(&w)) {
        struct lp_gated g = lp_gated_of(a, &w);
        float *y = (float *)(a->dst + lp_row_offs(&a->n->dst, w.i)) + w.i[0];
        for (int64_t i = 0; i < w.len; i += 16) {
            v16 gate = v_load_part(g.gate + i, w.len - i), up = v_load_part(g.up + i, w.len - i);
            v_store_part(y + i, f(gate, up, p0, p1), w.len - i);
        }
    }
    return LP_OK;
}

/* The gated values, then X8: the bits of the two ops one after the other. */
LP_INLINE int lp_glu_quant(const struct lp_args *a, int64_t task, v_gated f) {
    v16 p0 = v_set1((float)a->n->fp[0]), p1 = v_set1((float)a->n->fp[1]);
    int64_t k = a->n->dst.ne[0];
    if (k % LP_X8_GROUP) {
        return LP_E_TYPES;
    }
    struct lp_walk w = lp_walk_units(&a->n->dst, task, a->n->n_tasks);
    while (lp_walk_next(&w)) {
        struct lp_gated g = lp_gated_of(a, &w);
        char *row = a->dst + lp_row_offs(&a->n->dst, w.i);
        for (int64_t i = 0; i < w.len; i += LP_X8_GROUP) {
            v16 lo = f(v_load(g.gate + i), v_load(g.up + i), p0, p1);
            v16 hi = f(v_load(g.gate + i + 16), v_load(g.up + i + 16), p0, p1);
            lp_x8_group(row, k, (w.i[0] + i) / LP_X8_GROUP, lo, hi);
        }
    }
    return LP_OK;
}

#define LP_GLU(name, expr)                                                                         \
    LP_INLINE v16 v_##name(v16 gate, v16 up, v16 p0, v16 p1) {                                     \
        (void)p0, (void)p1;                                                                        \
        return expr;                                                                               \
    }                                                                                              \
    int LP_FN(lp_##name##_f32_f32)(const struct lp_args *a, int64_t task, void *scratch) {         \
        (void)scratch;                                                                             \
        return lp_glu(a, task, v_##name);                                                          \
    }                                                                                              \
    int LP_FN(lp_##name##_quant_x8_f32)(const struct lp_args *a, int64_t task, void *scratch) {    \
        (void)scratch;                                                                             \
        return lp_glu_quant(a, task, v_##name);                                                    \
    }
LP_GLU(swiglu, v_mul(v_silu(gate), up))
LP_GLU(geglu, v_mul(v_gelu(gate), up))
LP_GLU(geglu_erf, v_mul(v_gelu_erf(gate), up))
LP_GLU(geglu_quick, v_mul(v_gelu_quick(gate), up))
LP_GLU(reglu, v_mul(v_relu(gate), up))

LP_INLINE v16 lp_gate_oai(v16 gate, v16 up, v16 alpha, v16 limit) {
    v16 g = v_min(limit, gate), u = v_min(limit, v_max(v_neg(limit), up));
    return v_mul(v_gate(g, v_mul(alpha, g)), v_add(u, v_set1(1.0f)));
}
LP_GLU(swiglu_oai, lp_gate_oai(gate, up, p0, p1))
