/* The pool: every task once, stages in order, faults and aborts, late helpers, start and end. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fake.h"

#include <pthread.h>
#include <sys/resource.h>

#define MAX_THREADS 9

static uint64_t seed = 88172645463325252u;
static uint64_t random_u64(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

struct plan {
    struct lp_node *nodes;
    int64_t n;
    char **slots;
    int64_t n_slots, scratch_bytes;
    char *scratch;
};

static struct plan new_plan(int64_t n, int64_t n_slots) {
    struct plan p = {.n = n, .n_slots = n_slots};
    p.nodes = malloc(sizeof *p.nodes * (size_t)(n ? n : 1));
    p.slots = calloc((size_t)n_slots, sizeof *p.slots);
    CHECK(p.nodes && p.slots);
    return p;
}

static void prepare(struct plan *p, int n_threads) {
    int64_t fault;
    CHECK(lp_prepare(p->nodes, p->n, n_threads, &p->scratch_bytes, &fault) == LP_OK);
    p->scratch = aligned_alloc(64, (size_t)(p->scratch_bytes * n_threads));
    CHECK(p->scratch);
}

static int run(struct lp_pool *pool, const struct plan *p, int n_threads, int32_t *flag,
               int64_t *fault) {
    int status = lp_run(pool, p->nodes, p->n, p->slots, p->n_slots, p->scratch, p->scratch_bytes,
                        n_threads, flag, fault);
    CHECK(atomic_load(&running) == 0); /* no task outlives the call */
    return status;
}

/* What the run was made of is gone at once: a helper that still looks at it is found out. */
static void free_plan(struct plan *p) {
    memset(p->nodes, 0xee, sizeof *p->nodes * (size_t)p->n);
    free(p->nodes);
    free(p->slots);
    free(p->scratch);
}

/* A chain of stages over two arrays of `width`, compared with the same on one thread. */
static void stages_run_in_order(struct lp_pool *pool, int n_threads, int64_t n, int64_t width) {
    uint64_t *got = malloc(sizeof *got * 2 * (size_t)width);
    uint64_t *want = malloc(sizeof *want * 2 * (size_t)width);
    for (int64_t i = 0; i < width; i++)
        got[i] = want[i] = random_u64();
    struct plan p = new_plan(n, 2);
    for (int64_t i = 0; i < n; i++) {
        p.nodes[i] = node(MIX, LP_SYNC, width);
        p.nodes[i].n_src = 1;
        p.nodes[i].src[0].slot = (uint64_t)(i & 1);
        p.nodes[i].dst.slot = (uint64_t)(~i & 1);
    }
    prepare(&p, n_threads);
    int64_t fault;
    for (int alone = 0; alone < 2; alone++) {
        uint64_t *data = alone ? want : got;
        p.slots[0] = (char *)data;
        p.slots[1] = (char *)(data + width);
        CHECK(run(pool, &p, alone ? 1 : n_threads, NULL, &fault) == LP_OK && fault == -1);
    }
    CHECK(!memcmp(got, want, sizeof *got * 2 * (size_t)width));
    free_plan(&p);
    free(got);
    free(want);
}

/* Nodes of random task counts, syncs at random; dst i is region i of one slot. */
static void every_task_runs_once(struct lp_pool *pool, int n_threads, int64_t n, int64_t most) {
    struct plan p = new_plan(n, 1);
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t n_tasks = (int64_t)(random_u64() % (uint64_t)(most + 1));
        p.nodes[i] = node(ONCE, random_u64() % 3 ? 0 : LP_SYNC, n_tasks);
        p.nodes[i].dst.slot = 0;
        p.nodes[i].dst.offs = (uint64_t)total * sizeof(int64_t);
        total += n_tasks;
    }
    int64_t *ran = calloc((size_t)total + 1, sizeof *ran), fault;
    p.slots[0] = (char *)ran;
    prepare(&p, n_threads);
    CHECK(run(pool, &p, n_threads, NULL, &fault) == LP_OK && fault == -1);
    for (int64_t i = 0; i < total; i++)
        CHECK(ran[i] == 1);
    CHECK(ran[total] == 0);
    free_plan(&p);
    free(ran);
}

static void a_fault_names_its_node(struct lp_pool *pool, int n_threads, int64_t width) {
    int64_t *ran = calloc((size_t)(5 * width), sizeof *ran), fault;
    for (int64_t bad = 0; bad < 5; bad++) {
        struct plan p = new_plan(5, 1);
        for (int64_t i = 0; i < 5; i++) {
            p.nodes[i] = node(i == bad ? FAULT : ONCE, LP_SYNC, width);
            p.nodes[i].dst.slot = 0;
            p.nodes[i].dst.offs = (uint64_t)(i * width) * sizeof *ran;
            p.nodes[i].ip[1] = LP_E_INDEX;
            p.nodes[i].ip[2] = width / 2;
        }
        p.slots[0] = (char *)ran;
        memset(ran, 0, sizeof *ran * (size_t)(5 * width));
        prepare(&p, n_threads);
        CHECK(run(pool, &p, n_threads, NULL, &fault) == LP_E_INDEX && fault == bad);
        for (int64_t i = 0; i < 5 * width; i++)
            CHECK(ran[i] == (i < bad * width) || (i / width == bad && ran[i] == 1));
        p.nodes[bad].kernel = ONCE; /* the pool has not been harmed */
        CHECK(run(pool, &p, n_threads, NULL, &fault) == LP_OK && fault == -1);
        free_plan(&p);
    }
    free(ran);
}

/* The flag is set by a task in the middle; afterwards each thread finishes at most its own. */
static void an_abort_ends_the_run(struct lp_pool *pool, int n_threads) {
    enum { WIDTH = 4000 };
    static int64_t ran[2 * WIDTH];
    int32_t flag = 0;
    int64_t fault, after = 0;
    struct plan p = new_plan(2, 2);
    for (int64_t i = 0; i < 2; i++) {
        p.nodes[i] = node(SET_FLAG, LP_SYNC, WIDTH);
        p.nodes[i].ip[1] = i ? -1 : WIDTH / 2;
        p.nodes[i].n_src = 1;
        p.nodes[i].src[0].slot = 1;
        p.nodes[i].dst.slot = 0;
        p.nodes[i].dst.offs = (uint64_t)i * WIDTH * sizeof *ran;
    }
    p.slots[0] = (char *)ran;
    p.slots[1] = (char *)&flag;
    prepare(&p, n_threads);
    memset(ran, 0, sizeof ran);
    CHECK(run(pool, &p, n_threads, &flag, &fault) == LP_E_ABORTED && fault == -1);
    for (int64_t i = WIDTH; i < 2 * WIDTH; i++)
        after += ran[i];
    CHECK(after == 0 && ran[WIDTH / 2] == 1);
    memset(ran, 0, sizeof ran);
    CHECK(run(pool, &p, n_threads, &flag, &fault) == LP_E_ABORTED); /* set before the start */
    for (int64_t i = 0; i < 2 * WIDTH; i++)
        CHECK(ran[i] == 0);
    CHECK(run(pool, &p, n_threads, NULL, &fault) == LP_OK);
    free_plan(&p);
}

/* Its own, and what a node's last task left there is there when the next one is told so: on every
 * thread for all its tasks of a node but the first, and never for another node or run. */
static void scratch_is_a_threads_own(struct lp_pool *pool, int n_threads) {
    struct plan p = new_plan(4, 1);
    int64_t fault, counts[2] = {0, 0};
    p.slots[0] = (char *)counts;
    for (int64_t i = 0; i < p.n; i++) {
        p.nodes[i] = node(OWN_SCRATCH, LP_SYNC, 50);
        p.nodes[i].dst.slot = 0;
        p.nodes[i].ip[1] = p.nodes[i].ip[3] = 100 * (i + 1);
    }
    prepare(&p, n_threads);
    for (int runs = 0; runs < 3; runs++) {
        for (int64_t i = 0; i < p.n; i++)
            p.nodes[i].ip[2] = runs * p.n + i + 1;
        CHECK(run(pool, &p, n_threads, NULL, &fault) == LP_OK);
    }
    CHECK(counts[1] == 3 * 4 * 50);
    CHECK(counts[0] >= counts[1] - 3 * 4 * n_threads && counts[0] <= counts[1] - 3 * 4);
    free_plan(&p);
}

/* More threads than cores and short runs: helpers come late, when nodes and slots are freed. */
static void late_helpers_do_no_harm(struct lp_pool *pool, int64_t runs) {
    for (int64_t r = 0; r < runs; r++) {
        int n_threads = 1 + (int)(random_u64() % MAX_THREADS);
        every_task_runs_once(pool, n_threads, 1 + (int64_t)(random_u64() % 6), 12);
    }
}

/* Tasks long enough that the waiting threads fall asleep, and pauses so that helpers do. */
static void sleepers_wake(struct lp_pool *pool, int n_threads) {
    int64_t ran[40] = {0}, fault;
    struct plan p = new_plan(20, 1);
    for (int64_t i = 0; i < p.n; i++) {
        p.nodes[i] = node(SLOW, LP_SYNC, 2);
        p.nodes[i].ip[1] = i % 5 ? 10 : 1000000;
        p.nodes[i].dst.slot = 0;
        p.nodes[i].dst.offs = (uint64_t)i * 2 * sizeof *ran;
    }
    p.slots[0] = (char *)ran;
    prepare(&p, n_threads);
    for (int r = 1; r <= 3; r++) {
        CHECK(run(pool, &p, n_threads, NULL, &fault) == LP_OK);
        for (int i = 0; i < 40; i++)
            CHECK(ran[i] == r);
        busy(2000000);
    }
    free_plan(&p);
}

static void *second_caller(void *pool) {
    int64_t ran[30] = {0}, fault;
    struct plan p = new_plan(3, 1);
    for (int64_t i = 0; i < p.n; i++) {
        p.nodes[i] = node(SLOW, 0, 10);
        p.nodes[i].dst.slot = 0;
        p.nodes[i].dst.offs = (uint64_t)i * 10 * sizeof *ran;
    }
    p.slots[0] = (char *)ran;
    prepare(&p, 2);
    for (int64_t r = 1; r <= 200; r++) {
        CHECK(lp_run(pool, p.nodes, p.n, p.slots, 1, p.scratch, p.scratch_bytes, 2, NULL, &fault) ==
              LP_OK);
        for (int i = 0; i < 30; i++)
            CHECK(ran[i] == r);
    }
    free_plan(&p);
    return NULL;
}

static void two_callers_take_turns(struct lp_pool *pool) {
    pthread_t other;
    CHECK(!pthread_create(&other, NULL, second_caller, pool));
    second_caller(pool);
    pthread_join(other, NULL);
}

static void starting_fails_cleanly(void) {
    CHECK(!lp_pool_new(0) && !lp_pool_new(-1) && !lp_pool_new(1 << 20));
#if !SANITIZED
    struct rlimit old, tight;
    getrlimit(RLIMIT_AS, &old);
    tight = old;
    tight.rlim_cur = (rlim_t)1 << 29; /* room for the stacks of some threads, not of 500 */
    CHECK(!setrlimit(RLIMIT_AS, &tight));
    void *too_much = malloc((size_t)1 << 30);
    if (!too_much) /* an emulator does not keep to the limit */
        CHECK(!lp_pool_new(500));
    free(too_much);
    CHECK(!setrlimit(RLIMIT_AS, &old));
#endif
    for (int i = 0; i < 100; i++) {
        struct lp_pool *p = lp_pool_new(1 + i % 4);
        CHECK(p);
        lp_pool_free(p);
    }
    lp_pool_free(NULL);
}

int main(void) {
    starting_fails_cleanly();
    struct lp_pool *pool = lp_pool_new(MAX_THREADS);
    CHECK(pool);
    for (int n = 1; n <= 4; n++) {
        stages_run_in_order(pool, n, 300, 17);
        stages_run_in_order(pool, n, 50, 1000);
        stages_run_in_order(pool, n, 20, 1);
        every_task_runs_once(pool, n, 200, 30);
        every_task_runs_once(pool, n, 3, 60000);
        every_task_runs_once(pool, n, 50, 0);
        every_task_runs_once(pool, n, 400, 1);
        a_fault_names_its_node(pool, n, 40);
        a_fault_names_its_node(pool, n, 1);
        an_abort_ends_the_run(pool, n);
        scratch_is_a_threads_own(pool, n);
        sleepers_wake(pool, n);
    }
    stages_run_in_order(pool, MAX_THREADS, 100, 40);
    scratch_is_a_threads_own(pool, MAX_THREADS);
    two_callers_take_turns(pool);
    late_helpers_do_no_harm(pool, SANITIZED ? 2000 : 10000);
    lp_pool_free(pool);
    return 0;
}
