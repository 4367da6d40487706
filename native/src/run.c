/* A run in progress: stages of tasks, worked off by the caller and its helpers.
 *
 * A stage's list of tasks is cut into one lane per thread. A thread takes tasks from the front of
 * its own lane, so that it reads weights in one go, then from the front of the others'. A lane is
 * one claim word: the current stage in its high bits, how many of its tasks are taken in the low
 * ones. Threads claim with fetch_add and count what they did; a thread that finds all lanes empty
 * adds its count to `done`. The one that makes it full (the completer) opens the next stage by
 * writing the lanes, then `turn`, which the others wait for. A stage of one task, or of a few small
 * ones, is run by the completer on the spot, since handing it over would cost more.
 *
 * A helper that comes late finds another stage or the end in the claim words. */
#include "run.h"
#include "wait.h"

#include <stdlib.h>

/* How long to spin for the end of a stage before sleeping: waking a sleeper takes 5 to 50 us. */
#define SPIN_STAGE_NS 30000

#define STAGE_SHIFT 40
#define TASK_MASK (((uint64_t)1 << STAGE_SHIFT) - 1)

struct lp_lane {
    _Alignas(LP_LINE) _Atomic uint64_t claim; /* stage << 40 | tasks taken */
};

static void fail(struct lp_block *b, int status, int64_t node) {
    uint64_t none = 0;
    uint64_t mine = (uint64_t)(uint32_t)status << 32 | (uint32_t)(node + 1);
    atomic_compare_exchange_strong(&b->fail, &none, mine);
}

static int failed(struct lp_block *b) {
    return atomic_load_explicit(&b->fail, memory_order_relaxed) != 0;
}

/* Compute tasks [at, end) of a stage's list, or none of them once the run has failed. */
static void compute(struct lp_block *b, struct lp_worker *w, const struct lp_stage *s, int64_t at,
                    int64_t end) {
    int64_t i = w->node >= s->first && w->node < s->end ? w->node : s->first;
    if (i > s->first && b->ends[i - 1] > at)
        i = s->first;
    for (; at < end && !failed(b); at++) {
        if (lp_aborted(&b->job)) {
            fail(b, LP_E_ABORTED, -1);
            return;
        }
        while (b->ends[i] <= at)
            i++;
        int status = i == w->node ? LP_OK : lp_enter_node(&b->job, w, i);
        int64_t before = i > s->first ? b->ends[i - 1] : 0;
        if (!status) {
            status = w->run(&w->args, at - before, w->scratch);
            w->args.again = 1;
        }
        if (status)
            fail(b, status, i);
    }
}

/* From stage s on, run every stage for one thread, and return the first for more (n_stages: none,
 * or the run has failed). Only the thread that knows all earlier tasks to be done may call it. */
static int64_t run_short_stages(struct lp_block *b, struct lp_worker *w, int64_t s) {
    for (; s < b->n_stages && b->stages[s].alone; s++)
        compute(b, w, &b->stages[s], 0, b->stages[s].n_tasks);
    return failed(b) ? b->n_stages : s;
}

static void open_stage(struct lp_block *b, int64_t s) {
    for (int i = 0; i < b->job.n_threads; i++)
        atomic_store_explicit(&b->lanes[i].claim, (uint64_t)s << STAGE_SHIFT, memory_order_release);
    atomic_store(&b->turn, (uint32_t)s);
    if (atomic_load(&b->sleepers))
        lp_wake(&b->turn);
}

/* This thread has finished n tasks of stage s and found no more. */
static void report(struct lp_block *b, struct lp_worker *w, int64_t s, int64_t n) {
    int64_t done = atomic_fetch_add_explicit(&b->done, n, memory_order_acq_rel) + n;
    if (done < b->stages[s].n_tasks)
        return;
    s = run_short_stages(b, w, s + 1);
    /* Nobody adds before the stage is open. */
    atomic_store_explicit(&b->done, 0, memory_order_relaxed);
    open_stage(b, s);
}

static uint32_t turn_of(struct lp_block *b) {
    return atomic_load_explicit(&b->turn, memory_order_acquire);
}

static void await_turn_after(struct lp_block *b, uint32_t turn) {
    int64_t until = 0;
    for (;;) {
        for (int i = 0; i < LP_PAUSES_PER_LOOK; i++) {
            if (turn_of(b) != turn)
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
    while (turn_of(b) == turn)
        lp_wait(&b->turn, turn);
    atomic_fetch_sub(&b->sleepers, 1);
}

/* Take tasks from the front of lane i of stage *s: [*at, *end) of the stage's list. False when
 * there are none. *s may come back as a later stage, where this thread then has claimed tasks. */
static bool claim(struct lp_block *b, int i, int64_t *s, int64_t *at, int64_t *end) {
    const int64_t n = b->job.n_threads;
    struct lp_lane *lane = &b->lanes[i];
    uint64_t word = atomic_load_explicit(&lane->claim, memory_order_acquire);
    if (*s == b->n_stages || (int64_t)(word >> STAGE_SHIFT) != *s)
        return false;
    int64_t n_tasks = b->stages[*s].n_tasks, first = n_tasks * i / n;
    int64_t left = n_tasks * (i + 1) / n - first - (int64_t)(word & TASK_MASK);
    if (left <= 0)
        return false;
    /* Several at once while many are left; all of them when there is nothing to do but to count
     * them. */
    int64_t take = failed(b) ? left : left < 16 ? 1 : left / 8;
    word = atomic_fetch_add_explicit(&lane->claim, (uint64_t)take, memory_order_acq_rel);
    *s = (int64_t)(word >> STAGE_SHIFT);
    if (*s == b->n_stages)
        return false;
    n_tasks = b->stages[*s].n_tasks, first = n_tasks * i / n;
    int64_t limit = n_tasks * (i + 1) / n;
    *at = first + (int64_t)(word & TASK_MASK);
    *end = *at + take < limit ? *at + take : limit;
    return *at < *end;
}

void lp_block_work(struct lp_block *b, struct lp_worker *w, int own) {
    for (;;) {
        uint32_t turn = turn_of(b);
        int64_t s = turn, mine = 0, at, end; /* mine: finished, so that stage s cannot end before */
        if (s == b->n_stages)
            return;
        for (int v = 0, i = own; v < b->job.n_threads; v++) {
            while (claim(b, i, &s, &at, &end)) {
                compute(b, w, &b->stages[s], at, end);
                mine += end - at;
            }
            i = i + 1 < b->job.n_threads ? i + 1 : 0;
        }
        if (mine)
            report(b, w, s, mine);
        else
            await_turn_after(b, turn);
    }
}

struct lp_block *lp_block_new(int n_threads) {
    struct lp_block *b = aligned_alloc(LP_LINE, sizeof *b);
    struct lp_lane *lanes = aligned_alloc(LP_LINE, sizeof *lanes * (size_t)n_threads);
    if (!b || !lanes) {
        free(b);
        free(lanes);
        return NULL;
    }
    *b = (struct lp_block){.lanes = lanes};
    atomic_init(&b->refs, 1);
    return b;
}

void lp_block_free(struct lp_block *b) {
    free(b->stages);
    free(b->ends);
    free(b->lanes);
    free(b);
}

static int make_room(struct lp_block *b, int64_t n) {
    if (b->capacity >= n)
        return LP_OK;
    free(b->stages);
    free(b->ends);
    b->stages = malloc(sizeof *b->stages * (size_t)n);
    b->ends = malloc(sizeof *b->ends * (size_t)n);
    b->capacity = b->stages && b->ends ? n : 0;
    return b->capacity ? LP_OK : LP_E_MEMORY;
}

int lp_block_open(struct lp_block *b, struct lp_worker *w, const struct lp_job *job,
                  int64_t *fault) {
    if (make_room(b, job->n))
        return LP_E_MEMORY;
    b->job = *job;
    b->n_stages = lp_cut_stages(job->nodes, job->n, b->stages, b->ends, fault);
    if (b->n_stages < 0 || b->n_stages > LP_MAX_STAGES)
        return LP_E_PLAN;
    atomic_store(&b->fail, 0);
    atomic_store(&b->done, 0);
    open_stage(b, run_short_stages(b, w, 0));
    return LP_OK;
}

bool lp_block_over(struct lp_block *b) {
    return turn_of(b) == b->n_stages;
}

int lp_block_status(struct lp_block *b, int64_t *fault) {
    uint64_t failure = atomic_load(&b->fail);
    if (failure)
        *fault = (int64_t)(failure & UINT32_MAX) - 1;
    return (int)(failure >> 32);
}
