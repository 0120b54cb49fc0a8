/* selection.h: what a job trains on: the part of a dataset that its subset selects, and where those samples are stored.
 * Jobs that name the same part of the same dataset have one selection between them: a sweep's second script costs the
 * daemon no look at each sample. It lives as long as one of their registrations. */
#ifndef LARDER_SERVER_REGISTRATION_SELECTION_H
#define LARDER_SERVER_REGISTRATION_SELECTION_H

#include <stdbool.h>
#include <sys/queue.h>

#include "cache/catalog/catalog.h"
#include "sampler/view.h"
#include "server/engine/events.h"

/* Once it is complete it does not change, but for `placed` and what the lock guards. */
struct selection {
    struct dataset *dataset;   /* a reference of its own */
    struct view_result view;   /* the ids, and their order in the dataset */
    uint64_t fingerprint[2];   /* a hash of the dataset's and the view's indices */
    struct chunk_slot *places; /* places of the view's samples, by ascending id; with the dataset's chunk numbers */
    uint32_t touched;          /* chunks in which the view has samples */
    bool ascending;            /* view.order is ascending, so places go by it */
    /* Samples that have their places in the engine. Only the engine's thread uses it. */
    uint32_t placed;

    char *text; /* the subset and the configuration's; NULL: it is not shared */
    /* The lock of selection.c guards what follows. */
    unsigned refs;
    TAILQ_ENTRY(selection) link;
};

/* selection_is_shared tells whether jobs with these subsets, JSON or empty, may have one selection: the texts say all,
 * for they name no file. */
bool selection_is_shared(const char *subset, const char *narrowed);
/* selection_create returns a selection that has a reference to the dataset, and is empty otherwise. */
struct selection *selection_create(struct dataset *dataset);
/* selection_find returns a reference to the selection that jobs share; NULL: none is there. selection_share has them
 * share one that is complete. If another thread has been faster, *selection becomes that one's. Any thread. */
struct selection *selection_find(const struct dataset *dataset, const char *subset, const char *narrowed);
void selection_share(struct selection **selection, const char *subset, const char *narrowed);
void selection_unref(struct selection **selection); /* accepts a pointer to NULL */

#endif
