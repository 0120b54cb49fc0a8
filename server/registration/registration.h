/* registration.h: a registration goes from the session through the registrar to the engine's thread. Each of these
 * three owns it while it is there. A job keeps the registration of its first rank. */
#ifndef LARDER_SERVER_REGISTRATION_REGISTRATION_H
#define LARDER_SERVER_REGISTRATION_REGISTRATION_H

#include <sys/queue.h>

#include "cache/catalog/catalog.h"
#include "common/interrupt.h"
#include "common/wire.h"
#include "preprocess/pipeline.h"
#include "sampler/bag.h"
#include "sampler/multiset.h"
#include "server/cluster/deal.h"
#include "server/cluster/guests.h"
#include "server/config/config.h"
#include "server/engine/engine.h"
#include "server/registration/restore.h"
#include "server/registration/selection.h"
#include "server/session/session.h"

/* The client's request, without the flags WIRE_WITH_FILE, which say nothing of the job. The registration owns the
 * texts. */
struct registration_asked {
    char *source, *pipeline_json, *subset_json;
    uint32_t batch_size, prefetch, epochs, flags;
    uint32_t rank, world_size; /* counted among the ranks at this node */
    /* For a job with ranks at other nodes: the number of all its ranks, and the first rank here. 0: all are here. */
    uint32_t all_ranks, first_rank;
    enum shuffle_mode shuffle;
    enum bad_policy bad_policy;
    uint64_t seed;
    double weight;
    enum multiset_kind epochs_are; /* MULTISET_NONE: the view, each sample once */
    uint32_t copies;               /* of each sample, for MULTISET_REPEAT */
    uint64_t draws;                /* of an epoch, for the others; 0: as many as the view has samples */
    bool at_home;                  /* its epochs are dealt to chunks' homes, but for a part: `mix` (deal.h) */
    uint32_t mix;
    int file_fd; /* the file that came with the message, owned; -1: none came */
    /* Its contents: sets of indices, then weights, then a record of what the client took. */
    bool has_sets, has_record;
    uint64_t record_at; /* offset of what comes next; of the record, once the subset and the weights were read */
};

/* The dense labels 0, 1, 2 … that WIRE_RELABEL gives the view's classes. The registration owns both arrays; they are
 * NULL without relabelling. */
struct dense_labels {
    int32_t *of;       /* the dense label of each label; -1: no sample of the view has that label */
    uint32_t *classes; /* the label of each dense label, ascending */
    uint32_t n_classes;
};

/* The registrar's result, complete when the registration's code is 0. The registration owns all of it. Once the engine
 * has made the job, the registration drops restore, and the selection if it is not shared. */
struct registration_found {
    struct dataset *dataset;
    struct pipeline *pipeline;
    struct selection *selection;    /* the samples that the job trains on; may be shared with other jobs */
    uint64_t view_fingerprint[2];   /* the selection's, and that of the multiset with it */
    struct multiset *multiset;      /* what an epoch is; NULL: the view, each sample once */
    uint32_t samples;               /* samples in the view */
    struct dataset_version version; /* the dataset's; its content may not be known */
    uint64_t sample_bytes; /* size of a prepared sample; with an empty pipeline, of the view's longest sample */
    uint64_t slot_bytes;   /* becomes engine_job_desc.slot_bytes */
    /* It becomes engine_job_desc.mean_slot_bytes: 0, unless the pipeline is ragged. */
    uint64_t mean_slot_bytes;
    struct dense_labels labels;
    struct deal *deal;       /* set for a `dependent` job with ranks at other nodes, else NULL */
    struct idset *home;      /* of a deal at home: the samples that have their homes here; else NULL */
    struct restore *restore; /* what the rank says it received of an epoch; NULL: nothing */
    uint64_t device;         /* the device that the dataset is stored on; 0: not known */
};

/* The guest of another node that a registration is for, as its ATTACH describes it (sharing_guest.c). */
struct registration_guest {
    uint64_t number;                /* 0: the registration is a client's */
    struct idset *part;             /* a bag of indices, flat; owned */
    struct bag *draws;              /* that bag, once the dataset is open; owned */
    bool together;                  /* the copies of a sample are dealt together */
    uint64_t fingerprint[2];        /* the dataset's at the other node */
    struct dataset_version version; /* the dataset's at the other node */
    struct guests_key key;          /* the job */
    uint64_t family;                /* of engine_job_desc */
    bool all;                       /* guests.h, resolve */
    uint32_t predecessor;
};

/* What a client of a job asks for, which the registrar's threads make as they open datasets. */
struct registration_column {
    char *name;                 /* NULL: the registration is a job's */
    struct dataset_column made; /* complete when the registration's code is 0; its fd is owned, or -1 */
};

struct registration {
    uint64_t client;
    uint32_t seq; /* number of the client's REGISTER or COLUMN_GET, which the answer carries */
    uint32_t pid;
    char *client_name;
    /* The job's name as the client gave it; empty until the driver makes one up. If the job has ranks at other nodes,
     * the name says which ranks are here, because more of its ranks may be at this daemon as another job. */
    char *name;
    struct registration_asked asked;
    struct registration_guest guest;
    struct registration_column column; /* with a name only this and found.dataset are set */
    int code;                          /* not 0: the registration is refused, for the reason in err */
    struct error err;
    struct registration_found found;
    struct interrupt
        unwanted; /* Only the registrar uses it. It is set when the client has gone or the registrar stops. */
    TAILQ_ENTRY(registration) link; /* its neighbours in a list of whoever owns it */
};

TAILQ_HEAD(registrations, registration);

/* registration_create copies what the client asked for, and takes file_fd over (-1: none). The caller owns the
 * registration. */
struct registration *registration_create(uint64_t client, uint32_t seq, const struct session_peer *peer,
                                         const struct wire_register *wire, int file_fd);
/* registration_of_column copies what a client asks for with COLUMN_GET. Whoever submits it sets found.dataset. */
struct registration *registration_of_column(uint64_t client, uint32_t seq, const struct wire_text *name);
void registration_close_file(struct registration *registration); /* closes file_fd */
/* registration_drop_found frees what only the engine needed, and now has: restore, and a selection that is not shared.
 * A shared one stays for jobs that come later. */
void registration_drop_found(struct registration *registration);
/* registration_made_bytes returns the most that an instance takes of the sample at `index` of the dataset, by a ragged
 * pipeline. */
uint64_t registration_made_bytes(const struct dataset *dataset, const struct pipeline *pipeline, uint32_t index);
uint32_t registration_classes(const struct registration *registration); /* number of classes that the client sees */
void registration_destroy(struct registration *registration);           /* accepts NULL */

struct watch_thread;

/* The means to resolve a registration. All are borrowed. */
struct resolver {
    struct catalog *catalog;
    const struct config *config;
    const struct engine_config *engine; /* only what engine_slot_bytes needs is read */
    struct watch_thread *watched;       /* the calling thread; NULL: it is not watched */
};

/* registration_make_column makes the column of a registration that asks for one. It sets reg->code and reg->err. */
void registration_make_column(struct registration *reg, const struct resolver *with);

/* registration_resolve opens the dataset and fills reg->found. It may take minutes, and a thread of the registrar calls
 * it. It sets reg->code and reg->err, and returns reg->code. */
int registration_resolve(struct registration *reg, const struct resolver *with);

#endif
