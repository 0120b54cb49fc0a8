/* past_priv.h: how the past is kept, for this folder's files:
 *
 *   past.c   its life, jobs and events
 *   track.c  a ring of frames and of their points
 *   add.c    makes frames of samples
 *   look.c   curves and sums
 *   bytes.c  the past as bytes */
#ifndef LARDER_SERVER_PAST_PAST_PRIV_H
#define LARDER_SERVER_PAST_PAST_PRIV_H

#include "server/past/past.h"

#define PART 200.0f /* parts of 1 are kept in steps of 1 / PART */

struct frame {
    double time_s; /* its end */
    float span_s;
    float values[PAST_VALUES];
    uint32_t n_points;
    uint64_t first; /* its first point, counted from the track's first one ever */
};

struct point {
    float per_s, shared_per_s;
    uint16_t slot;
    uint8_t waits[PAST_CAUSES];
};

/* Frames `begin` to before `end` are there, counted from the first one ever: frame i lies at i mod cap. */
struct track {
    struct frame *frames;
    struct point *points;
    uint32_t cap, points_cap;
    uint64_t begin, end, points_end;
};

int track_create(struct track *track, uint32_t cap, uint32_t points_cap);
void track_clear(struct track *track);
/* track_add adds a frame with its points, at most points_cap. The oldest frames give way. */
void track_add(struct track *track, const struct frame *frame, const struct point *points, uint32_t n_points);
static inline const struct frame *track_frame(const struct track *track, uint64_t i)
{
    return &track->frames[i % track->cap];
}
static inline const struct point *track_point(const struct track *track, uint64_t i)
{
    return &track->points[i % track->points_cap];
}

/* A job's last counters, and what grew in the present minute. */
struct running {
    bool here; /* it has a place */
    double last_s;
    double minute_s, delivered, shared, waits_s[PAST_CAUSES]; /* waits_s: of one rank, on average */
};

struct past {
    struct past_job *jobs; /* PAST_JOBS slots */
    struct running *running;
    uint32_t last_id, next_slot;
    uint16_t slot[JOBS_MAX]; /* of the job at a place; PAST_NONE: none */
    struct past_event *events;
    uint64_t events_end;
    struct past_gift *gifts;
    uint64_t gifts_end;
    uint32_t *gave; /* counters of givers, by place: [to * (JOBS_MAX + 1) + from] */
    struct track seconds, minutes;
    double last_s, last[PAST_VALUES]; /* the sample before; last_s 0: there is none */
    double minute_number, minute_begun_s, minute_s, minute[PAST_VALUES]; /* the present minute */
    struct point *points; /* of the frame being made, JOBS_MAX of them, then PAST_JOBS for a minute's */
};

/* past_note notes an event. */
void past_note(struct past *past, enum past_kind kind, uint32_t id, double now_s, const char *text);

#endif
