#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "wait.h"

#include <time.h>

int64_t lp_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#if defined(__linux__)

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void lp_wait(_Atomic uint32_t *word, uint32_t old) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

void lp_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#else

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void lp_wait(_Atomic uint32_t *word, uint32_t old) {
    pthread_mutex_lock(&lock);
    if (atomic_load(word) == old)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void lp_wake(_Atomic uint32_t *word) {
    (void)word;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

#endif
