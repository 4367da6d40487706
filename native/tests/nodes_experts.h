/* Nodes of mixtures of experts. */
#ifndef LP_TESTS_NODES_EXPERTS_H
#define LP_TESTS_NODES_EXPERTS_H

#include "nodes_products.h"

/* Ids [n_used, n_tokens]; for one token neighbours, which differ while n_used <= n_expert. */
static void routes(struct trial *t, int slot, int64_t n_used, int64_t n_tokens, int64_t n_expert) {
    place(t, slot, "i32", SHAPE(n_used, n_tokens), 0);
    for (int64_t i = 0; i < n_tokens; i++) {
        const int64_t first = below(t, n_expert);
        for (int64_t u = 0; u < n_used; u++) {
            const int32_t id = (int32_t)((first + u) % n_expert);
            put(t->memory[slot] + 4 * (i * n_used + u), &id, 4);
        }
    }
}

static void mul_mat_id(struct trial *t) {
    /* m, n_expert, n_used, n_tokens */
    static const int64_t sizes[][4] = {{9, 5, 2, 1}, {35, 3, 3, 1}, {40, 4, 2, 13}, {33, 6, 1, 4}};
    const char *w = t->kernel->wtype, *x = t->kernel->xtype;
    for (int i = 0; i < 8; i++) {
        const int64_t *z = sizes[i / 2], each = i % 2 ? z[2] : 1;
        const int64_t k = length_of(w, i % 2), m = rows_of(t, z[0]), gap = i > 3;
        operand(t, 0, w, SHAPE(k, m, z[1]), gap && !interleaved(w) ? gap_of(w) : 0);
        operand(t, 1, x, SHAPE(k, each, z[3]), gap ? gap_of(x) : 0);
        routes(t, 2, z[2], z[3], z[1]);
        place(t, DST, "f32", SHAPE(m, z[2], z[3]), gap ? 12 : 0);
        multiply(t);
    }
}

static void top_k_ids(struct trial *t) {
    /* n_expert, n_tokens, k, n_group, n_group_used */
    static const int64_t sizes[][5] = {
        {1, 1, 1, 1, 1}, {8, 5, 2, 1, 1}, {60, 3, 4, 1, 1}, {256, 2, 8, 8, 4}, {12, 9, 3, 4, 1}};
    for (int i = 0; i < 10; i++) {
        const int64_t *z = sizes[i / 2];
        const struct lp_opnd *o = operand(t, 0, "f32", SHAPE(z[0], z[1]), 0);
        for (int64_t at = 0; i % 2 && at < o->ne[0] * o->ne[1]; at++) {
            const float tied = (float)below(t, 3);
            put(t->memory[0] + 4 * at, &tied, 4);
        }
        memcpy(t->node.ip, z + 2, 3 * sizeof *z);
        place(t, DST, "i32", SHAPE(z[2], z[1]), 0);
        compute(t);
    }
}

static void highest(struct trial *t) {
    for (int64_t n = 1; n < 300; n += 37) {
        operand(t, 0, "f32", SHAPE(n, 5), n % 2 ? 12 : 0);
        place(t, DST, "i32", SHAPE(5), 0);
        compute(t);
    }
}

/* Lengths that let rows be passed over; places that are not taken every other time. */
static void highest_sum(struct trial *t) {
    const char *w = t->kernel->wtype;
    for (int i = 0; length_of(w, i); i++) {
        for (int64_t m = 5; m < 300; m += 98) {
            const int64_t k = length_of(w, i), rows = rows_of(t, m);
            operand(t, 0, "f32", SHAPE(rows, 3), 12);
            operand(t, 1, w, SHAPE(k, rows), interleaved(w) ? 0 : gap_of(w));
            interleave(t, 1);
            operand(t, 2, "x8", SHAPE(k, 3), 12);
            operand(t, 3, "f32", SHAPE(rows), 0);
            for (int64_t r = 0; r < rows; r++) {
                const float length = (float)below(t, 1 << 20) * 0x1p-22f;
                put(t->memory[3] + 4 * r, &length, 4);
            }
            if (m % 2) {
                const int32_t never = (int32_t)below(t, rows);
                place(t, 4, "i32", SHAPE(1), 0);
                put(t->memory[4], &never, 4);
            }
            t->node.fp[0] = 0.25;
            place(t, DST, "i32", SHAPE(3), 0);
            compute(t);
        }
    }
}

static void take_ids(struct trial *t) {
    for (int64_t n = 1; n < 70; n += 17) {
        operand(t, 0, "f32", SHAPE(n, 5), 12);
        routes(t, 1, n > 4 ? 4 : n, 5, n);
        place(t, DST, "f32", SHAPE(n > 4 ? 4 : n, 5), 0);
        compute(t);
    }
}

static void add_id(struct trial *t) {
    for (int64_t n = 1; n < 200; n += 61) {
        operand(t, 0, "f32", SHAPE(n, 3, 2), 12);
        operand(t, 1, "f32", SHAPE(n, 5), 4);
        routes(t, 2, 3, 2, 5);
        if (n == 62) {
            onto(t, 0);
        } else {
            place(t, DST, "f32", SHAPE(n, 3, 2), 0);
        }
        compute(t);
    }
}

static void weighted_sum(struct trial *t) {
    for (int64_t n = 1; n < 200; n += 61) {
        for (int weights = 0; weights < 2; weights++) {
            operand(t, 0, "f32", SHAPE(n, 1 + n % 7, 5), 12);
            if (weights) {
                operand(t, 1, "f32", SHAPE(1 + n % 7, 5), 4);
            }
            place(t, DST, "f32", SHAPE(n, 5), 0);
            compute(t);
        }
    }
}

static void concat(struct trial *t) {
    for (int axis = 0; axis < 4; axis++) {
        struct shape a = SHAPE(67, 3, 2, 2), b = a, both = a;
        b.ne[axis] = 5;
        both.ne[axis] = a.ne[axis] + 5;
        operand(t, 0, "f32", a, 12);
        operand(t, 1, "f32", b, 4);
        t->node.ip[0] = axis;
        place(t, DST, "f32", both, 0);
        compute(t);
    }
}

#endif
