/* aside.h: calls that the kernel may keep for ever. A read of a FUSE file system waits for the program that serves it,
 * and no signal ends that, SIGKILL neither: the process of a thread that waits so cannot go away. Other file systems
 * let a killed process go. */
#ifndef LARDER_COMMON_ASIDE_H
#define LARDER_COMMON_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

/* aside_run runs a function in a process of its own, which shares this one's memory and descriptors, and waits for its
 * end. So a process that is killed meanwhile can end at once; the other one ends when the kernel lets it. The function
 * may do all that the calling thread may, on ASIDE_STACK_BYTES of stack, except starting threads. If no such process
 * can be made, the calling thread runs the function. It takes some 50 us. */
void aside_run(void (*run)(void *ctx), void *ctx);
#define ASIDE_STACK_BYTES (256u << 10)

/* aside_suits tells whether a device (st_dev) is a FUSE file system, as far as it was known some seconds ago. Without
 * asking the file system itself. Any thread. */
bool aside_suits(uint64_t device);

#endif
