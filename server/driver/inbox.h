/* inbox.h: what the other threads tell the engine's thread: one bounded queue of small messages.
 *
 * Pushing waits while the queue is full; that cannot deadlock, because the engine's thread waits for nobody but the queue.
 * Pointers in a message change hands with it. */
#ifndef LARDER_SERVER_DRIVER_INBOX_H
#define LARDER_SERVER_DRIVER_INBOX_H

#include <sys/queue.h>

#include "cache/catalog/catalog.h"
#include "common/interrupt.h"
#include "common/queue.h"
#include "common/wire.h"
#include "preprocess/pipeline.h"
#include "sampler/view.h"
#include "server/engine/engine.h"
#include "server/workers/worker.h"

#define INBOX_MESSAGES 16384

/* A registration, on its way from the session through the registrar to the engine's thread. */
struct registration {
    uint64_t client;
    uint32_t seq; /* of the client's message */
    uint32_t pid;
    char *client_name;
    char *name, *source, *pipeline_json, *subset_json;
    uint32_t batch_size, prefetch, epochs, rank, world_size, flags;
    enum shuffle_mode shuffle;
    enum bad_policy bad_policy;
    uint64_t seed;
    double weight;
    /* what the registrar finds out */
    int code; /* not 0: refused, for the reason in err */
    struct error err;
    struct dataset *dataset;
    struct pipeline *pipeline;
    struct view_result view;     /* ids, and their order in the dataset */
    uint64_t sample_bytes;       /* of a prepared sample; the longest of the view, when the pipeline is empty */
    uint64_t slot_bytes;         /* as engine_job_desc has it */
    struct engine_place *places; /* by ascending id, chunk numbers the dataset's own */
    int32_t *dense_label; /* WIRE_RELABEL: by label, -1 where the view has none; else NULL */
    uint32_t *classes;    /* the labels behind the dense ones, ascending; NULL without relabelling */
    uint32_t n_classes;
    uint64_t device; /* that the dataset lies on */
    /* the registrar's own */
    struct interrupt unwanted; /* the client has gone, or the registrar stops */
    TAILQ_ENTRY(registration) link;
};

TAILQ_HEAD(registrations, registration);

/* registration_destroy accepts NULL. */
void registration_destroy(struct registration *registration);

struct driver_question; /* driver.c */

enum inbox_type {
    INBOX_COMING,     /* a client asked to be registered; the registrar is at it */
    INBOX_REGISTERED, /* the registrar's result */
    INBOX_GONE,
    INBOX_NEXT,
    INBOX_RELEASE,
    INBOX_CLASSES,
    INBOX_LOADED,
    INBOX_READ,       /* a read of LOADs has ended, after all of its LOADED */
    INBOX_PREPARED,
    INBOX_HALT,
    INBOX_STATUS,
    INBOX_CANCEL,
    INBOX_WEIGHT,
    INBOX_DRAIN,
    INBOX_SETTLE, /* a question that has no answer but that its turn came */
    INBOX_STOP,
};

struct inbox_message {
    enum inbox_type type;
    union {
        uint64_t client; /* COMING, GONE */
        struct registration *registration;
        struct {
            uint64_t client;
            uint32_t epoch, credits;
        } next;
        struct {
            uint64_t client, batch;
        } release;
        struct {
            uint64_t client;
            uint32_t seq, first;
        } classes;
        struct {
            sample_id id;
            void *encoded;
            uint64_t bytes;
            int reason;
            enum engine_fate fate;
            const void *dataset; /* where the fate is its source's: only to be compared with those of jobs */
            char *text;          /* what was said then; malloc'ed; else NULL */
        } loaded;
        struct {
            uint32_t queue, samples; /* queue: the governor's */
            uint64_t took_ns;
        } read;
        struct {
            uint32_t task;
            uint8_t reasons[ENGINE_OUTPUTS_MAX]; /* as in ENGINE_PREPARED */
            struct worker_cost cost; /* took_ns 0: it was not begun */
        } prepared;
        struct driver_question *question; /* STATUS, CANCEL, WEIGHT, DRAIN, SETTLE */
    };
};

#endif
