/* Copies between rows. f32 to f16 rounds to nearest even, f16 to f32 is exact.
 *
 * cpy       dst without gaps on axis 0, source with any strides
 * set_rows  dst[:, ids[i, j, k], j, k] = rows[:, i, j, k]; ids repeat along axes 1 and 2
 * An id outside its table is LP_E_INDEX. Ids are i32. */

LP_INLINE void lp_store_as(char *p, int type, v16 x, int n) {
    if (type == LP_T_F16) {
        v_store_f16_n((uint16_t *)p, x, n);
    } else {
        v_store_n((float *)p, x, n);
    }
}
/* n values without gaps; dst and src do not overlap. */
LP_INLINE void lp_copy_run(char *dst, int to, const char *src, int from, int64_t n) {
    if (to == from) {
        memcpy(dst, src, (size_t)(n * lp_type_bytes(to)));
        return;
    }
    int64_t i = 0, ds = lp_type_bytes(to), ss = lp_type_bytes(from);
    for (; i + 16 <= n; i += 16) {
        v16 x = lp_load_as(src + i * ss, from, 16);
        if (to == LP_T_F16) {
            v_store_f16((uint16_t *)(dst + i * ds), x);
        } else {
            v_store((float *)(dst + i * ds), x);
        }
    }
    if (i < n) {
        int rest = (int)(n - i);
        lp_store_as(dst + i * ds, to, lp_load_as(src + i * ss, from, rest), rest);
    }
}

LP_INLINE int lp_cpy(const struct lp_args *a, int64_t task, int to, int from) {
    const struct lp_node *n = a->n;
    int64_t step = n->src[0].nb[0], ss = lp_type_bytes(from), ds = lp_type_bytes(to);
    struct lp_walk w = lp_walk_units(&n->dst, task, n->n_tasks);
    while (lp_walk_next(&w)) {
        const char *src = a->src[0] + lp_row_offs(&n->src[0], w.i) + w.i[0] * step;
        char *dst = a->dst + lp_row_offs(&n->dst, w.i) + w.i[0] * ds;
        if (step == ss) {
            lp_copy_run(dst, to, src, from, w.len);
            continue;
        }
        for (int64_t i = 0; i < w.len; i += 16) {
            char part[64] = {0};
            int m = (int)(w.len - i < 16 ? w.len - i : 16);
            for (int k = 0; k < m; k++) {
                memcpy(part + k * ss, src + (i + k) * step, (size_t)ss);
            }
            lp_copy_run(dst + i * ds, to, part, from, m);
        }
    }
    return LP_OK;
}

LP_INLINE int lp_set_rows(const struct lp_args *a, int64_t task, int to) {
    const struct lp_node *n = a->n;
    struct lp_walk w = lp_walk_units(&n->src[1], task, n->n_tasks);
    while (lp_walk_next(&w)) {
        int64_t id = lp_id_at(a->src[2], &n->src[2], w.i);
        if (id < 0 || id >= n->dst.ne[1]) {
            return LP_E_INDEX;
        }
        int64_t at[4] = {0, id, w.i[2], w.i[3]};
        const char *src = a->src[1] + lp_row_offs(&n->src[1], w.i) + w.i[0] * 4;
        char *dst = a->dst + lp_row_offs(&n->dst, at) + w.i[0] * lp_type_bytes(to);
        lp_copy_run(dst, to, src, LP_T_F32, w.len);
    }
    return LP_OK;
}

#define LP_COPY_KERNEL(name, call)                                                                 \
    int LP_FN(name)(const struct lp_args *a, int64_t task, void *scratch) {                        \
        (void)scratch;                                                                             \
        return call;                                                                               \
    }
LP_COPY_KERNEL(lp_cpy_f32_f32, lp_cpy(a, task, LP_T_F32, LP_T_F32))
LP_COPY_KERNEL(lp_cpy_f32_f16, lp_cpy(a, task, LP_T_F32, LP_T_F16))
LP_COPY_KERNEL(lp_cpy_f16_f32, lp_cpy(a, task, LP_T_F16, LP_T_F32))
LP_COPY_KERNEL(lp_cpy_f16_f16, lp_cpy(a, task, LP_T_F16, LP_T_F16))
LP_COPY_KERNEL(lp_set_rows_f32_f32, lp_set_rows(a, task, LP_T_F32))
LP_COPY_KERNEL(lp_set_rows_f16_f32, lp_set_rows(a, task, LP_T_F16))
