/* past_json.h: the past as JSON, for `larder history` and /api/v1/history.
 *
 *   v, now_s, from_s (Unix time of the first step), step_s, steps
 *   daemon   what it was like, an array of `steps` each, null where nothing is known: delivered (samples/s),
 *            prepared_per_delivered, cores, rss_bytes, arena_bytes, encoded_bytes, read (an array for sources, and one
 *            for each storage class that was read from; bytes/s)
 *   jobs[]   the latest last: id (another for each job), name, state ("running", "ended", "cancelled", "failed",
 *            "died": its script was gone without a word, or "interrupted": the daemon ended before it), begun_s,
 *            ended_s (of a running one: when it was last seen), seconds (from begin to end), delivered, shared,
 *            prepared, bad, epochs_done (with a part), epochs (0: no end), ranks, stall_s {cause: seconds of all
 *            ranks}, waited (part of its time, 0 to 1). Of the latest 64
 *            that were here in these steps also arrays as above: per_s, waits (parts), others (what part of its
 *            samples was prepared for other jobs), and if the job was asked for by name, causes {cause: parts}
 *   gave[]   [id, id, samples]: what the first job prepared (0: a job that was gone) and the second got, in the last
 *            gave_s seconds, the most first
 *   events[] the latest last: time_s, kind, job (its id; 0: none), text */
#ifndef LARDER_SERVER_CONTROL_PAST_JSON_H
#define LARDER_SERVER_CONTROL_PAST_JSON_H

#include "server/past/past.h"

#define PAST_SPAN_MIN_S 60
#define PAST_SPAN_MAX_S 86400
#define PAST_SPAN_S 3600 /* where nobody says another */

struct past_asked {
    const char *job; /* NULL: all */
    uint32_t span_s; /* 0: PAST_SPAN_S; what is out of bounds is made fit */
    double now_s;
};

/* past_to_json returns a malloc'ed text, the caller's. NULL: out of memory. */
char *past_to_json(const struct past *past, const struct past_asked *asked);

#endif
