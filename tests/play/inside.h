/* inside.h: what tests and benches see and do inside an engine, between its steps. */
#ifndef LARDER_TESTS_PLAY_INSIDE_H
#define LARDER_TESTS_PLAY_INSIDE_H

#include "server/engine/engine.h"

/* The samples of a job's epoch for the ranks here, by where they are; repeats are not counted. */
struct inside_share {
    bool runs; /* An epoch goes on; else all counts are 0. */
    uint32_t epoch;
    uint64_t here;      /* to be drawn here */
    uint64_t elsewhere; /* to come from other nodes, whether asked for or not */
    uint64_t undrawn;   /* of `elsewhere`: not picked yet */
    uint64_t placed;    /* of `elsewhere`: entries with room for the sample */
    uint64_t unplaced;  /* of `elsewhere`: entries without room */
    uint64_t reserved;  /* of `elsewhere`: in reserves */
    uint64_t pinned;    /* planned here: in entries or reserves */
    uint64_t delivered; /* repeats included */
};

/* inside_share counts the samples of a job that is there. Each of the epoch is here, elsewhere, pinned or delivered,
 * but for bad ones. Its work is linear in what is planned. */
void inside_share(const struct engine *engine, uint32_t job, struct inside_share *out);

/* inside_forget_chunks forgets the chunks of the dataset with this key, as the engine does when it has too many. It
 * does nothing if no job came with the key. */
void inside_forget_chunks(struct engine *engine, const uint64_t chunk_key[ENGINE_CHUNK_KEY]);

#endif
