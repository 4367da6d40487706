/* f32 to the block types of a cache, and to bf16: rows written to their places (set_rows) and
 * copied (cpy).
 *
 * The values are those of the formats' reference: d = largest magnitude / 127 (q8_0), the value of
 * largest magnitude / -8 or / -16 (q4_0, q5_0: it keeps its sign), (max - min) / 15 or / 31 (q4_1,
 * q5_1); q from the unrounded d, then d in f16. iq4_nl: the value of largest magnitude / -127 picks
 * the nearest of 16 values, then d is the least-squares fit with weights x^2. One file for all
 * instruction sets: a cache takes few rows per token. What is not finite gives some finite q. */
#include "lp.h"
#include "lp_half.h"
#include "lp_iq4.h"
#include "kernels/row/walk.h"

enum { GROUP = 32 };

static void put_half(uint8_t *p, float x) {
    uint16_t h = lp_f16_of_f32(x);
    memcpy(p, &h, 2);
}
static float inverse(float d) {
    return d != 0.0f ? 1.0f / d : 0.0f;
}
/* To the integer below, within [0, top]. */
static uint8_t whole(float x, float top) {
    return (uint8_t)(x > 0.0f ? x < top ? x : top : 0.0f);
}
/* The first value of largest magnitude. */
static float largest(const float *x) {
    float most = 0.0f, at = 0.0f;
    for (int i = 0; i < GROUP; i++) {
        float m = __builtin_fabsf(x[i]);
        at = m > most ? x[i] : at;
        most = m > most ? m : most;
    }
    return at;
}
static void put_nibbles(uint8_t *p, const uint8_t *q) {
    for (int i = 0; i < 16; i++) {
        p[i] = (uint8_t)((q[i] & 15) | q[i + 16] << 4);
    }
}
static void put_fifth_bits(uint8_t *p, const uint8_t *q) {
    uint32_t bits = 0;
    for (int i = 0; i < GROUP; i++) {
        bits |= (uint32_t)(q[i] >> 4) << i;
    }
    memcpy(p, &bits, 4);
}

/* q around zero: d * (q - half), q < 2 half. */
static void around_zero(uint8_t *d_at, uint8_t *q, const float *x, float half) {
    float d = largest(x) / -half, id = inverse(d);
    put_half(d_at, d);
    for (int i = 0; i < GROUP; i++) {
        q[i] = whole(x[i] * id + (half + 0.5f), 2.0f * half - 1.0f);
    }
}
/* q above a minimum: d * q + m, q <= top; d and m side by side. */
static void above_minimum(uint8_t *d_at, uint8_t *q, const float *x, float top) {
    float low = x[0], high = x[0];
    for (int i = 1; i < GROUP; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float d = (high - low) / top, id = inverse(d);
    put_half(d_at, d);
    put_half(d_at + 2, low);
    for (int i = 0; i < GROUP; i++) {
        q[i] = whole((x[i] - low) * id + 0.5f, top);
    }
}

static void pack_q4_0(uint8_t *b, const float *x) {
    uint8_t q[GROUP];
    around_zero(b, q, x, 8.0f);
    put_nibbles(b + 2, q);
}
static void pack_q5_0(uint8_t *b, const float *x) {
    uint8_t q[GROUP];
    around_zero(b, q, x, 16.0f);
    put_fifth_bits(b + 2, q);
    put_nibbles(b + 6, q);
}
static void pack_q4_1(uint8_t *b, const float *x) {
    uint8_t q[GROUP];
    above_minimum(b, q, x, 15.0f);
    put_nibbles(b + 4, q);
}
static void pack_q5_1(uint8_t *b, const float *x) {
    uint8_t q[GROUP];
    above_minimum(b, q, x, 31.0f);
    put_fifth_bits(b + 4, q);
    put_nibbles(b + 8, q);
}
/* Halves are rounded away from zero. */
static void pack_q8_0(uint8_t *b, const float *x) {
    float most = 0.0f;
    for (int i = 0; i < GROUP; i++) {
        float m = __builtin_fabsf(x[i]);
        most = m > most ? m : most;
    }
    float d = most / 127.0f, id = inverse(d);
    put_half(b, d);
    for (int i = 0; i < GROUP; i++) {
        float y = x[i] * id, m = __builtin_fabsf(y);
        m = m < 127.0f ? m : 127.0f;
        int32_t n = (int32_t)m;
        n += m - (float)n >= 0.5f;
        b[2 + i] = (uint8_t)((uint32_t)(y < 0.0f ? -n : n) & 0xffu);
    }
}
static void pack_iq4_nl(uint8_t *b, const float *x) {
    float d = largest(x) / (float)lp_iq4_values[0], id = inverse(d);
    double up = 0.0, down = 0.0;
    uint8_t q[GROUP] = {0};
    for (int k = 1; k < 16; k++) { /* halfway between two values the upper one is taken */
        float middle = 0.5f * (float)(lp_iq4_values[k - 1] + lp_iq4_values[k]);
        for (int i = 0; i < GROUP; i++) {
            q[i] = (uint8_t)(q[i] + (x[i] * id >= middle));
        }
    }
    for (int i = 0; i < GROUP; i++) {
        double v = lp_iq4_values[q[i]], w = (double)x[i] * (double)x[i] * v;
        up += w * (double)x[i];
        down += w * v;
    }
    put_half(b, down > 0.0 ? (float)(up / down) : d);
    put_nibbles(b + 2, q);
}
/* To nearest even; a NaN is made quiet. */
static void pack_bf16(uint8_t *b, const float *x) {
    uint32_t u = lp_bits_of(*x), odd = u >> 16 & 1u;
    uint32_t h = (u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : (u + 0x7fffu + odd) >> 16;
    uint16_t half = (uint16_t)h;
    memcpy(b, &half, 2);
}

struct packer {
    void (*pack)(uint8_t *b, const float *x);
    int block, bytes;
};

/* n elements, a multiple of the block, `step` bytes apart at src. */
static void pack_run(const struct packer *p, char *dst, const char *src, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i += p->block, dst += p->bytes) {
        float x[GROUP];
        for (int k = 0; k < p->block; k++) {
            memcpy(&x[k], src + (i + k) * step, 4);
        }
        p->pack((uint8_t *)dst, x);
    }
}

static int set_rows(const struct lp_args *a, int64_t task, const struct packer *p) {
    const struct lp_node *n = a->n;
    const struct lp_opnd *rows = &n->src[1];
    struct lp_walk w = lp_walk_units(rows, task, n->n_tasks);
    while (lp_walk_next(&w)) {
        int64_t id = lp_id_at(a->src[2], &n->src[2], w.i);
        if (id < 0 || id >= n->dst.ne[1]) {
            return LP_E_INDEX;
        }
        int64_t at[4] = {0, id, w.i[2], w.i[3]};
        char *dst = a->dst + lp_row_offs(&n->dst, at) + w.i[0] / p->block * p->bytes;
        const char *src = a->src[1] + lp_row_offs(rows, w.i) + w.i[0] * rows->nb[0];
        pack_run(p, dst, src, rows->nb[0], w.len);
    }
    return LP_OK;
}
static int cpy(const struct lp_args *a, int64_t task, const struct packer *p) {
    const struct lp_opnd *from = &a->n->src[0], *to = &a->n->dst;
    struct lp_walk w = lp_walk_units(to, task, a->n->n_tasks);
    while (lp_walk_next(&w)) {
        char *dst = a->dst + lp_row_offs(to, w.i) + w.i[0] / p->block * p->bytes;
        const char *src = a->src[0] + lp_row_offs(from, w.i) + w.i[0] * from->nb[0];
        pack_run(p, dst, src, from->nb[0], w.len);
    }
    return LP_OK;
}

#define PACKED(type, block, bytes)                                                                 \
    static const struct packer to_##type = {pack_##type, block, bytes};                            \
    int lp_set_rows_##type##_f32_scalar(const struct lp_args *a, int64_t task, void *scratch) {    \
        (void)scratch;                                                                             \
        return set_rows(a, task, &to_##type);                                                      \
    }                                                                                              \
    int lp_cpy_##type##_f32_scalar(const struct lp_args *a, int64_t task, void *scratch) {         \
        (void)scratch;                                                                             \
        return cpy(a, task, &to_##type);                                                           \
    }
PACKED(bf16, 1, 2)
PACKED(q8_0, GROUP, 34)
PACKED(q4_0, GROUP, 18)
PACKED(q4_1, GROUP, 20)
PACKED(q5_0, GROUP, 22)
PACKED(q5_1, GROUP, 24)
PACKED(iq4_nl, GROUP, 18)
