/* explain.h: why a job waits, by what was measured, and what would help most. Pure. */
#ifndef LARDER_CLIENT_CLI_EXPLAIN_H
#define LARDER_CLIENT_CLI_EXPLAIN_H

#include <jansson.h>

#include "client/cli/machine.h"

/* What the judgement is made of: two statuses of the daemon, and what its machine allowed it at the same times. */
struct explain_facts {
    const json_t *before, *now;
    struct cli_machine machine_before, machine_now;
};

/* cause: "training" (it does not wait for Larder), "source", "cores", "quota", "memory", "rank", "storage" (it does not
 * answer), "idle" (its script asks for nothing). waits: the part of the time in which its clients stood still. */
struct explanation {
    const char *cause;
    double waits;
    char why[512];    /* what it waits for */
    char change[512]; /* what would help most */
    char figure[512]; /* what that is based on */
};

/* cli_explain judges the job, one of facts->now. */
void cli_explain(const struct explain_facts *facts, const json_t *job, struct explanation *out);

#endif
