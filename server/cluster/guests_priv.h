/* guests_priv.h: what a home knows of its guests (guests*.c only). */
#ifndef LARDER_SERVER_CLUSTER_GUESTS_PRIV_H
#define LARDER_SERVER_CLUSTER_GUESTS_PRIV_H

#include "server/cluster/alarms.h"
#include "server/cluster/guests.h"

#define NO_BATCH 0

/* A sample that was delivered, and the engine's batch that it came in. */
struct held {
    struct guests_sample sample;
    uint64_t batch; /* NO_BATCH: a bad one, which is in none */
};

struct held_list {
    struct held *all;
    size_t count, cap;
};

/* A batch of the engine's, and the number of its samples that are held. */
struct open_batch {
    uint64_t batch;
    uint32_t held;
};

/* A request that waits; seq 0: none. */
struct asked {
    uint64_t seq, request, until_ns;
    uint32_t n, extra;
};

/* An answer that is kept; seq 0: none. */
struct kept {
    uint64_t seq;
    struct held_list samples;
    bool last;
};

struct guest {
    uint64_t number, term; /* number 0: an unused place */
    struct guests_key key;
    bool there;           /* The engine has its job. */
    uint32_t job, hold;   /* number of its job, and most batches of it that may be held */
    uint32_t predecessor; /* the engine's job that it replaces, until it is there; GUESTS_NO_JOB: none */
    uint64_t attaching;   /* the request that waits for the engine's answer */
    uint64_t count;       /* samples of its part */
    struct held_list ready;
    struct open_batch *batches;
    size_t n_batches, batches_cap;
    struct asked asked[GUESTS_ASKED_MAX];
    struct kept kept[GUESTS_ASKED_MAX];
    uint64_t acked, more; /* acknowledged requests: all up to acked, and acked + 1 + i where bit i is set */
    uint32_t credits;     /* batches that the engine was asked for and has not delivered */
    bool last;            /* The engine has no more. */
    bool stays;           /* It had given its whole part when its lease was over. */
    bool past;            /* Its anchor wanted to replace it, and was refused. */
    uint64_t lease_until_ns;
    uint64_t came_ns; /* the last delivery or request */
};

struct guests {
    struct guests_config config;
    uint64_t now_ns, numbers;
    bool leaving;
    uint64_t leave_until_ns; /* while leaving: when all guests end */
    uint32_t cut;            /* number of guests that ended so */
    struct guest all[GUESTS_MAX];
    int used;                      /* places from here on are unused */
    struct alarms alarms;          /* by place: when its guest is to be looked at, if nothing comes */
    bool due[GUESTS_MAX];          /* by place: that is now; in a TICK alone */
    struct guests_sample *samples; /* samples of a BATCH of this step */
    size_t samples_cap;
    struct guests_action *actions;
    size_t n_actions, actions_cap;
};

/* guests_act.c: actions, and samples that are held. guests_act accepts NULL for an action without a guest. */
struct guests_action *guests_act(struct guests *guests, enum guests_action_type type, const struct guest *guest);
struct guests_action *guests_reply(struct guests *guests, const struct guest *guest, uint64_t request,
                                   enum guests_answer kind);
void guests_refuse(struct guests *guests, uint64_t request, int code);
void guests_put_held(struct held_list *list, struct held held);
void guests_let_all_go(struct guests *guests, struct guest *guest, struct kept *kept);

/* guests_attach.c: guests come and go. */
void guests_free(struct guest *guest);
void guests_end(struct guests *guests, struct guest *guest, bool tell_engine);
struct guest *guests_find(struct guests *guests, uint64_t number);
void guests_on_attach(struct guests *guests, const struct guests_event *event);
void guests_on_added(struct guests *guests, const struct guests_event *event);
void guests_on_refused(struct guests *guests, const struct guests_event *event);

/* guests_next.c: requests for samples, and what answers them. */
void guests_serve(struct guests *guests, struct guest *guest);
uint64_t guests_still_at(const struct guest *guest); /* Then requests wait no longer, unless something comes. */
void guests_ask_engine(struct guests *guests, struct guest *guest);
void guests_on_next(struct guests *guests, const struct guests_event *event);

#endif
