/* Preparing a plan, and what running it takes apart from threads (pool.c). */
#include "plan.h"

int lp_check_node(const struct lp_node *n) {
    if (n->kernel >= (uint64_t)lp_kernel_count() || n->n_src < 0 || n->n_src > LP_MAX_SRC)
        return LP_E_PLAN;
    return n->n_tasks < 0 || n->n_tasks > LP_MAX_TASKS ? LP_E_PLAN : LP_OK;
}

int lp_prepare(struct lp_node *nodes, int64_t n, int n_threads, int64_t *scratch_bytes,
               int64_t *fault) {
    int64_t most = 0;
    *scratch_bytes = 0;
    *fault = -1;
    if (n < 0 || n_threads < 1)
        return LP_E_PLAN;
    for (int64_t i = 0; i < n; i++) {
        nodes[i].n_tasks = 0;
        *fault = i;
        if (lp_check_node(&nodes[i]))
            return LP_E_PLAN;
        const struct lp_kernel *k = lp_kernel_at((int64_t)nodes[i].kernel);
        int64_t n_tasks = k->split(&nodes[i], n_threads);
        int64_t bytes = k->scratch(&nodes[i]);
        if (n_tasks < 0 || bytes < 0)
            return LP_E_TYPES;
        nodes[i].n_tasks = n_tasks;
        if (lp_check_node(&nodes[i]))
            return LP_E_PLAN;
        most = bytes > most ? bytes : most;
    }
    *fault = -1;
    /* One line more, so that two threads never write to one even when a kernel uses all it has. */
    *scratch_bytes = (most + LP_LINE - 1) / LP_LINE * LP_LINE + LP_LINE;
    return LP_OK;
}

/* NULL for LP_NO_SLOT; *bad is set for a slot that is not bound. */
static char *address(const struct lp_job *job, const struct lp_opnd *o, int *bad) {
    if (o->slot == LP_NO_SLOT)
        return NULL;
    if (o->slot >= (uint64_t)job->n_slots) {
        *bad = 1;
        return NULL;
    }
    return job->slots[o->slot] + o->offs;
}

int lp_enter_node(const struct lp_job *job, struct lp_worker *w, int64_t i) {
    const struct lp_node *n = &job->nodes[i];
    int bad = 0;
    w->node = i;
    w->run = lp_kernel_at((int64_t)n->kernel)->run;
    w->args.n = n;
    w->args.again = 0;
    w->args.dst = address(job, &n->dst, &bad);
    for (int64_t s = 0; s < LP_MAX_SRC; s++)
        w->args.src[s] = s < n->n_src ? address(job, &n->src[s], &bad) : NULL;
    return bad ? LP_E_PLAN : LP_OK;
}

int lp_run_alone(const struct lp_job *job, int64_t *fault) {
    struct lp_worker w = {.node = -1, .scratch = job->scratch};
    for (int64_t i = 0; i < job->n; i++) {
        int status = lp_check_node(&job->nodes[i]);
        if (!status && job->nodes[i].n_tasks > 0)
            status = lp_enter_node(job, &w, i);
        for (int64_t t = 0; !status && t < job->nodes[i].n_tasks; t++) {
            if (lp_aborted(job))
                return LP_E_ABORTED;
            status = w.run(&w.args, t, w.scratch);
            w.args.again = 1;
        }
        if (status) {
            *fault = i;
            return status;
        }
    }
    return LP_OK;
}

int64_t lp_cut_stages(const struct lp_node *nodes, int64_t n, struct lp_stage *stages,
                      int64_t *ends, int64_t *fault) {
    int64_t n_stages = 0, sum = 0;
    struct lp_stage *s = NULL;
    for (int64_t i = 0; i < n; i++) {
        if (i + 8 < n) /* a record is many lines long: nothing else fetches its first one */
            __builtin_prefetch(&nodes[i + 8]);
        if (!s || (nodes[i].flags & LP_SYNC)) {
            s = &stages[n_stages++];
            *s = (struct lp_stage){i, i, 0, 1};
            sum = 0;
        }
        if (lp_check_node(&nodes[i]) || sum + nodes[i].n_tasks > LP_MAX_TASKS) {
            *fault = i;
            return -1;
        }
        sum += nodes[i].n_tasks;
        ends[i] = sum;
        s->end = i + 1;
        s->n_tasks = sum;
        s->alone &= nodes[i].n_tasks <= 1 && sum <= LP_ALONE;
    }
    return n_stages;
}
