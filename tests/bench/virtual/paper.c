/* paper.c: the rows of `larder_bench cluster --paper`. Those of the papers' rule are simulated (redox.h), as means over
 * some orders. Larder's are scenarios of `larder_bench cluster`: the real engine, guests, merges and map. */
#include "tests/bench/virtual/paper.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/check.h"
#include "tests/bench/virtual/cluster.h"
#include "tests/bench/virtual/redox.h"

enum { ORDERS = 8, FIRST_SEED = 1, BATCH = 64, PREFETCH = 8 };

/* What a row of Larder's plays. */
struct larder_row {
    const char *name;
    bool dealt;    /* one training, a rank on each node; else one training on each node, each on all samples */
    bool apart;    /* the nodes give each other nothing */
    double memory; /* of all nodes together, prepared and encoded, as a part of all samples */
};

/* A quarter is what the paper gives its nodes, and .11 what its rule as simulated has in memory at most. */
static const struct larder_row larder_rows[] = {
    {"one training, no exchange", true, true, .25}, {"one training, homes", true, false, .25},
    {"one training, no exchange", true, true, .11}, {"one training, homes", true, false, .11},
    {"a training each, homes", false, false, .11},  {"a training each, homes", false, false, .25},
};
/* A short run has one training alone, as the paper gives it memory. The other rows cost four times as much. */
enum { LARDER_ROWS = sizeof larder_rows / sizeof *larder_rows, SHORT_ROWS = 2 };

struct paper_larder {
    double loads, requests, spread;
    uint64_t missing, twice;
};

struct paper_rows {
    struct redox_result redox[REDOX_ROWS];
    struct paper_larder larder[LARDER_ROWS];
    int n_larder;
};

/* ── Larder's rows ── */

static double field(const json_t *run, const char *name)
{
    const json_t *value = json_object_get(run, name);
    CHECK(json_is_number(value));
    return json_number_value(value);
}

/* Prepared memory has room for what is on its way, which is the least that cluster_run returns it. All the rest keeps
 * encoded samples. */
static struct sharing_scenario *scenario_of(const struct larder_row *row)
{
    struct redox_settings setup = redox_row_settings(&redox_table[0], FIRST_SEED);
    struct sharing_scenario *scenario = xcalloc(1, sizeof *scenario);
    *scenario = (struct sharing_scenario){.samples = setup.samples,
                                          .chunk = setup.chunk,
                                          .nodes = setup.nodes,
                                          .apart = row->apart,
                                          .seed = FIRST_SEED,
                                          .redirect = true,
                                          .width = ENGINE_REDIRECT_HALF,
                                          .batch = BATCH,
                                          .prefetch = PREFETCH,
                                          .n_jobs = setup.nodes};
    for (uint32_t i = 0; i < scenario->n_jobs; i++)
        scenario->jobs[i] = (struct sharing_job){.training = i,
                                                 .rate = 1,
                                                 .epochs = 1,
                                                 .node = i,
                                                 .view = row->dealt ? SHARING_DEALT : SHARING_ALL,
                                                 .rank = i,
                                                 .world_size = scenario->n_jobs};
    scenario->prepared = cluster_least_slots(scenario) / (double)scenario->samples;
    scenario->encoded = row->memory / scenario->nodes - scenario->prepared;
    CHECK(scenario->encoded > 0);
    return scenario;
}

static int play_larder(const struct larder_row *row, struct paper_larder *out)
{
    struct sharing_scenario *scenario = scenario_of(row);
    json_t *run = NULL;
    int code = cluster_run(scenario, &run);
    free(scenario);
    if (code)
        return code;
    double carried = field(run, "carried_per_delivered");
    *out = (struct paper_larder){
        .loads = field(run, "loads_per_chunk_per_epoch"),
        .requests = carried > 0 ? field(run, "requests_per_delivered") / carried : 0,
        .spread = field(run, "position_spread"),
        .missing = (uint64_t)field(run, "missing"),
        .twice = (uint64_t)field(run, "duplicates"),
    };
    json_decref(run);
    return 0;
}

/* ── the table ── */

static void print_redox(const struct paper_rows *rows)
{
    printf("%-32s %8s %8s %8s %9s %8s %8s %8s\n", "the papers' rule, simulated", "reads", "paper", "off", "requests",
           "paper", "off", "spread");
    for (int i = 0; i < REDOX_ROWS; i++) {
        const struct redox_result *got = &rows->redox[i];
        double loads = redox_row_loads(&redox_table[i]), requests = redox_row_requests(&redox_table[i]);
        printf("%-32s %8.2f %8.2f %+6.1f %% %9.4f %8.4f %+6.1f %% %8.3f\n", redox_table[i].name, got->loads, loads,
               100 * redox_off(got->loads, loads), got->requests, requests, 100 * redox_off(got->requests, requests),
               got->spread);
    }
}

static void print_larder(const struct paper_rows *rows)
{
    const struct redox_result *best = &rows->redox[REDOX_ROWS - 1];
    printf("\n%-32s %8s %17s %9s %17s %8s %8s\n", "Larder's rule", "reads", "of the papers'", "requests",
           "of the papers'", "spread", "memory");
    for (int i = 0; i < rows->n_larder; i++) {
        const struct paper_larder *got = &rows->larder[i];
        printf("%-32s %8.2f %15.0f %% %9.4f %15.0f %% %8.3f %6.0f %%\n", larder_rows[i].name, got->loads,
               100 * got->loads / best->loads, got->requests, 100 * got->requests / best->requests, got->spread,
               100 * larder_rows[i].memory);
        if (got->missing || got->twice)
            printf("  %llu samples are missing and %llu came twice\n", (unsigned long long)got->missing,
                   (unsigned long long)got->twice);
    }
}

static void print_table(const struct paper_rows *rows)
{
    struct redox_settings setup = redox_row_settings(&redox_table[REDOX_ROWS - 1], FIRST_SEED);
    printf("%u nodes, %u samples in chunks of %u, one epoch from empty memory. reads: of a chunk, by all nodes.\n"
           "requests: between nodes, for each sample of another node. spread: 1 is a full shuffle.\n\n",
           setup.nodes, setup.samples, setup.chunk);
    print_redox(rows);
    print_larder(rows);
    printf(
        "\nThe papers' rule: %u chunks a virtual chunk, a window of %u samples, %u samples ahead at most. It has %.0f "
        "%% of\nall samples in memory at most. Means of %d orders.\n",
        setup.chunks_a_virtual, setup.window, setup.room, 100 * rows->redox[REDOX_ROWS - 1].peak, ORDERS);
}

/* ── JSON ── */

static int print_json(const struct paper_rows *rows)
{
    json_t *redox = json_array(), *larder = json_array();
    for (int i = 0; i < REDOX_ROWS; i++) {
        const struct redox_result *got = &rows->redox[i];
        json_array_append_new(redox, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "name", redox_table[i].name,
                                               "reads", got->loads, "paper_reads", redox_row_loads(&redox_table[i]),
                                               "requests", got->requests, "paper_requests",
                                               redox_row_requests(&redox_table[i]), "remote", got->remote, "spread",
                                               got->spread, "peak", got->peak));
    }
    for (int i = 0; i < rows->n_larder; i++) {
        const struct paper_larder *got = &rows->larder[i];
        json_array_append_new(larder, json_pack("{s:s, s:f, s:f, s:f, s:f, s:I, s:I}", "name", larder_rows[i].name,
                                                "memory", larder_rows[i].memory, "reads", got->loads, "requests",
                                                got->requests, "spread", got->spread, "missing",
                                                (json_int_t)got->missing, "twice", (json_int_t)got->twice));
    }
    return sharing_print(json_pack("{s:o, s:o}", "papers", redox, "larder", larder));
}

int paper_bench(bool json, bool brief)
{
    struct paper_rows rows = {.n_larder = brief ? SHORT_ROWS : LARDER_ROWS};
    for (int i = 0; i < REDOX_ROWS; i++) {
        struct redox_settings settings = redox_row_settings(&redox_table[i], FIRST_SEED);
        CHECK(redox_mean(&settings, ORDERS, &rows.redox[i]));
    }
    for (int i = 0; i < rows.n_larder; i++) {
        if (play_larder(&larder_rows[i], &rows.larder[i]))
            return 1;
    }
    if (json)
        return print_json(&rows);
    print_table(&rows);
    return 0;
}
