/* tasks.h: loads and preparations: whose they are, whose turn it is, what goes out. */
#ifndef LARDER_SERVER_ENGINE_TASKS_H
#define LARDER_SERVER_ENGINE_TASKS_H

#include "server/engine/engine_priv.h"

/* tasks.c */
uint32_t task_new(struct tasks *tasks);
void task_drop(struct tasks *tasks, uint32_t task);
void tasks_to_load(struct engine *engine, uint32_t task, bool first); /* it is in no list; first: before all others */
void tasks_remove_to_load(struct engine *engine, uint32_t index);
void tasks_to_prepare(struct engine *engine, uint32_t task);
void tasks_route(struct engine *engine, uint32_t index);
void tasks_begin(struct engine *engine, uint32_t job, uint32_t instance);
void tasks_end(struct engine *engine, uint32_t task);
void tasks_cancel_output(struct engine *engine, uint32_t instance);
void tasks_move(struct engine *engine, uint32_t task, uint32_t job);
void tasks_joined(struct engine *engine, uint32_t task, uint32_t job); /* the job waits for it too */
/* Who shall have a task in his line that is not under way, when the job has it now; ENGINE_NONE: nobody waits for it. */
uint32_t tasks_heir(const struct engine *engine, const struct task *task, uint32_t job);
void tasks_left(struct engine *engine, uint32_t task, uint32_t job);   /* the job does so no more, others do */
bool tasks_is_running(const struct engine *engine, const struct instance *instance);

/* tasks_companions.c */
bool tasks_makes_pixels(const struct engine *engine, const struct task *task); /* not only copies of the encoded bytes */
void tasks_add_companions(struct engine *engine, uint32_t task); /* just before it runs */
const void *tasks_output_dataset(const struct engine *engine, const struct instance *instance);

/* tasks_dispatch.c */
/* Gives a task whose sample is larger than all of encoded memory, in no list any more, and is to be called again once that
 * has failed; ENGINE_NONE: all that can go out is out. */
uint32_t tasks_dispatch(struct engine *engine);

/* tasks_load.c */
void tasks_load_mates(struct engine *engine, uint32_t job, sample_id id); /* what comes with it in one read */
void tasks_read_ahead(struct engine *engine);
bool tasks_load(struct engine *engine, uint32_t job, sample_id id, uint64_t bytes); /* false: no room for it now */

/* tasks_probe.c */
void tasks_probe(struct engine *engine);   /* whether those that were away answer again */

/* tasks_ranks.c */
void tasks_rank_listed(struct engine *engine, enum task_kind kind, struct task *task); /* it is in its job's list */
void tasks_rank_unlisted(struct engine *engine, enum task_kind kind, const struct task *task);
void tasks_entry_ready(struct engine *engine, uint32_t entry); /* its instance is; another's task may change ranks */
uint32_t tasks_next(const struct engine *engine, uint32_t job, enum task_kind kind); /* of a list that has some */
uint32_t tasks_load_rank(const struct engine *engine, uint32_t job, sample_id id); /* ENGINE_RANK_NONE: none waits */
void tasks_on_pace(struct engine *engine, const struct engine_event *event);

/* tasks_sources.c */
void tasks_source_answered(struct engine *engine, const struct encoded *encoded);
/* A load failed for it, that the tasks from `first` on waited for. False: the sample is given up, it is bad. */
bool tasks_source_failed(struct engine *engine, const struct encoded *encoded, uint32_t first, int reason);

/* tasks_turns.c */
void tasks_append(struct engine *engine, enum task_kind kind, uint32_t task); /* to its job's list */
void tasks_prepend(struct engine *engine, enum task_kind kind, uint32_t task);
void tasks_remove(struct engine *engine, enum task_kind kind, uint32_t task);
void tasks_weigh(struct engine *engine); /* jobs or weights may have changed */
uint32_t tasks_next_turn(const struct engine *engine, enum task_kind kind); /* a job with work; ENGINE_NONE: none has any */
void tasks_turn_begin(struct engine *engine, enum task_kind kind, uint32_t job);
void tasks_charge_prepare(struct engine *engine, uint32_t task);
void tasks_charge_load(struct engine *engine, sample_id id);
void tasks_measure_prepare(struct engine *engine, const struct task *task, uint64_t core_ns);

#endif
