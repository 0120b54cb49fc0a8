/* model_priv.h: the books; for model*.c only. */
#ifndef LARDER_SIMULATION_MODEL_PRIV_H
#define LARDER_SIMULATION_MODEL_PRIV_H

#include "tests/simulation/away.h"
#include "tests/simulation/model.h"
#include "tests/simulation/table.h"

/* One prepared form of a sample: the ownership tag of its range of the arena. */
struct made {
    uint64_t serial; /* tells it from every other */
    sample_id id;
    uint32_t pipeline; /* what was computed, not the number */
    uint64_t instance, variant;
    uint64_t offset, bytes;
    enum { MADE_RUNNING, MADE_DONE, MADE_OVER } state; /* OVER: its range is somebody else's, or it failed */
    uint32_t held;                                     /* batches that clients hold and that contain it */
};

/* Encoded bytes: what a handle points to. */
struct handle {
    sample_id id;
    uint64_t bytes;
    bool form;   /* a decoded form, and not the bytes as they were read */
    bool planes; /* planes, and not these bytes */
    bool dropped;
    uint32_t running; /* PREPAREs that read it */
    uint32_t ends;    /* times that the engine gave it back at its end */
};

struct running_task {
    uint32_t task;
    bool copy;
    struct handle *handle;
    uint64_t form_bytes; /* what it may take for a form; 0: none is wanted */
    struct made *outputs[ENGINE_OUTPUTS_MAX];
    uint32_t n_outputs;
};

struct held_batch {
    uint64_t batch;
    uint32_t count, epoch;
    struct made **made;
};

/* A job's epoch. */
struct epoch_book {
    uint64_t begun_step; /* failures since then may excuse a missing sample */
    bool restored;       /* part of it was had before the job was made */
    uint32_t n;          /* samples that it deals: the view, or what its base leaves of it */
    uint32_t n_batches;  /* a job of one rank has these */
    uint32_t odd;        /* samples of each rank that were no whole batch when it was restored */
    uint64_t lost;       /* bad samples among those that a job of one rank had before */
    uint64_t repeats;    /* that ranks had before, for samples that may be good now */
    uint32_t delivered, distinct, batches;
    uint16_t *times;        /* by sample id: deliveries */
    uint8_t *turns;         /* by sample id: turns that are over */
    uint32_t *due_of;       /* of a multiset, by sample id: how often it is due */
    const sample_id *order; /* `strict` and `none`: what is due */
    uint32_t due;           /* position in it */
    bool last;
    bool put_back; /* a rank went away, and what it held comes again */
};

/* What a rank has told of an epoch before the job was made. */
struct told {
    bool given, presented;
    uint32_t epoch, batches; /* those of the base count */
    uint64_t delivered, through;
    sample_id *turns;
    uint32_t n_turns;
};

/* Of a job that waits for all its ranks: what they have told. */
struct restore_book {
    struct told *ranks;
    uint32_t epoch, base_batches; /* the highest epoch, and its base */
    uint64_t key;
    bool no_base;  /* it is the first epoch, and none of it was over before */
    uint8_t *over; /* by sample id */
    sample_id *rest;
    uint32_t n; /* what the base leaves; in a fixed order it is `rest` */
};

/* A rank of a job that has several. */
struct rank_book {
    bool there, came, told; /* came: was there some time; told: that the job failed */
    uint64_t client;
    uint64_t away_since_ns, gone_step;
    bool asked;
    uint32_t epoch; /* the highest it asked for */
    uint64_t credits;
    bool had_last; /* this client, of last_epoch: a NEXT for that, sent before it knew, is answered by nothing */
    uint32_t last_epoch;
    uint32_t nonsense; /* NEXTs for epochs that are over, or that the job does not have: each is answered by an error */
    bool returned;     /* came back when it was through: asking for the epoch again is answered by an empty LAST */
    bool empty_last;   /* that one is due, of last_empty */
    uint32_t last_empty;
    struct held_batch *held;
    uint32_t n_held;
    uint64_t held_bytes;
    /* the job's epoch */
    bool through, left; /* had LAST, or asked for a later one; the latter */
    uint32_t kept, batches;
    uint32_t share, n_batches; /* what they are by the end */
    uint64_t lost;             /* bad ones that it had before */
    bool behind;               /* it came back from an earlier epoch: asking for that is answered by an empty LAST */
    uint32_t due;              /* in a fixed order: the next of its part of it, and then of its repeats */
    bool order_over;
    uint8_t *times;  /* by sample: how often it had its turn at the rank */
    sample_id *back; /* what it held when it went, and what it had not got again by then: comes again */
    uint32_t n_back;
};

struct job_book {
    uint32_t serial; /* tells it from other jobs in the same place */
    const struct client_plan *plan;
    uint64_t client;
    bool gone, failed, cancelled;
    uint64_t failed_step;
    uint64_t turned_step, begun_before; /* when its book was begun; begun_step of the book before that step */
    bool asked;
    uint64_t asked_ns;   /* for its first batch */
    uint32_t beyond_end; /* NEXTs for epochs it does not have: each is answered by an error, and all goes on */
    uint32_t n_batches, held_max;
    uint64_t quota_bytes, least_bytes; /* now; what no other job may cost it */
    double weight;
    bool started;
    uint32_t epoch;
    uint64_t credits;
    struct epoch_book book;
    sample_id *strict_order; /* what book.order points to, for `strict` */
    bool *in_view;           /* by sample id */
    struct held_batch *held;
    uint32_t n_held;
    uint64_t held_bytes;
    uint64_t delivered, batches, missing; /* over all epochs; missing: of whole epochs */
    uint32_t abandoned;                   /* epochs given up */
    struct rank_book *ranks;              /* NULL: only one */
    struct restore_book *restore;         /* until its epoch begins; NULL: it is not restoring */
    sample_id *rest;                      /* what book.order points to in an epoch that was restored */
    bool over;                            /* every rank is through with the epoch */
    bool dismissed;                       /* nobody is to wait for its ranks */
    uint32_t owed;                        /* samples in the ranks' `back` */
    uint64_t empty_since_ns;              /* while no rank is there */
};

/* A dataset's source, as the loads from it tell. */
struct source_book {
    uint32_t rounds;     /* loads that it has not answered */
    uint32_t unanswered; /* of these: since it answered last, but for samples that were given up; 0: it answers */
    uint32_t asked;      /* loads under way that began while it did not answer */
    uint32_t life;       /* of what the engine knows of it: until its last job ends */
    uint64_t since_ns, failed_ns; /* since_ns: of not answering */
    uint64_t *bad_step;           /* by sample id: when it last failed from here; 0: never */
    uint64_t *changed_step;       /* the same, of being another than indexed */
};

struct model {
    struct scenario *scenario;
    enum rule broken;
    char text[512];
    bool compare_totals;
    uint64_t step, settled_step, before_step, now_ns;
    uint64_t *failed_step; /* by pipeline, then sample id: when it last failed for that; 0: never */

    struct job_book *jobs[JOBS_MAX]; /* by place */
    uint32_t n_jobs, job_serials;
    const struct client_plan *adding; /* JOB_ADD that is not answered yet */
    const struct engine_resume *adding_resume;
    struct engine_resume nothing; /* what a rank brings that has had nothing */
    uint32_t adding_number;
    uint64_t adding_client;
    bool draining;
    /* A pipeline number means the same until PIPELINE_GONE. */
    uint32_t number_pipeline[ENGINE_PIPELINES_MAX], number_users[ENGINE_PIPELINES_MAX];
    uint32_t number_meaning[ENGINE_PIPELINES_MAX]; /* tells its meanings apart; 0: none */
    uint32_t meanings;

    struct made **arena; /* RUNNING and DONE, by offset, none overlapping */
    size_t n_arena, cap_arena;
    uint64_t reserved_bytes;  /* so much of the arena is there, from its start on */
    struct away away;         /* what is not there */
    uint64_t reserving_bytes; /* what the RESERVE that is out asks for; 0: none is out */
    bool refused;             /* the last one got less */
    struct made **all_made;   /* to be freed in the end */
    size_t n_made, cap_made;
    struct table instances; /* (number's meaning, sample, instance) that were begun */
    struct table had;       /* (job serial, made serial) */
    struct table variants;  /* an epoch's variant under `strict`: what it stands for, and by that: it */
    struct table batches;   /* (job serial, batch) */

    struct handle **handles; /* the caller's, by order of arrival: to be freed in the end */
    size_t n_handles, cap_handles;
    bool *loading; /* by sample id */
    struct load_book {
        uint32_t dataset, round, asked; /* asked: the source's life when it did not answer, plus one; 0: it did */
    } * loads;                          /* by sample id, of the last */
    struct source_book *sources;        /* by dataset */
    uint64_t answers;                   /* loads that were answered */
    uint32_t *tries;         /* by sample id: times that it was not, and did not come or was given up since */
    uint64_t *tries_from;    /* answers there were at the first of these */
    struct handle **offered; /* by sample id: a form that came, until the engine takes it or gives it back; or NULL */
    uint32_t n_offered;
    uint64_t forms;         /* forms that the engine has taken */
    struct handle **ready;  /* by sample id: in memory, or NULL */
    uint64_t encoded_bytes; /* loads under way, and handles in memory */
    uint32_t n_loading;
    struct running_task *tasks;
    uint32_t n_tasks, n_copies, outputs_ended;  /* the last: of the task that ended last */
    uint64_t outputs_begun[ENGINE_OUTPUTS_MAX]; /* with how many bytes these were begun */

    uint64_t n_reads, read, read_step; /* the read that the last LOAD was part of */
    sample_id read_first;
    const void *read_from;
    uint32_t read_datasets; /* bits: those that have all its samples in one chunk */

    uint64_t loaded, loaded_bytes, prepared, delivered, unknown_releases;
    uint32_t no_rooms, resumed;
};

/* model_memory.c: the arena, encoded bytes, loads and prepares */
void model_memory_create(struct model *model);
void model_memory_destroy(struct model *model);
void model_memory_crash(struct model *model);
void model_on_loaded(struct model *model, const struct engine_event *event);
void model_on_prepared(struct model *model, const struct engine_event *event);
void model_on_load(struct model *model, const struct engine_action *action);
void model_on_prepare(struct model *model, const struct engine_action *action);
void model_on_drop(struct model *model, const struct engine_action *action);
void model_check_budget(struct model *model, sample_id id, const char *what);
void model_on_reserve(struct model *model, const struct engine_action *action);
void model_on_reserved(struct model *model, const struct engine_event *event);
void model_on_return(struct model *model, const struct engine_action *action);
/* The tag at exactly this range, or NULL. */
struct made *model_made_at(const struct model *model, uint64_t offset, uint64_t bytes);
uint64_t model_idle_bytes(const struct model *model); /* that what was made and no client holds takes at the most */

/* model_sources.c: sources that do not answer, samples that have changed */
void model_sources_create(struct model *model);
void model_sources_destroy(struct model *model);
void model_sources_crash(struct model *model);
void model_source_load(struct model *model, uint32_t dataset, sample_id id);
void model_source_loaded(struct model *model, const struct engine_event *event);
void model_on_source(struct model *model, const struct engine_action *action);
void model_source_left(struct model *model, uint32_t dataset); /* a job of it has ended */
/* An error that says that the job's source does not answer, or that one of its samples has changed; false: another. */
bool model_source_error(struct model *model, const struct job_book *job, const struct engine_action *action);
/* How many samples of an epoch may be bad. */
uint64_t model_bad_max(const struct model *model, const struct client_plan *plan);

/* model_jobs.c: coming and going */
void model_on_ahead(struct model *model, const struct engine_action *action);
void model_on_answer(struct model *model, const struct engine_action *action);
void model_on_gone(struct model *model, uint32_t job, uint32_t rank);
void model_on_ended(struct model *model, const struct engine_action *action);
void model_job_free(struct job_book *job);
/* Is the sample's failure in the job's pipeline, now or before, a reason for the job to go without it in this epoch? */
bool model_excused(const struct model *model, const struct job_book *job, sample_id id);
uint32_t model_count_excused(const struct model *model, const struct job_book *job);
/* model_check_had notes that the job gets the instance: once, or once in each epoch. */
void model_check_had(struct model *model, const struct job_book *job, uint32_t place, const struct made *made);
void model_check_variant(struct model *model, const struct job_book *job, uint32_t place, const struct made *made);
void model_sample_failed(struct model *model, uint32_t pipeline, sample_id id);

/* model_errors.c: jobs that fail */
void model_on_error(struct model *model, const struct engine_action *action);
/* An error that says that there is no room for the job. */
void model_on_no_room(struct model *model, const struct job_book *job, uint32_t place, const struct error *error);
bool model_is_hopeless(const struct model *model, const struct job_book *job); /* a substitute may not be found */
/* The job has failed. It may have done so before a NEXT of this step, with which its book began anew. */
void model_job_failed(struct model *model, struct job_book *job);

/* model_ranks.c: jobs with several ranks: who is there, epochs, errors */
uint32_t model_ranks_share(const struct job_book *job); /* of the running epoch */
uint32_t model_ranks_batches(const struct client_plan *plan);
void model_ranks_book(struct model *model, struct job_book *job);
void model_ranks_attach(struct model *model, struct job_book *job, const struct engine_action *action);
void model_ranks_free(struct job_book *job);
void model_ranks_next(struct model *model, struct job_book *job, const struct engine_event *event);
void model_ranks_gone(struct model *model, struct job_book *job, uint32_t rank);
void model_ranks_error(struct model *model, struct job_book *job, const struct engine_action *action);
void model_ranks_through(struct model *model, struct job_book *job, uint32_t place); /* a rank is, now */
void model_ranks_settle(struct model *model, const struct job_book *job, uint32_t place);
/* No rank is there: does the job wait for some all the same? */
bool model_ranks_linger(const struct job_book *job);

/* model_restore.c: jobs that go on in an epoch that others had begun */
/* Why a rank may not join a job of several, with a resume or without (NULL); 0: it may. */
int model_restore_refusal(const struct job_book *job, const struct client_plan *plan,
                          const struct engine_resume *resume);
/* The rank has come, and has told this. */
struct job_book *model_named(const struct model *model, const char *name); /* NULL: there is none */
/* What the rank brings that is being added. Of a job whose daemon died in the first epoch, a rank that tells nothing
 * has had nothing. */
const struct engine_resume *model_restore_brought(struct model *model, const struct client_plan *plan,
                                                  const struct engine_resume *resume);
void model_restore_note(struct model *model, struct job_book *job, uint32_t rank, const struct engine_resume *resume);
void model_restore_free(struct job_book *job);
/* Are all ranks there? Then those that ask for an earlier epoch get an empty LAST. */
bool model_restore_ready(struct job_book *job);
/* The epoch has begun whole a moment ago. If ranks had a part of it, they go on after that. */
void model_restore_begin(struct model *model, struct job_book *job, uint32_t epoch);
/* Nothing is done for a job that waits for its ranks. */
void model_restore_check_idle(struct model *model, uint32_t job, const char *what);
/* An entry's turn is its own, or that of a bad sample that it stands for, and comes once. */
void model_take_turn(struct model *model, struct job_book *job, uint32_t place, const struct engine_entry *entry);

/* model_deals.c: what each rank gets */
void model_ranks_release(struct model *model, struct job_book *job, const struct engine_event *event);
void model_ranks_deliver(struct model *model, struct job_book *job, const struct engine_action *action);
/* What the rank held of the running epoch was not had, and comes again; in the end what it is still owed is
 * forgotten. */
void model_ranks_put_back(struct model *model, struct job_book *job, struct rank_book *rank, bool comes_again);
void model_ranks_forget_owed(struct job_book *job, struct rank_book *rank);

/* model_epochs.c: what is delivered */
/* model_due returns how often the sample is due in the running epoch, model_lacks how often it has not come. */
uint32_t model_due(const struct job_book *job, sample_id id);
uint32_t model_lacks(const struct job_book *job, sample_id id);
void model_begin_book(struct model *model, struct job_book *job, uint64_t begun_step); /* of job->epoch */
void model_on_next(struct model *model, const struct engine_event *event);
void model_on_release(struct model *model, const struct engine_event *event);
void model_on_deliver(struct model *model, const struct engine_action *action);

/* model_let_go: the batch at `at` of the n that a client holds is given back; the last takes its place. */
void model_let_go(struct model *model, struct held_batch *held, uint32_t *n, uint64_t *held_bytes, uint32_t at);

/* model_forms.c */
/* model_form_granted counts what a PREPARE may take for a form. model_form_made counts the form that its PREPARED
 * brings. Then the engine has to drop one of the sample's two handles in this step: model_form_dropped returns whether
 * the handle was one of them, and model_forms_settle checks that none is left to be dropped. */
void model_form_granted(struct model *model, struct running_task *task, const struct engine_action *action);
void model_form_made(struct model *model, const struct running_task *task, const struct engine_event *event);
bool model_form_dropped(struct model *model, struct handle *handle);
void model_forms_settle(struct model *model);

#endif
