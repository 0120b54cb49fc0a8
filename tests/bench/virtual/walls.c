/* walls.c: `larder_bench scale --walls`: the engine's work for a delivered sample by the size of the dataset and by the
 * number of jobs, that of all nodes of a cluster by their number, and what memory has for each sample.
 *
 * All is CPU time of the one thread that does everything, so that two builds can be compared on a busy machine. */
#include "tests/bench/virtual/walls.h"

#include <stdio.h>

#include <jansson.h>

#include "common/clock.h"
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/samples.h"
#include "tests/bench/virtual/cluster.h"
#include "tests/bench/virtual/drive.h"

enum { JOBS = 8, NODE_JOBS = 4, NODE_SAMPLES_MOST = 20000, NODE_EPOCHS = 2, WARM_EPOCHS = 1 };

/* delivers gives the engine's time for a sample that it delivers to one of the jobs. Below 0: a job failed. */
static double delivers(const struct drive_case *what)
{
    uint32_t jobs[JOBS_MAX];
    struct drive_work work = {0};
    struct drive drive;
    if (drive_create(&drive, what))
        return -1;
    for (uint32_t i = 0; i < what->n_jobs; i++)
        jobs[i] = drive_add(&drive, 0, i, DRIVE_SLOT_BYTES);
    drive_epoch(&drive, jobs, what->n_jobs, 0);
    drive_work(&drive, jobs, what->n_jobs, WARM_EPOCHS, WARM_EPOCHS + 1, &work);
    drive_end(&drive);
    return drive.refused || work.delivered == 0 ? -1 : work.ns / work.delivered;
}

static bool by_samples(uint32_t samples)
{
    double held = delivers(&(struct drive_case){samples, 10, JOBS, false, false});
    double read = delivers(&(struct drive_case){samples, 10, JOBS, false, true});
    printf("  {\"samples\": %u, \"jobs\": %d, \"ns\": %.0f, \"read_ns\": %.0f},\n", samples, JOBS, held, read);
    fflush(stdout);
    return held >= 0 && read >= 0;
}

static bool by_jobs(uint32_t samples)
{
    static const uint32_t counts[] = {1, 16, 64, JOBS_MAX};
    bool good = true;
    for (size_t i = 0; good && i < sizeof counts / sizeof *counts; i++) {
        double ns = delivers(&(struct drive_case){samples, 10, counts[i], false, false});
        printf("  {\"samples\": %u, \"jobs\": %u, \"ns\": %.0f},\n", samples, counts[i], ns);
        fflush(stdout);
        good = ns >= 0;
    }
    return good;
}

/* by_nodes has jobs at some of the nodes take whole epochs, and gives the work of all nodes and of the messages between
 * them for a delivered sample. */
static bool by_nodes(uint32_t samples, uint32_t nodes)
{
    static struct sharing_scenario scenario;
    json_t *report;
    scenario = (struct sharing_scenario){.samples = samples < NODE_SAMPLES_MOST ? samples : NODE_SAMPLES_MOST,
                                         .chunk = DRIVE_CHUNK,
                                         .nodes = nodes,
                                         .prepared = 0.1,
                                         .encoded = 0.1,
                                         .seed = 1,
                                         .redirect = true,
                                         .width = ENGINE_REDIRECT_HALF,
                                         .batch = 1,
                                         .prefetch = 1,
                                         .n_jobs = NODE_JOBS,
                                         .n_trainings = NODE_JOBS};
    for (uint32_t i = 0; i < NODE_JOBS; i++)
        scenario.jobs[i] = (struct sharing_job){
            .training = i, .rate = 1, .epochs = NODE_EPOCHS, .view = SHARING_ALL, .node = i % nodes, .ranks = 1};
    uint64_t began_ns = clock_thread_ns();
    if (cluster_run(&scenario, &report))
        return false;
    double took_ns = (double)(clock_thread_ns() - began_ns);
    double delivered = json_number_value(json_object_get(report, "delivered"));
    printf("  {\"samples\": %u, \"nodes\": %u, \"jobs\": %d, \"us\": %.2f},\n", scenario.samples, nodes, NODE_JOBS,
           took_ns / delivered / 1e3);
    fflush(stdout);
    json_decref(report);
    return delivered > 0;
}

bool walls_bench(const uint32_t *sizes, size_t n_sizes)
{
    static const uint32_t nodes[] = {1, 16, 32};
    bool good = true;
    printf("[\n");
    for (size_t i = 0; good && i < n_sizes; i++)
        good = by_samples(sizes[i]);
    good = good && by_jobs(sizes[0]);
    for (size_t i = 0; good && i < sizeof nodes / sizeof *nodes; i++)
        good = by_nodes(sizes[0], nodes[i]);
    printf("  {\"sample_bytes\": %zu, \"encoded_bytes\": %zu, \"instance_bytes\": %zu}\n]\n", sizeof(struct sample),
           sizeof(struct encoded), sizeof(struct instance));
    return good;
}
