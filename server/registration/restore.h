/* restore.h: what a client says was taken of an epoch. It comes as a record (common/record.h) in a memfd that may hold
 * anything. A thread of the registrar reads it, checks it against the job and translates it into the engine's terms for
 * the engine's thread. */
#ifndef LARDER_SERVER_REGISTRATION_RESTORE_H
#define LARDER_SERVER_REGISTRATION_RESTORE_H

#include "common/record.h"
#include "sampler/idset.h"
#include "server/engine/events.h"

/* A record may take 1 MiB, and this for each sample of the dataset. */
#define RESTORE_FIXED_BYTES (UINT64_C(1) << 20)
#define RESTORE_SAMPLE_BYTES 32
#define RESTORE_DRAW_BYTES 8 /* and this for each draw of an epoch that is a multiset */

struct catalog;
struct registration;

/* It owns all that it refers to. */
struct restore {
    struct engine_resume engine; /* refers to what follows */
    uint32_t left;               /* samples of the epoch that engine.base, or engine.segments, leave */
    struct record record;        /* the record as it came; refers to bytes */
    uint8_t *bytes;
    struct idset *base, *turns;    /* NULL: empty */
    sample_id *base_again, *again; /* of a multiset, the further draws; owned */
    struct engine_copy *copies;    /* engine.n_copies of them; owned */
    struct engine_done *done;      /* engine.n_done of them; their sets are owned */
    struct engine_segment segments[RECORD_SEGMENTS_MAX];
    uint32_t *throughs; /* those of all segments, world_size each */
};

/* restore_read reads the record in the file that came with the registration, which is resolved but for this. The caller
 * destroys *out. If the dataset's times say that it is another version, it waits for the catalog to know its content,
 * half a minute at most.
 *
 * LARDER_EINVAL (the file is no memfd; the record is of another subset, shuffle, seed or rank), LARDER_ECHANGED (of
 * another dataset, or of another version of it), LARDER_EFORMAT, LARDER_EVERSION, LARDER_ELIMIT (too long), LARDER_EIO,
 * LARDER_ENOMEM, LARDER_EGONE (the registration is unwanted). */
int restore_read(const struct registration *reg, struct catalog *catalog, struct restore **out, struct error *err);
void restore_destroy(struct restore *restore); /* accepts NULL */

#endif
