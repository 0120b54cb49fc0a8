/* sabotage.h: wrong deeds between the engine and the model, to show that the model sees them.
 *
 * One deed a run, at a random opportunity: an action is changed, doubled or lost, or an event is kept from the engine. */
#ifndef LARDER_SIMULATION_SABOTAGE_H
#define LARDER_SIMULATION_SABOTAGE_H

#include "tests/simulation/model.h"
#include "tests/simulation/scenario.h"

enum sabotage_flags {
    SABOTAGE_FIGURES = 1, /* the engine's own figures are compared, which would find most other kinds before their rule does */
    SABOTAGE_OFTEN = 2,   /* goes unseen where nothing came of it: to be found in half of the cases at the least */
};

/* KIND(id, name, the rule that must be found broken, another that may be instead, flags) */
#define SABOTAGE_KINDS(KIND)                                                              \
    KIND(DROP_ENTRY, "drop-entry", RULE_BATCH, RULE_NONE, 0)                              \
    KIND(FORGET_SAMPLE, "forget-sample", RULE_EXACTLY_ONCE, RULE_NONE, 0)                 \
    KIND(DOUBLE_ENTRY, "double-entry", RULE_INSTANCE, RULE_NONE, 0)                       \
    KIND(WRONG_ID, "wrong-id", RULE_BYTES, RULE_NONE, 0)                                  \
    KIND(SWAP_SLOTS, "swap-slots", RULE_BYTES, RULE_NONE, 0)                              \
    KIND(SWAP_ORDER, "swap-order", RULE_ORDER, RULE_NONE, 0)                              \
    KIND(DELIVER_TWICE, "deliver-twice", RULE_BATCH, RULE_NONE, 0)                        \
    KIND(LOSE_BATCH, "lose-batch", RULE_BATCH, RULE_STUCK, 0)                             \
    KIND(LOSE_LAST, "lose-last", RULE_STUCK, RULE_BATCH, 0)                               \
    KIND(EARLY_LAST, "early-last", RULE_EXACTLY_ONCE, RULE_NONE, 0)                       \
    KIND(EXTRA_CREDIT, "extra-credit", RULE_CREDIT, RULE_NONE, SABOTAGE_OFTEN)            \
    KIND(SMALL_HELD, "small-held", RULE_HELD, RULE_NONE, SABOTAGE_OFTEN)                  \
    KIND(ALIAS_SLOT, "alias-slot", RULE_SLOT, RULE_NONE, 0)                               \
    KIND(OUTSIDE_ARENA, "outside-arena", RULE_SLOT, RULE_NONE, 0)                         \
    KIND(SAME_INSTANCE, "same-instance", RULE_INSTANCE, RULE_NONE, 0)                     \
    KIND(WRONG_RELEASE, "wrong-release", RULE_STATUS, RULE_SLOT, SABOTAGE_FIGURES | SABOTAGE_OFTEN)\
    KIND(LOSE_RELEASE, "lose-release", RULE_STATUS, RULE_NONE, SABOTAGE_FIGURES)          \
    KIND(LOSE_NEXT, "lose-next", RULE_STUCK, RULE_NONE, 0)                                \
    KIND(LOSE_LOAD, "lose-load", RULE_STUCK, RULE_NONE, 0)                                \
    KIND(LOAD_TWICE, "load-twice", RULE_TASK, RULE_NONE, 0)                               \
    KIND(LOSE_PREPARE, "lose-prepare", RULE_STUCK, RULE_NONE, 0)                          \
    KIND(DROP_TWICE, "drop-twice", RULE_ENCODED, RULE_NONE, 0)                            \
    KIND(DROP_BUSY, "drop-busy", RULE_ENCODED, RULE_NONE, 0)                              \
    KIND(LOSE_DROP, "lose-drop", RULE_STATUS, RULE_ENCODED, SABOTAGE_FIGURES)             \
    KIND(LOSE_ENDED, "lose-ended", RULE_JOB, RULE_NONE, 0)                                \
    KIND(LOSE_ANSWER, "lose-answer", RULE_JOB, RULE_NONE, 0)                              \
    KIND(FALSE_ERROR, "false-error", RULE_BAD, RULE_NONE, 0)

enum sabotage_kind {
    SABOTAGE_NONE,
#define KIND(id, ...) SABOTAGE_##id,
    SABOTAGE_KINDS(KIND)
#undef KIND
        SABOTAGE_COUNT
};

#define SABOTAGE_ACTIONS_MAX 2 /* what becomes of one action */

struct sabotage;

const char *sabotage_name(enum sabotage_kind kind);
enum sabotage_kind sabotage_find(const char *name); /* SABOTAGE_NONE when there is no such kind */
bool sabotage_found_enough(enum sabotage_kind kind, uint64_t done, uint64_t found);
bool sabotage_expects(enum sabotage_kind kind, enum rule rule);

/* The model is borrowed; it is told whether to compare the engine's own figures. */
struct sabotage *sabotage_create(enum sabotage_kind kind, const struct scenario *scenario, struct model *model);
void sabotage_destroy(struct sabotage *sabotage); /* accepts NULL */
bool sabotage_done(const struct sabotage *sabotage); /* accepts NULL */

/* sabotage_event may change what the engine is told (never what the model is told); false: it is told nothing. */
bool sabotage_event(struct sabotage *sabotage, struct engine_event *event);
/* sabotage_action gives 0 … SABOTAGE_ACTIONS_MAX actions in the place of one. They are valid until the next call. */
size_t sabotage_action(struct sabotage *sabotage, const struct engine_action *action, struct engine_action *out);

#endif
