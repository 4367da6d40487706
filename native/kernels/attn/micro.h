/* The inner loops of attention: dots of queries with keys, and sums of weighted values. */

enum {
    /* Rows up to which K and V are read in place. EPYC 9004, heads of 64: at 8 rows widening the
     * tile first costs 8 % more, at 16 rows 15 % less (avx512). */
    LP_FEW = 8,
    LP_BLOCK = 4,                   /* rows of a register block */
    LP_KEYS = V_REGS >= 32 ? 2 : 1, /* registers of 16 keys beside them */
    LP_DIMS = V_REGS >= 32 ? 4 : 1, /* registers of 16 elements of V beside them */
    LP_WIDE = 16 * LP_KEYS,         /* keys of a panel of transposed K */
};

/* Accumulator i of the dots of LP_BLOCK rows with LP_WIDE keys. */
LP_INLINE void lp_leaf(v16 *acc, const float *q, const float *panel, int64_t dk_pad, int64_t i) {
#pragma GCC unroll 8
    for (int c = 0; c < LP_BLOCK * LP_KEYS; c++) {
        acc[c] = v_zero();
    }
    for (int64_t d = i; d < dk_pad; d += 16) {
        v16 k[LP_KEYS];
#pragma GCC unroll 2
        for (int w = 0; w < LP_KEYS; w++) {
            k[w] = v_load(panel + d * LP_WIDE + 16 * w);
        }
#pragma GCC unroll 4
        for (int r = 0; r < LP_BLOCK; r++) {
            v16 x = v_set1(q[r * dk_pad + d]);
#pragma GCC unroll 2
            for (int w = 0; w < LP_KEYS; w++) {
                acc[r * LP_KEYS + w] = v_fma(x, k[w], acc[r * LP_KEYS + w]);
            }
        }
    }
}
LP_INLINE void lp_add_block(v16 *a, const v16 *b) {
#pragma GCC unroll 8
    for (int c = 0; c < LP_BLOCK * LP_KEYS; c++) {
        a[c] = v_add(a[c], b[c]);
    }
}

/* The canonical tree over accumulators: a[i] + a[i + 8], then + 4, + 2, + 1. */
static __attribute__((noinline)) void lp_tree8(v16 *out, const float *q, const float *panel,
                                               int64_t dk_pad, int64_t i) {
    v16 a[LP_BLOCK * LP_KEYS], b[LP_BLOCK * LP_KEYS];
    lp_leaf(a, q, panel, dk_pad, i);
    lp_leaf(b, q, panel, dk_pad, i + 8);
    lp_add_block(a, b);
    memcpy(out, a, sizeof a);
}
LP_INLINE void lp_tree4(v16 *out, const float *q, const float *panel, int64_t dk_pad, int64_t i) {
    v16 b[LP_BLOCK * LP_KEYS];
    lp_tree8(out, q, panel, dk_pad, i);
    lp_tree8(b, q, panel, dk_pad, i + 4);
    lp_add_block(out, b);
}
LP_INLINE void lp_tree2(v16 *out, const float *q, const float *panel, int64_t dk_pad, int64_t i) {
    v16 b[LP_BLOCK * LP_KEYS];
    lp_tree4(out, q, panel, dk_pad, i);
    lp_tree4(b, q, panel, dk_pad, i + 2);
    lp_add_block(out, b);
}
/* Dots of LP_BLOCK rows with the keys of one panel. */
static void lp_dots_panel(float *s, const float *q, const float *panel, int64_t dk_pad) {
    v16 a[LP_BLOCK * LP_KEYS], b[LP_BLOCK * LP_KEYS];
    lp_tree2(a, q, panel, dk_pad, 0);
    lp_tree2(b, q, panel, dk_pad, 1);
    lp_add_block(a, b);
    for (int r = 0; r < LP_BLOCK; r++) {
        for (int w = 0; w < LP_KEYS; w++) {
            v_store(s + r * LP_TILE + 16 * w, a[r * LP_KEYS + w]);
        }
    }
}

/* Dots of n_row rows (a constant) with 16 keys, places j0 .. of the tile, where they lie; head
 * padded to dk_pad. Row and key of a sum in part: 16 / n_row keys (a power of two) at a time. */
LP_INLINE void lp_dots_rows(float *s, const float *q, const char *const *k,
                            const struct lp_ahead *ahead, int j0, int64_t dk_pad, int type,
                            int n_row) {
    const int n_key = n_row == 1 ? 16 : n_row == 2 ? 8 : 4;
    const int step = V_REGS >= 32 ? 4 : 1;
    int64_t size = lp_type_bytes(type);
    for (int j = 0; j < 16; j += n_key) {
        v16 part[16]; /* three rows leave a quarter of it empty */
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            part[i] = v_zero();
        }
#pragma GCC unroll 4
        for (int i = 0; i < n_key; i += step) {
            v16 acc[LP_BLOCK * 4];
#pragma GCC unroll 16
            for (int c = 0; c < n_row * step; c++) {
                acc[c] = v_zero();
            }
            lp_ask_ahead(ahead, j0 + j + i, step, 0, dk_pad * size);
            for (int64_t d = 0; d < dk_pad; d += 16) {
                v16 x[LP_BLOCK];
#pragma GCC unroll 4
                for (int r = 0; r < LP_BLOCK; r++) {
                    x[r] = r < n_row ? v_load(q + r * dk_pad + d) : v_zero();
                }
#pragma GCC unroll 4
                for (int w = 0; w < step; w++) {
                    v16 y = lp_load_as(k[j + i + w] + d * size, type, 16);
#pragma GCC unroll 4
                    for (int r = 0; r < n_row; r++) {
                        acc[r * step + w] = v_fma(x[r], y, acc[r * step + w]);
                    }
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < n_row; r++) {
#pragma GCC unroll 4
                for (int w = 0; w < step; w++) {
                    part[r * n_key + i + w] = acc[r * step + w];
                }
            }
        }
        float sums[16];
        v_store(sums, v_sum16(part));
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            memcpy(s + r * LP_TILE + j, sums + r * n_key, (size_t)n_key * 4);
        }
    }
}

/* What lp_values reads, beside o and p. */
struct lp_value_rows {
    const char *const *v;
    const struct lp_ahead *ahead;
    int64_t dv_pad;
    int from, to; /* places */
};

/* o[r][d] += p[r][j] v[j][d] for the places j in order, of n_dim registers of elements from element
 * d0 on; type, n_row and n_dim are constants. */
LP_INLINE void lp_values(float *o, const float *p, const struct lp_value_rows *x, int type,
                         int64_t d0, int n_row, int n_dim) {
    v16 acc[LP_BLOCK * LP_DIMS];
    int64_t size = lp_type_bytes(type), dv_pad = x->dv_pad;
    int to = x->to;
    o += d0;
#pragma GCC unroll 16
    for (int c = 0; c < n_row * n_dim; c++) {
        acc[c] = v_load(o + c / n_dim * dv_pad + 16 * (c % n_dim));
    }
    for (int j = x->from; j < to; j++) {
        v16 y[LP_DIMS];
        lp_ask_ahead(x->ahead, j, 1, d0 * size, 16 * n_dim * size);
#pragma GCC unroll 4
        for (int d = 0; d < n_dim; d++) {
            y[d] = lp_load_as(x->v[j] + (d0 + 16 * d) * size, type, 16);
        }
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            v16 w = v_set1(p[r * LP_TILE + j]);
#pragma GCC unroll 4
            for (int d = 0; d < n_dim; d++) {
                acc[r * n_dim + d] = v_fma(w, y[d], acc[r * n_dim + d]);
            }
        }
    }
#pragma GCC unroll 16
    for (int c = 0; c < n_row * n_dim; c++) {
        v_store(o + c / n_dim * dv_pad + 16 * (c % n_dim), acc[c]);
    }
}

/* The same for all elements. */
LP_INLINE void lp_values_row(float *o, const float *p, const struct lp_value_rows *x, int type,
                             int n_row) {
    int64_t d = 0;
    for (; d + 16 * LP_DIMS <= x->dv_pad; d += 16 * LP_DIMS) {
        lp_values(o, p, x, type, d, n_row, LP_DIMS);
    }
    for (; d < x->dv_pad; d += 16) {
        lp_values(o, p, x, type, d, n_row, 1);
    }
}
#define LP_BY_ROWS(call, ...)                                                                      \
    switch (n_row * 2 + (type == LP_T_F16)) {                                                      \
    case 2:                                                                                        \
        call(__VA_ARGS__, LP_T_F32, 1);                                                            \
        break;                                                                                     \
    case 3:                                                                                        \
        call(__VA_ARGS__, LP_T_F16, 1);                                                            \
        break;                                                                                     \
    case 4:                                                                                        \
        call(__VA_ARGS__, LP_T_F32, 2);                                                            \
        break;                                                                                     \
    case 5:                                                                                        \
        call(__VA_ARGS__, LP_T_F16, 2);                                                            \
        break;                                                                                     \
    case 6:                                                                                        \
        call(__VA_ARGS__, LP_T_F32, 3);                                                            \
        break;                                                                                     \
    case 7:                                                                                        \
        call(__VA_ARGS__, LP_T_F16, 3);                                                            \
        break;                                                                                     \
    case 8:                                                                                        \
        call(__VA_ARGS__, LP_T_F32, 4);                                                            \
        break;                                                                                     \
    default:                                                                                       \
        call(__VA_ARGS__, LP_T_F16, 4);                                                            \
    }
static void lp_values_any(float *o, const float *p, const struct lp_value_rows *x, int type,
                          int n_row) {
    LP_BY_ROWS(lp_values_row, o, p, x)
}
static void lp_dots_any(float *s, const float *q, const char *const *k,
                        const struct lp_ahead *ahead, int j0, int64_t dk_pad, int type, int n_row) {
    LP_BY_ROWS(lp_dots_rows, s, q, k, ahead, j0, dk_pad)
}
