/* The thread pool: a caller and its helpers compute plans together. No thread ever waits for
 * another one, only for tasks (run.c).
 *
 * What a run shares lives in a block with a reference count, which is taken for another run only
 * when no helper holds it; nodes, slots and scratch are touched only by the holder of a claimed
 * task, so lp_run may return while a late helper still looks at the block.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "run.h"
#include "wait.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* How long to spin for the next run before sleeping. */
#define SPIN_RUN_NS 100000

struct helper {
    _Alignas(LP_LINE) _Atomic uint32_t epoch; /* changes when there is something to do */
    _Atomic uint32_t sleeping;
    int index;
    pthread_t thread;
    struct lp_pool *pool;
};

struct lp_pool {
    pthread_mutex_t one_run;
    int n_threads; /* the caller and n_threads - 1 helpers */
    _Atomic uint32_t stop;
    _Atomic(struct lp_block *) current; /* the run that may be joined, or NULL */
    struct lp_block *blocks;
    struct helper *helpers; /* [n_threads]; 0 is the caller and unused */
};

/* ---- helpers ---- */

static void release(struct lp_block *b) {
    atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
}

/* The current run with a reference taken, or NULL. Blocks are freed with the pool only, so the
 * count may be touched before it is known whether the block is still the current one. */
static struct lp_block *acquire(struct lp_pool *p) {
    struct lp_block *b = atomic_load(&p->current);
    while (b) {
        atomic_fetch_add(&b->refs, 1);
        struct lp_block *now = atomic_load(&p->current);
        if (now == b)
            return b;
        release(b);
        b = now;
    }
    return NULL;
}

static uint32_t await_epoch_after(struct helper *h, uint32_t seen) {
    int64_t until = 0;
    uint32_t now;
    for (;;) {
        for (int i = 0; i < LP_PAUSES_PER_LOOK; i++) {
            now = atomic_load_explicit(&h->epoch, memory_order_acquire);
            if (now != seen)
                return now;
            lp_pause();
        }
        int64_t t = lp_now_ns();
        if (!until)
            until = t + SPIN_RUN_NS;
        if (t >= until)
            break;
    }
    atomic_store(&h->sleeping, 1);
    while ((now = atomic_load(&h->epoch)) == seen)
        lp_wait(&h->epoch, seen);
    atomic_store(&h->sleeping, 0);
    return now;
}

static void *helper_main(void *arg) {
    struct helper *h = arg;
    uint32_t seen = 0;
    for (;;) {
        seen = await_epoch_after(h, seen);
        if (atomic_load(&h->pool->stop))
            return NULL;
        struct lp_block *b = acquire(h->pool);
        if (!b)
            continue;
        if (h->index < b->job.n_threads) {
            struct lp_worker w = {.node = -1};
            w.scratch = b->job.scratch + h->index * b->job.scratch_bytes;
            lp_block_work(b, &w, h->index);
        }
        release(b);
    }
}

static void call_helper(struct helper *h) {
    atomic_fetch_add(&h->epoch, 1);
    if (atomic_load(&h->sleeping))
        lp_wake(&h->epoch);
}

/* ---- the caller's side ---- */

/* Free n helpers' threads (helpers[1..n]). */
static void join(struct lp_pool *p, int n) {
    atomic_store(&p->stop, 1);
    for (int i = 1; i <= n; i++)
        call_helper(&p->helpers[i]);
    for (int i = 1; i <= n; i++)
        pthread_join(p->helpers[i].thread, NULL);
}

static int start_helpers(struct lp_pool *p) {
    for (int i = 1; i < p->n_threads; i++) {
        struct helper *h = &p->helpers[i];
        h->index = i;
        h->pool = p;
        if (pthread_create(&h->thread, NULL, helper_main, h)) {
            join(p, i - 1);
            return LP_E_THREAD;
        }
    }
    return LP_OK;
}

struct lp_pool *lp_pool_new(int n_threads) {
    if (n_threads < 1 || n_threads > LP_MAX_THREADS)
        return NULL;
    struct lp_pool *p = calloc(1, sizeof *p);
    size_t bytes = sizeof(struct helper) * (size_t)n_threads;
    if (p)
        p->helpers = aligned_alloc(LP_LINE, bytes);
    if (!p || !p->helpers) {
        free(p);
        return NULL;
    }
    for (int i = 0; i < n_threads; i++)
        p->helpers[i] = (struct helper){.index = i, .pool = p};
    p->n_threads = n_threads;
    pthread_mutex_init(&p->one_run, NULL);
    /* Signals are for the threads of the host program. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int status = start_helpers(p);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (status) {
        pthread_mutex_destroy(&p->one_run);
        free(p->helpers);
        free(p);
        return NULL;
    }
    return p;
}

void lp_pool_free(struct lp_pool *p) {
    if (!p)
        return;
    join(p, p->n_threads - 1);
    for (struct lp_block *b = p->blocks, *next; b; b = next) {
        next = b->next;
        lp_block_free(b);
    }
    pthread_mutex_destroy(&p->one_run);
    free(p->helpers);
    free(p);
}

/* A block that no helper looks at any more, with the caller's reference. */
static struct lp_block *take_block(struct lp_pool *p) {
    struct lp_block *b = p->blocks;
    for (; b; b = b->next) {
        int32_t none = 0;
        if (atomic_compare_exchange_strong(&b->refs, &none, 1))
            return b;
    }
    b = lp_block_new(p->n_threads);
    if (b) {
        b->next = p->blocks;
        p->blocks = b;
    }
    return b;
}

static int run_shared(struct lp_pool *p, const struct lp_job *job, int64_t *fault) {
    struct lp_block *b = take_block(p);
    if (!b)
        return LP_E_MEMORY;
    struct lp_worker w = {.node = -1, .scratch = job->scratch};
    int status = lp_block_open(b, &w, job, fault);
    if (!status && !lp_block_over(b)) {
        atomic_store(&p->current, b);
        for (int i = 1; i < job->n_threads; i++)
            call_helper(&p->helpers[i]);
        lp_block_work(b, &w, 0);
        atomic_store(&p->current, NULL);
    }
    if (!status)
        status = lp_block_status(b, fault);
    release(b);
    return status;
}

int lp_run(struct lp_pool *p, const struct lp_node *nodes, int64_t n, char *const *slots,
           int64_t n_slots, char *scratch, int64_t scratch_bytes, int n_threads,
           const volatile int32_t *abort_flag, int64_t *fault) {
    *fault = -1;
    if (n < 0 || n_slots < 0 || n_threads < 1 || n_threads > p->n_threads)
        return LP_E_PLAN;
    if (scratch_bytes < 0 || scratch_bytes % LP_LINE || (uintptr_t)scratch % LP_LINE)
        return LP_E_SCRATCH;
    struct lp_job job = {nodes, n, slots, n_slots, scratch, scratch_bytes, n_threads, abort_flag};
    pthread_mutex_lock(&p->one_run);
    int status = n_threads == 1 ? lp_run_alone(&job, fault) : run_shared(p, &job, fault);
    pthread_mutex_unlock(&p->one_run);
    return status;
}
