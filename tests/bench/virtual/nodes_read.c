/* nodes_read.c: scenario files for `larder_bench nodes`. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/virtual/nodes.h"
#include "tests/bench/virtual/read.h"

#define COUNT(key_, min, max, field) \
    if (strcmp(key, key_) == 0)      \
    BENCH_COUNT(reader, value, key, min, max, field)
#define NUMBER(key_, min, max, field) \
    if (strcmp(key, key_) == 0)       \
    return bench_number(reader, value, key, min, max, &(field))

#define SPEED_MIN 1e-6
#define SPEED_MAX 1e9

static int point_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct nodes_curve *curve = opaque;
    char *end;
    unsigned long at = *key >= '1' && *key <= '9' ? strtoul(key, &end, 10) : 0;
    if (at == 0 || *end || at > 65536)
        return bench_fail(reader, value, key, "must be how many read, from 1 to 65536");
    if (curve->count == NODES_POINTS_MAX)
        return bench_fail(reader, value, key, "there are too many points");
    if (curve->count && curve->points[curve->count - 1].at >= (double)at)
        return bench_fail(reader, value, key, "must be more than the point before");
    curve->points[curve->count].at = (double)at;
    return bench_number(reader, value, key, SPEED_MIN, SPEED_MAX, &curve->points[curve->count++].speed);
}

static int curve_key(struct bench_reader *reader, const char *key, const struct doc_node *value,
                     struct nodes_curve *curve)
{
    int code = bench_mapping(reader, value, key, point_key, curve);
    return !code && !curve->count ? bench_fail(reader, value, key, "needs a point, such as {1: 100}") : code;
}

static int class_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct nodes_class *class = opaque;
    NUMBER("capacity", 0, 1e12, class->capacity);
    COUNT("threads", 1, 1024, class->threads);
    if (strcmp(key, "read") == 0)
        return curve_key(reader, key, value, &class->read);
    return strcmp(key, "write") == 0 ? curve_key(reader, key, value, &class->write) : LARDER_ENOENT;
}

static int read_classes(struct bench_reader *reader, const struct doc_node *node, struct nodes_scenario *scenario)
{
    if (node->kind != DOC_SEQUENCE || node->n_children == 0 || node->n_children > NODES_CLASSES_MAX)
        return bench_fail(reader, node, "classes", "must be a list of 1 to 8 classes");
    for (uint32_t i = 0; i < node->n_children; i++) {
        struct nodes_class *class = &scenario->classes[scenario->n_classes++];
        class->threads = 1;
        int code = bench_mapping(reader, node->children[i], "classes", class_key, class);
        if (code)
            return code;
        if (!class->read.count)
            return bench_fail(reader, node->children[i], "classes", "a class needs `read`");
    }
    return 0;
}

static int dataset_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct nodes_scenario *scenario = opaque;
    COUNT("samples", 1, NODES_SAMPLES_MAX, scenario->samples);
    NUMBER("mean", 1e-9, 1e6, scenario->mean);
    NUMBER("deviation", 0, 1e6, scenario->deviation);
    return LARDER_ENOENT;
}

static int pfs_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct nodes_scenario *scenario = opaque;
    NUMBER("network", SPEED_MIN, SPEED_MAX, scenario->pfs_network);
    return strcmp(key, "read") == 0 ? curve_key(reader, key, value, &scenario->pfs) : LARDER_ENOENT;
}

static int read_policies(struct bench_reader *reader, const struct doc_node *node, struct nodes_scenario *scenario)
{
    if (node->kind != DOC_SEQUENCE || node->n_children == 0)
        return bench_fail(reader, node, "policies", "must be a list of policies");
    scenario->policies = 0;
    for (uint32_t i = 0; i < node->n_children; i++) {
        const struct doc_node *name = node->children[i];
        uint32_t policy = 0;
        while (name->kind == DOC_SCALAR && policy < NODES_POLICIES &&
               strcmp(nodes_policies[policy].name, name->text) != 0)
            policy++;
        if (name->kind != DOC_SCALAR || policy == NODES_POLICIES)
            return bench_fail(reader, name, "policies", "is no policy: see docs/internals/bench.md");
        scenario->policies |= UINT32_C(1) << policy;
    }
    return 0;
}

static int top_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct nodes_scenario *scenario = opaque;
    COUNT("nodes", 1, NODES_MAX, scenario->nodes);
    COUNT("seed", 0, 9e15, scenario->seed);
    COUNT("epochs", 1, 100000, scenario->epochs);
    COUNT("batch", 1, 1e6, scenario->batch);
    NUMBER("compute", SPEED_MIN, SPEED_MAX, scenario->compute);
    NUMBER("preprocess", SPEED_MIN, SPEED_MAX, scenario->preprocess);
    NUMBER("network", SPEED_MIN, SPEED_MAX, scenario->network);
    if (strcmp(key, "pfs") == 0)
        return bench_mapping(reader, value, key, pfs_key, scenario);
    if (strcmp(key, "dataset") == 0)
        return bench_mapping(reader, value, key, dataset_key, scenario);
    if (strcmp(key, "classes") == 0)
        return read_classes(reader, value, scenario);
    return strcmp(key, "policies") == 0 ? read_policies(reader, value, scenario) : LARDER_ENOENT;
}

static int check_all(struct bench_reader *reader, const struct doc_node *root, void *opaque)
{
    const struct nodes_scenario *scenario = opaque;
    if (!scenario->pfs.count || !scenario->n_classes || !scenario->samples)
        return bench_fail(reader, root, "", "needs `pfs` with `read`, `classes`, and `dataset` with `samples`");
    if (scenario->batch < scenario->nodes)
        return bench_fail(reader, root, "batch", "must be one sample for each node at the least");
    if (scenario->batch > scenario->samples)
        return bench_fail(reader, root, "batch", "is larger than the dataset");
    if (scenario->samples * scenario->epochs > NODES_PICKS_MAX ||
        scenario->samples * scenario->nodes > NODES_PLACES_MAX)
        return bench_fail(reader, root, "dataset", "has too many samples for so many epochs or nodes");
    return 0;
}

int nodes_read(const char *path, struct nodes_scenario *out, struct error *err)
{
    struct nodes_scenario scenario = {.nodes = 1,
                                      .seed = 1,
                                      .epochs = 1,
                                      .batch = 64,
                                      .mean = 0.1,
                                      .compute = 100,
                                      .preprocess = 200,
                                      .network = 10000,
                                      .pfs_network = 10000,
                                      .policies = (UINT32_C(1) << NODES_POLICIES) - 1};
    struct bench_reader reader = {.file = path, .err = err};
    int code = bench_document(&reader, top_key, check_all, &scenario);
    if (!code)
        *out = scenario;
    return code;
}
