/* One node of the kernel table on operands made here: the same bytes on every machine. Integers
 * from a generator of our own become floats by exact scaling; no libm, no rounding. */
#ifndef LP_TESTS_NODE_H
#define LP_TESTS_NODE_H

#include "lp.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #what);                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define DST LP_MAX_SRC /* the destination's slot, where it is in no source's memory */
#define FILL 0x5a      /* what gaps and destinations hold before */
#define THREADS 3      /* tasks are cut as for so many */

/* A kernel and its current node; hash is over the destinations of all nodes so far. */
struct trial {
    const struct lp_kernel *kernel;
    int64_t row;
    uint64_t seed, hash;
    struct lp_node node;
    char *memory[LP_MAX_SRC + 1];
    int64_t bytes[LP_MAX_SRC + 1];
    bool writes_state; /* source 0, besides the destination */
};

/* What must be set in a block of random bytes so that its scales are finite: f16 fields, or
 * `scale`. */
struct type {
    const char *name;
    int64_t id, block, bytes;
    int halves[2], n_half;
    void (*scale)(uint8_t *block);
};

static void finite_e8m0(uint8_t *b) { /* 2^-9 to 2^6 */
    b[0] = (uint8_t)(118 + (b[0] & 15));
}
static void finite_ue4m3(uint8_t *b) { /* 7f is NaN, the sign is not used */
    for (int i = 0; i < 4; i++) {
        b[i] &= 0x77;
    }
}
static void finite_nibbles(uint8_t *b) { /* iq1_m: the nibbles of one f16, in 4 upper nibbles */
    b[55] = (uint8_t)((b[55] & 0x8f) | 0x20);
}

static const struct type types[] = {
    {"f32", 0, 1, 4, {0}, 0, NULL},
    {"f16", 1, 1, 2, {0}, 0, NULL},
    {"bf16", 30, 1, 2, {0}, 0, NULL},
    {"i32", 26, 1, 4, {0}, 0, NULL},
    {"x8", 1000, 32, 40, {0}, 0, NULL},
    {"q4_0", 2, 32, 18, {0}, 1, NULL},
    {"q4_1", 3, 32, 20, {0, 2}, 2, NULL},
    {"q5_0", 6, 32, 22, {0}, 1, NULL},
    {"q5_1", 7, 32, 24, {0, 2}, 2, NULL},
    {"q8_0", 8, 32, 34, {0}, 1, NULL},
    {"q2_K", 10, 256, 84, {80, 82}, 2, NULL},
    {"q3_K", 11, 256, 110, {108}, 1, NULL},
    {"q4_K", 12, 256, 144, {0, 2}, 2, NULL},
    {"q5_K", 13, 256, 176, {0, 2}, 2, NULL},
    {"q6_K", 14, 256, 210, {208}, 1, NULL},
    {"iq2_xxs", 16, 256, 66, {0}, 1, NULL},
    {"iq2_xs", 17, 256, 74, {0}, 1, NULL},
    {"iq3_xxs", 18, 256, 98, {0}, 1, NULL},
    {"iq1_s", 19, 256, 50, {0}, 1, NULL},
    {"iq4_nl", 20, 32, 18, {0}, 1, NULL},
    {"iq3_s", 21, 256, 110, {0}, 1, NULL},
    {"iq2_s", 22, 256, 82, {0}, 1, NULL},
    {"iq4_xs", 23, 256, 136, {0}, 1, NULL},
    {"iq1_m", 29, 256, 56, {0}, 0, finite_nibbles},
    {"tq1_0", 34, 256, 54, {52}, 1, NULL},
    {"tq2_0", 35, 256, 66, {64}, 1, NULL},
    {"mxfp4", 39, 32, 17, {0}, 0, finite_e8m0},
    {"nvfp4", 40, 64, 36, {0}, 0, finite_ue4m3},
    {"q1_0", 41, 128, 18, {0}, 1, NULL},
    {"q2_0", 42, 64, 18, {0}, 1, NULL},
};

/* Whether rows of a type are interleaved by eight (kernels/matmul/r8.h): "<type>_r8". */
static int interleaved(const char *name) {
    const size_t n = strlen(name);
    return n > 3 && !strcmp(name + n - 3, "_r8");
}
/* Of an interleaved type: the one that its rows are made of. */
static const struct type *type_of(const char *name) {
    const size_t n = strlen(name) - (interleaved(name) ? 3 : 0);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!strncmp(types[i].name, name, n) && !types[i].name[n]) {
            return &types[i];
        }
    }
    fprintf(stderr, "%s:%d: no such type: %s\n", __FILE__, __LINE__, name);
    exit(1);
}

static uint64_t fnv(uint64_t hash, const void *bytes, int64_t n) { /* FNV-1a */
    const uint8_t *p = bytes;
    for (int64_t i = 0; i < n; i++) {
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t draw(struct trial *t) { /* splitmix64 */
    uint64_t z = t->seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
static int64_t below(struct trial *t, int64_t n) {
    return (int64_t)(draw(t) % (uint64_t)n);
}
static float value(struct trial *t) { /* in [-4, 4), 24 bits */
    return (float)((int32_t)(draw(t) >> 40) - (1 << 23)) * 0x1p-21f;
}
/* Of either sign, |x| in [2^-13, 2^-7); one in sixteen 0 or subnormal. */
static uint16_t small_half(struct trial *t) {
    const uint64_t r = draw(t);
    const uint64_t sign = r & 0x8000, mantissa = r & 0x3ff, exponent = 2 + (r >> 20) % 6;
    if (r >> 60) {
        return (uint16_t)(sign | exponent << 10 | mantissa);
    }
    return (uint16_t)(sign | (r >> 59 & 1 ? 0 : mantissa));
}
static uint16_t half(struct trial *t) { /* of either sign, |x| in [2^-5, 4) */
    const uint64_t r = draw(t);
    return (uint16_t)((r & 0x83ff) | (10 + (r >> 20) % 7) << 10);
}

static void put(void *at, const void *value, size_t n) {
    memcpy(at, value, n);
}

/* A row of n elements. */
static void fill_row(struct trial *t, const struct type *y, char *p, int64_t n) {
    if (!strcmp(y->name, "x8")) {
        for (int64_t g = 0; g < n / 32; g++) {
            int32_t sum = 0;
            const float d = below(t, 16) ? (float)(draw(t) >> 44) * 0x1p-26f : 0.0f;
            for (int i = 0; i < 32; i++) {
                const int8_t q = (int8_t)(below(t, 255) - 127);
                sum += q;
                put(p + g * 32 + i, &q, 1);
            }
            put(p + n + g * 4, &d, 4);
            put(p + n + n / 32 * 4 + g * 4, &sum, 4);
        }
        return;
    }
    for (int64_t i = 0; i < n / y->block; i++, p += y->bytes) {
        const float x = value(t);
        const uint16_t h = half(t);
        if (y->block > 1) {
            for (int64_t b = 0; b < y->bytes; b++) {
                p[b] = (char)(draw(t) >> 56);
            }
            for (int k = 0; k < y->n_half; k++) {
                const uint16_t s = small_half(t);
                put(p + y->halves[k], &s, 2);
            }
            if (y->scale) {
                y->scale((uint8_t *)p);
            }
        } else if (!strcmp(y->name, "bf16")) {
            uint32_t u;
            put(&u, &x, 4);
            const uint16_t upper = (uint16_t)(u >> 16);
            put(p, &upper, 2);
        } else {
            put(p, y->bytes == 4 ? (const void *)&x : &h, (size_t)y->bytes);
        }
    }
}

struct shape {
    int64_t ne[4];
};
#define SHAPE(...) ((struct shape){{__VA_ARGS__}})

static char *row_at(const struct trial *t, int slot, const struct lp_opnd *o, int64_t row) {
    return t->memory[slot] + row % o->ne[1] * o->nb[1] + row / o->ne[1] % o->ne[2] * o->nb[2] +
           row / o->ne[1] / o->ne[2] * o->nb[3];
}

/* Memory for an operand, `gap` bytes between rows, planes and cubes; axes of length 0 become 1. The
 * last row ends with the memory. */
static struct lp_opnd *place(struct trial *t, int slot, const char *type, struct shape s,
                             int64_t gap) {
    const struct type *y = type_of(type);
    struct lp_opnd *o = slot == DST ? &t->node.dst : &t->node.src[slot];
    *o = (struct lp_opnd){.slot = (uint64_t)slot, .type = y->id + (interleaved(type) ? 2000 : 0)};
    for (int i = 0; i < 4; i++) {
        o->ne[i] = s.ne[i] ? s.ne[i] : 1;
    }
    CHECK(o->ne[0] % y->block == 0 && !t->memory[slot]);
    o->nb[0] = y->bytes;
    o->nb[1] = o->ne[0] / y->block * y->bytes + gap;
    o->nb[2] = o->nb[1] * o->ne[1] + gap;
    o->nb[3] = o->nb[2] * o->ne[2] + gap;
    if (!gap) {
        CHECK(o->nb[3] == o->nb[1] * o->ne[1] * o->ne[2]);
    }
    t->bytes[slot] = (o->ne[3] - 1) * o->nb[3] + (o->ne[2] - 1) * o->nb[2] +
                     (o->ne[1] - 1) * o->nb[1] + o->nb[1] - gap;
    t->memory[slot] = malloc((size_t)t->bytes[slot]);
    CHECK(t->memory[slot]);
    memset(t->memory[slot], FILL, (size_t)t->bytes[slot]);
    if (slot != DST && slot >= t->node.n_src) {
        t->node.n_src = slot + 1;
    }
    return o;
}
/* The same with random elements. */
static struct lp_opnd *operand(struct trial *t, int slot, const char *type, struct shape s,
                               int64_t gap) {
    struct lp_opnd *o = place(t, slot, type, s, gap);
    for (int64_t r = 0; r < o->ne[1] * o->ne[2] * o->ne[3]; r++) {
        fill_row(t, type_of(type), row_at(t, slot, o, r), o->ne[0]);
    }
    return o;
}
/* The destination in the memory of a source. */
static void onto(struct trial *t, int slot) {
    t->node.dst = t->node.src[slot];
}

static void clear(struct trial *t) {
    for (int i = 0; i <= LP_MAX_SRC; i++) {
        free(t->memory[i]);
        t->memory[i] = NULL;
    }
    memset(&t->node, 0, sizeof t->node);
    t->writes_state = false;
}

static void no_nan(const struct trial *t, const char *bytes, int64_t n) {
    for (int64_t i = 0; i + 4 <= n && !t->node.dst.type; i += 4) {
        float x;
        put(&x, bytes + i, 4);
        if (x != x) {
            fprintf(stderr, "%s %s %s %s: element %lld is NaN, whose bits are not promised\n",
                    t->kernel->family, t->kernel->wtype, t->kernel->xtype, t->kernel->isa,
                    (long long)(i / 4));
            exit(1);
        }
    }
}

/* Run the node and take its destination's memory, gaps included, into the hash. */
static void compute(struct trial *t) {
    struct lp_args args = {.n = &t->node};
    const int slot = (int)t->node.dst.slot;
    int64_t bytes, fault;
    t->node.kernel = (uint64_t)t->row;
    int status = lp_prepare(&t->node, 1, THREADS, &bytes, &fault);
    char *scratch = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    CHECK(scratch);
    memset(scratch, 0xff, (size_t)bytes); /* as floats: NaN */
    args.dst = t->memory[slot];
    for (int64_t i = 0; i < t->node.n_src; i++) {
        args.src[i] = t->memory[i];
    }
    for (int64_t task = t->node.n_tasks; !status && task-- > 0;) {
        status = t->kernel->run(&args, task, scratch);
    }
    if (status) {
        fprintf(stderr, "%s %s %s %s: status %d\n", t->kernel->family, t->kernel->wtype,
                t->kernel->xtype, t->kernel->isa, status);
        exit(1);
    }
    no_nan(t, t->memory[slot], t->bytes[slot]);
    t->hash = fnv(t->hash, t->memory[slot], t->bytes[slot]);
    if (t->writes_state) {
        no_nan(t, t->memory[0], t->bytes[0]);
        t->hash = fnv(t->hash, t->memory[0], t->bytes[0]);
    }
    free(scratch);
    clear(t);
}

#endif
