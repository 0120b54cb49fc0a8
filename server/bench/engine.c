/* engine.c: `larder bench engine`: the engine's time, steps, events and instructions for each sample that it delivers.
 *
 * All bytes are in memory from the first epoch on, and each load, preparation and batch is answered at once, so that
 * nothing but the engine and its player takes time. The player's part is small: it keeps a list of events. Jobs are on
 * one dataset and ask in turn. Three cases are measured:
 *
 *   copied     undecoded samples (`pipeline=[]`); the arena holds a tenth of them, and copies are their owner's work
 *   again      undecoded samples; the arena holds them all, so that later epochs need no copy
 *   prepared   a pipeline with random draws; the arena holds a tenth */
#include "server/bench/engine.h"

#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/option.h"
#include "server/bench/play.h"

enum { SLOT_BYTES = 1024, CHUNK = 64, BATCH = 256, EPOCHS = 3, JOBS_MOST = 64, SAMPLES_MAX = 10000000 };

struct kind {
    const char *name;
    bool raw;
    uint32_t part; /* the arena holds one sample in so many */
};

static const struct kind kinds[] = {{"copied", true, 10}, {"again", true, 1}, {"prepared", false, 10}};

struct bench {
    struct play play;
    uint32_t samples;
    uint64_t events, refused;
};

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset, (void)id;
    return SLOT_BYTES;
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct bench *bench = ctx;
    bench->events += action->type == ENGINE_LOAD || action->type == ENGINE_PREPARE || action->type == ENGINE_DELIVER;
    bench->refused += action->type == ENGINE_JOB_REFUSED || action->type == ENGINE_JOB_ERROR;
    return false;
}

static uint32_t add(struct bench *bench, const struct kind *kind, uint32_t number)
{
    struct chunk_slot *places = xcalloc(bench->samples, sizeof *places);
    struct idset *view;
    char name[16];
    CHECK(idset_from_range(0, bench->samples, &view) == 0);
    for (uint32_t i = 0; i < bench->samples; i++)
        places[i] = (struct chunk_slot){i / CHUNK, i % CHUNK};
    snprintf(name, sizeof name, "job%u", number);
    struct engine_job_desc desc = {
        .client = number + 1,
        .name = name,
        .slot_bytes = SLOT_BYTES,
        .raw = kind->raw,
        .repeatable = kind->raw,
        .batch_size = BATCH,
        .prefetch = 2,
        .sampled = {.view = view},
        .chunks = {.places = places, .key = {1}, .count = (bench->samples - 1) / CHUNK + 1, .samples = CHUNK}};
    uint32_t job = play_add(&bench->play, &desc);
    idset_destroy(view);
    free(places);
    return job;
}

/* count_instructions opens a counter of this thread's instructions. -1: the kernel gives none. */
static int count_instructions(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static uint64_t read_counter(int fd)
{
    uint64_t count = 0;
    return fd >= 0 && read(fd, &count, sizeof count) == sizeof count ? count : 0;
}

static void run_epoch(struct bench *bench, uint32_t jobs, const uint32_t *numbers, uint32_t epoch)
{
    uint32_t batches = (bench->samples + BATCH - 1) / BATCH;
    for (uint32_t batch = 0; batch < batches; batch++) {
        for (uint32_t i = 0; i < jobs; i++) {
            bench->events++;
            play_next(&bench->play, numbers[i], 0, epoch, 1);
        }
    }
}

/* measure runs one case and prints its row. False: a job was refused or failed. */
static bool measure(const struct kind *kind, uint32_t samples, uint32_t jobs, bool last)
{
    struct bench bench = {.samples = samples};
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = ((uint64_t)samples / kind->part + (uint64_t)jobs * 4 * BATCH) *
                                                  SLOT_BYTES,
                                   .encoded_bytes = (uint64_t)samples * SLOT_BYTES * 2,
                                   .inflight_loads = 1024,
                                   .inflight_prepares = 64,
                                   .copy_bytes = SLOT_BYTES,
                                   .redirect_width = ENGINE_REDIRECT_HALF,
                                   .sample_bytes = sample_bytes};
    uint32_t numbers[JOBS_MOST];
    struct error err;
    if (play_create(config, &bench.play, &err)) {
        fprintf(stderr, "larder bench engine: %s\n", err.text);
        return false;
    }
    bench.play.see = see;
    bench.play.ctx = &bench;
    for (uint32_t i = 0; i < jobs; i++)
        numbers[i] = add(&bench, kind, i);
    if (!bench.refused)
        run_epoch(&bench, jobs, numbers, 0);
    struct engine_totals before, after;
    engine_totals(bench.play.engine, &before);
    uint64_t steps = bench.play.steps;
    bench.events = 0;
    int counter = count_instructions();
    uint64_t began_ns = clock_thread_ns(), instructions = read_counter(counter);
    for (uint32_t epoch = 1; epoch < EPOCHS && !bench.refused; epoch++)
        run_epoch(&bench, jobs, numbers, epoch);
    double took_ns = (double)(clock_thread_ns() - began_ns);
    instructions = read_counter(counter) - instructions;
    engine_totals(bench.play.engine, &after);
    double delivered = (double)(after.counts.samples_delivered - before.counts.samples_delivered);
    if (counter >= 0)
        close(counter);
    if (!bench.refused && delivered > 0) {
        printf("  {\"case\": \"%s\", \"jobs\": %u, \"ns\": %.0f, \"steps\": %.4f, \"events\": %.4f, \"made\": %.4f, ",
               kind->name, jobs, took_ns / delivered, (double)(bench.play.steps - steps) / delivered,
               (double)bench.events / delivered,
               (double)(after.counts.instances_prepared - before.counts.instances_prepared) / delivered);
        if (instructions)
            printf("\"instructions\": %.0f}", (double)instructions / delivered);
        else
            printf("\"instructions\": null}");
        printf("%s\n", last ? "" : ",");
    }
    play_end(&bench.play);
    return !bench.refused && delivered > 0;
}

int engine_bench_main(int argc, char **argv)
{
    static const struct option options[] = {
        {"samples", required_argument, NULL, 's'}, {"jobs", required_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    unsigned long samples = 50000, most = JOBS_MOST;
    bool good = true;
    optind = 1;
    for (int c; good && (c = option_next(argc, argv, options, NULL)) != -1;) {
        char *end = "-";
        unsigned long value = c == '?' || *optarg < '0' || *optarg > '9' ? 0 : strtoul(optarg, &end, 10);
        good = !*end && value >= 1 && value <= (c == 's' ? SAMPLES_MAX : JOBS_MOST);
        *(c == 's' ? &samples : &most) = value;
    }
    if (!good || optind != argc) {
        fprintf(stderr,
                "usage: %s [--samples N] [--jobs N]\n"
                "a dataset of N samples (1 to %d, default 50000); 1, 4, 16 and 64 jobs, but no more than N\n",
                argv[0], SAMPLES_MAX);
        return 2;
    }
    printf("[\n");
    for (size_t i = 0; good && i < sizeof kinds / sizeof kinds[0]; i++) {
        for (uint32_t jobs = 1; good && jobs <= most; jobs *= 4)
            good = measure(&kinds[i], (uint32_t)samples, jobs,
                           i + 1 == sizeof kinds / sizeof kinds[0] && jobs * 4 > most);
    }
    printf("]\n");
    return !good;
}
