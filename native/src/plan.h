/* A plan during one run: what a thread needs to compute tasks, and the stages it is cut into. */
#ifndef LP_PLAN_H
#define LP_PLAN_H

#include "lp.h"

/* Tasks of a stage: the claim word keeps 40 bits for them, and threads overshoot it. */
#define LP_MAX_TASKS ((int64_t)1 << 28)
#define LP_MAX_STAGES ((int64_t)1 << 22)
#define LP_MAX_THREADS 1024
#define LP_LINE 64

/* Nodes [first, end) between two syncs. Their tasks form one list of n_tasks. `alone`: one thread
 * does them sooner than it could share them: a few nodes so small that none is cut. */
struct lp_stage {
    int64_t first, end, n_tasks;
    int alone;
};
#define LP_ALONE 4 /* tasks at most */

/* The arguments of lp_run. */
struct lp_job {
    const struct lp_node *nodes;
    int64_t n;
    char *const *slots;
    int64_t n_slots;
    char *scratch;
    int64_t scratch_bytes;
    int n_threads;
    const volatile int32_t *abort_flag;
};

/* What one thread has resolved: the node its last task belonged to. */
struct lp_worker {
    int64_t node; /* -1: none yet */
    lp_run_fn run;
    char *scratch;
    struct lp_args args;
};

/* One record is fit to run: kernel, source count and task count are in range. */
int lp_check_node(const struct lp_node *n);
/* Point the worker at node i: LP_OK or LP_E_PLAN (a slot that is not bound). */
int lp_enter_node(const struct lp_job *job, struct lp_worker *w, int64_t i);
/* The whole plan on the calling thread. */
int lp_run_alone(const struct lp_job *job, int64_t *fault);
/* Cut nodes into stages[<= n] and fill ends[i] with the number of tasks of node i's stage up to
 * and including node i. Returns the number of stages, or -1 with *fault set. */
int64_t lp_cut_stages(const struct lp_node *nodes, int64_t n, struct lp_stage *stages,
                      int64_t *ends, int64_t *fault);

static inline int lp_aborted(const struct lp_job *job) {
    return job->abort_flag && __atomic_load_n(job->abort_flag, __ATOMIC_RELAXED);
}

#endif
