/* scenario_costs.c: the key `costs` of a scenario. */
#include <string.h>

#include "tests/bench/virtual/scenario_priv.h"

#define FAST_BYTES_S 1e15 /* a medium that takes no time */

static int tier_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct costs_tier *tier = into;
    if (strcmp(key, "part") == 0)
        return bench_number(reader, value, key, 0, 1, &tier->part);
    if (strcmp(key, "bytes_s") == 0)
        return bench_number(reader, value, key, 1, FAST_BYTES_S, &tier->bytes_s);
    if (strcmp(key, "file_s") == 0)
        return bench_number(reader, value, key, 0, 1000, &tier->file_s);
    return LARDER_ENOENT;
}

/* read_tiers reads the media, fastest first. The last one has the samples that the others leave. */
static int read_tiers(struct bench_reader *reader, const struct doc_node *node, struct costs *out)
{
    double left = 1;
    if (node->kind != DOC_SEQUENCE || node->n_children == 0 || node->n_children > COSTS_TIERS_MAX)
        return bench_fail(reader, node, "read", "must be a list of 1 to 4 media");
    out->n_tiers = (uint32_t)node->n_children;
    for (uint32_t i = 0; i < out->n_tiers; i++) {
        out->tiers[i] = (struct costs_tier){.bytes_s = FAST_BYTES_S};
        int code = bench_mapping(reader, node->children[i], "read", tier_key, &out->tiers[i]);
        if (code)
            return code;
        left -= i + 1 < out->n_tiers ? out->tiers[i].part : 0;
    }
    out->tiers[out->n_tiers - 1].part = left;
    return left >= 0 ? 0 : bench_fail(reader, node, "read", "the parts are more than all");
}

static int costs_key(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct costs *out = into;
    if (strcmp(key, "cores") == 0)
        BENCH_COUNT(reader, value, key, 1, COSTS_CORES_MAX, out->cores);
    if (strcmp(key, "at_once") == 0)
        BENCH_COUNT(reader, value, key, 1, SHARING_JOBS_MAX, out->at_once);
    if (strcmp(key, "decode_s") == 0)
        return bench_number(reader, value, key, 0, 1000, &out->decode_s);
    if (strcmp(key, "prepare_s") == 0)
        return bench_number(reader, value, key, 0, 1000, &out->prepare_s);
    if (strcmp(key, "encoded_bytes") == 0)
        return bench_number(reader, value, key, 1, 1e12, &out->encoded_bytes);
    if (strcmp(key, "decoded") == 0)
        return bench_number(reader, value, key, 0.01, 1000, &out->decoded);
    if (strcmp(key, "prepared") == 0)
        return bench_number(reader, value, key, 0.01, 1000, &out->prepared);
    return strcmp(key, "read") == 0 ? read_tiers(reader, value, out) : LARDER_ENOENT;
}

int scenario_costs(struct bench_reader *reader, const struct doc_node *node, struct costs *out)
{
    *out = (struct costs){.there = true,
                          .cores = 1,
                          .encoded_bytes = 100000,
                          .decoded = 5,
                          .prepared = 1.5,
                          .tiers = {{.part = 1, .bytes_s = FAST_BYTES_S}},
                          .n_tiers = 1};
    return bench_mapping(reader, node, "costs", costs_key, out);
}

int scenario_check_costs(struct bench_reader *reader, const struct doc_node *root,
                         const struct sharing_scenario *scenario, const struct sharing_job *job)
{
    if (!scenario->costs.there)
        return job->train_s > 0 ? bench_fail(reader, root, "jobs", "`train_s` is for scenarios with `costs`") : 0;
    if (job->train_s == 0 || job->rate != 1 || job->ranks > 1 || scenario->nodes > 1)
        return bench_fail(reader, root, "jobs", "with `costs` each job says `train_s`, no `rate`, and is on one node");
    return 0;
}
