/* Nodes of the row families: odd lengths, gaps between rows, repeated operands, in place. */
#ifndef LP_TESTS_NODES_ROWS_H
#define LP_TESTS_NODES_ROWS_H

#include "node.h"

static const struct shape row_shapes[] = {
    {{1}}, {{5, 3}}, {{16, 2}}, {{33, 3}}, {{70, 1}}, {{67, 2, 3, 2}}, {{576, 2}},
};
#define N_ROW_SHAPES (int)(sizeof row_shapes / sizeof row_shapes[0])

/* One row whose elements are given. */
static void given(struct trial *t, int slot, const float *x, int64_t n) {
    place(t, slot, "f32", SHAPE(n), 0);
    put(t->memory[slot], x, (size_t)n * 4);
}
static void parameters(struct trial *t, double a, double b) {
    t->node.fp[0] = a;
    t->node.fp[1] = b;
}

static void one_value_with(struct trial *t, double a, double b) {
    /* Zeros, subnormals, the edges of exp, tanh and erf, and the largest. */
    static const float edges[] = {0.0f,     -0.0f, 1e-45f, -1e-45f, 1e-38f,  -1e-39f, 3.4e38f,
                                  -3.4e38f, 88.7f, 88.8f,  -87.4f,  -103.9f, -104.1f, 0.55f,
                                  -0.55f,   1.0f,  4.0f,   -4.0f,   5e4f,    -5e4f,   2.5f};
    for (int i = 0; i < N_ROW_SHAPES; i++) {
        operand(t, 0, "f32", row_shapes[i], 12);
        parameters(t, a, b);
        place(t, DST, "f32", row_shapes[i], 4);
        compute(t);
    }
    given(t, 0, edges, 21);
    parameters(t, a, b);
    place(t, DST, "f32", SHAPE(21), 0);
    compute(t);
    operand(t, 0, "f32", SHAPE(41, 3), 8);
    parameters(t, a, b);
    onto(t, 0);
    compute(t);
}
static void one_value(struct trial *t) {
    one_value_with(t, 0, 0);
}
static void clamped(struct trial *t) {
    one_value_with(t, -0.75, 1.5);
}
static void xielu(struct trial *t) {
    static const double fp[] = {0.9, 0.7, 0.5, -1e-6};
    for (int i = 0; i < N_ROW_SHAPES; i++) {
        operand(t, 0, "f32", row_shapes[i], 12);
        memcpy(t->node.fp, fp, sizeof fp);
        place(t, DST, "f32", row_shapes[i], 4);
        compute(t);
    }
}
/* Of ops that are not defined below 0. */
static void one_positive(struct trial *t) {
    static const float edges[] = {0.0f, 1e-45f, 1e-38f, 1e-30f, 0.7f, 0.71f, 1.0f, 3.4e38f};
    for (int i = 0; i < N_ROW_SHAPES; i++) {
        const struct lp_opnd *o = operand(t, 0, "f32", row_shapes[i], 0);
        for (int64_t at = 0; at < t->bytes[0]; at += 4) {
            t->memory[0][at + 3] &= 0x7f;
        }
        CHECK(o->nb[0] == 4);
        place(t, DST, "f32", row_shapes[i], 4);
        compute(t);
    }
    given(t, 0, edges, 8);
    place(t, DST, "f32", SHAPE(8), 0);
    compute(t);
}
static void whole_rows(struct trial *t) {
    const int summed = !strcmp(t->kernel->family, "sum_rows");
    for (int i = 0; i < N_ROW_SHAPES; i++) {
        struct shape s = row_shapes[i];
        operand(t, 0, "f32", s, 12);
        s.ne[0] = summed ? 1 : s.ne[0];
        parameters(t, 1e-6, 0);
        place(t, DST, "f32", s, 4);
        compute(t);
    }
}
static void scaled(struct trial *t) {
    one_value_with(t, 0.37, -1.5);
}
static void capped(struct trial *t) {
    one_value_with(t, 30.0, 0);
}

static void two_values(struct trial *t) {
    for (int i = 0; i < N_ROW_SHAPES; i++) {
        const struct shape s = row_shapes[i];
        const struct shape others[] = {s, {{1}}, {{s.ne[0]}}, {{1, s.ne[1], s.ne[2], s.ne[3]}}};
        for (int j = 0; j < 4; j++) {
            operand(t, 0, "f32", s, 12);
            operand(t, 1, "f32", others[j], 4);
            place(t, DST, "f32", s, 0);
            compute(t);
        }
    }
    for (int in = 0; in < 2; in++) {
        operand(t, 0, "f32", SHAPE(41, 6), 0);
        operand(t, 1, "f32", SHAPE(41, 6), 0);
        onto(t, in);
        compute(t);
    }
}

static void gated(struct trial *t, const char *out, const int64_t *lengths, int n) {
    for (int i = 0; i < n; i++) {
        for (int64_t rows = 1; rows < 4; rows += 2) {
            operand(t, 0, "f32", SHAPE(lengths[i], rows), 12);
            operand(t, 1, "f32", SHAPE(lengths[i], rows), 4);
            place(t, DST, out, SHAPE(lengths[i], rows), 0);
            parameters(t, 1.702, 1.5); /* of swiglu_oai */
            compute(t);
            operand(t, 0, "f32", SHAPE(2 * lengths[i], rows), 12);
            parameters(t, 1.702, 1.5);
            place(t, DST, out, SHAPE(lengths[i], rows), 0);
            compute(t);
        }
    }
}
static void gated_float(struct trial *t) {
    gated(t, "f32", (const int64_t[]){1, 15, 67, 320}, 4);
    operand(t, 0, "f32", SHAPE(64, 3), 0);
    operand(t, 1, "f32", SHAPE(64, 3), 0);
    onto(t, 1);
    compute(t);
}
static void gated_quant(struct trial *t) {
    gated(t, "x8", (const int64_t[]){32, 96, 640}, 3);
}

static void norm(struct trial *t, const char *out, const int64_t *lengths, int n) {
    const int most = strncmp(t->kernel->family, "norm", 4) ? 2 : 3; /* operands */
    for (int i = 0; i < n; i++) {
        for (int weight = strcmp(out, "f32") ? 1 : 0; weight < most; weight++) {
            const struct shape s = SHAPE(lengths[i], 3, 2);
            operand(t, 0, "f32", s, 12);
            if (weight) {
                operand(t, 1, "f32", SHAPE(lengths[i]), 0);
            }
            if (weight > 1) {
                operand(t, 2, "f32", SHAPE(lengths[i]), 0);
            }
            place(t, DST, out, s, 0);
            parameters(t, 1e-5, 0);
            compute(t);
        }
    }
}
static void norm_float(struct trial *t) {
    norm(t, "f32", (const int64_t[]){1, 7, 16, 37, 70, 576}, 6);
}
static void norm_quant(struct trial *t) {
    norm(t, "x8", (const int64_t[]){32, 96, 576}, 3);
}

static void quant_act(struct trial *t) {
    static const struct shape shapes[] = {{{32}}, {{64, 3}}, {{96, 3, 2}}, {{1056, 1}}};
    float edges[6 * 32] = {0};
    for (int i = 0; i < 4; i++) {
        operand(t, 0, "f32", shapes[i], 12);
        place(t, DST, "x8", shapes[i], 0);
        compute(t);
    }
    for (int i = 0; i < 32; i++) {
        edges[32 + i] = 1e-42f;                      /* 127 / max overflows */
        edges[96 + i] = (float)(8 * i - 124);        /* max 124 */
        edges[128 + i] = (float)(2 * i - 31) * 0.5f; /* halves under a max of 127 */
    }
    edges[64 + 3] = __builtin_inff();
    edges[128] = 127.0f;
    edges[160 + 7] = 1e-38f;
    given(t, 0, edges, 192);
    place(t, DST, "x8", SHAPE(192), 0);
    compute(t);
}
static void quant_act_pair(struct trial *t) {
    for (int64_t n = 1; n < 4; n++) {
        operand(t, 0, "f32", SHAPE(n * n * 32, n), 12);
        place(t, DST, "x8", SHAPE(n * n * 32, 2, n), 0);
        compute(t);
    }
}

/* Lengths that both types of a copy can hold. */
static int64_t whole(const struct trial *t, int64_t n) {
    const int64_t a = type_of(t->kernel->wtype)->block, b = type_of(t->kernel->xtype)->block;
    const int64_t block = a > b ? a : b;
    return (n + block - 1) / block * block;
}
static void cpy(struct trial *t) {
    const char *to = t->kernel->wtype, *from = t->kernel->xtype;
    /* Around the largest f16, its subnormals, and halves to even. */
    static const float edges[32] = {65519.0f,   65520.0f,    -7e4f,       0x1p-24f, 0x1p-25f,
                                    0x1.8p-24f, 6.1e-5f,     6.09e-5f,    0.0f,     -0.0f,
                                    1e-30f,     2049.0f,     2051.0f,     1e9f,     -1.0f,
                                    0x1.8p-25f, -0x1.8p-24f, 0x1.ffcp-15f};
    for (int i = 0; i < N_ROW_SHAPES; i++) {
        struct shape s = row_shapes[i];
        s.ne[0] = whole(t, s.ne[0]);
        operand(t, 0, from, s, 12);
        place(t, DST, to, s, 0);
        compute(t);
    }
    const int64_t n = whole(t, 35);
    struct lp_opnd *o = operand(t, 0, from, SHAPE(n, 19, 3), 12); /* axes 1 and 2 change places */
    place(t, DST, to, SHAPE(n, 3, 19), 0);
    const int64_t nb1 = o->nb[1];
    o->ne[1] = 3, o->nb[1] = o->nb[2];
    o->ne[2] = 19, o->nb[2] = nb1;
    compute(t);
    if (type_of(from)->block * type_of(to)->block == 1) { /* axes 0 and 1 do */
        o = operand(t, 0, from, SHAPE(35, 19), 12);
        place(t, DST, to, SHAPE(19, 35), 0);
        const int64_t nb0 = o->nb[0];
        o->ne[0] = 19, o->nb[0] = o->nb[1];
        o->ne[1] = 35, o->nb[1] = nb0;
        compute(t);
    }
    if (!strcmp(from, "f32")) {
        given(t, 0, edges, 32);
        place(t, DST, to, SHAPE(32), 0);
        compute(t);
    }
}

static void set_rows(struct trial *t) {
    static const struct shape sources[] = {{{1, 1}}, {{40, 3}}, {{576, 7}}, {{24, 4, 2}}};
    for (int i = 0; i < 4; i++) {
        struct shape s = sources[i];
        s.ne[0] = whole(t, s.ne[0]);
        operand(t, 0, t->kernel->wtype, SHAPE(s.ne[0], 19, s.ne[2]), 12);
        operand(t, 1, t->kernel->xtype, s, 4);
        const struct lp_opnd *o = place(t, 2, "i32", SHAPE(s.ne[1], s.ne[2]), 0);
        for (int64_t r = 0; r < o->ne[0] * o->ne[1]; r++) {
            const int32_t id = (int32_t)((7 * r + 3) % 19); /* all different in a plane */
            put(t->memory[2] + 4 * r, &id, 4);
        }
        onto(t, 0);
        compute(t);
    }
}

static void positions(struct trial *t, int slot, int64_t n, int64_t limit) {
    place(t, slot, "i32", SHAPE(n), 0);
    for (int64_t i = 0; i < n; i++) {
        const int32_t at = (int32_t)below(t, limit);
        put(t->memory[slot] + 4 * i, &at, 4);
    }
}
static void rope_parameters(struct trial *t, int64_t n_dims, int64_t mode, int kind) {
    const int64_t ip[] = {n_dims, mode, 4096};
    const double fp[] = {kind == 2 ? 5e5 : 1e4, kind == 1 ? 0.25 : 1.0, kind == 1, 1.0, 32.0, 1.0};
    memcpy(t->node.ip, ip, sizeof ip);
    memcpy(t->node.fp, fp, sizeof fp);
}
static void factors(struct trial *t, int slot, int64_t n_pairs) {
    place(t, slot, "f32", SHAPE(n_pairs), 0);
    for (int64_t i = 0; i < n_pairs; i++) {
        const float factor = 1.0f + (float)below(t, 1 << 20) * 0x1p-18f;
        put(t->memory[slot] + 4 * i, &factor, 4);
    }
}
/* Modes with four positions a token: mode, n_dims, sections. */
static const int64_t rope_turns[][5] = {{8, 48, 6, 9, 9}, {40, 48, 8, 8, 8}, {24, 24, 12, 12, 0}};
/* Plain, with YaRN, with a factor per frequency; then the modes with four positions a token. */
static void rope(struct trial *t) {
    static const int64_t sizes[][4] = {{64, 64, 3, 5}, {80, 64, 1, 1}, {36, 20, 2, 3}};
    for (int i = 0; i < 18; i++) {
        const int64_t *z = sizes[i / 6];
        operand(t, 0, "f32", SHAPE(z[0], z[2], z[3]), 12);
        positions(t, 1, z[3], 100000);
        rope_parameters(t, z[1], i % 2 * 2, i / 2 % 3);
        if (i / 2 % 3 == 2) {
            factors(t, 2, z[1] / 2);
        }
        if (i % 2) {
            onto(t, 0);
        } else {
            place(t, DST, "f32", SHAPE(z[0], z[2], z[3]), 0);
        }
        compute(t);
    }
    for (int i = 0; i < 3; i++) {
        const int64_t *turn = rope_turns[i];
        operand(t, 0, "f32", SHAPE(48, 2, 4), 12);
        positions(t, 1, 16, 1000);
        rope_parameters(t, turn[1], turn[0], 0);
        memcpy(&t->node.ip[3], &turn[2], 3 * sizeof turn[2]);
        place(t, DST, "f32", SHAPE(48, 2, 4), 0);
        compute(t);
    }
}
static void rope_table(struct trial *t) {
    for (int i = 0; i < 6; i++) {
        positions(t, 0, 5, 100000);
        rope_parameters(t, 36, i % 2 * 2, i / 2);
        if (i / 2 == 2) {
            factors(t, 1, 18);
        }
        place(t, DST, "f32", SHAPE(i % 2 ? 36 : 72, 5), 4);
        compute(t);
    }
    for (int i = 0; i < 3; i++) {
        positions(t, 0, 16, 1000);
        rope_parameters(t, rope_turns[i][1], rope_turns[i][0], 0);
        memcpy(&t->node.ip[3], &rope_turns[i][2], 3 * sizeof rope_turns[i][2]);
        place(t, DST, "f32", SHAPE(48, 4), 0);
        compute(t);
    }
}
static void rope_apply(struct trial *t) {
    static const int64_t widths[][2] = {{64, 64}, {80, 64}, {36, 20}, {20, 18}};
    for (int i = 0; i < 8; i++) {
        const int64_t *w = widths[i / 2];
        operand(t, 0, "f32", SHAPE(w[0], 3, 5, 2), 12);
        operand(t, 1, "f32", SHAPE(i % 2 ? w[1] : 2 * w[1], 5), 4);
        t->node.ip[0] = i % 2 * 2;
        if (i % 4 == 3) {
            onto(t, 0);
        } else {
            place(t, DST, "f32", SHAPE(w[0], 3, 5, 2), 0);
        }
        compute(t);
    }
}
static void rope_set_rows(struct trial *t) {
    static const int64_t widths[][2] = {{64, 64}, {80, 64}, {36, 20}, {20, 18}};
    for (int i = 0; i < 8; i++) {
        const int64_t *w = widths[i / 2];
        operand(t, 0, t->kernel->wtype, SHAPE(w[0], 11, 3), 12);
        operand(t, 1, "f32", SHAPE(w[0], 3, 5), 4);
        place(t, 2, "i32", SHAPE(5), 0);
        for (int64_t r = 0; r < 5; r++) {
            const int32_t id = (int32_t)((7 * r + 3) % 11);
            put(t->memory[2] + 4 * r, &id, 4);
        }
        operand(t, 3, "f32", SHAPE(i % 2 ? w[1] : 2 * w[1], 5), 4);
        t->node.ip[0] = i % 2 * 2;
        onto(t, 0);
        compute(t);
    }
}

#endif
