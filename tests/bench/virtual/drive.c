#include "tests/bench/virtual/drive.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset, (void)id;
    return DRIVE_SLOT_BYTES;
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct drive *drive = ctx;
    drive->events += action->type == ENGINE_LOAD || action->type == ENGINE_PREPARE || action->type == ENGINE_DELIVER;
    drive->refused += action->type == ENGINE_JOB_REFUSED || action->type == ENGINE_JOB_ERROR;
    if (action->type == ENGINE_DELIVER && !drive->got[action->job]) {
        drive->got[action->job] = true;
        drive->last_ns = drive->play.now_ns;
        drive->first_ns = drive->served++ ? drive->first_ns : drive->last_ns;
    }
    return false;
}

int drive_create(struct drive *drive, const struct drive_case *what)
{
    struct engine_config config = {
        .seed = 1,
        .arena_bytes = ((uint64_t)what->samples / what->part + (uint64_t)what->n_jobs * 4 * DRIVE_BATCH) *
                       DRIVE_SLOT_BYTES,
        .encoded_bytes = (uint64_t)what->samples * DRIVE_SLOT_BYTES * (what->reads ? 1 : 20) / 10,
        .inflight_loads = 1024,
        .inflight_prepares = 64,
        .copy_bytes = DRIVE_SLOT_BYTES,
        .redirect_width = ENGINE_REDIRECT_HALF,
        .sample_bytes = sample_bytes};
    struct error err;
    *drive = (struct drive){.what = *what};
    if (play_create(config, &drive->play, &err)) {
        fprintf(stderr, "larder_bench: %s\n", err.text);
        return 1;
    }
    drive->play.see = see;
    drive->play.ctx = drive;
    return 0;
}

void drive_end(struct drive *drive)
{
    play_end(&drive->play);
}

/* place gives the samples their places, some in each step, as the daemon does. */
static void place(struct drive *drive, uint32_t dataset, const struct chunk_slot *places)
{
    uint32_t samples = drive->what.samples;
    sample_id ids[ENGINE_PLACED_AT_ONCE];
    for (uint32_t i = 0, n; i < samples; i += n) {
        n = samples - i < ENGINE_PLACED_AT_ONCE ? samples - i : ENGINE_PLACED_AT_ONCE;
        for (uint32_t k = 0; k < n; k++)
            ids[k] = dataset * samples + i + k;
        struct engine_placing placing = {.ids = ids,
                                         .count = n,
                                         .chunks = {.places = places + i,
                                                    .key = {dataset + 1},
                                                    .count = (samples - 1) / DRIVE_CHUNK + 1,
                                                    .samples = DRIVE_CHUNK}};
        play_event(&drive->play, (struct engine_event){.type = ENGINE_PLACE, .place = &placing});
    }
}

uint32_t drive_add(struct drive *drive, uint32_t dataset, uint32_t number, uint64_t slot_bytes)
{
    uint32_t samples = drive->what.samples;
    struct chunk_slot *places = xcalloc(samples, sizeof *places);
    struct idset *view;
    char name[16];
    CHECK(idset_from_range(dataset * samples, (dataset + 1) * samples, &view) == 0);
    for (uint32_t i = 0; i < samples; i++)
        places[i] = (struct chunk_slot){i / DRIVE_CHUNK, i % DRIVE_CHUNK};
    snprintf(name, sizeof name, "job%u", number);
    place(drive, dataset, places);
    struct engine_job_desc desc = {.client = number + 1,
                                   .name = name,
                                   .slot_bytes = slot_bytes,
                                   .raw = drive->what.raw,
                                   .repeatable = drive->what.raw,
                                   .batch_size = DRIVE_BATCH,
                                   .prefetch = 2,
                                   .sampled = {.view = view},
                                   .chunks = {.places = places,
                                              .key = {dataset + 1},
                                              .count = (samples - 1) / DRIVE_CHUNK + 1,
                                              .samples = DRIVE_CHUNK,
                                              .touched = (samples - 1) / DRIVE_CHUNK + 1}};
    uint32_t job = play_add(&drive->play, &desc);
    idset_destroy(view);
    free(places);
    return job;
}

void drive_epoch(struct drive *drive, const uint32_t *jobs, uint32_t n_jobs, uint32_t epoch)
{
    uint32_t batches = (drive->what.samples + DRIVE_BATCH - 1) / DRIVE_BATCH;
    for (uint32_t batch = 0; batch < batches && !drive->refused; batch++) {
        for (uint32_t i = 0; i < n_jobs; i++) {
            drive->events++;
            play_next(&drive->play, jobs[i], 0, epoch, 1);
        }
    }
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

/* read_counter returns what it has counted, which is 0 if there is none. */
static uint64_t read_counter(int counter)
{
    uint64_t count = 0;
    return counter >= 0 && read(counter, &count, sizeof count) == sizeof count ? count : 0;
}

void drive_work(struct drive *drive, const uint32_t *jobs, uint32_t n_jobs, uint32_t epoch, uint32_t end,
                struct drive_work *out)
{
    struct engine_totals before, after;
    engine_totals(drive->play.engine, &before);
    int counter = count_instructions();
    uint64_t began_ns = clock_thread_ns(), instructions = read_counter(counter);
    for (; epoch < end; epoch++)
        drive_epoch(drive, jobs, n_jobs, epoch);
    *out = (struct drive_work){.ns = (double)(clock_thread_ns() - began_ns),
                               .instructions = (double)(read_counter(counter) - instructions)};
    engine_totals(drive->play.engine, &after);
    out->delivered = (double)(after.counts.samples_delivered - before.counts.samples_delivered);
    out->made = (double)(after.counts.instances_prepared - before.counts.instances_prepared);
    if (counter >= 0)
        close(counter);
}

void drive_print_instructions(const struct drive_work *work)
{
    if (work->instructions > 0)
        printf("\"instructions\": %.0f", work->instructions / work->delivered);
    else
        printf("\"instructions\": null");
}
