/* Waiting for a word to change: a pause for spinning, a clock to bound it, and a sleep.
 *
 * lp_wait sleeps while *word == old (it may return early: look again). lp_wake wakes all who sleep
 * on the word; write the word first. Linux sleeps on a futex, other systems on one condition. */
#ifndef LP_WAIT_H
#define LP_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

void lp_wait(_Atomic uint32_t *word, uint32_t old);
void lp_wake(_Atomic uint32_t *word);
/* Nanoseconds of a clock that never runs backwards. */
int64_t lp_now_ns(void);

static inline void lp_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb"); /* `yield` does nothing on most cores */
#endif
}

#endif
