/* redox_priv.h: the state of the papers' rule, their table 3 (redox*.c only). A slot's number is that of its virtual
 * chunk · the samples of a chunk + its place there; virtual chunks are numbered home by home. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_REDOX_PRIV_H
#define LARDER_TESTS_BENCH_VIRTUAL_REDOX_PRIV_H

#include "common/random.h"
#include "tests/bench/virtual/redox.h"
#include "tests/bench/virtual/spread.h"

#define REDOX_NONE UINT32_MAX

/* A node's requests to one home, in the node's order; and what the home remembers of the next ones. */
struct redox_pair {
    uint32_t *wants; /* the slot of each */
    uint32_t count, at;
    bool asked;
    uint32_t asked_at;
    /* By distance from the request at asked_at: the slot whose sample was sent for it; REDOX_NONE: none was. */
    uint32_t *window;
};

struct redox_node {
    uint32_t *order; /* the slot of each of its requests in the epoch */
    uint32_t count;
    uint32_t *ahead; /* by slot: the chunk whose sample was sent ahead; REDOX_NONE: none was */
    uint32_t n_ahead;
    uint32_t *in_windows; /* by slot: how often it is in windows */
    struct redox_pair pairs[REDOX_NODES_MAX];
};

struct redox {
    struct redox_settings settings;
    struct rng rng;
    uint32_t n_virtual, n_chunks, n_slots; /* n_virtual, n_slots: of all homes */
    uint64_t *valid;                       /* by virtual chunk: a bit for each slot in which something lies */
    uint32_t *lies;                        /* by slot: the chunk whose sample lies there */
    uint64_t *left;                        /* by chunk: a bit for each sample that is not consumed */
    struct redox_node nodes[REDOX_NODES_MAX];
    uint8_t *given; /* by sample */
    uint64_t delivered, remote, loads, requests, held, peak;
    struct spread spread;
};

/* redox_home.c */
uint32_t redox_home(const struct redox *redox, uint32_t slot); /* the home's number */
bool redox_is_valid(const struct redox *redox, uint32_t slot);
/* redox_take takes what lies in the slot at its home, which it empties, and gives its chunk. redox_read_local reads a
 * chunk before, if nothing does: algorithms 2 and 3. */
uint32_t redox_take(struct redox *redox, uint32_t slot);
uint32_t redox_read_local(struct redox *redox, uint32_t slot);

/* redox_window.c */
/* redox_read_remote returns the chunk of what the node gets for its next request to the home: algorithms 4 to 6. */
uint32_t redox_read_remote(struct redox *redox, uint32_t node, uint32_t home);

#endif
