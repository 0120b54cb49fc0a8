#include "server/bench/drive.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/check.h"

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
        .encoded_bytes = (uint64_t)what->samples * DRIVE_SLOT_BYTES * 2,
        .inflight_loads = 1024,
        .inflight_prepares = 64,
        .copy_bytes = DRIVE_SLOT_BYTES,
        .redirect_width = ENGINE_REDIRECT_HALF,
        .sample_bytes = sample_bytes};
    struct error err;
    *drive = (struct drive){.what = *what};
    if (play_create(config, &drive->play, &err)) {
        fprintf(stderr, "larder bench: %s\n", err.text);
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
    struct engine_job_desc desc = {
        .client = number + 1,
        .name = name,
        .slot_bytes = slot_bytes,
        .raw = drive->what.raw,
        .repeatable = drive->what.raw,
        .batch_size = DRIVE_BATCH,
        .prefetch = 2,
        .sampled = {.view = view},
        .chunks = {
            .places = places, .key = {dataset + 1}, .count = (samples - 1) / DRIVE_CHUNK + 1, .samples = DRIVE_CHUNK}};
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

int drive_count_instructions(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

uint64_t drive_read(int counter)
{
    uint64_t count = 0;
    return counter >= 0 && read(counter, &count, sizeof count) == sizeof count ? count : 0;
}
