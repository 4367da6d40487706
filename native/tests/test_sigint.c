/* SIGINT sets the watched flag and then reaches whoever was there before. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fake.h"

#include <signal.h>

static volatile sig_atomic_t seen;
static int32_t flag;

static void host_handler(int sig) {
    seen = sig;
}

static struct sigaction current(void) {
    struct sigaction a;
    CHECK(!sigaction(SIGINT, NULL, &a));
    return a;
}

int main(void) {
    struct sigaction host = {.sa_handler = host_handler, .sa_flags = SA_RESTART};
    sigaddset(&host.sa_mask, SIGTERM);
    CHECK(!sigaction(SIGINT, &host, NULL));

    CHECK(lp_sigint_watch(&flag) == LP_OK);
    CHECK(lp_sigint_watch(&flag) == LP_OK); /* twice does not stack */
    raise(SIGINT);
    CHECK(flag == 1 && seen == SIGINT);
    lp_sigint_unwatch();
    struct sigaction now = current();
    CHECK(now.sa_handler == host_handler && (now.sa_flags & SA_RESTART));
    CHECK(!(now.sa_flags & SA_SIGINFO) && sigismember(&now.sa_mask, SIGTERM));
    flag = 0, seen = 0;
    raise(SIGINT);
    CHECK(flag == 0 && seen == SIGINT);
    lp_sigint_unwatch(); /* nothing to undo */

    /* A handler that came later is not thrown out. */
    CHECK(lp_sigint_watch(&flag) == LP_OK);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    CHECK(!sigaction(SIGINT, &ignore, NULL));
    lp_sigint_unwatch();
    CHECK(current().sa_handler == SIG_IGN);

    /* An ignored signal stays ignored: a background job must not die of Ctrl-C. */
    CHECK(lp_sigint_watch(&flag) == LP_OK);
    raise(SIGINT);
    CHECK(flag == 0 && current().sa_handler == SIG_IGN);
    lp_sigint_unwatch();

    /* A plan that is running is ended by the signal. */
    CHECK(!sigaction(SIGINT, &host, NULL));
    CHECK(lp_sigint_watch(&flag) == LP_OK);
    struct lp_node n = node(ONCE, 0, 1);
    int64_t ran = 0, fault;
    char *slots[1] = {(char *)&ran};
    n.dst.slot = 0;
    struct lp_pool *p = lp_pool_new(1);
    raise(SIGINT);
    CHECK(lp_run(p, &n, 1, slots, 1, NULL, 0, 1, &flag, &fault) == LP_E_ABORTED && ran == 0);
    lp_sigint_unwatch();
    lp_pool_free(p);
    return 0;
}
