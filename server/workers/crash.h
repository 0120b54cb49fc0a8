/* crash.h: a thread that crashes while it prepares a sample says so in its record (common/poison.h).
 *
 * The signals are those that a thread's own mistake raises: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, and SIGTRAP, by
 * which glib ends a process. Their handler stores two numbers and then lets happen what would have happened without
 * it: a core dump, or a sanitizer's report. A signal that somebody else sends marks nothing. */
#ifndef LARDER_SERVER_WORKERS_CRASH_H
#define LARDER_SERVER_WORKERS_CRASH_H

#include <stddef.h>

#include "common/poison.h"

/* crash_watch takes the signals over, and crash_unwatch gives them back. One thread calls both, alternately. */
void crash_watch(void);
void crash_unwatch(void);

/* The stack that a thread's handler runs on, for the thread's own may be what has run out. */
struct crash_stack {
    void *base; /* NULL: the thread has one of somebody else's, or there was no memory for one */
    size_t bytes;
};

/* crash_thread_begin names the calling thread's record, which must be valid until crash_thread_end. */
void crash_thread_begin(struct poison_record *record, struct crash_stack *stack);
void crash_thread_end(struct crash_stack *stack);

#endif
