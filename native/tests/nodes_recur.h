/* Nodes of the recurrent families: several runs, fresh ones, one without tokens, gaps. */
#ifndef LP_TESTS_NODES_RECUR_H
#define LP_TESTS_NODES_RECUR_H

#include "node.h"

enum { CELLS = 5, TOKENS = 7 };

/* The state with its last axis counting CELLS, and the runs as source `last`. */
static void state_and_runs(struct trial *t, struct shape s, int axis, int last) {
    static const int32_t runs[][4] = {
        {0, 3, 2, 4}, {3, 1, -1, 0}, {7, 0, 2, 1}, {4, 3, -1, 3}, {0, 0, -1, -1}};
    const int64_t n = (int64_t)(sizeof runs / sizeof runs[0]);
    s.ne[axis] = CELLS;
    operand(t, 0, "f32", s, 0);
    place(t, last, "i32", SHAPE(4, n), 0);
    put(t->memory[last], runs, sizeof runs);
    t->writes_state = true;
}
/* An operand whose values are times 2^-power, so that a state of them stays small. */
static void small(struct trial *t, int slot, struct shape s, int power) {
    struct lp_opnd *o = operand(t, slot, "f32", s, 12);
    float scale = 1.0f;
    for (int i = 0; i < power; i++) {
        scale *= 0.5f;
    }
    for (int64_t r = 0; r < o->ne[1] * o->ne[2] * o->ne[3]; r++) {
        char *row = row_at(t, slot, o, r);
        for (int64_t i = 0; i < o->ne[0]; i++) {
            float x;
            put(&x, row + i * 4, 4);
            x *= scale;
            put(row + i * 4, &x, 4);
        }
    }
}

static void ssm_conv(struct trial *t) {
    for (int64_t d = 2; d < 6; d++) {
        for (int64_t n = 1; n < 90; n += 35) {
            state_and_runs(t, SHAPE(d - 1, n), 2, 3);
            small(t, 1, SHAPE(n, TOKENS), 0);
            small(t, 2, SHAPE(d, n), 0);
            place(t, DST, "f32", SHAPE(n, TOKENS), 4);
            compute(t);
        }
    }
}

static void ssm_scan(struct trial *t) {
    /* d_state, d_head, n_head, n_group */
    static const int64_t sizes[][4] = {
        {16, 1, 37, 1}, {5, 3, 4, 2}, {128, 34, 2, 1}, {40, 1, 6, 3}, {1, 2, 3, 1}};
    for (int i = 0; i < 10; i++) {
        const int64_t *s = sizes[i / 2];
        state_and_runs(t, SHAPE(s[0], s[1], s[2]), 3, 6);
        small(t, 1, SHAPE(s[1], s[2], TOKENS), 0);
        small(t, 2, SHAPE(s[2], TOKENS), 0);
        small(t, 3, SHAPE(i % 2 ? s[0] : 1, s[2]), 3);
        small(t, 4, SHAPE(s[0], s[3], TOKENS), 0);
        small(t, 5, SHAPE(s[0], s[3], TOKENS), 0);
        place(t, DST, "f32", SHAPE(s[1] * s[2], TOKENS), 4);
        compute(t);
    }
}

static void gated_delta_net(struct trial *t) {
    /* d_k, d_v, n_head_k, n_head_v */
    static const int64_t sizes[][4] = {{128, 128, 1, 2}, {16, 35, 2, 6}, {37, 3, 3, 3}};
    for (int i = 0; i < 12; i++) {
        const int64_t *s = sizes[i / 4];
        state_and_runs(t, SHAPE(s[0], s[1], s[3]), 3, 6);
        small(t, 1, SHAPE(s[0], s[2], TOKENS), 3);
        small(t, 2, SHAPE(s[0], s[2], TOKENS), 4);
        small(t, 3, SHAPE(s[1], s[3], TOKENS), 0);
        small(t, 4, i % 2 ? SHAPE(s[0], s[3], TOKENS) : SHAPE(s[3], TOKENS), 3);
        small(t, 5, SHAPE(s[3], TOKENS), 2);
        t->node.ip[0] = i / 2 % 2;
        t->node.fp[0] = 0.25;
        place(t, DST, "f32", SHAPE(s[1], s[3], TOKENS), 4);
        compute(t);
    }
}

static void token_shift(struct trial *t) {
    for (int64_t n = 1; n < 3000; n = 3 * n + 20) {
        state_and_runs(t, SHAPE(n), 1, 2);
        small(t, 1, SHAPE(n, TOKENS), 0);
        place(t, DST, "f32", SHAPE(n, TOKENS), 4);
        compute(t);
    }
}

/* d_k, d_v, n_head */
static const int64_t head_sizes[][3] = {{64, 64, 2}, {16, 35, 3}, {37, 3, 1}};

/* Sources [first, last] of d_k, but for v. */
static void vectors(struct trial *t, const int64_t *s, int first, int last, int v) {
    for (int i = first; i <= last; i++) {
        small(t, i, SHAPE(i == v ? s[1] : s[0], s[2], TOKENS), i == v ? 0 : 3);
    }
    place(t, DST, "f32", SHAPE(s[1], s[2], TOKENS), 4);
}
static void gated_linear_attn(struct trial *t) {
    for (int i = 0; i < 6; i++) {
        const int64_t *s = head_sizes[i / 2];
        state_and_runs(t, SHAPE(s[0], s[1], s[2]), 3, 5);
        vectors(t, s, 1, i % 2 ? 4 : 3, 3);
        if (i % 2 == 0) {
            small(t, 4, SHAPE(s[2]), 2);
        }
        t->node.fp[0] = 0.25;
        compute(t);
    }
}
static void rwkv_wkv6(struct trial *t) {
    for (int i = 0; i < 3; i++) {
        const int64_t *s = head_sizes[i];
        state_and_runs(t, SHAPE(s[0], s[1], s[2]), 3, 6);
        vectors(t, s, 1, 4, 3);
        small(t, 5, SHAPE(s[0], s[2]), 0);
        compute(t);
    }
}
static void rwkv_wkv7(struct trial *t) {
    for (int i = 0; i < 3; i++) {
        const int64_t *s = head_sizes[i];
        state_and_runs(t, SHAPE(s[0], s[1], s[2]), 3, 7);
        vectors(t, s, 1, 6, 4);
        compute(t);
    }
}

#endif
