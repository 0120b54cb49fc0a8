#include "tests/bench/virtual/nodes.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

const struct nodes_policy nodes_policies[NODES_POLICIES] = {
    {"lower-bound", "Lower Bound", .reads = NODES_FREE},
    {"naive", "Naive", .reads = NODES_ON_DEMAND},
    {"hdmlp", "HDMLP", .reads = NODES_AHEAD, .keeps = NODES_KEEPS_FREQUENT},
    {"staging-pool", "StagingPoolPrefetcher", .reads = NODES_AHEAD},
    {"deepio-ordered", "DeepIO (Ordered)", .loads = NODES_LOADS_MEMORY, .reads = NODES_ON_DEMAND},
    {"deepio-opportunistic", "DeepIO (Opportunistic)", .loads = NODES_LOADS_MEMORY, .reads = NODES_AHEAD,
     .deals = NODES_CACHED},
    {"parallel-staging", "Parallel Data Staging", .loads = NODES_LOADS_CLASSES, .reads = NODES_AHEAD,
     .deals = NODES_LOCAL},
    {"lbann-dynamic", "LBANN In Memory Store (Dynamic)", .reads = NODES_AHEAD, .keeps = NODES_KEEPS_READ,
     .whole = true},
    {"lbann-preloading", "LBANN In Memory Store (Preloading)", .loads = NODES_LOADS_MEMORY, .reads = NODES_AHEAD,
     .whole = true},
    {"locality-aware", "Locality-Aware Data Loading", .loads = NODES_LOADS_MEMORY, .reads = NODES_AHEAD,
     .deals = NODES_TO_HOLDERS},
    {"larder", "Larder", .reads = NODES_AHEAD, .keeps = NODES_KEEPS_HOMES},
};

static double stall_ms_per_batch(const struct nodes_result *result)
{
    return result->batches ? result->stall * 1000 / (double)result->batches : 0;
}

/* ── a table ── */

static void print_head(const struct nodes_scenario *scenario)
{
    printf("%-34s %11s %10s %10s %9s %11s %11s", "policy", "runtime s", "loading s", "stall s", "ms/batch", "PFS MB",
           "others MB");
    for (uint32_t class = 1; class < scenario->n_classes; ++class)
        printf("  class %u MB", class);
    putchar('\n');
}

static void print_row(const struct nodes_scenario *scenario, const struct nodes_policy *policy,
                      const struct nodes_result *result)
{
    if (result->refused) {
        printf("%-34s refused: %s\n", policy->title, result->refused);
        return;
    }
    printf("%-34s %11.2f %10.2f %10.2f %9.2f %11.0f %11.0f", policy->title, result->runtime, result->loading,
           result->stall, stall_ms_per_batch(result), result->read[NODES_PFS], result->read[NODES_OTHERS]);
    for (uint32_t class = 1; class < scenario->n_classes; ++class)
        printf(" %11.0f", result->read[NODES_OWN + class]);
    putchar('\n');
}

/* ── JSON ── */

static json_t *report_row(const struct nodes_scenario *scenario, const struct nodes_policy *policy,
                          const struct nodes_result *result)
{
    json_t *own = json_array();
    if (result->refused) {
        json_decref(own);
        return json_pack("{s:s, s:s, s:s}", "policy", policy->name, "title", policy->title, "refused", result->refused);
    }
    for (uint32_t class = 1; class < scenario->n_classes; ++class)
        json_array_append_new(own, json_real(result->read[NODES_OWN + class]));
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:I, s:{s:f, s:f, s:o}}", "policy", policy->name, "title",
                     policy->title, "runtime_s", result->runtime, "loading_s", result->loading, "stall_s",
                     result->stall, "stall_ms_per_batch", stall_ms_per_batch(result), "batches",
                     (json_int_t)result->batches, "read_mb", "pfs", result->read[NODES_PFS], "others",
                     result->read[NODES_OTHERS], "classes", own);
}

static int print_json(json_t *rows)
{
    json_t *report = json_pack("{s:o}", "policies", rows);
    int status = json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 ? 0 : 1;
    putchar('\n');
    json_decref(report);
    return status;
}

/* ── the command ── */

static int run_all(const struct nodes_scenario *scenario, bool json)
{
    double *sizes = nodes_sizes(scenario);
    json_t *rows = json_array();
    if (!json)
        print_head(scenario);
    for (uint32_t i = 0; i < NODES_POLICIES; i++) {
        struct nodes_result result;
        if (!(scenario->policies >> i & 1))
            continue;
        nodes_run(scenario, sizes, &nodes_policies[i], &result);
        if (json)
            json_array_append_new(rows, report_row(scenario, &nodes_policies[i], &result));
        else
            print_row(scenario, &nodes_policies[i], &result);
        fflush(stdout);
    }
    free(sizes);
    if (json)
        return print_json(rows);
    json_decref(rows);
    return 0;
}

int nodes_bench_main(int argc, char **argv)
{
    struct nodes_scenario *scenario = xcalloc(1, sizeof *scenario);
    struct error err;
    bool json = argc == 3 && strcmp(argv[2], "--json") == 0;
    int status = 2;
    if (argc < 2 || argv[1][0] == '-' || (argc > 2 && !json))
        fprintf(stderr, "usage: larder_bench %s SCENARIO.yaml [--json]\n", argv[0]);
    else if (nodes_read(argv[1], scenario, &err))
        fprintf(stderr, "larder_bench nodes: %s\n", err.text);
    else
        status = run_all(scenario, json);
    free(scenario);
    return status;
}
