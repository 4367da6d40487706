/* A run in progress (run.c): what the pool's threads share. */
#ifndef LP_RUN_H
#define LP_RUN_H

#include "plan.h"

#include <stdatomic.h>
#include <stdbool.h>

#define LP_PAUSES_PER_LOOK 32 /* at a word that is spun on, before the clock is read */

struct lp_block {
    _Alignas(LP_LINE) _Atomic uint32_t turn; /* the stage that is open */
    _Atomic uint32_t sleepers;               /* on turn */
    _Alignas(LP_LINE) _Atomic int64_t done;  /* finished tasks of the current stage */
    _Atomic uint64_t fail;                  /* status << 32 | node + 1 of the first failure, or 0 */
    _Alignas(LP_LINE) _Atomic int32_t refs; /* the caller's and each helper's: the pool's */
    struct lp_job job;
    int64_t n_stages, capacity;
    struct lp_stage *stages;
    int64_t *ends;
    struct lp_lane *lanes; /* [threads of the pool] */
    struct lp_block *next; /* the pool's */
};

/* With one reference; NULL without memory. */
struct lp_block *lp_block_new(int n_threads);
void lp_block_free(struct lp_block *b);
/* Start a job: the stages before the first that is worth sharing are computed. Returns a status;
 * one other than LP_OK means that nothing was started. */
int lp_block_open(struct lp_block *b, struct lp_worker *w, const struct lp_job *job,
                  int64_t *fault);
bool lp_block_over(struct lp_block *b);
/* Claim and compute until the run is over; the thread's own lane is number `own`. */
void lp_block_work(struct lp_block *b, struct lp_worker *w, int own);
/* Status of a run that is over, *fault set unless it is LP_OK. */
int lp_block_status(struct lp_block *b, int64_t *fault);

#endif
