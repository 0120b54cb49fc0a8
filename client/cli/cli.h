/* cli.h: the parts of the `larder` command.
 *
 * The command either asks the running daemon over its control socket (ask.c, with nng), or becomes larderd (exec.c). It
 * never does both, because nng's threads do not survive a fork or an exec. Apart from nng's there is one thread. */
#ifndef LARDER_CLIENT_CLI_H
#define LARDER_CLIENT_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/error.h"

/* How answers are written with --json. Figures have as many digits as a decimal keeps in a double. */
#define CLI_REALS JSON_REAL_PRECISION(15)
#define CLI_JSON (JSON_INDENT(2) | CLI_REALS)

extern const struct manual cli_manual; /* the text of --help (common/manual.h) */

/* The exit statuses; `larder --help` lists them. */
enum cli_exit { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_NO_DAEMON = 3, CLI_FOUND = 4 };

/* cli_exec becomes `larderd ARGV…`: the larderd beside this program, else the one in PATH. It returns, with an exit
 * status, only when that failed. */
int cli_exec(char **argv);

/* cli_exec_compare becomes `python3 -m larder.compare` with the words of argv, which are those of `larder plan` and
 * have --compare among them. It returns as cli_exec does. */
int cli_exec_compare(char **argv);

/* cli_say prints what was done: as_json, which it takes over, when json is true, else the text. It returns the exit
 * status. */
int cli_say(bool json, json_t *as_json, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct cli_peer; /* a connected daemon */

/* cli_connect connects to the daemon whose session socket is at path; NULL: where it listens by default. The caller
 * disconnects *out. LARDER_EGONE: no daemon answers there. */
int cli_connect(const char *path, struct cli_peer **out, struct error *err);
void cli_disconnect(struct cli_peer *peer); /* accepts NULL */
/* cli_ask sends a request, which it borrows, and returns the answer, which the caller decrefs. An answer that reports a
 * failure comes as that error. LARDER_ETIMEOUT: no answer came within 10 seconds. */
int cli_ask(struct cli_peer *peer, const json_t *request, json_t **answer, struct error *err);
const char *cli_peer_path(const struct cli_peer *peer); /* the control socket's path; lives with the peer */
/* cli_peer_process returns a descriptor that poll finds readable when the daemon's process has ended. The caller closes
 * it. -1: the process cannot be watched, because it runs in another container. */
int cli_peer_process(const struct cli_peer *peer);
/* cli_fail prints the error of cli_connect or cli_ask, or a later one, and returns the exit status for it. */
int cli_fail(const struct error *err);

/* cli_ask_change sends a request, which it takes over, under an id that makes it safe to send twice. Fails as cli_ask
 * does. */
int cli_ask_change(struct cli_peer *peer, json_t *request, struct error *err);
/* cli_change asks the daemon for a change. It takes the request over; NULL means that a name in it was not UTF-8.
 * cli_hand_over stops the daemon to make room for another, waits for its end and says so. Both print what failed, and
 * give the exit status. */
int cli_change(const char *socket, json_t *request);
int cli_hand_over(const char *socket, bool json);

/* cli_ask_field sends a request that is only a name, and returns part of the answer, an object or an array, which the
 * caller decrefs. cli_ask_status asks for the status. Both fail as cli_ask does. */
int cli_ask_field(struct cli_peer *peer, const char *op, const char *key, json_t **out, struct error *err);
int cli_ask_status(struct cli_peer *peer, json_t **out, struct error *err);
void cli_sleep_ms(unsigned ms);

/* Two statuses of one daemon. before: as it was some seconds ago; NULL: not known. */
struct cli_look {
    json_t *before, *now;
};
/* cli_ask_look asks for the status and for the one that the daemon remembers; cli_look connects for it. The caller
 * clears *out, which is empty after a failure. */
int cli_ask_look(struct cli_peer *peer, struct cli_look *out, struct error *err);
int cli_look(const char *socket, struct cli_look *out, struct error *err);
void cli_look_clear(struct cli_look *look);

/* What a job does now, over the time since an earlier status, as `jobs`, `top` and `explain` all tell it. cause: what
 * it waits for most, "load", "prepare", "room" or "rank" (other ranks, also such as are away); "storage" (it does not
 * answer), "gone" (no rank's script is there), "script" (one asks for nothing any more: `silent`), "idle" (no epoch has
 * begun), "new" (there is no earlier status of it), or "training" (it hardly waits). */
struct cli_state {
    const char *cause;
    bool known; /* waits is */
    double waits;
    const json_t *silent;
};
#define CLI_WAITS 0.1 /* the part of the time from which on a job waits; what is less is not worth a change */

/* jobs.c, pure. cli_state_of judges the job; before: its row in the earlier status, or NULL. cli_elapsed_s returns
 * the seconds between two statuses; 0: they are of two daemons. cli_budgets returns the bytes of all budgets.
 * cli_find_job returns the job with that name; NULL: there is none. cli_worst_stall returns what the job's present
 * clients stood still for longest ("load", "prepare", "room" or "rank"), and in *all the fraction of the time, 0 to 1,
 * that they stood still for any of these. cli_jobs_print writes the jobs as a table. */
struct cli_state cli_state_of(const json_t *job, const json_t *before, double elapsed_s);
double cli_elapsed_s(const json_t *now, const json_t *before);
double cli_budgets(const json_t *status);
const json_t *cli_find_job(const json_t *status, const char *name);
const char *cli_worst_stall(const json_t *job, const json_t *before, double elapsed_s, double *all);
void cli_jobs_print(const json_t *status, const json_t *before, bool color, FILE *out);

/* The samples that daemons died of: of the daemon at socket (NULL: the default), or of the file that the last one has
 * left there. cli_poison_clear forgets one sample, or all of them (NULL). Both give the exit status. */
int cli_poison_list(const char *socket, bool json);
int cli_poison_clear(const char *socket, const char *sample, bool json);

/* cluster.c, pure: cli_cluster_print writes the status's `cluster` as tables; of no object it says that there is none.
 * cli_cluster_line writes what `larder status` says of it; nothing of no object. */
void cli_cluster_print(const json_t *cluster, FILE *out);
void cli_cluster_line(const json_t *cluster, FILE *out);

/* cli_status_print writes a daemon's status as a table. `before` is an earlier status, for rates, or NULL. */
void cli_status_print(const json_t *status, const json_t *before, FILE *out);

#endif
