/* hosts.h: the setting cluster.nodes as a list of addresses. Pure. */
#ifndef LARDER_SERVER_DISCOVERY_HOSTS_H
#define LARDER_SERVER_DISCOVERY_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/discovery/slurm.h"

/* hosts_check says whether the text is "host:port" or "[IPv6]:port". LARDER_EINVAL. */
int hosts_check(const char *address, struct error *err);
/* hosts_list returns the addresses of a static list: each entry is one, or `slurm`, which stands for the hosts of
 * slurm_list (SLURM_JOB_NODELIST; NULL: this is no job of Slurm's), each with this port. The caller frees *out with
 * slurm_free. LARDER_EINVAL, LARDER_ELIMIT. */
int hosts_list(const char *const *entries, size_t count, const char *slurm_list, uint16_t port, struct slurm_hosts *out,
               struct error *err);

#endif
