/* world_priv.h: shared by world*.c (the alarms, the engine, what loads and prepares) and client*.c (how clients
 * behave). */
#ifndef LARDER_SIMULATION_WORLD_PRIV_H
#define LARDER_SIMULATION_WORLD_PRIV_H

#include "server/bench/agenda.h"
#include "tests/simulation/world.h"

enum alarm_kind {
    ALARM_LOADED,   /* a: sample, b: dataset that it is from */
    ALARM_WAKE,     /* what engine_wakes_ns asked for */
    ALARM_PREPARED, /* a: task, b: sample, and above its 32 bits one for each output that fails, c: nanoseconds */
    ALARM_TICK,
    ALARM_DRAIN,
    ALARM_JOIN, /* a: client, of this and all that follow */
    ALARM_ADMITTED,
    ALARM_ARRIVED, /* b: batch, c: twice the epoch, plus one for the last */
    ALARM_TRAINED,
    ALARM_STOP,
    ALARM_RESUME,
    ALARM_VANISH,
    ALARM_FAILED, /* the client hears that its job cannot go on */
    ALARM_CANCEL, /* somebody ends its job */
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
};

struct world {
    struct scenario *scenario;
    struct world_options options;
    struct engine *engine;
    struct model *model;
    struct sabotage *sabotage;
    struct rng rng, forget_rng, output_rng;
    uint64_t now_ns, steps, hash;
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
};

/* world.c */
void world_alarm(struct world *world, uint64_t after_ns, enum alarm_kind kind, uint64_t a, uint64_t b, uint64_t c);
/* world_event hands an event to the engine: in a step with others of the same moment, or by the next world_flush. */
void world_event(struct world *world, const struct engine_event *event, const struct client_plan *plan);
void world_flush(struct world *world);

/* world_see.c: every event and action is seen once, in order. world_say prints a line under --verbose. */
void world_see_event(struct world *world, const struct engine_event *event);
void world_see_action(struct world *world, const struct engine_action *action);
void world_say(const struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* client.c. An alarm for a client, or an action that concerns it. */
void client_alarm(struct world *world, const struct alarm *alarm);
void client_action(struct world *world, const struct engine_action *action);
void client_resume(struct world *world, struct client *client);

/* client_join.c: registers; before that the engine may be told to forget chunks and samples. */
void client_join(struct world *world, struct client *client);
uint32_t client_pipeline_number(struct world *world, uint32_t pipeline);

static inline uint64_t client_number(const struct world *world, const struct client *client)
{
    return (uint64_t)(client - world->clients);
}

#endif
