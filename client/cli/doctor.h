/* doctor.h: what is wrong around a daemon, and what to do. */
#ifndef LARDER_CLIENT_CLI_DOCTOR_H
#define LARDER_CLIENT_CLI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client/cli/machine.h"
#include "common/error.h"

#define DOCTOR_FINDINGS_MAX 24
#define DOCTOR_TEXT_BYTES ERROR_TEXT_MAX

enum doctor_verdict { DOCTOR_GOOD, DOCTOR_UNKNOWN, DOCTOR_BAD };

struct doctor_finding {
    const char *of; /* name of the check, such as "memory" */
    enum doctor_verdict verdict;
    char text[DOCTOR_TEXT_BYTES]; /* the finding */
    char todo[DOCTOR_TEXT_BYTES]; /* the remedy; empty unless the finding is bad */
};

struct doctor_report {
    struct doctor_finding all[DOCTOR_FINDINGS_MAX];
    size_t count;
};

/* doctor_judge judges a daemon's status by what its machine has. Pure. */
void doctor_judge(const json_t *status, const struct cli_machine *machine, struct doctor_report *report);
/* doctor_look_at_socket looks at the rights of the session's socket and of its folder, doctor_look_at_datasets at the
 * folders that jobs train on. doctor_look_at_libraries tries those that larderd loads when it needs them: the two come
 * from one build, and find them alike. */
void doctor_look_at_libraries(struct doctor_report *report);
void doctor_look_at_socket(const char *path, struct doctor_report *report);
void doctor_look_at_datasets(const json_t *status, struct doctor_report *report);
/* doctor_find adds a finding. A report that is full takes no more. todo may be NULL. */
__attribute__((format(printf, 5, 6))) void doctor_find(struct doctor_report *report, const char *of,
                                                       enum doctor_verdict verdict, const char *todo, const char *fmt,
                                                       ...);
bool doctor_is_bad(const struct doctor_report *report); /* whether something is to be done */

#endif
