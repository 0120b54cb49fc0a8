/* world_priv.h: shared by world*.c (the alarms, the engine, what loads and prepares), client*.c (how clients behave)
 * and runs.c (what training runs save, and go on from). */
#ifndef LARDER_SIMULATION_WORLD_PRIV_H
#define LARDER_SIMULATION_WORLD_PRIV_H

#include "server/history/history.h"
#include "server/plan/agenda.h"
#include "tests/simulation/ledger.h"
#include "tests/simulation/state.h"
#include "tests/simulation/world.h"

enum alarm_kind {
    ALARM_LOADED,   /* a: sample, b: dataset that it is from */
    ALARM_WAKE,     /* what engine_wakes_ns asked for */
    ALARM_PREPARED, /* a: task, b: sample, and above its 32 bits one for each output that fails, c: nanoseconds */
    ALARM_RESERVED, /* a: bytes, b: whether it is less than was asked for */
    ALARM_SHRINK,
    ALARM_TICK,
    ALARM_DRAIN,
    ALARM_JOIN, /* a: client, of this and all that follow */
    ALARM_ADMITTED,
    ALARM_ARRIVED, /* b: batch, c: twice the epoch, plus one for the last */
    ALARM_TRAINED,
    ALARM_STOP,
    ALARM_RESUME,
    ALARM_VANISH,
    ALARM_FAILED,  /* the client hears that its job cannot go on */
    ALARM_CANCEL,  /* somebody ends its job */
    ALARM_CUT,     /* the connection breaks */
    ALARM_END_LEG, /* a: group, b: leg */
};

struct alarm {
    struct due due;
    enum alarm_kind kind;
    uint64_t a, b, c; /* a: of a client also its life, see client.c */
};

/* A batch at a client. */
struct parcel {
    uint64_t batch;
    uint32_t epoch;
    bool last;
    /* with restarts */
    bool foreign;   /* given back already, or of a daemon that is gone */
    uint32_t index; /* of those that were taken, in the memory's epoch and since its base */
    struct record_batch told;
    uint32_t *turns; /* dataset indices */
};

struct parcels {
    struct parcel *items;
    uint32_t count;
    size_t cap;
};

enum client_state { CLIENT_AWAY, CLIENT_JOINING, CLIENT_TRAINING, CLIENT_DONE };

struct client {
    const struct client_plan *plan;
    enum client_state state;
    bool stopped;
    bool clings; /* has heard that its job has failed, and stays */
    uint32_t job, held_max, tries;
    uint32_t lives; /* connections before this one: what was on its way to those is lost */
    bool admitted;  /* and has heard of it */
    uint32_t epoch; /* the one it is in */
    uint32_t epochs_run;
    bool asked;                 /* for batches of this epoch */
    bool training;              /* on inbox[0] */
    bool trained;               /* while stopped: its training is over */
    struct parcels inbox, kept; /* to be trained on; trained on and not yet released */
    uint64_t released;          /* the last batch it gave back, for giving it back again */
    /* with restarts */
    bool placed;   /* it had a place in the job that it comes back to */
    bool finished; /* it has gone through all epochs */
    bool late;     /* it comes back when it goes on */
    struct memory memory;
    struct parcels under_way;
    uint64_t arrives_ns; /* the last of these */
    uint32_t taken;      /* batches, in this leg */
};

/* A state that was saved. */
struct saved {
    struct state state;
    struct saved *before;
};

/* The training that a group of plans is. */
struct run {
    const struct client_plan *plan; /* of rank 0 of the leg */
    struct ledger *ledger;
    struct saved *saved;     /* the last one first */
    struct history *history; /* what the daemon keeps of the job; NULL: there is none */
    bool asks;               /* some rank has asked for a state: of so many batches of this epoch */
    uint32_t asks_epoch, asks_batches;
    uint32_t known, known_epoch; /* of that epoch, no state of more batches than `known` can be given */
};

struct world {
    struct scenario *scenario;
    struct world_options options;
    struct engine *engine;
    struct model *model;
    struct sabotage *sabotage;
    struct rng rng, forget_rng, place_rng, output_rng, growth_rng;
    uint64_t now_ns, steps, hash;
    uint64_t longest_ns; /* of the steps, in the thread's time */
    uint64_t check_credit;
    struct engine_event events[SCENARIO_GATHER_MAX]; /* of the step that is being gathered */
    uint32_t n_events;
    uint64_t wake_ns;       /* of the next ALARM_WAKE; SCENARIO_NEVER: none is set */
    unsigned lull_ticks;    /* with nothing else under way: for ranks that wait for one that is away */
    uint64_t read, read_ns; /* the LOADs of one read arrive together */
    struct agenda agenda;   /* of alarms */
    struct client *clients;
    uint32_t number_pipeline[ENGINE_PIPELINES_MAX]; /* what the number means, plus one; 0: nothing yet */
    uint32_t number_users[ENGINE_PIPELINES_MAX];    /* jobs of it */
    /* with restarts */
    struct rng restart_rng;
    struct run *runs;               /* by group */
    struct run *run_at[JOBS_MAX];   /* by the job's number */
    uint64_t crash_step;            /* when the daemon dies; SCENARIO_NEVER: it does not */
    struct engine_counts before;    /* of daemons that died */
    struct world_restarts restarts; /* to be told */
};

/* world.c */
void world_alarm(struct world *world, uint64_t after_ns, enum alarm_kind kind, uint64_t a, uint64_t b, uint64_t c);
/* world_event hands an event to the engine: in a step with others of the same moment, or by the next world_flush. */
void world_event(struct world *world, const struct engine_event *event, const struct client_plan *plan);
void world_flush(struct world *world);
uint64_t world_sample_bytes(const void *dataset, sample_id id); /* for engine_config */

/* world_see.c: every event and action is seen once, in order. world_say prints a line under --verbose. */
void world_see_event(struct world *world, const struct engine_event *event);
void world_see_action(struct world *world, const struct engine_action *action);
void world_say(const struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* client.c. An alarm for a client, or an action that concerns it. */
void client_alarm(struct world *world, const struct alarm *alarm);
void client_action(struct world *world, const struct engine_action *action);
void client_resume(struct world *world, struct client *client);
void client_kill(struct world *world, struct client *client);
void client_release(struct world *world, struct client *client, uint64_t batch);

/* client_state.c, with restarts: what a client is sent, and when that comes; what it takes; what it loses with its
 * daemon; what it says when it comes. */
uint64_t client_send(struct world *world, struct client *client, const struct engine_action *action,
                     uint64_t transit_ns);
struct parcel client_receive(struct client *client);
void client_take(struct world *world, struct client *client);
void client_epoch_over(struct world *world, struct client *client, bool whole);
void client_lose_daemon(struct world *world, struct client *client);
void client_lose_connection(struct world *world, struct client *client);
void client_begin_leg(struct world *world, struct client *client);
bool client_has_state(const struct world *world, const struct client *client);
void client_state(const struct world *world, const struct client *client, struct state *out);
void client_free(struct client *client);

/* runs.c, with restarts */
void runs_create(struct world *world);
void runs_destroy(struct world *world);
struct run *runs_of(const struct world *world, const struct client *client);
/* What happens to the runs' jobs, and what clients do. */
void runs_event(struct world *world, const struct engine_event *event);
void runs_action(struct world *world, const struct engine_action *action);
void runs_settle(struct world *world); /* after a step */
void runs_crash(struct world *world);
void runs_end_leg(struct world *world, uint32_t group, uint32_t leg);
void runs_save(struct world *world, const struct client *client); /* the state after the batch that it took last */
void runs_save_between(struct world *world, const struct client *client, uint32_t epoch); /* and before the epoch */
void runs_finish(struct world *world);

/* world_crash.c */
void world_crash(struct world *world);
void world_drop_alarms(struct world *world, const struct client *client); /* of its connection; NULL: of the daemon */
int world_start_engine(struct world *world);
void world_end_engine(struct world *world); /* it gives back what it holds */
void world_add_counts(struct engine_counts *sum, const struct engine_counts *counts);

/* client_join.c: registers; before that the engine may be told to forget chunks and samples. */
void client_join(struct world *world, struct client *client);
uint32_t client_pipeline_number(struct world *world, uint32_t pipeline);

static inline uint64_t client_number(const struct world *world, const struct client *client)
{
    return (uint64_t)(client - world->clients);
}

#endif
