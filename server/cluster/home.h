/* home.h: a node as a home, between its guests and its engine. It tells guests what the engine did, and carries out
 * their actions. Answers go out before the engine does anything with their slots. The daemon and the nodes in virtual
 * time use it. Pure; the means do the rest.
 *
 * Events of an engine step are noted, and told to the guests when the step is over, because telling may step the engine
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
    /* Whether the engine's job is a guest's, even if it ended in a step that the guests have not heard of yet. */
    bool (*is_guests)(void *ctx, uint32_t job);
    void (*engine)(void *ctx, const struct guests_action *action); /* ASK, RELEASE, GONE */
};

/* An event to be told. The samples of a DELIVERED are in `samples`. */
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
/* home_note notes an event. It returns the note, which is valid until the next one. */
struct home_note *home_note(struct home *home, struct guests_event event);
/* home_tell tells an event now, and fills in its time. home_go_on tells the noted events, and a TICK when one is due.
 * It returns whether there were any, or are more. */
void home_tell(struct home *home, const struct home_means *means, struct guests_event event);
bool home_go_on(struct home *home, const struct home_means *means);

#endif
