/* Ctrl-C during a run: the host program's handler only takes note and acts when the call returns,
 * so ours stands in front of it and sets the run's abort flag. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "lp.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(int32_t *) watched;
static struct sigaction before; /* written only while our handler is not installed */
static int installed;

static void on_sigint(int sig, siginfo_t *info, void *context) {
    int saved = errno;
    int32_t *flag = atomic_load(&watched);
    if (flag)
        __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(sig, info, context);
    } else if (before.sa_handler == SIG_DFL) {
        sigaction(sig, &before, NULL);
        raise(sig); /* delivered when this handler returns */
    } else {
        before.sa_handler(sig);
    }
    errno = saved;
}

static int is_ours(const struct sigaction *a) {
    return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == on_sigint;
}

int lp_sigint_watch(int32_t *flag) {
    struct sigaction now;
    int status = LP_OK;
    pthread_mutex_lock(&lock);
    if (sigaction(SIGINT, NULL, &now))
        status = LP_E_PLAN;
    else if (!is_ours(&now) && ((now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_IGN)) {
        struct sigaction ours = {.sa_mask = now.sa_mask};
        ours.sa_sigaction = on_sigint;
        ours.sa_flags = SA_SIGINFO | (now.sa_flags & (SA_RESTART | SA_ONSTACK));
        before = now;
        installed = sigaction(SIGINT, &ours, NULL) == 0;
    }
    atomic_store(&watched, flag);
    pthread_mutex_unlock(&lock);
    return status;
}

void lp_sigint_unwatch(void) {
    struct sigaction now;
    pthread_mutex_lock(&lock);
    /* Whoever has put another handler in place since then keeps it. */
    if (installed && !sigaction(SIGINT, NULL, &now) && is_ours(&now))
        sigaction(SIGINT, &before, NULL);
    installed = 0;
    atomic_store(&watched, NULL);
    pthread_mutex_unlock(&lock);
}
