/* nodes.h: `larder_bench nodes SCENARIO.yaml`: how long one training on several nodes takes under each of eleven
 * loading policies, Larder's among them, by the performance model of HDMLP (ETH Zürich 2020), in virtual time. It
 * computes; it reads no samples and runs none of the daemon's code.
 *
 * The model. A node computes its samples in order. All nodes begin a batch together, when the slowest has ended the one
 * before. A read takes its time at the source, then the time to preprocess it. Several threads of one class share the
 * source's speed; a read by one of p threads counts a p-th. The file system's speed depends on how many nodes read from
 * it when the read begins.
 *
 * Sizes are in MB, speeds in MB/s, times in seconds. Class 0 is the staging buffer: it holds what has been read ahead,
 * and drops it when it is used. The other classes keep samples, the fastest first; class 1 is memory. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_NODES_H
#define LARDER_TESTS_BENCH_VIRTUAL_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define NODES_MAX 64
#define NODES_CLASSES_MAX 8
#define NODES_POINTS_MAX 32
#define NODES_SAMPLES_MAX 20000000u
#define NODES_PICKS_MAX 20000000u   /* samples · epochs */
#define NODES_PLACES_MAX 200000000u /* samples · nodes */

/* Speeds by how many read (threads, or nodes), with straight lines between the points and level ends. */
struct nodes_curve {
    uint32_t count;
    struct {
        double at, speed;
    } points[NODES_POINTS_MAX];
};

struct nodes_class {
    double capacity;
    uint64_t threads;
    struct nodes_curve read, write; /* of all its threads together; write may be empty: it limits nothing */
};

struct nodes_scenario {
    uint64_t nodes, seed, epochs, batch; /* batch: of all nodes together; the last one is dropped if it is not whole */
    uint64_t samples;
    double mean, deviation; /* of a normal distribution of sizes, of which what is below 0 is 0 */
    double compute, preprocess, network, pfs_network;
    struct nodes_curve pfs;
    struct nodes_class classes[NODES_CLASSES_MAX];
    uint32_t n_classes;
    uint32_t policies; /* a bit for each, by its number */
};

/* What a read's bytes came from: NODES_OWN + class is one of the node's own classes. */
enum nodes_source { NODES_PFS, NODES_OTHERS, NODES_OWN, NODES_SOURCES = NODES_OWN + NODES_CLASSES_MAX };

struct nodes_result {
    const char *refused; /* why this policy cannot run here; NULL: it ran */
    uint64_t batches;
    double runtime, loading;    /* loading: the part of the runtime before training began */
    double stall;               /* how much longer training took than computing alone would have */
    double read[NODES_SOURCES]; /* MB of all nodes, loading included */
};

enum { NODES_POLICIES = 11 };

/* What a policy does. They differ in these five respects only. */
struct nodes_policy {
    const char *name, *title;
    enum { NODES_LOADS_NOTHING, NODES_LOADS_MEMORY, NODES_LOADS_CLASSES } loads; /* before training */
    enum { NODES_FREE, NODES_ON_DEMAND, NODES_AHEAD } reads;                     /* of what no class holds */
    enum { NODES_KEEPS_NOTHING, NODES_KEEPS_READ, NODES_KEEPS_FREQUENT, NODES_KEEPS_HOMES } keeps; /* while training */
    enum { NODES_DRAWN, NODES_CACHED, NODES_LOCAL, NODES_TO_HOLDERS } deals;                       /* batches */
    bool whole; /* refuses a dataset that is larger than class 1 of all nodes */
};

extern const struct nodes_policy nodes_policies[NODES_POLICIES];

/* nodes_read reads a scenario file, strictly, with file:line:column in errors. */
int nodes_read(const char *path, struct nodes_scenario *out, struct error *err);

/* nodes_speed returns the curve's speed where so many read. */
double nodes_speed(const struct nodes_curve *curve, double at);

/* nodes_sizes draws the samples' sizes. The caller frees them. */
double *nodes_sizes(const struct nodes_scenario *scenario);

/* nodes_run runs one policy on samples of these sizes. */
void nodes_run(const struct nodes_scenario *scenario, const double *sizes, const struct nodes_policy *policy,
               struct nodes_result *out);

/* nodes_bench_main is the command. argv[0] is its own name. */
int nodes_bench_main(int argc, char **argv);

#endif
