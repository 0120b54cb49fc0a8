/* slurm.h: Slurm's short way of writing lists of hosts: "n[01-03,7],m1" is n01, n02, n03, n7, m1. Pure. */
#ifndef LARDER_SERVER_DISCOVERY_SLURM_H
#define LARDER_SERVER_DISCOVERY_SLURM_H

#include <stdint.h>

#include "common/error.h"

#define SLURM_HOSTS_MAX 4096
#define SLURM_HOST_MAX 256 /* bytes of a name, its NUL included */

struct slurm_hosts {
    char **names;
    uint32_t count;
};

/* slurm_expand reads a list such as SLURM_JOB_NODELIST. A name may have several brackets: "r[1-2]n[1-4]" is eight
 * hosts. Digits in front of a range's first number set the width of all its numbers. The caller frees *out with
 * slurm_free. LARDER_EINVAL: it is no such list; LARDER_ELIMIT: more than SLURM_HOSTS_MAX, or a name is too long. */
int slurm_expand(const char *list, struct slurm_hosts *out, struct error *err);
void slurm_free(struct slurm_hosts *hosts);

#endif
