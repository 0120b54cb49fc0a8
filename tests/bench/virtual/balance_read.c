/* balance_read.c: scenario files for `larder_bench balance`. */
#include <string.h>

#include "server/engine/engine.h"
#include "tests/bench/virtual/balance.h"

struct into {
    struct balance_scenario *scenario;
    struct balance_source *source;
    struct balance_job *job;
    uint64_t defined; /* sources, by number */
    uint64_t used;
};

#define COUNT(key_, min, max, field) \
    if (strcmp(key, key_) == 0)      \
    BENCH_COUNT(reader, value, key, min, max, field)
#define NUMBER(key_, min, max, field) \
    if (strcmp(key, key_) == 0)       \
    return bench_number(reader, value, key, min, max, &(field))

static int burst_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct balance_source *source = ((struct into *)opaque)->source;
    NUMBER("factor", 1, 1000, source->burst_factor);
    NUMBER("every_ms", 1, 1e9, source->burst_every_ms);
    NUMBER("for_ms", 1, 1e9, source->burst_for_ms);
    return LARDER_ENOENT;
}

static int class_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct balance_source *source = ((struct into *)opaque)->source;
    NUMBER("ms", 0.001, 1e6, source->class_ms);
    NUMBER("part", 0, 1, source->class_part);
    return LARDER_ENOENT;
}

static int stop_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct balance_source *source = ((struct into *)opaque)->source;
    source->stops = true;
    NUMBER("at_ms", 0, 1e9, source->stop_at_ms);
    NUMBER("for_ms", 1, 1e9, source->stop_for_ms);
    return LARDER_ENOENT;
}

static int source_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct balance_source *source = ((struct into *)opaque)->source;
    NUMBER("ms", 0.001, 1e6, source->ms);
    NUMBER("spread", 0, 1, source->spread);
    NUMBER("loss", 0, 1, source->loss);
    COUNT("parallel", 1, 1e6, source->parallel);
    COUNT("chunk", 1, 1024, source->chunk);
    if (strcmp(key, "stop") == 0)
        return bench_mapping(reader, value, key, stop_key, opaque);
    if (strcmp(key, "class") == 0)
        return bench_mapping(reader, value, key, class_key, opaque);
    return strcmp(key, "burst") == 0 ? bench_mapping(reader, value, key, burst_key, opaque) : LARDER_ENOENT;
}

static int each_source(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct into *into = opaque;
    struct doc_node name = {.kind = DOC_SCALAR, .at = value->at, .text = (char *)key};
    uint32_t number;
    int code = bench_name(reader, &name, "sources", &number);
    if (code)
        return code;
    into->defined |= UINT64_C(1) << number;
    into->source = &into->scenario->sources[number];
    *into->source = (struct balance_source){.ms = 1, .class_ms = 1, .chunk = 1};
    return bench_mapping(reader, value, key, source_key, into);
}

static int prepare_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct balance_preparing *preparing = &((struct into *)opaque)->scenario->preparing;
    NUMBER("ms", 0.001, 1e6, preparing->ms);
    NUMBER("spread", 0, 1, preparing->spread);
    NUMBER("loss", 0, 1, preparing->loss);
    COUNT("peak", 1, 1024, preparing->peak);
    return LARDER_ENOENT;
}

static int read_ranks(struct bench_reader *reader, const struct doc_node *node, struct into *into)
{
    struct balance_scenario *scenario = into->scenario;
    if (node->kind != DOC_SEQUENCE || node->n_children == 0)
        return bench_fail(reader, node, "ranks", "must be a list with the name of each rank's source");
    if (scenario->n_queues + node->n_children > BALANCE_QUEUES_MAX)
        return bench_fail(reader, node, "ranks", "there are too many queues");
    for (uint32_t i = 0; i < node->n_children; i++) {
        uint32_t *source = &scenario->source_of[scenario->n_queues++];
        int code = bench_name(reader, node->children[i], "ranks", source);
        if (code)
            return code;
        into->used |= UINT64_C(1) << *source;
    }
    into->job->ranks = node->n_children;
    return 0;
}

static int job_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct into *into = opaque;
    struct balance_job *job = into->job;
    NUMBER("step_ms", 0.01, 1e6, job->step_ms);
    NUMBER("weight", 0.01, 100, job->weight);
    COUNT("batch", 1, 1024, job->batch);
    COUNT("prefetch", 1, ENGINE_PREFETCH_MAX, job->prefetch);
    return strcmp(key, "ranks") == 0 ? read_ranks(reader, value, into) : LARDER_ENOENT;
}

static int phase_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct balance_phase *phase = opaque;
    COUNT("iterations", 1, 1e6, phase->iterations);
    NUMBER("load", 0.001, 1000, phase->load);
    NUMBER("prepare", 0.001, 1000, phase->prepare);
    NUMBER("class", 0, 1, phase->class);
    return LARDER_ENOENT;
}

static int read_phases(struct bench_reader *reader, const struct doc_node *node, struct balance_scenario *scenario)
{
    if (node->kind != DOC_SEQUENCE || node->n_children == 0 || node->n_children > BALANCE_PHASES_MAX)
        return bench_fail(reader, node, "phases", "must be a list of 1 to 8 phases");
    for (uint32_t i = 0; i < node->n_children; i++) {
        struct balance_phase *phase = &scenario->phases[scenario->n_phases++];
        *phase = (struct balance_phase){.iterations = 200, .load = 1, .prepare = 1, .class = 1};
        int code = bench_mapping(reader, node->children[i], "phases", phase_key, phase);
        if (code)
            return code;
    }
    return 0;
}

static int read_jobs(struct bench_reader *reader, const struct doc_node *node, struct into *into)
{
    struct balance_scenario *scenario = into->scenario;
    if (node->kind != DOC_SEQUENCE || node->n_children == 0 || node->n_children > BALANCE_QUEUES_MAX)
        return bench_fail(reader, node, "jobs", "must be a list of 1 to 64 jobs");
    for (uint32_t i = 0; i < node->n_children; i++) {
        into->job = &scenario->jobs[scenario->n_jobs++];
        *into->job = (struct balance_job){
            .step_ms = 50, .weight = 1, .batch = 16, .prefetch = 4, .first_queue = scenario->n_queues};
        int code = bench_mapping(reader, node->children[i], "jobs", job_key, into);
        if (code)
            return code;
        if (!into->job->ranks)
            return bench_fail(reader, node->children[i], "jobs", "a job needs `ranks`");
    }
    return 0;
}

static int expect_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct balance_expectation *expect = opaque;
    NUMBER("stall", 0, 100, expect->stall);
    NUMBER("imbalance", 0, 100, expect->imbalance);
    NUMBER("ahead", 0, 100, expect->ahead);
    NUMBER("held", 0, 100, expect->held);
    NUMBER("tiers", 0, 100, expect->tiers);
    NUMBER("beside", 0, 100, expect->beside);
    return LARDER_ENOENT;
}

static int top_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *opaque)
{
    struct into *into = opaque;
    struct balance_scenario *scenario = into->scenario;
    COUNT("workers", 2, BALANCE_WORKERS_MAX, scenario->workers);
    COUNT("extra_loaders", 0, 256, scenario->extra_loaders);
    COUNT("seed", 0, 9e15, scenario->seed);
    COUNT("iterations", 1, 100000, scenario->iterations);
    NUMBER("tau_ms", 0, 1e6, scenario->tau_ms);
    NUMBER("decide_ms", 1, 1e6, scenario->decide_ms);
    NUMBER("ahead_ms", 0, 1e6, scenario->ahead_ms);
    NUMBER("share", 0, 1, scenario->share);
    if (strcmp(key, "sources") == 0)
        return bench_mapping(reader, value, key, each_source, into);
    if (strcmp(key, "prepare") == 0)
        return bench_mapping(reader, value, key, prepare_key, into);
    if (strcmp(key, "jobs") == 0)
        return read_jobs(reader, value, into);
    if (strcmp(key, "phases") == 0)
        return read_phases(reader, value, scenario);
    if (strcmp(key, "expect") == 0)
        return bench_mapping(reader, value, key, expect_key, &scenario->expect);
    return LARDER_ENOENT;
}

static int check_all(struct bench_reader *reader, const struct doc_node *root, void *opaque)
{
    const struct into *into = opaque;
    if (!into->scenario->n_jobs)
        return bench_fail(reader, root, "", "needs `sources` and `jobs`");
    for (uint32_t i = 0; i < BENCH_NAMES_MAX; i++) {
        if (into->scenario->sources[i].chunk > 1 && into->scenario->sources[i].class_part > 0)
            return bench_fail(reader, root, "sources", "a source with a class has no chunks");
    }
    if (into->used & ~into->defined)
        return bench_fail(reader, root, "jobs", "a rank names a source that `sources` does not have");
    if (balance_samples(into->scenario) * into->scenario->n_queues > BALANCE_SAMPLES_MAX)
        return bench_fail(reader, root, "iterations", "makes for too many samples: lower it, the batches or the ranks");
    return 0;
}

int balance_read(const char *path, struct balance_scenario *out, struct error *err)
{
    *out = (struct balance_scenario){.workers = 24,
                                     .seed = 1,
                                     .iterations = 600,
                                     .tau_ms = 10,
                                     .decide_ms = 200,
                                     .share = 0.5,
                                     .preparing = {.ms = 1, .peak = 256}};
    struct into into = {.scenario = out};
    struct bench_reader reader = {.file = path, .err = err};
    return bench_document(&reader, top_key, check_all, &into);
}
