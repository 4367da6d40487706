/* The thread pool: runs a plan stage by stage without ever waiting for a thread, only for tasks.
 *
 * A run has one claim word: the current stage in its high bits, the next unclaimed task of the
 * stage's list in the low ones. Threads claim with fetch_add and count what they did; a thread that
 * finds the list empty adds its count to `done`. The one that makes it full (the completer) opens
 * the next stage by writing the claim word; the others wait for the word's stage to change. A
 * stage of one task is run by the completer on the spot, since handing it over would cost more.
 *
 * A helper that comes late finds another stage or the end in the claim word. Stage tables and
 * counters live in a run block with a reference count, which is taken for another run only when no
 * helper holds it; nodes, slots and scratch are touched only by the holder of a claimed task, so
 * lp_run may return while a late helper still looks at the block.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "plan.h"
#include "wait.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* How long to spin for the end of a stage and for the next run before sleeping. Waking a sleeper
 * takes 5 to 50 us, a token of a small model some milliseconds. */
#define SPIN_STAGE_NS 30000
#define SPIN_RUN_NS 100000
#define PAUSES_PER_LOOK 32

#define STAGE_SHIFT 40
#define TASK_MASK (((uint64_t)1 << STAGE_SHIFT) - 1)

struct block {
    _Alignas(LP_LINE) _Atomic uint64_t claim; /* stage << 40 | next task */
    _Atomic uint32_t turn;                    /* the stage again: the word sleepers sleep on */
    _Atomic uint32_t sleepers;
    _Alignas(LP_LINE) _Atomic int64_t done; /* finished tasks of the current stage */
    _Atomic uint64_t fail;                  /* status << 32 | node + 1 of the first failure, or 0 */
    _Alignas(LP_LINE) _Atomic int32_t refs; /* the caller's and each helper's */
    struct lp_job job;
    int64_t n_stages, capacity;
    struct lp_stage *stages;
    int64_t *ends;
    struct block *next;
};

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
    _Atomic(struct block *) current; /* the run that may be joined, or NULL */
    struct block *blocks;
    struct helper *helpers; /* [n_threads]; 0 is the caller and unused */
};

/* ---- tasks of a run ---- */

static void fail(struct block *b, int status, int64_t node) {
    uint64_t none = 0;
    uint64_t mine = (uint64_t)(uint32_t)status << 32 | (uint32_t)(node + 1);
    atomic_compare_exchange_strong(&b->fail, &none, mine);
}

static int failed(struct block *b) {
    return atomic_load_explicit(&b->fail, memory_order_relaxed) != 0;
}

/* Compute tasks [at, end) of a stage's list, or none of them once the run has failed. */
static void compute(struct block *b, struct lp_worker *w, const struct lp_stage *s, int64_t at,
                    int64_t end) {
    int64_t i = w->node >= s->first && w->node < s->end ? w->node : s->first;
    for (; at < end && !failed(b); at++) {
        if (lp_aborted(&b->job)) {
            fail(b, LP_E_ABORTED, -1);
            return;
        }
        while (b->ends[i] <= at)
            i++;
        int status = i == w->node ? LP_OK : lp_enter_node(&b->job, w, i);
        int64_t before = i > s->first ? b->ends[i - 1] : 0;
        if (!status)
            status = w->run(&w->args, at - before, w->scratch);
        if (status)
            fail(b, status, i);
    }
}

/* From stage s on, run every stage of one task, and return the first that has more (n_stages: none,
 * or the run has failed). Only the thread that knows all earlier tasks to be done may call it. */
static int64_t run_short_stages(struct block *b, struct lp_worker *w, int64_t s) {
    for (; s < b->n_stages && b->stages[s].n_tasks <= 1; s++)
        compute(b, w, &b->stages[s], 0, b->stages[s].n_tasks);
    return failed(b) ? b->n_stages : s;
}

static void open_stage(struct block *b, int64_t s) {
    atomic_store_explicit(&b->claim, (uint64_t)s << STAGE_SHIFT, memory_order_release);
    atomic_store(&b->turn, (uint32_t)s);
    if (atomic_load(&b->sleepers))
        lp_wake(&b->turn);
}

/* This thread has finished n tasks of stage s and found no more. */
static void report(struct block *b, struct lp_worker *w, int64_t s, int64_t n) {
    int64_t done = atomic_fetch_add_explicit(&b->done, n, memory_order_acq_rel) + n;
    if (done < b->stages[s].n_tasks)
        return;
    s = run_short_stages(b, w, s + 1);
    /* Nobody adds before the stage is open. */
    atomic_store_explicit(&b->done, 0, memory_order_relaxed);
    open_stage(b, s);
}

static int64_t stage_of(uint64_t claim) {
    return (int64_t)(claim >> STAGE_SHIFT);
}

static void await_stage_after(struct block *b, int64_t s) {
    int64_t until = 0;
    for (;;) {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (stage_of(atomic_load_explicit(&b->claim, memory_order_acquire)) != s)
                return;
            lp_pause();
        }
        int64_t now = lp_now_ns();
        if (!until)
            until = now + SPIN_STAGE_NS;
        if (now >= until)
            break;
    }
    atomic_fetch_add(&b->sleepers, 1);
    while (stage_of(atomic_load_explicit(&b->claim, memory_order_acquire)) == s)
        lp_wait(&b->turn, (uint32_t)s);
    atomic_fetch_sub(&b->sleepers, 1);
}

/* Claim and compute until the run is over. */
static void work(struct block *b, struct lp_worker *w) {
    int64_t mine = 0; /* tasks finished and not yet reported: their stage cannot end before */
    for (;;) {
        uint64_t word = atomic_load_explicit(&b->claim, memory_order_acquire);
        int64_t s = stage_of(word), at = (int64_t)(word & TASK_MASK);
        if (s == b->n_stages)
            return;
        int64_t n_tasks = b->stages[s].n_tasks;
        if (at < n_tasks) {
            /* Several at once while many are left; all of them when there is nothing to do but
             * to count them. */
            int64_t left = n_tasks - at, take = left / (8 * b->job.n_threads);
            take = failed(b) ? left : take < 1 ? 1 : take;
            word = atomic_fetch_add_explicit(&b->claim, (uint64_t)take, memory_order_acq_rel);
            s = stage_of(word), at = (int64_t)(word & TASK_MASK);
            if (s == b->n_stages)
                return;
            n_tasks = b->stages[s].n_tasks;
            if (at < n_tasks) {
                int64_t end = at + take < n_tasks ? at + take : n_tasks;
                compute(b, w, &b->stages[s], at, end);
                mine += end - at;
                continue;
            }
        }
        if (mine) {
            report(b, w, s, mine);
            mine = 0;
        } else {
            await_stage_after(b, s);
        }
    }
}

/* ---- helpers ---- */

static void release(struct block *b) {
    atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
}

/* The current run with a reference taken, or NULL. Blocks are freed with the pool only, so the
 * count may be touched before it is known whether the block is still the current one. */
static struct block *acquire(struct lp_pool *p) {
    struct block *b = atomic_load(&p->current);
    while (b) {
        atomic_fetch_add(&b->refs, 1);
        struct block *now = atomic_load(&p->current);
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
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
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
        struct block *b = acquire(h->pool);
        if (!b)
            continue;
        if (h->index < b->job.n_threads) {
            struct lp_worker w = {.node = -1};
            w.scratch = b->job.scratch + h->index * b->job.scratch_bytes;
            work(b, &w);
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
    for (struct block *b = p->blocks, *next; b; b = next) {
        next = b->next;
        free(b->stages);
        free(b->ends);
        free(b);
    }
    pthread_mutex_destroy(&p->one_run);
    free(p->helpers);
    free(p);
}

/* A block that no helper looks at any more, with the caller's reference; room for n nodes. */
static struct block *take_block(struct lp_pool *p, int64_t n) {
    struct block *b = p->blocks;
    for (; b; b = b->next) {
        int32_t none = 0;
        if (atomic_compare_exchange_strong(&b->refs, &none, 1))
            break;
    }
    if (!b) {
        b = aligned_alloc(LP_LINE, sizeof *b);
        if (!b)
            return NULL;
        *b = (struct block){.next = p->blocks};
        atomic_init(&b->refs, 1);
        p->blocks = b;
    }
    if (b->capacity < n) {
        free(b->stages);
        free(b->ends);
        b->stages = malloc(sizeof *b->stages * (size_t)n);
        b->ends = malloc(sizeof *b->ends * (size_t)n);
        b->capacity = b->stages && b->ends ? n : 0;
        if (!b->capacity) {
            release(b);
            return NULL;
        }
    }
    return b;
}

static int run_shared(struct lp_pool *p, const struct lp_job *job, int64_t *fault) {
    struct block *b = take_block(p, job->n);
    if (!b)
        return LP_E_MEMORY;
    b->job = *job;
    b->n_stages = lp_cut_stages(job->nodes, job->n, b->stages, b->ends, fault);
    if (b->n_stages < 0 || b->n_stages > LP_MAX_STAGES) {
        release(b);
        return LP_E_PLAN;
    }
    atomic_store(&b->fail, 0);
    atomic_store(&b->done, 0);
    struct lp_worker w = {.node = -1, .scratch = job->scratch};
    int64_t s = run_short_stages(b, &w, 0);
    if (s < b->n_stages) {
        open_stage(b, s);
        atomic_store(&p->current, b);
        for (int i = 1; i < job->n_threads; i++)
            call_helper(&p->helpers[i]);
        work(b, &w);
        atomic_store(&p->current, NULL);
    }
    uint64_t failure = atomic_load(&b->fail);
    release(b);
    if (failure)
        *fault = (int64_t)(failure & UINT32_MAX) - 1;
    return (int)(failure >> 32);
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
