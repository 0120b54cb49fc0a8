/* model.h: what must be so, in the simulator's own plain books: who holds which batch, what lies where in the arena,
 * which encoded bytes are in memory, what each job has had. It knows nothing of the engine's insides: it sees the
 * events that go in and the actions that come out, and says which rule the first wrong one breaks. */
#ifndef LARDER_SIMULATION_MODEL_H
#define LARDER_SIMULATION_MODEL_H

#include "server/engine/engine.h"
#include "tests/simulation/scenario.h"

struct model;

/* The rules, as a violation names them. */
enum rule {
    RULE_NONE,
    RULE_EXACTLY_ONCE, /* every sample of the view once an epoch, but for bad ones */
    RULE_BATCH,        /* sizes, numbers and order of batches, LAST */
    RULE_ORDER,        /* `strict` and `none` */
    RULE_CREDIT,       /* no more batches than asked for, none of another epoch */
    RULE_HELD,         /* no more batches out than held_max, no more bytes than the quota */
    RULE_SLOT,         /* ranges of the arena: inside, never two owners */
    RULE_BYTES,        /* what is delivered lies where the entry says, until it is released */
    RULE_INSTANCE,     /* no instance twice to one job, none made twice */
    RULE_ENCODED,      /* budget and life of encoded bytes */
    RULE_TASK,         /* LOAD and PREPARE: limits, and that they make sense */
    RULE_JOB,          /* registration, errors, the end of jobs */
    RULE_BAD,          /* bad samples and policies */
    RULE_STATE,        /* states and what goes on from them */
    RULE_STATUS,       /* what the engine says about itself */
    RULE_STUCK,        /* no progress although somebody waits */
    RULES
};
const char *rule_name(enum rule rule);

/* The scenario is borrowed; of it only the counts in its datasets change. */
struct model *model_create(struct scenario *scenario);
void model_destroy(struct model *model);

/* model_broken: the first rule that was broken, with a text that the model owns. */
enum rule model_broken(const struct model *model, const char **text);
void model_break(struct model *model, enum rule rule, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* model_make_handle returns what LOADED hands in: the model's, freed with it. */
void *model_make_handle(struct model *model, sample_id id);
/* model_load_handle makes a handle of what a LOAD that is about to end has brought, and says in its event what it is:
 * in a scenario with planes, these one time in two. */
struct handle *model_load_handle(struct model *model, struct engine_event *event);
/* model_make_form makes a form on the way of a PREPARE that is about to end, if one was wanted, and puts it into its
 * PREPARED. */
void model_make_form(struct model *model, struct engine_event *event, bool fails);
/* model_replaced_handle returns the handle that a form of the sample has replaced; NULL when none is in memory. */
void *model_replaced_handle(const struct model *model, sample_id id);
/* model_drop_handle: the engine is at its end and gives back what it holds. After that model_ended checks that these
 * were all. */
void model_drop_handle(void *handle);
void model_ended(struct model *model);

/* Before a step: what happens at now_ns. `plan` with JOB_ADD only. */
/* model_forgotten: nothing that was made of the samples, or read, may be there any more. After the step. */
void model_forgotten(struct model *model, const sample_id *ids, uint32_t count);
void model_event(struct model *model, uint64_t now_ns, const struct engine_event *event,
                 const struct client_plan *plan);
/* For each action of the step, in order. */
void model_action(struct model *model, const struct engine_action *action);
/* After a step: the actions were complete, and totals agree; `statuses`: those of all jobs agree as well (slower). */
void model_settle(struct model *model, const struct engine *engine, uint64_t now_ns, bool statuses);
/* At the very end, all clients gone and nothing under way: nothing may be left. */
void model_finish(struct model *model, const struct engine *engine);

/* model_compare_totals(false) leaves the engine's own figures alone: a sabotage is found by the rule it breaks. */
void model_compare_totals(struct model *model, bool compare);
/* model_jobs: how many there are. */
uint32_t model_jobs(const struct model *model);
/* model_rank_waits: the rank has asked for an epoch that begins when the others are through with the one before. */
bool model_rank_waits(const struct model *model, uint32_t job, uint32_t rank);
/* model_may_lack_room: the job may have to wait until there is room for it, a time that is limited. One whose slots
 * have one size never does after its first batch. */
bool model_may_lack_room(const struct model *model, uint32_t job);
uint32_t model_no_rooms(const struct model *model); /* jobs that failed for that */
/* model_crash: the daemon is gone, with all its jobs and all that it had in memory. */
void model_crash(struct model *model);
/* model_failed_since: the sample failed for the plan's job in that step (model_step) or later, or always fails. */
bool model_failed_since(const struct model *model, const struct client_plan *plan, sample_id id, uint64_t step);
uint64_t model_step(const struct model *model);
uint32_t model_resumed(const struct model *model); /* jobs that went on, all of whose ranks came */
/* What sabotage looks for. */
/* model_steady_plan: the plan of a running job that is not cancelled, and whose client neither vanishes nor breaks off;
 * NULL for others. */
const struct client_plan *model_steady_plan(const struct model *model, uint32_t job);
/* model_could_miss: might the job go without the sample, because it failed for somebody meanwhile? */
bool model_could_miss(const struct model *model, uint32_t job, sample_id id);
/* model_is_full: with one batch more the job's client holds all that it may, and it has asked for two. Not of jobs with
 * several ranks. */
bool model_is_full(const struct model *model, uint32_t job);
bool model_has_ranks(const struct model *model, uint32_t job);
/* model_clean_ranks: the plan of a running job of several ranks, none of which ever goes away, breaks off or asks for
 * nonsense, and of whose samples none has failed in this epoch; NULL for others. */
const struct client_plan *model_clean_ranks(const struct model *model, uint32_t job);
/* model_has_failed: the sample is bad, or was for somebody. */
bool model_has_failed(const struct model *model, sample_id id);
/* model_is_new: no job has the name. */
bool model_is_new(const struct model *model, const char *name);
/* model_other_rank finds another rank of the job that may be given a batch now: which index it has, and whether it is
 * the last. */
struct model_rank {
    uint32_t rank, index;
    uint64_t client;
    bool last;
};
bool model_other_rank(const struct model *model, uint32_t job, uint32_t rank, struct model_rank *other);
/* model_may_have_more: the rank may be given two batches now. */
bool model_may_have_more(const struct model *model, uint32_t job, uint32_t rank);
/* model_others_sample finds an instance that the job may still get, of a sample that it has had in this epoch. */
bool model_others_sample(const struct model *model, uint32_t job, struct engine_entry *entry);
/* model_is_owed: something that the rank held when it went has not come again, and its client goes on to the
 * epoch's end. */
bool model_is_owed(const struct model *model, uint32_t job, uint32_t rank);
/* model_held_slot finds a slot that a client holds; false when there is none. */
bool model_held_slot(const struct model *model, uint64_t *offset);
uint64_t model_reserved(const struct model *model); /* bytes of the arena that are there */
/* model_other_held finds a batch that the job's client holds beside this one. */
bool model_other_held(const struct model *model, uint32_t job, uint64_t batch, uint64_t *other);
/* model_outputs_ended: how many outputs the last PREPARED was about. model_output_begun returns with how many bytes one
 * of them was begun. */
uint32_t model_outputs_ended(const struct model *model);
uint64_t model_output_begun(const struct model *model, uint32_t output);
/* model_measure puts the lengths of what a PREPARE has made into its PREPARED. */
void model_measure(const struct model *model, struct engine_event *event);
/* model_source_answers: else a load is there to find that out, and when it is lost the job may be told that it does
 * not. */
bool model_source_answers(const struct model *model, const void *dataset);
/* model_is_retry: a load of the sample was not answered before. */
bool model_is_retry(const struct model *model, sample_id id);
/* model_busy_handle finds the encoded bytes of a running PREPARE, or NULL. */
void *model_busy_handle(const struct model *model);

#endif
