/* scenario.c: scenario files for `larder_bench sharing`, read as strictly as configurations are. */
#include <string.h>

#include "tests/bench/virtual/scenario_priv.h"

static bool is_word(const struct doc_node *node, const char *word)
{
    return node->kind == DOC_SCALAR && strcmp(node->text, word) == 0;
}

#define COUNT(node, key, min, max, field) BENCH_COUNT(reader, node, key, min, max, field)

static int pair(struct bench_reader *reader, const struct doc_node *value, const char *key, const char *form,
                uint64_t out[2])
{
    if (value->kind != DOC_SEQUENCE || value->n_children != 2)
        return bench_fail(reader, value, key, form);
    for (int i = 0; i < 2; i++) {
        int code = bench_count(reader, value->children[i], key, 0, SHARING_SAMPLES_MAX, &out[i]);
        if (code)
            return code;
    }
    return out[0] < out[1] ? 0 : bench_fail(reader, value, key, form);
}

static int view_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_job *job = into;
    uint64_t bounds[2];
    int code;
    if (strcmp(key, "fraction") == 0) {
        job->view = SHARING_FRACTION;
        return bench_number(reader, value, key, 0, 1, &job->fraction);
    }
    if (strcmp(key, "seed") == 0)
        COUNT(value, key, 0, 9e15, job->view_seed);
    if (strcmp(key, "dealt") == 0) {
        code = pair(reader, value, key, "must be [rank, ranks] with rank below ranks", bounds);
        if (code)
            return code;
        job->view = SHARING_DEALT;
        job->rank = (uint32_t)bounds[0];
        job->world_size = (uint32_t)bounds[1];
        return 0;
    }
    if (strcmp(key, "range") != 0)
        return LARDER_ENOENT;
    code = pair(reader, value, key, "must be [first, end] with first below end", bounds);
    if (code)
        return code;
    job->view = SHARING_RANGE;
    job->first = (uint32_t)bounds[0];
    job->end = (uint32_t)bounds[1];
    return 0;
}

static int shuffle_mode(struct bench_reader *reader, const struct doc_node *value, const char *key,
                        enum shuffle_mode *out)
{
    static const char *const modes[] = {"dependent", "strict", "none"};
    for (int mode = 0; value->kind == DOC_SCALAR && mode < 3; mode++) {
        if (strcmp(value->text, modes[mode]) == 0) {
            *out = (enum shuffle_mode)mode;
            return 0;
        }
    }
    return bench_fail(reader, value, key, "must be dependent, strict or none");
}

static int job_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_job *job = into;
    if (strcmp(key, "start") == 0)
        return bench_number(reader, value, key, 0, SHARING_START_MAX, &job->start);
    if (strcmp(key, "train_s") == 0)
        return bench_number(reader, value, key, 1e-9, 1000, &job->train_s);
    if (strcmp(key, "rate") == 0)
        return bench_number(reader, value, key, 0.001, 64, &job->rate);
    if (strcmp(key, "epochs") == 0)
        COUNT(value, key, 1, 1000, job->epochs);
    if (strcmp(key, "node") == 0)
        COUNT(value, key, 0, SHARING_NODES_MAX - 1, job->node);
    if (strcmp(key, "ranks") == 0)
        COUNT(value, key, 1, SHARING_NODES_MAX, job->ranks);
    if (strcmp(key, "mix") == 0)
        return bench_number(reader, value, key, 0, 1, &job->mix);
    if (strcmp(key, "pipeline") == 0)
        return bench_name(reader, value, key, &job->pipeline);
    if (strcmp(key, "shuffle") == 0) {
        job->own_shuffle = true;
        return shuffle_mode(reader, value, key, &job->shuffle);
    }
    if (strcmp(key, "view") != 0)
        return LARDER_ENOENT;
    if (is_word(value, "all")) {
        job->view = SHARING_ALL;
        return 0;
    }
    return bench_mapping(reader, value, key, view_key, job);
}

static void add_ranks(const struct sharing_job *training, struct sharing_scenario *out)
{
    for (uint32_t rank = 0; rank < training->ranks; rank++) {
        struct sharing_job *job = &out->jobs[out->n_jobs++];
        *job = *training;
        job->of_rank = rank;
        job->rate /= training->ranks;
    }
}

static int read_jobs(struct bench_reader *reader, const struct doc_node *node, struct sharing_scenario *out)
{
    if (node->kind != DOC_SEQUENCE || node->n_children == 0)
        return bench_fail(reader, node, "jobs", "must be a list of at least one job");
    for (uint32_t i = 0; i < node->n_children; i++) {
        struct sharing_job job = {
            .rate = 1, .epochs = 1, .view = SHARING_ALL, .node = UINT32_MAX, .training = i, .ranks = 1, .mix = -1};
        int code = bench_mapping(reader, node->children[i], "jobs", job_key, &job);
        if (code)
            return code;
        if (i == SHARING_TRAININGS_MAX || out->n_jobs + job.ranks > SHARING_JOBS_MAX)
            return bench_fail(reader, node, "jobs", "there are too many");
        add_ranks(&job, out);
    }
    out->n_trainings = (uint32_t)node->n_children;
    return 0;
}

static int memory_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_scenario *out = into;
    if (strcmp(key, "prepared") == 0)
        return bench_number(reader, value, key, 0, 1, &out->prepared);
    if (strcmp(key, "encoded") == 0)
        return bench_number(reader, value, key, 0, 32, &out->encoded); /* more than 1: for decoded forms */
    return LARDER_ENOENT;
}

static int redirect_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_scenario *out = into;
    if (strcmp(key, "width") != 0)
        return LARDER_ENOENT;
    if (is_word(value, "half")) {
        out->width = ENGINE_REDIRECT_HALF;
        return 0;
    }
    COUNT(value, key, 1, 65536, out->width);
}

static int settings_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_scenario *out = into;
    if (strcmp(key, "shuffle") == 0)
        return shuffle_mode(reader, value, key, &out->shuffle);
    if (strcmp(key, "batch") == 0)
        BENCH_COUNT(reader, value, key, 1, ENGINE_BATCH_MAX, out->batch);
    if (strcmp(key, "prefetch") == 0)
        BENCH_COUNT(reader, value, key, 1, ENGINE_PREFETCH_MAX, out->prefetch);
    if (strcmp(key, "split") == 0) {
        out->shared = is_word(value, "auto");
        return out->shared || is_word(value, "never") ? 0 : bench_fail(reader, value, key, "must be auto or never");
    }
    if (strcmp(key, "decoded") == 0) {
        out->decoded = is_word(value, "auto");
        return out->decoded || is_word(value, "never") ? 0 : bench_fail(reader, value, key, "must be auto or never");
    }
    if (strcmp(key, "redirect") != 0)
        return LARDER_ENOENT;
    out->redirect = !is_word(value, "off");
    return out->redirect ? bench_mapping(reader, value, key, redirect_key, out) : 0;
}

static int takes_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_takes *out = into;
    if (strcmp(key, "prepare") == 0)
        return bench_number(reader, value, key, 0, 1000, &out->prepare);
    if (strcmp(key, "slow") == 0)
        COUNT(value, key, 0, SHARING_NODES_MAX - 1, out->slow);
    if (strcmp(key, "times") == 0)
        return bench_number(reader, value, key, 1, 1000, &out->times);
    if (strcmp(key, "jitter") == 0)
        return bench_number(reader, value, key, 0, 1, &out->jitter);
    return LARDER_ENOENT;
}

static int top_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_scenario *out = into;
    if (strcmp(key, "samples") == 0)
        COUNT(value, key, 1, SHARING_SAMPLES_MAX, out->samples);
    if (strcmp(key, "nodes") == 0)
        COUNT(value, key, 1, SHARING_NODES_MAX, out->nodes);
    if (strcmp(key, "chunk") == 0)
        COUNT(value, key, 1, 65536, out->chunk);
    if (strcmp(key, "seed") == 0)
        COUNT(value, key, 0, 9e15, out->seed);
    if (strcmp(key, "memory") == 0)
        return bench_mapping(reader, value, key, memory_key, out);
    if (strcmp(key, "settings") == 0)
        return bench_mapping(reader, value, key, settings_key, out);
    if (strcmp(key, "takes") == 0)
        return bench_mapping(reader, value, key, takes_key, &out->takes);
    if (strcmp(key, "jobs") == 0)
        return read_jobs(reader, value, out);
    if (strcmp(key, "costs") == 0)
        return scenario_costs(reader, value, &out->costs);
    return LARDER_ENOENT;
}

static int check_jobs(struct bench_reader *reader, const struct doc_node *root, void *into)
{
    const struct sharing_scenario *out = into;
    for (uint32_t i = 0; i < out->n_jobs; i++) {
        if (out->jobs[i].view == SHARING_RANGE && out->jobs[i].end > out->samples)
            return bench_fail(reader, root, "jobs", "a range goes past the samples");
        if (out->jobs[i].node != UINT32_MAX && out->jobs[i].node >= out->nodes)
            return bench_fail(reader, root, "jobs", "there is no such node");
        if (out->jobs[i].ranks > 1 && (out->jobs[i].ranks > out->nodes || out->jobs[i].view != SHARING_ALL))
            return bench_fail(reader, root, "jobs", "ranks are at a node each, and on all samples");
        if (out->nodes > 1 && (out->jobs[i].own_shuffle || out->shuffle != SHUFFLE_DEPENDENT))
            return bench_fail(reader, root, "jobs", "jobs on several nodes are dependent");
        int code = scenario_check_costs(reader, root, out, &out->jobs[i]);
        if (code)
            return code;
    }
    return out->samples && out->n_jobs ? 0 : bench_fail(reader, root, "", "needs `samples` and `jobs`");
}

int sharing_read(const char *path, bool cluster, struct sharing_scenario *out, struct error *err)
{
    struct sharing_scenario scenario = {.nodes = 1,
                                        .chunk = 64,
                                        .prepared = 0.1,
                                        .encoded = 0.1,
                                        .seed = 1,
                                        .redirect = true,
                                        .decoded = true,
                                        .shared = true,
                                        .width = ENGINE_REDIRECT_HALF,
                                        .batch = 1,
                                        .prefetch = 1,
                                        .takes = {.times = 1}};
    struct bench_reader reader = {
        .file = path, .err = err, .names = {{"default"}, 1}}; /* of a job that names no pipeline */
    int code = bench_document(&reader, top_key, check_jobs, &scenario);
    if (!code && !cluster && scenario.nodes > 1)
        code = error_set(err, LARDER_EINVAL, "%s: several nodes are for `larder_bench cluster`", path);
    for (uint32_t i = 0; i < scenario.n_jobs; i++) {
        struct sharing_job *job = &scenario.jobs[i];
        uint32_t first = job->node == UINT32_MAX ? job->training : job->node;
        job->node = (first + job->of_rank) % scenario.nodes;
    }
    if (!code)
        *out = scenario;
    return code;
}
