/* changes.h: a log of changes that concern many residents at once: a job wants other samples, or may get instances
 * again.
 *
 * Applying such a change to all residents would make one long step. So the change is a line in a log, and each resident
 * (an instance, an encoded) knows the line up to which it is settled. Whoever reads a resident's state settles it
 * first; the sweep (residents_sweep.c) settles the others little by little. Settling applies the lines to `had` in
 * their order, and then recounts the jobs that they name by the present state (demand.h).
 *
 * Invariant: a resident's want is right for all jobs except those named in lines that it has not followed. A line stays
 * until all residents have followed it. Lines are followed in order, so a new job may get the number of one that ended.
 * Owner: residents; prepared and encoded read it. */
#ifndef LARDER_SERVER_ENGINE_CHANGES_H
#define LARDER_SERVER_ENGINE_CHANGES_H

#include "server/engine/env.h"

enum change_kind {
    CHANGE_WANTS,   /* the job began or ended an epoch: it wants other samples of `pipeline` */
    CHANGE_RENEWED, /* the job, whose bit of `had` is `other`, may get the pipeline's instances again */
    CHANGE_AGAIN,   /* the job will not want the pipeline's instances again after all */
    /* Of these, `job` is a bit of `had`. */
    CHANGE_FORGOTTEN,     /* the last job with the bit ends: what it had is forgotten */
    CHANGE_INHERITED_ALL, /* the bit's jobs count as having had all of the pipeline's instances */
    CHANGE_INHERITED,     /* they count as having had the pipeline's instances that have the bit `other` */
    CHANGE_PIPELINE_GONE, /* the pipeline's number will mean another one */
    CHANGE_USES           /* samples are used next at other times */
};

struct change {
    enum change_kind kind;
    uint32_t job, pipeline, other;
};

/* Line i is lines[i - first], for first ≤ i < end. The log owns the array. */
struct changes {
    struct change *lines;
    uint32_t first, end;
    size_t cap;
};

/* changes_after returns the lines from `settled` on, and *count says how many there are. A resident that is settled up
 * to that line has yet to follow them. */
static inline const struct change *changes_after(const struct changes *changes, uint32_t settled, uint32_t *count)
{
    *count = changes->end - settled;
    return changes->lines + (settled - changes->first);
}

#endif
