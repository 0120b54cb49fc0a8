/* explain_priv.h: what the files of `larder explain` have in common. Pure. */
#ifndef LARDER_CLIENT_CLI_EXPLAIN_PRIV_H
#define LARDER_CLIENT_CLI_EXPLAIN_PRIV_H

#include "client/cli/cells.h"
#include "client/cli/explain.h"

enum { EXPLAIN_OTHER_BYTES = 400 };

#define SAY(where, ...) snprintf(where, sizeof(where), __VA_ARGS__)

/* explain_name writes the job's name, to be shown. */
const char *explain_name(const json_t *job, char buf[CELL_BYTES]);
/* explain_mean gives the mean of what the governor knows of the job's queues. */
double explain_mean(const json_t *job, const char *key);
/* explain_threads gives for how long samples were in threads in a second: with a core, or waiting for one. */
double explain_threads(const struct explain_facts *facts);

/* explain_share returns the job's row of the cluster's status; NULL: it has none. explain_where says of a job with
 * ranks at several nodes where its samples are prepared, and why: by that row, and by its deal. */
const json_t *explain_share(const json_t *status, const json_t *job);
void explain_where(const json_t *job, const json_t *share, struct explanation *out);

/* The following write what another job has that the job waits for, to be put behind an advice or a figure; nothing
 * where no other job has much. explain_holder: who keeps most of the arena, and what its script holds of it.
 * explain_neighbour: whose samples take most of the threads, and more than the job's own, and the weight that gives the
 * job more of them. */
const char *explain_holder(const struct explain_facts *facts, const json_t *job, char buf[EXPLAIN_OTHER_BYTES]);
const char *explain_neighbour(const struct explain_facts *facts, const json_t *job, char buf[EXPLAIN_OTHER_BYTES]);

#endif
