/* Kernels made for testing plan and pool, in a table that stands in for the library's own.
 * Included by one file of a test program: it defines lp_kernel_count and lp_kernel_at. */
#ifndef LP_TESTS_FAKE_H
#define LP_TESTS_FAKE_H

#include "lp.h"

#include <stdatomic.h>
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

/* The sanitizers make everything slower; the interleavings they need are fewer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { MIX, ONCE, FAULT, OWN_SCRATCH, SET_FLAG, SLOW, N_FAKE };

static _Atomic int running; /* kernels in progress, over all threads */

static void busy(int64_t turns) {
    for (volatile int64_t i = 0; i < turns; i++) {
    }
}

/* dst[t] = a function of two far apart elements of src and of t: wrong when the node ran before
 * all of src was written. ip[0] = number of elements. */
static int run_mix(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    const uint64_t *src = (const uint64_t *)a->src[0];
    int64_t n = a->n->ip[0];
    uint64_t x = src[(task * 7 + 3) % n] * 31, y = src[n - 1 - task];
    ((uint64_t *)a->dst)[task] = (x ^ y) + (uint64_t)task * 0x9e3779b97f4a7c15u;
    return LP_OK;
}

/* dst[t] counts how often task t ran. */
static int run_once(const struct lp_args *a, int64_t task, void *scratch) {
    (void)scratch;
    atomic_fetch_add(&running, 1);
    ((int64_t *)a->dst)[task]++;
    atomic_fetch_sub(&running, 1);
    return LP_OK;
}

/* Returns ip[1] at task ip[2]. */
static int run_fault(const struct lp_args *a, int64_t task, void *scratch) {
    int status = run_once(a, task, scratch);
    return task == a->n->ip[2] ? (int)a->n->ip[1] : status;
}

/* LP_E_SCRATCH when anybody else writes to this thread's ip[1] bytes of scratch (a multiple of 4)
 * meanwhile, or did since a last task of this node (whose ip[2] is its own) when `again` denies it.
 * dst[1] counts tasks, dst[0] those that found their scratch as it was left. */
static int run_own_scratch(const struct lp_args *a, int64_t task, void *scratch) {
    int32_t *s = scratch, mark = (int32_t)(a->n->ip[2] * 1000 + task);
    const int64_t n = a->n->ip[1] / 4;
    if ((uintptr_t)scratch % 64)
        return LP_E_SCRATCH;
    for (int64_t i = 0; a->again && i < n; i++)
        if (s[i] / 1000 != a->n->ip[2])
            return LP_E_SCRATCH;
    for (int64_t i = 0; i < n; i++)
        s[i] = mark;
    busy(200);
    for (int64_t i = 0; i < n; i++)
        if (s[i] != mark)
            return LP_E_SCRATCH;
    __atomic_fetch_add((int64_t *)a->dst, a->again, __ATOMIC_RELAXED);
    __atomic_fetch_add((int64_t *)a->dst + 1, 1, __ATOMIC_RELAXED);
    return LP_OK;
}

/* Sets the int32 at src[0] at task ip[1]. */
static int run_set_flag(const struct lp_args *a, int64_t task, void *scratch) {
    if (task == a->n->ip[1]) {
        union {
            const char *in;
            int32_t *out;
        } flag = {a->src[0]};
        __atomic_store_n(flag.out, 1, __ATOMIC_RELAXED);
    }
    return run_once(a, task, scratch);
}

static int run_slow(const struct lp_args *a, int64_t task, void *scratch) {
    atomic_fetch_add(&running, 1);
    busy(a->n->ip[1]);
    atomic_fetch_sub(&running, 1);
    return run_once(a, task, scratch);
}

/* ip[0] tasks whatever the number of threads; ip[3] bytes of scratch. */
static int64_t split_fake(const struct lp_node *n, int n_threads) {
    (void)n_threads;
    return n->ip[0];
}

static int64_t scratch_fake(const struct lp_node *n) {
    return n->ip[3];
}

#define ROW(name) {#name, "f32", "f32", "scalar", 0, run_##name, split_fake, scratch_fake}
static const struct lp_kernel fakes[N_FAKE] = {
    ROW(mix), ROW(once), ROW(fault), ROW(own_scratch), ROW(set_flag), ROW(slow),
};

int64_t lp_kernel_count(void) {
    return N_FAKE;
}

const struct lp_kernel *lp_kernel_at(int64_t i) {
    return &fakes[i];
}

/* A record without operands. */
static struct lp_node node(uint64_t kernel, uint64_t flags, int64_t n_tasks) {
    struct lp_node n = {.kernel = kernel, .flags = flags, .n_tasks = n_tasks};
    n.ip[0] = n_tasks;
    n.dst.slot = LP_NO_SLOT;
    for (int i = 0; i < LP_MAX_SRC; i++)
        n.src[i].slot = LP_NO_SLOT;
    return n;
}

#endif
