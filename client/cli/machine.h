/* machine.h: what the machine and the cgroup of a process allow it. */
#ifndef LARDER_CLIENT_CLI_MACHINE_H
#define LARDER_CLIENT_CLI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* 0 where it is not known, or where there is no limit. */
struct cli_machine {
    double cores;                        /* processor cores that the process may run on */
    double idle_s;                       /* of all cores of the machine, since it was started */
    double quota_cores;                  /* the cores' worth of time that its cgroup has */
    uint64_t periods, throttled_periods; /* periods of that quota, and those in which it was used up */
    uint64_t memory_bytes, available_bytes, page_cache_bytes; /* memory of the machine */
    uint64_t limit_bytes;                                     /* memory limit of the cgroup */
};

/* cli_machine_read reads a process's data from /proc and /sys. root is put before both paths; it is "" except in
 * tests. */
void cli_machine_read(const char *root, long pid, struct cli_machine *out);

/* cli_throttled returns the part of the periods between two readings in which the quota was used up; 0: there is no
 * quota, or no period has passed. */
double cli_throttled(const struct cli_machine *before, const struct cli_machine *now);

#endif
