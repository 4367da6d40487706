/* lp_prepare, and what lp_run refuses. */
#include "fake.h"

static void prepare_fills_tasks_and_scratch(void) {
    struct lp_node nodes[3] = {node(ONCE, 0, 7), node(MIX, LP_SYNC, 0), node(SLOW, 0, 1)};
    int64_t scratch, fault;
    for (int i = 0; i < 3; i++)
        nodes[i].n_tasks = -5;
    nodes[1].ip[3] = 65;
    CHECK(lp_prepare(nodes, 3, 2, &scratch, &fault) == LP_OK);
    CHECK(fault == -1 && nodes[0].n_tasks == 7 && nodes[1].n_tasks == 0 && nodes[2].n_tasks == 1);
    CHECK(scratch >= 65 + 64 && scratch % 64 == 0); /* a line is left between two threads */
    CHECK(lp_prepare(nodes, 0, 1, &scratch, &fault) == LP_OK && fault == -1);
}

static void prepare_names_the_record_at_fault(void) {
    int64_t scratch, fault;
    struct lp_node nodes[3] = {node(ONCE, 0, 1), node(ONCE, 0, 1), node(ONCE, 0, 1)};
    nodes[1].kernel = N_FAKE;
    CHECK(lp_prepare(nodes, 3, 1, &scratch, &fault) == LP_E_PLAN && fault == 1);
    nodes[1] = node(ONCE, 0, 1);
    nodes[2].n_src = LP_MAX_SRC + 1;
    CHECK(lp_prepare(nodes, 3, 1, &scratch, &fault) == LP_E_PLAN && fault == 2);
    nodes[2].n_src = -1;
    CHECK(lp_prepare(nodes, 3, 1, &scratch, &fault) == LP_E_PLAN && fault == 2);
    nodes[2].n_src = 0;
    nodes[0].ip[0] = -1; /* the family takes no such shapes */
    CHECK(lp_prepare(nodes, 3, 1, &scratch, &fault) == LP_E_TYPES && fault == 0);
    nodes[0].ip[0] = (int64_t)1 << 40;
    CHECK(lp_prepare(nodes, 3, 1, &scratch, &fault) == LP_E_PLAN && fault == 0);
    nodes[0].ip[0] = 1;
    CHECK(lp_prepare(nodes, 3, 0, &scratch, &fault) == LP_E_PLAN && fault == -1);
    CHECK(lp_prepare(nodes, 3, 1, &scratch, &fault) == LP_OK);
}

static void run_refuses_a_malformed_plan(struct lp_pool *p, int n_threads) {
    _Alignas(64) static char scratch[64 * 4];
    int64_t data[8] = {0}, fault;
    char *slots[1] = {(char *)data};
    struct lp_node nodes[3] = {node(ONCE, 0, 4), node(ONCE, LP_SYNC, 4), node(ONCE, 0, 2)};
    for (int i = 0; i < 3; i++)
        nodes[i].dst.slot = 0;
#define RUN(n, s, bytes, t) lp_run(p, nodes, n, slots, 1, s, bytes, t, NULL, &fault)
    CHECK(RUN(3, scratch, 64, n_threads) == LP_OK && fault == -1);
    CHECK(data[0] == 3 && data[3] == 2 && data[4] == 0);
    CHECK(RUN(3, scratch, 65, n_threads) == LP_E_SCRATCH && fault == -1);
    CHECK(RUN(3, scratch + 1, 64, n_threads) == LP_E_SCRATCH);
    CHECK(RUN(-1, scratch, 64, n_threads) == LP_E_PLAN);
    CHECK(RUN(3, scratch, 64, 0) == LP_E_PLAN);
    CHECK(RUN(3, scratch, 64, 99) == LP_E_PLAN && fault == -1);
    nodes[2].dst.slot = 1; /* not bound */
    CHECK(RUN(3, scratch, 64, n_threads) == LP_E_PLAN && fault == 2);
    nodes[2].dst.slot = 0;
    nodes[1].n_src = 1;
    nodes[1].src[0].slot = 7;
    CHECK(RUN(3, scratch, 64, n_threads) == LP_E_PLAN && fault == 1);
    nodes[1].n_src = 0;
    nodes[1].kernel = N_FAKE;
    CHECK(RUN(3, scratch, 64, n_threads) == LP_E_PLAN && fault == 1);
    nodes[1].kernel = ONCE;
    nodes[0].n_tasks = -1;
    CHECK(RUN(3, scratch, 64, n_threads) == LP_E_PLAN && fault == 0);
    nodes[0].n_tasks = 4;
    nodes[1].flags = nodes[2].flags = LP_SYNC; /* they write the same places */
    CHECK(RUN(3, scratch, 64, n_threads) == LP_OK && fault == -1);
    CHECK(RUN(0, scratch, 64, n_threads) == LP_OK && fault == -1);
#undef RUN
}

int main(void) {
    prepare_fills_tasks_and_scratch();
    prepare_names_the_record_at_fault();
    struct lp_pool *p = lp_pool_new(3);
    CHECK(p);
    for (int n = 1; n <= 3; n++)
        run_refuses_a_malformed_plan(p, n);
    lp_pool_free(p);
    return 0;
}
