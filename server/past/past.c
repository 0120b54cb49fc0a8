#include "server/past/past.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/past/past_priv.h"

const char *const past_states[PAST_STATES] = {
    [PAST_RUNNING] = "running",  [PAST_ENDED] = "ended", [PAST_CANCELLED] = "cancelled", [PAST_FAILED] = "failed",
    [PAST_LOST] = "interrupted", [PAST_DIED] = "died",   [PAST_LEFT] = "left mid-epoch"};
const char *const past_kinds[PAST_KINDS] = {[PAST_CAME] = "came",
                                            [PAST_WENT] = "ended",
                                            [PAST_CANCEL] = "cancelled",
                                            [PAST_FAILURE] = "failed",
                                            [PAST_BAD] = "bad samples",
                                            [PAST_RESTART] = "daemon started",
                                            [PAST_DEATH] = "died",
                                            [PAST_INTERRUPT] = "interrupted",
                                            [PAST_LEAVING] = "left mid-epoch"};

_Static_assert(PAST_JOBS > JOBS_MAX, "there is a slot of a job that is gone for one that comes");

int past_create(struct past **out)
{
    struct past *past = calloc(1, sizeof *past);
    if (!past)
        return LARDER_ENOMEM;
    past->jobs = calloc(PAST_JOBS, sizeof *past->jobs);
    past->running = calloc(PAST_JOBS, sizeof *past->running);
    past->events = calloc(PAST_EVENTS, sizeof *past->events);
    past->gifts = calloc(PAST_GIFTS, sizeof *past->gifts);
    past->gave = calloc((size_t)JOBS_MAX * (JOBS_MAX + 1), sizeof *past->gave);
    past->points = calloc(PAST_JOBS, sizeof *past->points);
    int seconds = track_create(&past->seconds, PAST_SECONDS, PAST_SECOND_POINTS);
    int minutes = track_create(&past->minutes, PAST_MINUTES, PAST_MINUTE_POINTS);
    memset(past->slot, 0xff, sizeof past->slot);
    if (!past->jobs || !past->running || !past->events || !past->gifts || !past->gave || !past->points || seconds ||
        minutes) {
        past_destroy(past);
        return LARDER_ENOMEM;
    }
    *out = past;
    return 0;
}

void past_destroy(struct past *past)
{
    if (!past)
        return;
    track_clear(&past->seconds);
    track_clear(&past->minutes);
    free(past->jobs);
    free(past->running);
    free(past->events);
    free(past->gifts);
    free(past->gave);
    free(past->points);
    free(past);
}

size_t past_bytes(const struct past *past)
{
    return sizeof *past + PAST_JOBS * (sizeof *past->jobs + sizeof *past->running + sizeof *past->points) +
           PAST_EVENTS * sizeof *past->events + PAST_GIFTS * sizeof *past->gifts +
           (size_t)JOBS_MAX * (JOBS_MAX + 1) * sizeof *past->gave +
           (PAST_SECONDS + PAST_MINUTES) * sizeof *past->seconds.frames +
           (PAST_SECOND_POINTS + PAST_MINUTE_POINTS) * sizeof *past->seconds.points;
}

/* copy cuts a text to what there is room for, at the beginning of a character of UTF-8. */
static void copy(char *to, size_t size, const char *text)
{
    size_t len = strlen(text);
    if (len >= size) {
        len = size - 1;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(to, text, len);
    memset(to + len, 0, size - len);
}

void past_note(struct past *past, enum past_kind kind, uint32_t id, double now_s, const char *text)
{
    struct past_event *event = &past->events[past->events_end++ % PAST_EVENTS];
    *event = (struct past_event){.time_s = now_s, .kind = (uint8_t)kind, .id = id};
    copy(event->text, sizeof event->text, text);
}

static struct past_job *at_place(struct past *past, uint32_t place)
{
    bool there = place < JOBS_MAX && past->slot[place] != PAST_NONE;
    return there ? &past->jobs[past->slot[place]] : NULL;
}

static void leave(struct past *past, struct past_job *job, enum past_state state, double now_s)
{
    job->state = (uint8_t)state;
    if (now_s > job->ended_s)
        job->ended_s = now_s;
    past->running[job - past->jobs].here = false;
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        if (past->slot[place] == job - past->jobs)
            past->slot[place] = PAST_NONE;
    }
}

void past_restarted(struct past *past, double now_s, const char *text)
{
    for (uint32_t slot = 0; slot < PAST_JOBS; slot++) {
        struct past_job *job = &past->jobs[slot];
        if (!job->id || job->state != PAST_RUNNING)
            continue;
        leave(past, job, PAST_LOST, job->ended_s);
        past_note(past, PAST_INTERRUPT, job->id, now_s, "the daemon was killed");
    }
    past->last_s = 0;
    memset(past->slot, 0xff, sizeof past->slot); /* one that failed may have been there still */
    past_note(past, PAST_RESTART, 0, now_s, text);
}

bool past_stops(struct past *past, double now_s)
{
    bool any = false;
    for (uint32_t slot = 0; slot < PAST_JOBS; slot++) {
        struct past_job *job = &past->jobs[slot];
        if (!job->id || job->state != PAST_RUNNING)
            continue;
        leave(past, job, PAST_LOST, now_s);
        if (!job->figures.delivered)
            *job = (struct past_job){.id = 0};
        any = true;
    }
    return any;
}

uint32_t past_next(const struct past *past)
{
    return past->last_id + 1;
}

uint32_t past_at(const struct past *past, uint32_t place)
{
    return place < JOBS_MAX && past->slot[place] != PAST_NONE ? past->jobs[past->slot[place]].id : 0;
}

bool past_put(struct past *past, uint32_t place, uint32_t id)
{
    for (uint32_t slot = 0; id && slot < PAST_JOBS; slot++) {
        const struct past_job *job = &past->jobs[slot];
        if (job->id == id && (job->state == PAST_RUNNING || job->state == PAST_FAILED)) {
            past->slot[place] = (uint16_t)slot;
            return true;
        }
    }
    return false;
}

static void forget_gifts(struct past *past, uint32_t place)
{
    memset(past->gave + (size_t)place * (JOBS_MAX + 1), 0, (JOBS_MAX + 1) * sizeof *past->gave);
    for (uint32_t to = 0; to < JOBS_MAX; to++)
        past->gave[(size_t)to * (JOBS_MAX + 1) + place] = 0;
}

void past_came(struct past *past, uint32_t place, const char *name, double now_s)
{
    if (place >= JOBS_MAX)
        return;
    struct past_job *before = at_place(past, place);
    if (before)
        leave(past, before, PAST_ENDED, now_s);
    uint32_t slot = past->next_slot;
    while (past->running[slot].here)
        slot = (slot + 1) % PAST_JOBS;
    past->next_slot = (slot + 1) % PAST_JOBS;
    struct past_job *job = &past->jobs[slot];
    *job = (struct past_job){.id = ++past->last_id, .state = PAST_RUNNING, .begun_s = now_s, .ended_s = now_s};
    copy(job->name, sizeof job->name, name);
    past->running[slot] = (struct running){.here = true, .last_s = now_s};
    past->slot[place] = (uint16_t)slot;
    forget_gifts(past, place);
    past_note(past, PAST_CAME, job->id, now_s, "");
}

void past_failed(struct past *past, uint32_t place, double now_s, const char *text)
{
    struct past_job *job = at_place(past, place);
    if (!job || job->state != PAST_RUNNING)
        return;
    job->state = PAST_FAILED;
    past_note(past, PAST_FAILURE, job->id, now_s, text);
}

void past_ended(struct past *past, uint32_t place, enum past_state how, const struct past_figures *figures,
                double now_s)
{
    struct past_job *job = at_place(past, place);
    if (!job)
        return;
    bool failed = job->state == PAST_FAILED && how != PAST_CANCELLED;
    bool took_nothing = !figures->delivered && !job->figures.delivered && how != PAST_CANCELLED && !failed;
    if (figures->delivered >= job->figures.delivered)
        job->figures = *figures;
    if (how != PAST_CANCELLED && figures->epochs && figures->epochs_done >= figures->epochs)
        how = PAST_ENDED;
    if (how == PAST_ENDED && job->figures.epochs_done > floor(job->figures.epochs_done))
        how = PAST_LEFT;
    leave(past, job, failed ? PAST_FAILED : how, now_s);
    if (took_nothing) {
        *job = (struct past_job){.id = 0}; /* a Loader whose dataset was looked at, or that was killed at once */
        return;
    }
    if (!failed && how != PAST_LOST)
        past_note(past,
                  how == PAST_CANCELLED ? PAST_CANCEL
                  : how == PAST_DIED    ? PAST_DEATH
                  : how == PAST_LEFT    ? PAST_LEAVING
                                        : PAST_WENT,
                  job->id, now_s, "");
}

const struct past_job *past_job(const struct past *past, uint32_t slot)
{
    return slot < PAST_JOBS && past->jobs[slot].id ? &past->jobs[slot] : NULL;
}

uint32_t past_number(const struct past *past, uint32_t place, const char *name)
{
    const struct past_job *job = place < JOBS_MAX ? past_job(past, past->slot[place]) : NULL;
    return job && strncmp(job->name, name, sizeof job->name - 1) == 0 ? job->id : 0;
}

size_t past_n_events(const struct past *past)
{
    return past->events_end < PAST_EVENTS ? past->events_end : PAST_EVENTS;
}

const struct past_event *past_event(const struct past *past, size_t i)
{
    return &past->events[(past->events_end - past_n_events(past) + i) % PAST_EVENTS];
}
