/* cgroup.h: what the control groups around this process allow it. */
#ifndef LARDER_COMMON_CGROUP_H
#define LARDER_COMMON_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* cgroup_visit calls visit with the folder of this process's control group that limits `controller` ("cpu", "memory"),
 * and of each group around it; a container sees its own as the outermost. v2 says which cgroup version it is. A folder
 * may be missing. root is put before /proc and /sys: "" except in tests. */
void cgroup_visit(const char *root, const char *controller, void (*visit)(void *ctx, const char *folder, bool v2),
                  void *ctx);
/* cgroup_cores returns how many cores this process can keep busy: those that it may run on, or fewer where a group's
 * quota is less. A part of a core counts as a whole one. At least 1. */
uint32_t cgroup_cores(const char *root);

#endif
