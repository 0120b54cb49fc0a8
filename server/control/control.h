/* control.h: the control socket, on which the `larder` command asks the daemon, over nng REQ/REP on a socket file of
 * mode 0600.
 *
 * A request is one JSON object, and so is its answer:
 *
 *   {"v":1,"op":"ping"}                            {"v":1,"ok":true,"version":"0.1.0","pid":4711}
 *   {"v":1,"op":"status"}                          {"v":1,"ok":true,"status":{…}}   (status.h)
 *   {"v":1,"op":"status","before":true}            {"v":1,"ok":true,"status":{…},"before":{…}}
 *                                                  (before: the status two to three seconds ago, or when the first job
 *                                                  came, so that there are rates; null: no job was here)
 *   {"v":1,"op":"jobs"}                            {"v":1,"ok":true,"jobs":[…]}     (the status's jobs)
 *   {"v":1,"op":"tree"}                            {"v":1,"ok":true,"tree":[…]}     (the dependent sampling tree, as it
 *                                                  was at most 5 s ago)
 *   {"v":1,"op":"events"}                          {"v":1,"ok":true,"events":["time=… level=…",…]}
 *                                                  (the last lines of the log, the oldest first)
 *   {"v":1,"op":"history","job":"NAME","span_s":3600}
 *                                                  {"v":1,"ok":true,"history":{…}}   (past_json.h; without "job":
 *                                                  of all jobs)
 *   {"v":1,"op":"cancel","job":"NAME","id":"…"}    {"v":1,"ok":true}
 *   {"v":1,"op":"weight","job":"NAME","weight":2.5,"id":"…"}
 *                                                  {"v":1,"ok":true}
 *   {"v":1,"op":"drain","id":"…"}                  {"v":1,"ok":true}
 *   {"v":1,"op":"hand_over","id":"…"}              {"v":1,"ok":true}
 *   {"v":1,"op":"cluster_leave","id":"…"}          {"v":1,"ok":true}
 *   {"v":1,"op":"poison"}                          {"v":1,"ok":true,"poison":[{"file":"…","id":"…","crashes":1,
 *                                                   "deaths":0,"signal":"SIGSEGV","verdict":"crashed"},…]}
 *   {"v":1,"op":"poison_clear","sample":"…","id":"…"}
 *                                                  {"v":1,"ok":true}   (without "sample": all are cleared)
 *   anything that fails                            {"v":1,"ok":false,"error":{"code":"ENOENT","text":"…"}}
 *
 * A client may send a request again when its answer got lost. A request that only asks changes nothing. A request that
 * changes something carries an id (1 to 63 bytes, another one for each intent). A repeated id gets the first answer
 * again, and nothing is done twice. The daemon remembers the last CONTROL_REMEMBERED ids. */
#ifndef LARDER_SERVER_CONTROL_CONTROL_H
#define LARDER_SERVER_CONTROL_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/poison.h"

#define CONTROL_REQUEST_MAX_BYTES 65536
#define CONTROL_CONNECTIONS_MAX 64
#define CONTROL_REMEMBERED 64

/* The owner's callbacks. The control's thread calls them, one at a time. They may wait for the engine. Those that
 * return an int return 0 or an error; LARDER_ENOENT: there is no such job. */
struct control_handlers {
    char *(*status_json)(void *ctx);  /* malloc'ed JSON, the caller's; NULL: no memory for it */
    char *(*earlier_json)(void *ctx); /* the same; the status as it was some seconds ago, or "null" */
    char *(*tree_json)(void *ctx);    /* the same; the dependent sampling tree (status.h) */
    char *(*history_json)(void *ctx, const char *job, uint32_t span_s); /* the same; see past_json.h */
    int (*cancel)(void *ctx, const char *job, struct error *err);
    /* weight is from JOB_WEIGHT_MIN to JOB_WEIGHT_MAX. */
    int (*set_weight)(void *ctx, const char *job, double weight, struct error *err);
    int (*drain)(void *ctx, struct error *err); /* takes no new jobs, and stops the daemon after the last one */
    /* Stops the daemon soon after the answer, so that another one can take its place. */
    int (*hand_over)(void *ctx, struct error *err);
    /* Gives nothing more to other nodes of the cluster. LARDER_ENOENT: the daemon is in none. */
    int (*cluster_leave)(void *ctx, struct error *err);
    /* list_poison adds to empty notes the samples that daemons died of; clear_poison takes back the notes of what
     * `sample` means (NULL: all). LARDER_ENOENT: there are none, or nothing is noted at all. */
    int (*list_poison)(void *ctx, struct poison_notes *out, struct error *err);
    int (*clear_poison)(void *ctx, const char *sample, struct error *err);
    void *ctx;
};

struct control;

/* control_start listens at path, the control socket's, whose folder exists. It answers in a thread of its own, in which
 * all signals are blocked. It replaces a socket file that a killed daemon left behind. The caller ends it with
 * control_stop. LARDER_EBUSY (a process answers there), LARDER_EPERM, LARDER_ENOENT, LARDER_ELIMIT (path too long),
 * LARDER_EIO. */
int control_start(const char *path, const struct control_handlers *handlers, struct control **out, struct error *err);
/* control_leave removes the socket file, so that another daemon can take over the path. Connected peers are still
 * answered. Any thread. Accepts NULL. */
void control_leave(struct control *control);
/* control_stop waits for the answer being made, if any, removes the socket file if it is still the control's own, and
 * frees the control. Accepts NULL. */
void control_stop(struct control *control);

#endif
