/* control.h: what an operator asks the daemon (the `larder` command), over nng REQ/REP on a socket file of mode 0600.
 *
 * A request is one JSON object, and so is its answer:
 *
 *   {"v":1,"op":"ping"}                            {"v":1,"ok":true,"version":"0.1.0","pid":4711}
 *   {"v":1,"op":"status"}                          {"v":1,"ok":true,"status":{…}}   (status.h)
 *   {"v":1,"op":"jobs"}                            {"v":1,"ok":true,"jobs":[…]}     (the status's jobs)
 *   {"v":1,"op":"cancel","job":"NAME","id":"…"}    {"v":1,"ok":true}
 *   {"v":1,"op":"weight","job":"NAME","weight":2.5,"id":"…"}
 *                                                  {"v":1,"ok":true}
 *   {"v":1,"op":"drain","id":"…"}                  {"v":1,"ok":true}
 *   anything that fails                            {"v":1,"ok":false,"error":{"code":"ENOENT","text":"…"}}
 *
 * A request may be sent again when its answer got lost: what only asks changes nothing, and what changes something
 * carries an id (1 to 63 bytes, new for each intent); a repeated id gets the first answer again and nothing is done
 * twice. The last CONTROL_REMEMBERED are remembered. */
#ifndef LARDER_SERVER_CONTROL_CONTROL_H
#define LARDER_SERVER_CONTROL_CONTROL_H

#include <stddef.h>

#include "common/error.h"

#define CONTROL_REQUEST_MAX_BYTES 65536
#define CONTROL_CONNECTIONS_MAX 64
#define CONTROL_REMEMBERED 64

/* Called from the control thread, one at a time; they may wait for the engine. */
struct control_handlers {
    char *(*status_json)(void *ctx); /* malloc'ed JSON; NULL: there is none (stopping) */
    /* 0 or an error; LARDER_ENOENT: no such job */
    int (*cancel)(void *ctx, const char *job, struct error *err);
    int (*set_weight)(void *ctx, const char *job, double weight, struct error *err); /* within JOB_WEIGHT_MIN, …_MAX */
    int (*drain)(void *ctx, struct error *err); /* no new jobs; stop after the last one */
    void *ctx;
};

struct control;

/* control_start listens at path (the control socket's; its folder exists) and answers in a thread of its own, in which
 * all signals are blocked. A socket file that a killed daemon left behind is replaced. LARDER_EBUSY (a process answers
 * there), LARDER_EPERM, LARDER_ENOENT, LARDER_ELIMIT (path too long), LARDER_EIO. */
int control_start(const char *path, const struct control_handlers *handlers, struct control **out, struct error *err);
/* control_leave removes the socket file, for a daemon that takes over the path; who is connected goes on being
 * answered. Any thread. Accepts NULL. */
void control_leave(struct control *control);
/* control_stop waits for the answer being made, if any, and removes the socket file if it is still its own. Accepts
 * NULL. */
void control_stop(struct control *control);

#endif
