/* sabotage.h: wrong deeds between the engine and the model, to show that the model sees them.
 *
 * One deed a run, at a random opportunity: an action is changed, doubled or lost, or an event is kept back. */
#ifndef LARDER_SIMULATION_SABOTAGE_H
#define LARDER_SIMULATION_SABOTAGE_H

#include "tests/simulation/model.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/state.h"

enum sabotage_flags {
    SABOTAGE_FIGURES = 1, /* its own figures are compared, which would find most kinds before their rule does */
    SABOTAGE_OFTEN = 2,   /* goes unseen where nothing came of it: to be found in half of the cases at the least */
    SABOTAGE_RARE = 4,    /* has few opportunities in a run */
};

/* From RANK_SHARE on they are of jobs with several ranks, and from STATE_DROP on of states, which scenarios with
 * restarts have. TRIM kinds are of samples that differ in length.
 * KIND(id, name, the rules of which one must be found broken, flags) */
#define SABOTAGE_KINDS(KIND, R)                                                                               \
    KIND(DROP_ENTRY, "drop-entry", R(BATCH), 0)                                                               \
    KIND(FORGET_SAMPLE, "forget-sample", R(EXACTLY_ONCE), 0)                                                  \
    KIND(DOUBLE_ENTRY, "double-entry", R(INSTANCE), 0)                                                        \
    KIND(WRONG_ID, "wrong-id", R(BYTES), 0)                                                                   \
    KIND(SWAP_SLOTS, "swap-slots", R(BYTES), 0)                                                               \
    KIND(SWAP_ORDER, "swap-order", R(ORDER), 0)                                                               \
    KIND(DELIVER_TWICE, "deliver-twice", R(BATCH), 0)                                                         \
    KIND(LOSE_BATCH, "lose-batch", R(BATCH) | R(STUCK), 0)                                                    \
    KIND(LOSE_LAST, "lose-last", R(STUCK) | R(BATCH), 0)                                                      \
    KIND(EARLY_LAST, "early-last", R(EXACTLY_ONCE), 0)                                                        \
    KIND(EXTRA_CREDIT, "extra-credit", R(CREDIT), SABOTAGE_OFTEN)                                             \
    KIND(SMALL_HELD, "small-held", R(HELD), SABOTAGE_OFTEN)                                                   \
    KIND(ALIAS_SLOT, "alias-slot", R(SLOT), 0)                                                                \
    KIND(OUTSIDE_ARENA, "outside-arena", R(SLOT), 0)                                                          \
    KIND(SAME_INSTANCE, "same-instance", R(INSTANCE), 0)                                                      \
    KIND(WRONG_RELEASE, "wrong-release", R(STATUS) | R(SLOT), SABOTAGE_FIGURES | SABOTAGE_OFTEN)              \
    KIND(LOSE_RELEASE, "lose-release", R(STATUS) | R(STUCK), SABOTAGE_FIGURES | SABOTAGE_OFTEN)               \
    KIND(LOSE_NEXT, "lose-next", R(STUCK), 0)                                                                 \
    KIND(LOSE_LOAD, "lose-load", R(STUCK), SABOTAGE_OFTEN)                                                    \
    KIND(LOAD_TWICE, "load-twice", R(TASK), 0)                                                                \
    KIND(LOSE_PREPARE, "lose-prepare", R(STUCK) | R(ENCODED), SABOTAGE_OFTEN)                                 \
    KIND(FAIL_ALL, "fail-all", R(STATUS) | R(EXACTLY_ONCE) | R(BAD), SABOTAGE_FIGURES | SABOTAGE_RARE)        \
    KIND(PASS_BAD, "pass-bad", R(BYTES), SABOTAGE_OFTEN | SABOTAGE_RARE)                                      \
    KIND(DROP_TWICE, "drop-twice", R(ENCODED), 0)                                                             \
    KIND(DROP_BUSY, "drop-busy", R(ENCODED), 0)                                                               \
    KIND(LOSE_DROP, "lose-drop", R(STATUS) | R(ENCODED) | R(TASK), SABOTAGE_FIGURES)                          \
    KIND(LOSE_ENDED, "lose-ended", R(JOB), 0)                                                                 \
    KIND(LOSE_ANSWER, "lose-answer", R(JOB), 0)                                                               \
    KIND(FALSE_ERROR, "false-error", R(BAD), 0)                                                               \
    KIND(LOSE_RETRY, "lose-retry", R(STUCK), SABOTAGE_OFTEN)                                                  \
    KIND(OUTAGE_AS_BAD, "outage-as-bad", R(EXACTLY_ONCE) | R(BAD) | R(ORDER) | R(TASK), SABOTAGE_OFTEN)       \
    KIND(OTHER_DRAWS, "other-draws", R(EXACTLY_ONCE), SABOTAGE_OFTEN | SABOTAGE_RARE)                         \
    KIND(STALE_FORM, "stale-form", R(ENCODED), SABOTAGE_RARE)                                                 \
    KIND(WRONG_FORM, "wrong-form", R(ENCODED), 0)                                                             \
    KIND(SHORT_SLOT, "short-slot", R(SLOT), 0)                                                                \
    KIND(OVER_HELD, "over-held", R(HELD), SABOTAGE_RARE)                                                      \
    KIND(LOSE_WEIGHT, "lose-weight", R(STATUS), SABOTAGE_FIGURES | SABOTAGE_OFTEN | SABOTAGE_RARE)            \
    KIND(MORE_LOADS, "more-loads", R(TASK), SABOTAGE_OFTEN)                                                   \
    KIND(MORE_PREPARES, "more-prepares", R(TASK), SABOTAGE_OFTEN)                                             \
    KIND(MORE_ENCODED, "more-encoded", R(ENCODED), SABOTAGE_OFTEN)                                            \
    KIND(RANK_SHARE, "rank-share", R(ORDER), 0)                                                               \
    KIND(RANK_TWICE, "rank-twice", R(INSTANCE), 0)                                                            \
    KIND(RANK_AGAIN, "rank-again", R(EXACTLY_ONCE), SABOTAGE_OFTEN)                                           \
    KIND(RANK_MORE, "rank-more", R(BATCH), 0)                                                                 \
    KIND(RANK_FEWER, "rank-fewer", R(EXACTLY_ONCE), 0)                                                        \
    KIND(RANK_LOST, "rank-lost", R(BATCH) | R(STUCK) | R(CREDIT), SABOTAGE_OFTEN)                             \
    KIND(RANK_ASTRAY, "rank-astray", R(JOB), 0)                                                               \
    KIND(RANK_UNTOLD, "rank-untold", R(JOB) | R(STUCK), SABOTAGE_OFTEN)                                       \
    KIND(RANK_ACCUSED, "rank-accused", R(JOB), 0)                                                             \
    KIND(STATE_DROP, "state-drop", R(EXACTLY_ONCE) | R(ORDER) | R(BATCH) | R(JOB) | R(BAD), SABOTAGE_OFTEN)   \
    KIND(STATE_TWICE, "state-twice", R(EXACTLY_ONCE) | R(ORDER) | R(BATCH) | R(BAD) | R(JOB), SABOTAGE_OFTEN) \
    KIND(STATE_MORE, "state-more", R(EXACTLY_ONCE) | R(ORDER) | R(BATCH) | R(BAD) | R(JOB), SABOTAGE_OFTEN)   \
    KIND(STATE_EARLY, "state-early", R(STATE) | R(JOB), SABOTAGE_OFTEN)                                       \
    KIND(TOKEN_DROP, "token-drop", R(STATE), 0)                                                               \
    KIND(TOKEN_MORE, "token-more", R(STATE), 0)                                                               \
    KIND(TOKEN_REFUSED, "token-refused", R(STATE), 0)                                                         \
    KIND(RECORD_WRONG, "record-wrong", R(EXACTLY_ONCE) | R(ORDER), SABOTAGE_OFTEN)                            \
    KIND(TRIM_MORE, "trim-more", R(BYTES) | R(SLOT), SABOTAGE_OFTEN)                                          \
    KIND(TRIM_LESS, "trim-less", R(BYTES), SABOTAGE_OFTEN)                                                    \
    KIND(RANK_COPY, "rank-copy", R(EXACTLY_ONCE), 0)                                                          \
    KIND(LOSE_PARTED, "lose-parted", R(STUCK) | R(ENCODED), SABOTAGE_OFTEN)                                   \
    KIND(TRIM_KEEP, "trim-keep", R(STATUS), SABOTAGE_FIGURES | SABOTAGE_OFTEN)                                \
    KIND(TRIM_UNTOLD, "trim-untold", R(BYTES), 0)

enum sabotage_kind {
    SABOTAGE_NONE,
#define KIND(id, ...) SABOTAGE_##id,
    SABOTAGE_KINDS(KIND, )
#undef KIND
        SABOTAGE_COUNT
};

#define SABOTAGE_ACTIONS_MAX 2 /* what becomes of one action */

struct sabotage;

const char *sabotage_name(enum sabotage_kind kind);
enum sabotage_kind sabotage_find(const char *name); /* SABOTAGE_NONE when there is no such kind */
bool sabotage_needs_ranks(enum sabotage_kind kind); /* in other scenarios it finds no opportunity */
bool sabotage_needs_restarts(enum sabotage_kind kind);
bool sabotage_found_enough(enum sabotage_kind kind, uint64_t done, uint64_t found);
bool sabotage_expects(enum sabotage_kind kind, enum rule rule);

/* The model is borrowed; it is told whether to compare the engine's own figures. */
struct sabotage *sabotage_create(enum sabotage_kind kind, const struct scenario *scenario, struct model *model);
void sabotage_destroy(struct sabotage *sabotage);    /* accepts NULL */
bool sabotage_done(const struct sabotage *sabotage); /* accepts NULL */

/* sabotage_event may change what the engine is told (never what the model is told); false: it is told nothing. `plan`
 * is that of the client of a JOB_ADD. */
bool sabotage_event(struct sabotage *sabotage, struct engine_event *event, const struct client_plan *plan);
/* sabotage_config may have the engine begin with other limits than it was given. */
void sabotage_config(struct sabotage *sabotage, const struct scenario *scenario, struct engine_config *config);
/* sabotage_last_daemon: from now on no daemon dies. What is done to a state before that is undone by the next one. */
void sabotage_last_daemon(struct sabotage *sabotage);
/* sabotage_token may change a state that the daemon gives to a rank, in its bytes. */
void sabotage_token(struct sabotage *sabotage, const struct scenario *scenario, const struct client_plan *plan,
                    struct state *token);
/* sabotage_record may change what a client that comes back presents, in its bytes: engine and model believe it. */
void sabotage_record(struct sabotage *sabotage, const struct scenario *scenario, const struct client_plan *plan,
                     struct state *record);
bool sabotage_refuses(struct sabotage *sabotage); /* … or refuse it, in the daemon's name */
/* sabotage_action returns 0 … SABOTAGE_ACTIONS_MAX actions in the place of one. They are valid until the next call. */
size_t sabotage_action(struct sabotage *sabotage, const struct engine_action *action, struct engine_action *out);

#endif
