/* home.h: a node as a home, between its guests and its engine. Guests are told of what the engine did; what they ask
 * for is carried out, in the order that keeps what they give: answers before the engine does anything with their slots.
 * It serves the daemon and the nodes in virtual time. Pure; the means do the rest.
 *
 * What a step of the engine means to guests is noted, and told when that step is over, since telling steps the engine
 * again. */
#ifndef LARDER_SERVER_CLUSTER_HOME_H
#define LARDER_SERVER_CLUSTER_HOME_H

#include "server/cluster/guests.h"

/* How a home acts. None is NULL. */
struct home_means {
    void *ctx;
    uint64_t (*now_ns)(void *ctx);
    void (*answer)(void *ctx, const struct guests_action *action);
    void (*resolve)(void *ctx, const struct guests_action *action);
    /* Whether the engine's job is a guest's. It may have ended in a step of which the guests hear later. */
    bool (*is_guests)(void *ctx, uint32_t job);
    void (*engine)(void *ctx, const struct guests_action *action); /* ASK, RELEASE, GONE */
};

/* What is to be told. Samples of a DELIVERED are those here. */
struct home_note {
    struct guests_event event;
    struct guests_sample samples[GUESTS_BATCH];
};

struct home {
    struct guests *guests;
    struct home_note *notes;
    size_t n_notes, notes_cap;
};

int home_begin(const struct guests_config *config, struct home *home); /* LARDER_ENOMEM */
void home_end(struct home *home);                                      /* accepts one that is all zeros */
/* home_note notes an event, and gives its place, until the next note. */
struct home_note *home_note(struct home *home, struct guests_event event);
/* home_tell tells an event now; its time is filled in. home_go_on tells what is noted, and a TICK when one is due; it
 * gives whether there was anything, or is more. */
void home_tell(struct home *home, const struct home_means *means, struct guests_event event);
bool home_go_on(struct home *home, const struct home_means *means);

#endif
