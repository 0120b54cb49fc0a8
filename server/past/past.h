/* past.h: what the daemon remembers of the last hour and day: curves of the daemon and of each job, the jobs that were
 * here, who gave samples to whom, and events. Its memory is bounded and taken at once; what is oldest gives way.
 *
 * A sample of all counters comes about once a second (past_add). It becomes a frame: what grew since the sample before,
 * a second. Frames of seconds reach an hour back, and those of minutes a day, less far where very many jobs train at
 * once. Times are Unix times, given by the caller, and never go back.
 *
 * No function does I/O, reads a clock or blocks. One thread at a time uses a past. */
#ifndef LARDER_SERVER_PAST_PAST_H
#define LARDER_SERVER_PAST_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/types.h"

#define PAST_SECONDS 3600
#define PAST_MINUTES 1440
#define PAST_SECOND_POINTS 163840 /* a point is one job in one frame: 45 jobs for an hour */
#define PAST_MINUTE_POINTS 81920  /* 56 jobs for a day */
#define PAST_JOBS 1024            /* jobs that are remembered, ended ones too; there are never as many at once */
#define PAST_EVENTS 1024
#define PAST_GIFTS 16384
#define PAST_GIFT_S 10 /* gifts of as many seconds are added up */
#define PAST_GAP_S 5   /* samples that are further apart begin anew */

#define PAST_NAME_BYTES 129
#define PAST_TEXT_BYTES 160
#define PAST_CAUSES 4 /* of waiting, in the order of enum engine_stall */
#define PAST_TIERS 9  /* sources first, then storage classes */
#define PAST_NONE UINT16_MAX

/* What the daemon is measured by. The first ones are a second; those from PAST_RSS on are sizes in bytes. */
enum past_value {
    PAST_DELIVERED,
    PAST_PREPARED,
    PAST_CORES,
    PAST_READ, /* bytes read from each of PAST_TIERS */
    PAST_RSS = PAST_READ + PAST_TIERS,
    PAST_ARENA,
    PAST_ENCODED,
    PAST_VALUES
};

/* The counters of a job. waits_s: seconds in which its ranks stood still, all ranks together. */
struct past_figures {
    uint64_t delivered, shared, prepared, bad;
    double waits_s[PAST_CAUSES];
    double epochs_done; /* with the part of the present epoch; whole between two */
    uint32_t epochs, ranks;
};

/* Samples that the job at place `from` (JOBS_MAX: one that is gone) prepared, and another one got. */
struct past_giver {
    uint16_t from;
    uint32_t samples;
};

struct past_job_sample {
    uint32_t place; /* the engine's number of the job */
    const char *name;
    struct past_figures figures;
    const struct past_giver *givers;
    size_t n_givers;
};

/* All counters at a time. Rates are counters here: samples, samples, seconds, bytes. */
struct past_sample {
    double time_s;
    double values[PAST_VALUES];
    const struct past_job_sample *jobs;
    size_t n_jobs;
};

/* The numbers stand in files. LOST: the daemon ended before the job. DIED: its script was gone without a word. LEFT:
 * its script said goodbye within an epoch. */
enum past_state { PAST_RUNNING, PAST_ENDED, PAST_CANCELLED, PAST_FAILED, PAST_LOST, PAST_DIED, PAST_LEFT, PAST_STATES };
extern const char *const past_states[PAST_STATES];

struct past_job {
    uint32_t id; /* another for each job; 0: the slot is free */
    char name[PAST_NAME_BYTES];
    uint8_t state;
    double begun_s, ended_s; /* ended_s: of a running one, when it was last seen */
    struct past_figures figures;
};

enum past_kind {
    PAST_CAME,
    PAST_WENT,
    PAST_CANCEL,
    PAST_FAILURE,
    PAST_BAD,
    PAST_RESTART,
    PAST_DEATH,
    PAST_INTERRUPT,
    PAST_LEAVING,
    PAST_KINDS
};
extern const char *const past_kinds[PAST_KINDS];

struct past_event {
    double time_s;
    uint8_t kind;
    uint32_t id;                /* the job's; 0: none */
    char text[PAST_TEXT_BYTES]; /* more about it, or empty */
};

/* Samples that the job in slot `from` (PAST_NONE: one that was gone) prepared for others and the job in `to` got. */
struct past_gift {
    uint32_t time_s;
    uint16_t from, to;
    uint32_t samples;
};

struct past;

int past_create(struct past **out); /* LARDER_ENOMEM; the caller destroys it */
void past_destroy(struct past *past);
size_t past_bytes(const struct past *past); /* the memory that it takes at most */

/* past_restarted: a daemon begins. Jobs that ran are lost: the one before was killed. */
void past_restarted(struct past *past, double now_s, const char *text);
/* past_stops: the daemon ends by itself. Jobs that are there, such as those that wait for ranks, are lost; of one that
 * got no sample nothing is kept. It returns whether there were any. */
bool past_stops(struct past *past, double now_s);
void past_came(struct past *past, uint32_t place, const char *name, double now_s);
void past_failed(struct past *past, uint32_t place, double now_s, const char *text);
/* past_ended: the job at the place is gone: ENDED, CANCELLED, DIED or LOST. `figures` are its last ones. A job that
 * failed before stays FAILED, unless it was cancelled; one that has had all its epochs has not died; one that ENDED
 * within an epoch has LEFT it. One that got no sample is forgotten, unless it failed or was cancelled. */
void past_ended(struct past *past, uint32_t place, enum past_state how, const struct past_figures *figures,
                double now_s);
/* For what is told again, from a file: past_next returns the number of the next job that comes, and past_at that of the
 * job at the place, 0: there is none. past_put says that the job of that number is at the place; false: it has gone. */
uint32_t past_next(const struct past *past);
uint32_t past_at(const struct past *past, uint32_t place);
bool past_put(struct past *past, uint32_t place, uint32_t id);
/* past_add takes a sample. Jobs that have not come are left out. It tells whether a job has got its first samples. */
bool past_add(struct past *past, const struct past_sample *sample);

/* past_encode gives all of it as bytes, malloc'ed. past_decode makes a past of them. LARDER_EFORMAT, LARDER_EVERSION,
 * LARDER_ENOMEM. now_s: what is later than this is refused. */
int past_encode(const struct past *past, uint8_t **bytes, size_t *len_bytes);
int past_decode(const uint8_t *bytes, size_t len_bytes, double now_s, struct past **out, struct error *err);

/* ── to read ── */

/* past_job returns the job of a slot, 0 to PAST_JOBS - 1; NULL: there is none. */
const struct past_job *past_job(const struct past *past, uint32_t slot);
/* past_number returns the id of the job at the engine's place, which has this name; 0: it has not come yet. */
uint32_t past_number(const struct past *past, uint32_t place, const char *name);
size_t past_n_events(const struct past *past);
const struct past_event *past_event(const struct past *past, size_t i); /* 0: the oldest */
/* past_gave adds up the gifts since a time and writes the greatest, at most max, and returns how many. */
size_t past_gave(const struct past *past, double since_s, struct past_gift *out, size_t max);

/* `count` steps of step_s seconds from from_s on. Steps shorter than a minute are made of seconds. */
struct past_span {
    double from_s, step_s;
    size_t count;
};
/* seconds: how much of the step is known; 0: nothing. */
struct past_step {
    double seconds, values[PAST_VALUES];
};
struct past_job_step {
    float seconds, per_s, waits[PAST_CAUSES]; /* waits: parts of the time, 0 to 1 */
    float shared_per_s;
};
/* past_curves writes the daemon's steps, and those of the jobs: row[slot] is a job's row of `count` steps in jobs, or
 * PAST_NONE. All steps are zeroed before. */
void past_curves(const struct past *past, const struct past_span *span, struct past_step *steps,
                 const uint16_t row[PAST_JOBS], struct past_job_step *jobs);

#endif
