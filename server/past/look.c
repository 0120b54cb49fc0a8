/* look.c: curves with steps of any length, and who gave how much to whom. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/past/past_priv.h"

/* step_of returns the step that a frame belongs to; span->count: none. */
static size_t step_of(const struct past_span *span, const struct frame *frame)
{
    double middle_s = frame->time_s - (double)frame->span_s / 2, at = floor((middle_s - span->from_s) / span->step_s);
    return at >= 0 && at < (double)span->count ? (size_t)at : span->count;
}

static void add_point(struct past_job_step *to, const struct point *point, float seconds)
{
    to->seconds += seconds;
    to->per_s += point->per_s * seconds;
    to->shared_per_s += point->shared_per_s * seconds;
    for (size_t cause = 0; cause < PAST_CAUSES; cause++)
        to->waits[cause] += (float)point->waits[cause] / PART * seconds;
}

/* is_of tells whether a point is of the job that is in its slot now, and not of an earlier one there. */
static bool is_of(const struct past *past, const struct frame *frame, uint16_t slot)
{
    return past->jobs[slot].id && frame->time_s >= past->jobs[slot].begun_s;
}

static void even_out(const struct past_span *span, struct past_step *steps, struct past_job_step *jobs, size_t rows)
{
    for (size_t i = 0; i < span->count; i++) {
        for (size_t value = 0; value < PAST_VALUES && steps[i].seconds > 0; value++)
            steps[i].values[value] /= steps[i].seconds;
    }
    for (size_t i = 0; i < rows * span->count; i++) {
        if (jobs[i].seconds <= 0)
            continue;
        jobs[i].per_s /= jobs[i].seconds;
        jobs[i].shared_per_s /= jobs[i].seconds;
        for (size_t cause = 0; cause < PAST_CAUSES; cause++)
            jobs[i].waits[cause] /= jobs[i].seconds;
    }
}

/* add_frames adds the track's frames that ended after since_s. */
static void add_frames(const struct past *past, const struct track *track, double since_s, const struct past_span *span,
                       struct past_step *steps, const uint16_t row[PAST_JOBS], struct past_job_step *jobs)
{
    for (uint64_t i = track->begin; i < track->end; i++) {
        const struct frame *frame = track_frame(track, i);
        size_t step = step_of(span, frame);
        if (step == span->count || frame->time_s <= since_s)
            continue;
        steps[step].seconds += (double)frame->span_s;
        for (size_t value = 0; value < PAST_VALUES; value++)
            steps[step].values[value] += (double)frame->values[value] * (double)frame->span_s;
        for (uint32_t k = 0; k < frame->n_points; k++) {
            const struct point *point = track_point(track, frame->first + k);
            if (row[point->slot] != PAST_NONE && is_of(past, frame, point->slot))
                add_point(&jobs[row[point->slot] * span->count + step], point, frame->span_s);
        }
    }
}

/* The minute that goes on is made of its seconds. */
void past_curves(const struct past *past, const struct past_span *span, struct past_step *steps,
                 const uint16_t row[PAST_JOBS], struct past_job_step *jobs)
{
    size_t rows = 0;
    double since_s = 0;
    for (uint32_t slot = 0; slot < PAST_JOBS; slot++) {
        if (row[slot] != PAST_NONE && (size_t)row[slot] + 1 > rows)
            rows = (size_t)row[slot] + 1;
    }
    if (span->step_s >= 60) {
        add_frames(past, &past->minutes, 0, span, steps, row, jobs);
        since_s = past->minute_s > 0 ? past->minute_begun_s : past->last_s;
    }
    add_frames(past, &past->seconds, since_s, span, steps, row, jobs);
    even_out(span, steps, jobs, rows);
}

static int by_pair(const void *a, const void *b)
{
    const struct past_gift *x = a, *y = b;
    return x->to != y->to ? (x->to < y->to ? -1 : 1) : x->from != y->from ? (x->from < y->from ? -1 : 1) : 0;
}

static int by_samples(const void *a, const void *b)
{
    const struct past_gift *x = a, *y = b;
    return x->samples != y->samples ? (x->samples > y->samples ? -1 : 1) : by_pair(a, b);
}

size_t past_gave(const struct past *past, double since_s, struct past_gift *out, size_t max)
{
    uint64_t oldest = past->gifts_end > PAST_GIFTS ? past->gifts_end - PAST_GIFTS : 0;
    struct past_gift *all = malloc(PAST_GIFTS * sizeof *all);
    size_t n = 0, pairs = 0;
    if (!all)
        return 0;
    for (uint64_t i = oldest; i < past->gifts_end; i++) {
        const struct past_gift *gift = &past->gifts[i % PAST_GIFTS];
        if (gift->time_s + PAST_GIFT_S > since_s && gift->time_s + PAST_GIFT_S >= past->jobs[gift->to].begun_s)
            all[n++] = *gift;
    }
    if (n)
        qsort(all, n, sizeof *all, by_pair);
    for (size_t i = 0; i < n; i++) {
        if (pairs && by_pair(&all[pairs - 1], &all[i]) == 0)
            all[pairs - 1].samples += all[i].samples;
        else
            all[pairs++] = all[i];
    }
    if (pairs)
        qsort(all, pairs, sizeof *all, by_samples);
    if (pairs > max)
        pairs = max;
    memcpy(out, all, pairs * sizeof *out);
    free(all);
    return pairs;
}
