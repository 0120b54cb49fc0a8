/* explain.h: why a job waits, by what was measured, and what would help most. Pure. */
#ifndef LARDER_CLIENT_CLI_EXPLAIN_H
#define LARDER_CLIENT_CLI_EXPLAIN_H

#include <jansson.h>

#include "client/cli/machine.h"

/* The inputs of the judgement: two statuses of the daemon, and the limits of its machine at the same times. */
struct explain_facts {
    const json_t *before, *now;
    struct cli_machine machine_before, machine_now;
};

/* cause: that of cli_state (cli.h), but for "load", "prepare" and "room" what lies behind them: "source", "cores",
 * "quota" or "memory". waits: the fraction of the time that its clients stood still; known: it could be measured.
 * where: of a job whose ranks are at several nodes, a sentence that says which of them prepare its samples, and why; of
 * other jobs "". */
struct explanation {
    const char *cause;
    double waits;
    bool known;
    char why[512];    /* the cause of its waits */
    char change[512]; /* the change that would help most */
    char figure[512]; /* the figures behind that */
    char where[512];
};

/* cli_explain judges the job, one of facts->now. */
void cli_explain(const struct explain_facts *facts, const json_t *job, struct explanation *out);

#endif
