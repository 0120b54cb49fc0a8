/* add.c: makes frames of samples: what grew since the sample before, a second. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/past/past_priv.h"

static uint8_t as_part(double part)
{
    return (uint8_t)(PART * (float)fmin(1, fmax(0, part)) + 0.5f);
}

static double grown(double now, double before)
{
    return now > before ? now - before : 0;
}

static void add_gifts(struct past *past, const struct past_job_sample *from, uint16_t to, double now_s)
{
    for (size_t i = 0; i < from->n_givers; i++) {
        const struct past_giver *giver = &from->givers[i];
        if (giver->from > JOBS_MAX || from->place >= JOBS_MAX)
            continue;
        uint32_t *last = &past->gave[(size_t)from->place * (JOBS_MAX + 1) + giver->from];
        uint32_t more = giver->samples > *last ? giver->samples - *last : 0;
        uint16_t slot = giver->from < JOBS_MAX ? past->slot[giver->from] : PAST_NONE;
        uint32_t time_s = (uint32_t)(floor(now_s / PAST_GIFT_S) * PAST_GIFT_S);
        *last = giver->samples;
        if (!more)
            continue;
        struct past_gift *gift = NULL;
        uint64_t oldest = past->gifts_end > PAST_GIFTS ? past->gifts_end - PAST_GIFTS : 0;
        for (uint64_t k = past->gifts_end; k > oldest && !gift; k--) {
            struct past_gift *other = &past->gifts[(k - 1) % PAST_GIFTS];
            if (other->time_s != time_s)
                break;
            if (other->from == slot && other->to == to)
                gift = other;
        }
        if (!gift) {
            gift = &past->gifts[past->gifts_end++ % PAST_GIFTS];
            *gift = (struct past_gift){.time_s = time_s, .from = slot, .to = to};
        }
        gift->samples += more;
    }
}

/* add_job returns the job's point of the second, and adds to its minute. False: there is none, because it was not seen
 * for long. */
static bool add_job(struct past *past, const struct past_job_sample *from, uint16_t slot, double now_s,
                    struct point *point)
{
    struct past_job *job = &past->jobs[slot];
    struct running *running = &past->running[slot];
    const struct past_figures *now = &from->figures;
    double elapsed_s = now_s - running->last_s, ranks = now->ranks ? now->ranks : 1;
    double delivered = grown((double)now->delivered, (double)job->figures.delivered);
    double shared = grown((double)now->shared, (double)job->figures.shared);
    char text[PAST_TEXT_BYTES];
    if (now->bad > job->figures.bad) {
        uint64_t more = now->bad - job->figures.bad;
        snprintf(text, sizeof text, "%llu more, the warnings in the log name them", (unsigned long long)more);
        past_note(past, PAST_BAD, job->id, now_s, text);
    }
    bool known = elapsed_s > 0 && elapsed_s <= PAST_GAP_S;
    if (known) {
        *point = (struct point){
            .slot = slot, .per_s = (float)(delivered / elapsed_s), .shared_per_s = (float)(shared / elapsed_s)};
        running->minute_s += elapsed_s;
        running->delivered += delivered;
        running->shared += shared;
        for (size_t cause = 0; cause < PAST_CAUSES; cause++) {
            double waited_s = grown(now->waits_s[cause], job->figures.waits_s[cause]) / ranks;
            point->waits[cause] = as_part(waited_s / elapsed_s);
            running->waits_s[cause] += fmin(waited_s, elapsed_s);
        }
    }
    running->last_s = now_s;
    job->figures = *now;
    job->ended_s = now_s;
    return known;
}

/* end_minute makes a frame of the minute that is over. */
static void end_minute(struct past *past)
{
    struct frame frame = {.time_s = past->minute_begun_s + past->minute_s, .span_s = (float)past->minute_s};
    uint32_t n = 0;
    for (size_t i = 0; i < PAST_VALUES; i++)
        frame.values[i] = (float)(past->minute[i] / past->minute_s);
    for (uint16_t slot = 0; slot < PAST_JOBS; slot++) {
        struct running *running = &past->running[slot];
        if (running->minute_s <= 0)
            continue;
        struct point *point = &past->points[n++];
        *point = (struct point){.slot = slot,
                                .per_s = (float)(running->delivered / running->minute_s),
                                .shared_per_s = (float)(running->shared / running->minute_s)};
        for (size_t cause = 0; cause < PAST_CAUSES; cause++)
            point->waits[cause] = as_part(running->waits_s[cause] / running->minute_s);
        *running = (struct running){.here = running->here, .last_s = running->last_s};
    }
    track_add(&past->minutes, &frame, past->points, n);
    past->minute_s = 0;
    memset(past->minute, 0, sizeof past->minute);
}

/* minute_of returns the number of the minute in which most of the span lies. */
static double minute_of(double from_s, double span_s)
{
    return floor((from_s + span_s / 2) / 60);
}

/* add_daemon fills the frame's values, and adds them to the minute's. */
static void add_daemon(struct past *past, const struct past_sample *sample, struct frame *frame)
{
    double span_s = sample->time_s - past->last_s;
    if (past->minute_s <= 0) {
        past->minute_begun_s = past->last_s;
        past->minute_number = minute_of(past->last_s, span_s);
    }
    for (size_t i = 0; i < PAST_VALUES; i++) {
        double value = i < PAST_RSS ? grown(sample->values[i], past->last[i]) / span_s : sample->values[i];
        frame->values[i] = (float)value;
        past->minute[i] += value * span_s;
    }
    past->minute_s += span_s;
}

bool past_add(struct past *past, const struct past_sample *sample)
{
    double now_s = sample->time_s, span_s = now_s - past->last_s;
    bool first = false;
    if (past->last_s > 0 && span_s <= 0)
        return false;
    bool known = past->last_s > 0 && span_s <= PAST_GAP_S;
    struct frame frame = {.time_s = now_s, .span_s = (float)span_s};
    uint32_t n = 0;
    if (past->minute_s > 0 && (!known || minute_of(past->last_s, span_s) > past->minute_number))
        end_minute(past);
    for (size_t i = 0; i < sample->n_jobs && n < PAST_JOBS; i++) {
        const struct past_job_sample *job = &sample->jobs[i];
        uint16_t slot = job->place < JOBS_MAX ? past->slot[job->place] : PAST_NONE;
        if (slot == PAST_NONE || strncmp(past->jobs[slot].name, job->name, PAST_NAME_BYTES - 1) != 0)
            continue;
        add_gifts(past, job, slot, now_s);
        first = first || (job->figures.delivered && !past->jobs[slot].figures.delivered);
        n += add_job(past, job, slot, now_s, &past->points[n]);
    }
    if (known) {
        add_daemon(past, sample, &frame);
        track_add(&past->seconds, &frame, past->points, n);
    }
    past->last_s = now_s;
    memcpy(past->last, sample->values, sizeof past->last);
    return first;
}
