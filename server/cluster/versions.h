/* versions.h: the dataset version that a home last gave each job of other nodes. A home that gave a job other files
 * than before would mix two versions in one epoch. A change that the version's content does not show is seen by the
 * times of the home's own files. Pure; one owner. */
#ifndef LARDER_SERVER_CLUSTER_VERSIONS_H
#define LARDER_SERVER_CLUSTER_VERSIONS_H

#include "common/dataset_version.h"
#include "server/cluster/guests.h"

#define VERSIONS_MAX 512 /* jobs that are remembered: of more, those whose guests came last */

struct versions {
    struct versions_row {
        struct guests_key key;
        struct dataset_version given;
        uint64_t used; /* 0: the row is free */
    } rows[VERSIONS_MAX];
    uint64_t uses;
};

/* versions_may_give says whether a home that has the dataset in version `here` may give it to a job whose anchor has it
 * in version `wanted`. The two must agree, and the home's files must have the times that they had when it gave the job
 * something before. NULL: it may, and that is noted. Else it returns a static text that says why not. */
const char *versions_may_give(struct versions *versions, const struct guests_key *key,
                              const struct dataset_version *wanted, const struct dataset_version *here);

#endif
