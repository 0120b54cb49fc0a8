/* thread.h: starting the daemon's threads. */
#ifndef LARDER_COMMON_THREAD_H
#define LARDER_COMMON_THREAD_H

#include <pthread.h>

/* thread_start starts a thread in which every signal that a process may be sent is blocked (they are the main
 * thread's), faults apart, and names it (15 bytes are shown). Gives 0 or an errno. */
int thread_start(pthread_t *out, const char *name, void *(*run)(void *arg), void *arg);

#endif
