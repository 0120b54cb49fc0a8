/* changes.h: what changes for many residents at once: a job wants other samples, or has instances again that it had.
 *
 * To carry such a change out on all residents would be a long step. So it is a line in a log, and each resident (an
 * instance, an encoded) says up to which line it is settled. Whoever goes by what a resident is settles it first; the
 * sweep (residents_sweep.c) settles the others little by little. To settle is to take what the lines say of `had` in
 * their order, and then to count those jobs anew that they name, by what holds now (demand.h).
 *
 * Invariant: what a resident counts is right for all jobs but those that lines name which it is not settled to. A line
 * stays until all residents are settled to it. Lines are told in order, so a job may get the number of one that went.
 * Owner: residents; prepared and encoded read it. */
#ifndef LARDER_SERVER_ENGINE_CHANGES_H
#define LARDER_SERVER_ENGINE_CHANGES_H

#include "server/engine/env.h"

enum change_kind {
    CHANGE_WANTS,         /* the job began or ended an epoch: it wants other samples of `pipeline` */
    CHANGE_RENEWED,       /* the job may have the pipeline's instances again that it had */
    CHANGE_AGAIN,         /* the job, which might have wanted the pipeline's instances again, will not */
    CHANGE_FORGOTTEN,     /* the job goes: what it had is forgotten */
    CHANGE_INHERITED_ALL, /* the job counts as having had all of the pipeline's instances, */
    CHANGE_INHERITED,     /* or those of them that `other` had */
    CHANGE_PIPELINE_GONE, /* the pipeline's number will mean another one */
    CHANGE_USES           /* samples are used next at other times */
};

struct change {
    enum change_kind kind;
    uint32_t job, pipeline, other;
};

/* Lines first … end - 1 are at lines[0] and on. The log owns the array. */
struct changes {
    struct change *lines;
    uint32_t first, end;
    size_t cap;
};

/* changes_after returns the lines that one who is settled to `settled` has yet to follow; *count is how many they
 * are. */
static inline const struct change *changes_after(const struct changes *changes, uint32_t settled, uint32_t *count)
{
    *count = changes->end - settled;
    return changes->lines + (settled - changes->first);
}

#endif
