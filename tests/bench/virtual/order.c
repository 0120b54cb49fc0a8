/* order.c: `larder_bench order SCENARIO.yaml`: how near the order of each job is to a full shuffle, at each width.
 *
 * The scenario has jobs on all samples; their epochs are the statistic's size. Samples are taken to be sorted by
 * class, as in a folder, and lie in shuffled chunks, as in a store. For every width, for no redirection, and for a
 * full shuffle (shuffle `strict`: a permutation an epoch) the same is measured, so that the last tells what chance
 * does. At half a chunk's width the same is measured for chunks that are runs of tar shards: of such as were shuffled
 * when they were written, and of such as are sorted by class, of which the catalog makes no runs (cache/source/runs.h).
 */
#include "tests/bench/virtual/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

enum { PARTS = 10, CLASSES = 10, BATCH = 64 };

/* Of one job; of a training whose ranks are jobs, with the first of these. */
struct order {
    uint32_t samples, epochs;
    struct order *of;                  /* that of the training */
    uint32_t ranks, rank, batch;       /* of the training; batch: a rank's */
    uint32_t *came_at;                 /* which sample came at each place, epoch by epoch */
    bool *was_kept;                    /* of each place */
    uint32_t *chunk_of;                /* of each sample */
    uint16_t *parts;                   /* times that a sample came in each tenth of an epoch */
    uint64_t kept[PARTS], came[PARTS]; /* kept samples and all samples in each tenth, after the first epoch */
    float *place;                      /* where in the epoch before each sample came, -0.5 … 0.5 */
    double echo, square;               /* sums of the product with it, and of squares */
    uint32_t classes[CLASSES];
    uint32_t chunks[BATCH];
    uint64_t batches, mates; /* pairs of one chunk in one batch */
    double class_square;
};

/* A job that says nothing of ranks has one. */
static uint32_t ranks_of(const struct sharing_job *job)
{
    return job->ranks ? job->ranks : 1;
}

/* of_training returns where a rank's sample comes in the training's epoch: ranks train on their batches at once. */
static uint64_t of_training(const struct order *order, uint64_t position)
{
    uint64_t share = order->samples / order->ranks, step = position / order->batch, at = position % order->batch;
    uint64_t left = share - step * order->batch, width = left < order->batch ? left : order->batch;
    return step * order->batch * order->ranks + order->rank * width + at;
}

void orders_got(void *ctx, const struct sharing_given *given)
{
    const struct order *order = (struct order *)ctx + given->job;
    const struct order *of = order->of;
    size_t place = (size_t)given->epoch * of->samples + of_training(order, given->position);
    of->came_at[place] = given->id;
    of->was_kept[place] = given->kept;
    of->chunk_of[given->id] = given->chunk;
}

static void batch_done(struct order *order)
{
    double expected = (double)BATCH / CLASSES;
    for (int class = 0; class < CLASSES; ++class)
        order->class_square += (order->classes[class] - expected) * (order->classes[class] - expected) / expected;
    for (int i = 0; i < BATCH; i++) {
        for (int j = 0; j < i; j++)
            order->mates += order->chunks[i] == order->chunks[j];
    }
    order->batches++;
}

static void add_place(struct order *order, uint32_t epoch, uint32_t position)
{
    uint32_t id = order->came_at[(size_t)epoch * order->samples + position], at = position % BATCH;
    bool kept = order->was_kept[(size_t)epoch * order->samples + position];
    float place = ((float)position + 0.5f) / (float)order->samples - 0.5f;
    if (epoch > 0) {
        order->echo += (double)(place * order->place[id]);
        order->square += (double)(place * place);
    }
    order->place[id] = place;
    uint64_t part = (uint64_t)position * PARTS / order->samples;
    order->parts[(size_t)id * PARTS + part]++;
    order->came[part] += epoch > 0;
    order->kept[part] += epoch > 0 && kept;
    if (at == 0)
        memset(order->classes, 0, sizeof order->classes);
    order->classes[(uint64_t)id * CLASSES / order->samples]++;
    order->chunks[at] = order->chunk_of[id];
    if (at == BATCH - 1)
        batch_done(order);
}

static void add_up(struct order *order)
{
    for (uint32_t epoch = 0; epoch < order->epochs; epoch++) {
        for (uint32_t position = 0; position < order->samples; position++)
            add_place(order, epoch, position);
    }
}

/* Pearson's statistic of the tenths, over its degrees of freedom: 1 when every sample is equally often early and
 * late. */
static double position_chi_square(const struct order *order)
{
    double sum = 0, expected = (double)order->epochs / PARTS;
    for (size_t i = 0; i < (size_t)order->samples * PARTS; i++)
        sum += (order->parts[i] - expected) * (order->parts[i] - expected) / expected;
    return sum / ((double)order->samples * (PARTS - 1));
}

/* kept_part returns what part of the samples came from memory that had kept them since the epoch before. */
static double kept_part(const struct order *order)
{
    uint64_t kept = 0, came = 0;
    for (int part = 0; part < PARTS; part++) {
        kept += order->kept[part];
        came += order->came[part];
    }
    return came ? (double)kept / (double)came : 0;
}

/* kept_uneven returns by how much that part differs most in a tenth of an epoch, over all epochs. */
static double kept_uneven(const struct order *order)
{
    double mean = kept_part(order), most = 0;
    for (int part = 0; part < PARTS; part++) {
        if (order->came[part])
            most = fmax(most, fabs((double)order->kept[part] / (double)order->came[part] - mean));
    }
    return most;
}

/* position_echo: how a sample's place in an epoch correlates with that in the epoch before; 0 in a full shuffle. */
static json_t *row(const struct sharing_scenario *scenario, const struct order *order, const char *name, uint32_t job,
                   const json_t *run)
{
    double n = scenario->samples, chi_square = position_chi_square(order);
    double drawn = (CLASSES - 1) * (n - BATCH) / (n - 1); /* of a batch drawn without putting back */
    double pairs = BATCH * (BATCH - 1) / 2.0 * (scenario->chunk - 1) / (n - 1);
    double batches = order->batches ? (double)order->batches : 1;
    json_t *of_job = json_array_get(json_object_get(run, "jobs"), job);
    json_t *out = json_pack(
        "{s:s, s:I, s:O, s:O, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "order", name, "job", (json_int_t)job,
        "position_spread", json_object_get(of_job, "position_spread"), "loads_per_chunk_per_epoch",
        json_object_get(run, "loads_per_chunk_per_epoch"), "position_chi_square", chi_square, "position_z",
        (chi_square - 1) / sqrt(2 / (n * (PARTS - 1))), "position_echo",
        order->square > 0 ? order->echo / order->square : 0.0, "class_mix", order->class_square / batches / drawn,
        "chunk_mates_in_batch", pairs > 0 ? (double)order->mates / batches / pairs : 0.0, "kept_part", kept_part(order),
        "kept_uneven", kept_uneven(order));
    CHECK(out);
    return out;
}

struct order *orders_begin(const struct sharing_scenario *scenario)
{
    struct order *orders = xcalloc(scenario->n_jobs, sizeof *orders);
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        const struct sharing_job *job = &scenario->jobs[i];
        struct order *order = &orders[i];
        *order = (struct order){.samples = scenario->samples,
                                .epochs = job->epochs,
                                .of = order - job->of_rank,
                                .ranks = ranks_of(job),
                                .rank = job->of_rank,
                                .batch = scenario->batch};
        if (order->of != order)
            continue;
        order->came_at = xcalloc((size_t)scenario->samples * job->epochs, sizeof *order->came_at);
        order->was_kept = xcalloc((size_t)scenario->samples * job->epochs, sizeof *order->was_kept);
        order->chunk_of = xcalloc(scenario->samples, sizeof *order->chunk_of);
        order->parts = xcalloc((size_t)scenario->samples * PARTS, sizeof *order->parts);
        order->place = xcalloc(scenario->samples, sizeof *order->place);
    }
    return orders;
}

void orders_report(struct order *orders, const struct sharing_scenario *scenario, const char *name, const json_t *run,
                   json_t *rows)
{
    for (uint32_t job = 0; job < scenario->n_jobs; job++) {
        if (orders[job].of != &orders[job])
            continue;
        add_up(&orders[job]);
        json_array_append_new(rows, row(scenario, &orders[job], name, job, run));
    }
}

void orders_end(struct order *orders, const struct sharing_scenario *scenario)
{
    for (uint32_t job = 0; job < scenario->n_jobs; job++) {
        free(orders[job].came_at);
        free(orders[job].was_kept);
        free(orders[job].chunk_of);
        free(orders[job].parts);
        free(orders[job].place);
    }
    free(orders);
}

static int measure(const struct sharing_scenario *scenario, const char *name, json_t *rows)
{
    struct order *orders = orders_begin(scenario);
    json_t *run = NULL;
    int status = sharing_run(scenario, orders_got, orders, &run);
    if (!status)
        orders_report(orders, scenario, name, run, rows);
    json_decref(run);
    orders_end(orders, scenario);
    return status;
}

static int measure_all(const struct sharing_scenario *given, json_t *rows)
{
    static const uint32_t widths[] = {1, 2, 4, 8, 12, 16, 24, 32, 64, 128};
    struct sharing_scenario *scenario = xmalloc(sizeof *scenario);
    *scenario = *given;
    scenario->shuffle = SHUFFLE_STRICT;
    int status = measure(scenario, "full shuffle", rows);
    scenario->shuffle = SHUFFLE_DEPENDENT;
    scenario->redirect = false;
    if (!status)
        status = measure(scenario, "redirect off", rows);
    scenario->redirect = true;
    for (size_t i = 0; !status && i < sizeof widths / sizeof *widths; i++) {
        char name[32];
        snprintf(name, sizeof name, "width %u", widths[i]);
        scenario->width = widths[i];
        if (widths[i] <= scenario->chunk)
            status = measure(scenario, name, rows);
    }
    scenario->width = ENGINE_REDIRECT_HALF;
    scenario->chunks = SHARING_SHARDS;
    if (!status)
        status = measure(scenario, "runs of shards", rows);
    scenario->chunks = SHARING_SORTED_SHARDS;
    if (!status)
        status = measure(scenario, "runs of sorted shards", rows);
    free(scenario);
    return status;
}

bool orders_fit(const struct sharing_scenario *scenario)
{
    bool all = scenario->samples > BATCH;
    for (uint32_t job = 0; job < scenario->n_jobs; job++)
        all = all && scenario->jobs[job].view == SHARING_ALL && scenario->samples % ranks_of(&scenario->jobs[job]) == 0;
    return all;
}

int order_bench_main(int argc, char **argv)
{
    struct sharing_scenario *scenario = xcalloc(1, sizeof *scenario);
    json_t *rows = json_array();
    struct error err;
    int status = 2;
    if (argc != 2) {
        fprintf(stderr, "usage: larder_bench %s SCENARIO.yaml\n", argv[0]);
    } else if (sharing_read(argv[1], false, scenario, &err)) {
        fprintf(stderr, "larder_bench order: %s\n", err.text);
    } else if (!orders_fit(scenario)) {
        fprintf(stderr, "larder_bench order: %s: must have jobs on all of more than %d samples\n", argv[1], BATCH);
    } else {
        status = measure_all(scenario, rows);
        if (!status)
            status = sharing_print(json_pack("{s:I, s:I, s:I, s:O}", "samples", (json_int_t)scenario->samples, "chunk",
                                             (json_int_t)scenario->chunk, "epochs",
                                             (json_int_t)scenario->jobs[0].epochs, "orders", rows));
    }
    json_decref(rows);
    free(scenario);
    return status;
}
