/* clock.h: monotonic time and a thread's own time, in nanoseconds. The engine never calls this: its events bring the
 * time. */
#ifndef LARDER_COMMON_CLOCK_H
#define LARDER_COMMON_CLOCK_H

#include <stdint.h>

#define CLOCK_NS_PER_S UINT64_C(1000000000)
#define CLOCK_NS_PER_MS UINT64_C(1000000)

/* clock_now_ns returns the time since a fixed point in the past. It never goes back. */
uint64_t clock_now_ns(void);
/* clock_thread_ns returns the CPU time of the calling thread. */
uint64_t clock_thread_ns(void);

#endif
