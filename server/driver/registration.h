/* registration.h: a registration, on its way from the session through the registrar to the engine's thread. One of them
 * owns it at a time; a job keeps that of its first rank. */
#ifndef LARDER_SERVER_DRIVER_REGISTRATION_H
#define LARDER_SERVER_DRIVER_REGISTRATION_H

#include <sys/queue.h>

#include "cache/catalog/catalog.h"
#include "common/interrupt.h"
#include "common/wire.h"
#include "preprocess/pipeline.h"
#include "sampler/view.h"
#include "server/config/config.h"
#include "server/engine/engine.h"
#include "server/session/session.h"

/* What the client asked for, as it came. The registration owns the texts. */
struct registration_asked {
    char *source, *pipeline_json, *subset_json;
    uint32_t batch_size, prefetch, epochs, rank, world_size, flags;
    enum shuffle_mode shuffle;
    enum bad_policy bad_policy;
    uint64_t seed;
    double weight;
};

/* WIRE_RELABEL: the numbers 0, 1, 2 … of the view's classes. The registration owns both arrays, which are NULL without
 * relabelling. */
struct dense_labels {
    int32_t *of;       /* by label, -1 where the view has none */
    uint32_t *classes; /* the labels behind the dense ones, ascending */
    uint32_t n_classes;
};

/* What the registrar finds out: whole when its code is 0. The registration owns all of it; view and places go when the
 * engine has made the job. */
struct registration_found {
    struct dataset *dataset;
    struct pipeline *pipeline;
    struct view_result view;   /* ids, and their order in the dataset */
    uint64_t sample_bytes;     /* of a prepared sample; the longest of the view, when the pipeline is empty */
    uint64_t slot_bytes;       /* as engine_job_desc has it */
    struct chunk_slot *places; /* by ascending id, chunk numbers the dataset's own */
    struct dense_labels labels;
    uint64_t device; /* that the dataset lies on */
};

struct registration {
    uint64_t client;
    uint32_t seq; /* of the client's message */
    uint32_t pid;
    char *client_name;
    char *name; /* the job's: as the client gave it, or empty until the driver gives one */
    struct registration_asked asked;
    int code; /* not 0: refused, for the reason in err */
    struct error err;
    struct registration_found found;
    /* the registrar's own */
    struct interrupt unwanted; /* the client has gone, or the registrar stops */
    TAILQ_ENTRY(registration) link;
};

TAILQ_HEAD(registrations, registration);

/* registration_create copies what the client asked for. */
struct registration *registration_create(uint64_t client, uint32_t seq, const struct session_peer *peer,
                                         const struct wire_register *wire);
uint32_t registration_classes(const struct registration *registration); /* the classes that the client sees */
void registration_destroy(struct registration *registration);           /* accepts NULL */

/* registration_resolve opens the dataset and fills in what the registrar finds out; takes long. engine: only what
 * engine_slot_bytes looks at. Gives reg->code, for which reg->err has a text. */
int registration_resolve(struct registration *reg, struct catalog *catalog, const struct config *config,
                         const struct engine_config *engine);

#endif
