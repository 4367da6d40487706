/* Nodes of matmul, get_rows and attention. */
#ifndef LP_TESTS_NODES_PRODUCTS_H
#define LP_TESTS_NODES_PRODUCTS_H

#include "node.h"

/* A gap that keeps elements aligned as their type wants. */
static int64_t gap_of(const char *type) {
    return strcmp(type, "f32") && strcmp(type, "x8") ? 6 : 12;
}
/* The i-th row length to try, 0 behind the last. */
static int64_t length_of(const char *type, int i) {
    static const int64_t floats[] = {1, 15, 33, 100, 0}, blocks[] = {1, 3, 9, 0};
    const int64_t block = type_of(type)->block;
    if (block == 1) {
        return floats[i];
    }
    return block == 256 && i == 2 ? 0 : blocks[i] * block;
}

/* Rows of interleaved weights come in eights, without gaps. */
static int64_t rows_of(const struct trial *t, int64_t m) {
    return interleaved(t->kernel->wtype) ? (m + 7) / 8 * 8 : m;
}
static void product(struct trial *t, struct shape w, struct shape x, int64_t gap) {
    const char *wtype = t->kernel->wtype, *xtype = t->kernel->xtype;
    w.ne[1] = rows_of(t, w.ne[1]);
    operand(t, 0, wtype, w, gap && !interleaved(wtype) ? gap_of(wtype) : 0);
    operand(t, 1, xtype, x, gap ? gap_of(xtype) : 0);
    place(t, DST, "f32", SHAPE(w.ne[1], x.ne[1], x.ne[2], x.ne[3]), gap);
}
/* Interleave the weights in a slot, if the kernel wants that. */
static void interleave(struct trial *t, int slot) {
    const char *wtype = t->kernel->wtype;
    for (int64_t i = 0; interleaved(wtype) && i < lp_kernel_count(); i++) {
        const struct lp_kernel *k = lp_kernel_at(i);
        if (strcmp(k->family, "repack") || strcmp(k->wtype, wtype)) {
            continue;
        }
        char *out = malloc((size_t)t->bytes[slot]);
        CHECK(out);
        struct lp_node n = {.kernel = (uint64_t)i, .n_src = 1, .dst = t->node.src[slot]};
        n.src[0] = t->node.src[slot];
        const struct lp_args args = {.n = &n, .dst = out, .src = {t->memory[slot]}};
        for (int64_t task = k->split(&n, 1); task-- > 0;) {
            CHECK(k->run(&args, task, NULL) == LP_OK);
        }
        free(t->memory[slot]);
        t->memory[slot] = out;
    }
}
static void multiply(struct trial *t) {
    interleave(t, 0);
    compute(t);
}
/* A bias, a value per column, a residual with gaps, a residual in the destination's memory. */
static void products_added(struct trial *t, int64_t k) {
    for (int64_t n = 1; n < 8; n += 3) {
        for (int kind = 0; kind < 4; kind++) {
            const int64_t m = rows_of(t, 43);
            product(t, SHAPE(k, m), SHAPE(k, n), 0);
            operand(t, 2, "f32", SHAPE(kind == 1 ? 1 : m, kind == 0 ? 1 : n), kind == 2 ? 20 : 0);
            if (kind == 3) {
                onto(t, 2);
            }
            multiply(t);
        }
    }
}
/* Largest magnitudes: weights of equal bytes under the largest scales, activations of +-127. */
static void products_extreme(struct trial *t, int64_t k) {
    static const uint8_t bytes[] = {0xff, 0x00, 0x80, 0x7f};
    const struct type *y = type_of(t->kernel->wtype);
    const int8_t high = 127, low = -127;
    for (int64_t n = 3; n < 8; n += 4) {
        product(t, SHAPE(k, 13), SHAPE(k, n), 0);
        for (int64_t b = 0; b < rows_of(t, 13) * k / y->block; b++) {
            uint8_t *p = (uint8_t *)t->memory[0] + b * y->bytes;
            const uint16_t scale = b % 8 < 4 ? 0x7b53 : 0xfb53; /* +-6e4 */
            memset(p, bytes[b % 4], (size_t)y->bytes);
            for (int i = 0; i < y->n_half; i++) {
                put(p + y->halves[i], &scale, 2);
            }
            if (y->scale) {
                y->scale(p);
            }
        }
        for (int64_t c = 0; c < n; c++) {
            char *q = t->memory[1] + c * t->node.src[1].nb[1];
            for (int64_t g = 0; g < k / 32; g++) {
                int32_t sum = 0;
                for (int64_t i = g * 32; i < g * 32 + 32; i++) {
                    const int8_t v = c % 3 == 1 || (c % 3 == 2 && i % 2) ? low : high;
                    put(q + i, &v, 1);
                    sum += v;
                }
                put(q + k + k / 32 * 4 + g * 4, &sum, 4);
            }
        }
        multiply(t);
    }
}
static void mul_mat(struct trial *t) {
    static const int64_t sizes[][2] = {{1, 1}, {9, 1}, {35, 2}, {7, 3}, {33, 4}, {40, 7}, {34, 13}};
    const char *w = t->kernel->wtype;
    for (int i = 0; length_of(w, i); i++) {
        const int64_t k = length_of(w, i);
        for (int j = 0; j < 7; j++) {
            product(t, SHAPE(k, sizes[j][0]), SHAPE(k, sizes[j][1]), 0);
            multiply(t);
        }
    }
    const int64_t k = length_of(w, 1);
    for (int64_t n = 3; n < 12; n += 5) {
        product(t, SHAPE(k, 37), SHAPE(k, n), 12);
        multiply(t);
        product(t, SHAPE(k, 11, 2), SHAPE(k, n, 4, 2), 0);
        multiply(t);
    }
    products_added(t, k);
    if (!strcmp(t->kernel->xtype, "x8")) {
        products_extreme(t, k);
    }
}

static void repack(struct trial *t) {
    const char *w = t->kernel->xtype;
    for (int i = 0; length_of(w, i); i++) {
        for (int64_t planes = 1; planes < 3; planes++) {
            const int64_t k = length_of(w, i), m = 8 * (1 + 40 * (planes - 1));
            operand(t, 0, w, SHAPE(k, m, planes), 0);
            place(t, DST, t->kernel->wtype, SHAPE(k, m, planes), 0);
            compute(t);
        }
    }
}

static void get_rows(struct trial *t) {
    const char *w = t->kernel->wtype;
    for (int i = 0; length_of(w, i); i++) {
        for (int64_t planes = 1; planes < 3; planes++) {
            const int64_t k = length_of(w, i);
            operand(t, 0, w, SHAPE(k, 19, planes), gap_of(w));
            place(t, 1, "i32", SHAPE(7, planes), 0);
            for (int64_t j = 0; j < 7 * planes; j++) {
                const int32_t id = j ? (int32_t)below(t, 19) : 18;
                put(t->memory[1] + 4 * j, &id, 4);
            }
            place(t, DST, "f32", SHAPE(k, 7, planes), 0);
            compute(t);
        }
    }
}

/* n_tokens queries behind n_past places of one list, cells in random order; holes: in 1 of so many
 * places there is no cell. */
struct attention {
    int64_t n_head, n_head_kv, dk, dv, n_tokens, n_past, n_places, window, holes;
    double max_bias, softcap;
    int sinks;
};
static const struct attention attentions[] = {
    {9, 3, 64, 64, 1, 150, 256, 0, 0, 0, 0, 0},   {4, 1, 32, 96, 21, 0, 64, 0, 0, 0, 0, 0},
    {2, 2, 40, 24, 5, 70, 128, 0, 0, 0, 0, 0},    {5, 1, 1, 3, 9, 60, 128, 0, 0, 0, 0, 0},
    {8, 2, 64, 32, 19, 100, 192, 37, 3, 0, 0, 0}, {6, 3, 32, 32, 7, 70, 128, 0, 0, 0, 5.0, 0},
    {6, 3, 32, 32, 7, 70, 128, 0, 0, 8.0, 0, 0},  {6, 3, 32, 64, 3, 70, 128, 0, 2, 0, 0, 1},
    {2, 1, 96, 32, 2, 20, 64, 0, 0, 0, 0, 1},
};

/* What a cache may hold. Every type meets every other over the list above. */
static const char *const cache_types[] = {"f32",  "f16",  "bf16", "q8_0",  "q5_1",
                                          "q5_0", "q4_1", "q4_0", "iq4_nl"};
#define N_CACHE_TYPES (sizeof cache_types / sizeof cache_types[0])

static void attention_cells(struct trial *t, const struct attention *a) {
    const int64_t n_cells = a->n_places + 7;
    int32_t cells[512];
    for (int64_t i = 0; i < n_cells; i++) { /* a random order, grown from the front */
        const int64_t j = below(t, i + 1);
        cells[i] = cells[j];
        cells[j] = (int32_t)i;
    }
    place(t, 3, "i32", SHAPE(a->n_places, 1), 0);
    for (int64_t i = 0; i < a->n_places; i++) {
        if (i >= a->n_past + a->n_tokens || (a->holes && below(t, a->holes) == 0)) {
            cells[i] = -1;
        }
        put(t->memory[3] + 4 * i, &cells[i], 4);
    }
    place(t, 4, "i32", SHAPE(4, a->n_tokens), 0);
    for (int64_t i = 0; i < a->n_tokens; i++) {
        const int64_t own = a->n_past + i, first = own + 1 - a->window;
        const int32_t range[4] = {0, (int32_t)(a->window && first > 0 ? first : 0),
                                  (int32_t)own + 1, (int32_t)own};
        put(t->memory[4] + 16 * i, range, 16);
    }
}
static int quantises(const struct trial *t) {
    return strstr(t->kernel->family, "_quant") != NULL;
}
static void attention(struct trial *t, const struct attention *a, const char *k, const char *v,
                      int parts) {
    const int64_t n_cells = a->n_places + 7;
    operand(t, 0, "f32", SHAPE(a->dk, a->n_head, a->n_tokens), 12);
    operand(t, 1, k, SHAPE(a->dk, a->n_head_kv, n_cells), gap_of(k));
    operand(t, 2, v, SHAPE(a->dv, a->n_head_kv, n_cells), gap_of(v));
    attention_cells(t, a);
    if (parts) {
        place(t, DST, "f32", SHAPE(a->dv + 2, a->n_places / 64, a->n_head, a->n_tokens), 0);
    } else {
        if (a->sinks) {
            operand(t, 5, "f32", SHAPE(a->n_head), 0);
        }
        place(t, DST, quantises(t) ? "x8" : "f32", SHAPE(a->dv * a->n_head, a->n_tokens), 0);
    }
    t->node.fp[0] = 0.125;
    t->node.fp[1] = a->max_bias;
    t->node.fp[2] = a->softcap;
    compute(t);
}
static void attention_nodes(struct trial *t, int parts) {
    for (size_t i = 0; i < sizeof attentions / sizeof attentions[0]; i++) {
        const struct attention *a = &attentions[i];
        for (size_t j = 0; j < N_CACHE_TYPES; j++) {
            const char *k = cache_types[j], *v = cache_types[(j + i) % N_CACHE_TYPES];
            if (a->dk % type_of(k)->block == 0 && a->dv % type_of(v)->block == 0 &&
                !(quantises(t) && a->dv % 32)) {
                attention(t, a, k, v, parts);
            }
        }
    }
}
static void flash_attn(struct trial *t) {
    attention_nodes(t, 0);
}
static void flash_attn_part(struct trial *t) {
    attention_nodes(t, 1);
}
static void flash_attn_merge(struct trial *t) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1}, {64, 5, 9, 2}, {35, 12, 3, 7}};
    const float unseen = -__builtin_inff(), nothing = 0.0f;
    for (int i = 0; i < 6; i++) {
        const int64_t *z = sizes[i / 2], dv = quantises(t) ? 32 * z[1] : z[0];
        struct lp_opnd *o = operand(t, 0, "f32", SHAPE(dv + 2, z[1], z[2], z[3]), 0);
        for (int64_t r = 0; r < z[1] * z[2] * z[3]; r++) {
            char *p = row_at(t, 0, o, r);
            const float sum = 1.0f + (float)below(t, 1 << 20) * 0x1p-16f;
            put(p + 4 * (dv + 1), &sum, 4);
            if (below(t, 3) == 0) {
                memset(p, 0, (size_t)dv * 4);
                put(p + 4 * dv, &unseen, 4);
                put(p + 4 * (dv + 1), &nothing, 4);
            }
        }
        if (i % 2) {
            operand(t, 1, "f32", SHAPE(z[2]), 0);
        }
        place(t, DST, quantises(t) ? "x8" : "f32", SHAPE(dv * z[2], z[3]), 0);
        compute(t);
    }
}

#endif
