/* recorder.h: keeps the past (server/past) of this daemon: a thread of its own looks at the status once a second while
 * jobs are here, notes which jobs come and end, and writes all of it to a file now and then. Without jobs it sleeps.
 *
 * Files differ by the daemon's socket, so that daemons with one folder for their checkpoints each have their own. */
#ifndef LARDER_SERVER_RECORDER_H
#define LARDER_SERVER_RECORDER_H

#include "server/control/past_json.h"
#include "server/control/status.h"
#include "server/driver/driver.h"

struct recorder;

/* recorder_create reads what an earlier daemon with this socket has left in the folder. What is damaged is not used,
 * and logged. folder NULL: nothing is kept over a restart. The caller destroys it. LARDER_ENOMEM. */
int recorder_create(const char *folder, const char *socket, struct recorder **out, struct error *err);
/* recorder_told notes what becomes of a job. Any thread; never blocks. */
void recorder_told(struct recorder *recorder, const struct driver_told *told);
/* recorder_start begins the thread. read fills a snapshot, and may take a while. LARDER_ENOMEM. */
int recorder_start(struct recorder *recorder, void (*read)(void *ctx, struct daemon_status *status), void *ctx,
                   struct error *err);
/* recorder_stop ends the thread and writes the file. What becomes of jobs afterwards is not noted: they go on with the
 * next daemon. Accepts NULL. */
void recorder_stop(struct recorder *recorder);
void recorder_destroy(struct recorder *recorder); /* stops first; accepts NULL */

/* Any thread. recorder_json is past_to_json. recorder_earlier returns the status as it was two to three seconds ago, or
 * when the first job came, as JSON; "null": no job was here. The caller frees both; NULL: out of memory. recorder_bytes
 * returns the memory that it takes at most, and its last statuses now. */
char *recorder_json(struct recorder *recorder, const char *job, uint32_t span_s);
/* recorder_number writes the jobs' numbers into a status. */
void recorder_number(struct recorder *recorder, struct daemon_status *status);
char *recorder_earlier(struct recorder *recorder);
size_t recorder_bytes(struct recorder *recorder);

#endif
