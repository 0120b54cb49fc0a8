/* clock.h: monotonic time, and a thread's own, in nanoseconds. The engine never calls this: time comes to it inside its
 * events. */
#ifndef LARDER_COMMON_CLOCK_H
#define LARDER_COMMON_CLOCK_H

#include <stdint.h>

#define CLOCK_NS_PER_S UINT64_C(1000000000)
#define CLOCK_NS_PER_MS UINT64_C(1000000)

uint64_t clock_now_ns(void);
/* clock_thread_ns: time that the calling thread has had a core. */
uint64_t clock_thread_ns(void);

#endif
