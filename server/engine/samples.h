/* samples.h: what the modules keep of each sample, by its id.
 *
 * The records lie in pages, so that more of them are made without moving those that there are: a dataset comes as fast
 * when memory is full of another. All that the modules keep of a sample lies together.
 * Owner: samples.c of the pages. Each part of a record has an owner of its own. */
#ifndef LARDER_SERVER_ENGINE_SAMPLES_H
#define LARDER_SERVER_ENGINE_SAMPLES_H

#include "common/types.h"
#include "server/engine/line.h"

/* A sample's place in the chunks, or CHUNK_PLACE_NONE. Owner: see chunks.h. */
struct chunk_place {
    uint32_t chunk, slot; /* both ENGINE_NONE when the sample is in no chunk */
};

#define CHUNK_PLACE_NONE ((struct chunk_place){ENGINE_NONE, ENGINE_NONE})

/* A sample's instances in the arena. Owner: the prepared_*.c. */
struct prepared_sample {
    uint32_t instances; /* the first instance of the sample's list; ENGINE_NONE when it has none */
    uint32_t begun;     /* Number of instances ever begun. It numbers random draws, so it is never reset. */
};

/* A sample's bytes in encoded memory. Owner: the encoded_*.c; of `pending`, tasks.c. */
struct encoded_sample {
    uint32_t encoded; /* its encoded; ENGINE_NONE when it has none */
    uint32_t pending; /* tasks of the sample that wait for their load to begin */
    bool failed;      /* Its last load failed. Only a task that waits for the sample has it loaded again. */
};

/* 32 bytes, so that finding one takes no multiplication and no record lies in two lines of the processor's cache. */
struct sample {
    _Alignas(16) struct chunk_place place;
    struct prepared_sample prepared;
    struct encoded_sample encoded;
};

#define SAMPLES_PAGE_BITS 16 /* A page has 2^16 records. */
#define SAMPLES_PAGE (UINT32_C(1) << SAMPLES_PAGE_BITS)
#define SAMPLES_PAGES (UINT64_C(1) << (32 - SAMPLES_PAGE_BITS))

struct samples {
    uint64_t ids; /* Samples with an id below it have a record. */
    struct sample *pages[SAMPLES_PAGES];
};

/* samples_make_room makes empty records for all samples up to `last`, and some more. It fails with LARDER_ENOMEM; what
 * it has made by then stays. */
int samples_make_room(struct samples *samples, sample_id last);
void samples_destroy(struct samples *samples);

/* samples_at returns the record of a sample, which must have one; valid as long as the engine is there. */
static inline struct sample *samples_at(const struct samples *samples, sample_id id)
{
    return &samples->pages[id >> SAMPLES_PAGE_BITS][id & (SAMPLES_PAGE - 1)];
}

/* samples_fetch has the processor fetch the record of a sample that is looked at soon. */
static inline void samples_fetch(const struct samples *samples, sample_id id)
{
    __builtin_prefetch(samples_at(samples, id));
}

#endif
