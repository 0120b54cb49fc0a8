/* map.h: a map assigns each chunk of a dataset to a home node, and to the nodes that take it if the home does not
 * answer. It is a pure integer function of the dataset, the nodes and the bound. So all nodes that know the same nodes
 * have the same map.
 *
 * Rendezvous hashing: each node has a score for each chunk, by hashing both. The best node that is not full is the
 * home. A node is full when it has `bound` percent of its share by weight. So a node that joins or leaves moves little
 * more than its own share. A dataset with fewer than MAP_CHUNKS_MIN chunks a node has fewer homes: the nodes with the
 * best scores for the dataset. The others are full from the beginning.
 *
 * A node's shard is the chunks whose home it is. They are numbered densely, in the order of the chunks. */
#ifndef LARDER_SERVER_CLUSTER_MAP_H
#define LARDER_SERVER_CLUSTER_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/larder_err.h"

#define MAP_NODE_ID_BYTES 16
#define MAP_FINGERPRINT_BYTES 16
#define MAP_NODES_MAX 64
#define MAP_WEIGHT_MAX 16
#define MAP_BOUND 105       /* percent */
#define MAP_BOUND_MAX 10000 /* percent; as good as none */
#define MAP_CHUNKS_MIN 4    /* of a home; with fewer in all there is one home */
#define MAP_PLACES 3        /* the home and two runners-up */
#define MAP_NODE_NONE UINT8_MAX

struct map_node {
    uint8_t id[MAP_NODE_ID_BYTES];
    uint32_t weight; /* 1 … MAP_WEIGHT_MAX */
};

/* The inputs of a map. Everything is borrowed for the call. */
struct map_desc {
    uint8_t fingerprint[MAP_FINGERPRINT_BYTES];
    uint32_t n_chunks;
    uint32_t n_nodes;             /* 1 … MAP_NODES_MAX */
    const struct map_node *nodes; /* ascending by id, each once */
    uint32_t bound;               /* percent, 100 … MAP_BOUND_MAX */
};

/* The nodes of one chunk. */
struct map_chunk {
    /* Places in map_desc.nodes: the home, then those that take the chunk instead. MAP_NODE_NONE: there are no more
     * nodes. */
    uint8_t nodes[MAP_PLACES];
    uint32_t number; /* index in its home's shard */
};

struct map;

/* map_create makes a map. Its time is that of one hash for each chunk and unit of weight. The caller destroys *out.
 * LARDER_ENOMEM. */
int map_create(const struct map_desc *desc, struct map **out);
void map_destroy(struct map *map); /* accepts NULL */

/* map_chunk_at returns a chunk's place; chunk < n_chunks. It lives with the map. */
const struct map_chunk *map_chunk_at(const struct map *map, uint32_t chunk);

#endif
