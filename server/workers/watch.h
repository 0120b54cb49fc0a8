/* watch.h: records the sample that each worker thread prepares, in a file that outlives the daemon. So a sample that
 * kills the daemon is found and left out. common/poison.h has the rules.
 *
 * watch_open reads the records of earlier daemons. From then on threads write to the mapped file by stores to memory,
 * without system calls, and the records survive the process. Notes are made at the start only; while the daemon runs
 * they are only taken back. */
#ifndef LARDER_SERVER_WORKERS_WATCH_H
#define LARDER_SERVER_WORKERS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/catalog/catalog.h"
#include "common/error.h"
#include "common/poison.h"

struct watch;

/* watch_open begins a new file for the daemon at socket_path, whose lock the caller has, and logs the contents of the
 * previous one. `threads` is the most threads that are watched at once. The signals of crash.h are the watch's until
 * watch_close. NULL: nothing is watched, and the log says why. All functions below accept that. */
struct watch *watch_open(const char *socket_path, uint32_t threads);
/* watch_close is called when no thread is watched any more. It removes the file when nothing is noted in it. */
void watch_close(struct watch *watch);

/* watch_forsake clears the records of a process that is about to end while threads prepare samples: these do not count
 * as deaths. Any thread; accepts NULL. */
void watch_forsake(struct watch *watch);

/* A thread that is watched; it alone uses this. */
struct watch_thread;

/* watch_thread_begin returns NULL when nothing is watched; the two functions after it accept that. A watch takes no
 * more threads than watch_open was told, ended ones included (CHECK). */
struct watch_thread *watch_thread_begin(struct watch *watch);
void watch_thread_end(struct watch_thread *thread);

/* watch_begin says that the thread is about to prepare a sample. False: it must not, for the sample is poisonous.
 * Otherwise watch_end follows, whatever came of it. It waits while another thread prepares a suspect, if this is
 * one. */
bool watch_begin(struct watch_thread *thread, const struct dataset *dataset, sample_id id);
void watch_end(struct watch_thread *thread);

/* watch_list adds to empty notes what is noted now. LARDER_ENOENT: nothing is watched. Any thread. */
int watch_list(const struct watch *watch, struct poison_notes *out, struct error *err);
/* watch_clear takes back the notes of the samples that `text` means (poison_means). LARDER_ENOENT: none is noted, or
 * nothing is watched. Any thread. */
int watch_clear(struct watch *watch, const char *text, struct error *err);

#endif
