/* engine.c: `larder_bench engine`: the engine's time, steps, events and instructions for each sample that it delivers.
 *
 * All bytes are in memory from the first epoch on, and each load, preparation and batch is answered at once, so that
 * nothing but the engine and its player takes time. The player's part is small: it keeps a list of events. Jobs are on
 * one dataset and ask in turn (drive.h). Three cases are measured:
 *
 *   copied     undecoded samples (`pipeline=[]`); the arena holds a tenth of them, and copies are their owner's work
 *   again      undecoded samples; the arena holds them all, so that later epochs need no copy
 *   prepared   a pipeline with random draws; the arena holds a tenth */
#include "tests/bench/virtual/engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/option.h"
#include "tests/bench/virtual/drive.h"

enum { EPOCHS = 3, MOST_JOBS = 64 };

struct kind {
    const char *name;
    bool raw;
    uint32_t part; /* the arena holds one sample in so many */
};

static const struct kind kinds[] = {{"copied", true, 10}, {"again", true, 1}, {"prepared", false, 10}};

/* measure runs one case and prints its row. False: a job was refused or failed. */
static bool measure(const struct kind *kind, uint32_t samples, uint32_t jobs, bool last)
{
    uint32_t numbers[MOST_JOBS];
    struct drive drive;
    if (drive_create(&drive, &(struct drive_case){samples, kind->part, jobs, kind->raw, false}))
        return false;
    for (uint32_t i = 0; i < jobs; i++)
        numbers[i] = drive_add(&drive, 0, i, DRIVE_SLOT_BYTES);
    drive_epoch(&drive, numbers, jobs, 0);
    uint64_t steps = drive.play.steps;
    struct drive_work work;
    drive.events = 0;
    drive_work(&drive, numbers, jobs, 1, EPOCHS, &work);
    if (!drive.refused && work.delivered > 0) {
        printf("  {\"case\": \"%s\", \"jobs\": %u, \"ns\": %.0f, \"steps\": %.4f, \"events\": %.4f, \"made\": %.4f, ",
               kind->name, jobs, work.ns / work.delivered, (double)(drive.play.steps - steps) / work.delivered,
               (double)drive.events / work.delivered, work.made / work.delivered);
        drive_print_instructions(&work);
        printf("}%s\n", last ? "" : ",");
    }
    drive_end(&drive);
    return !drive.refused && work.delivered > 0;
}

int engine_bench_main(int argc, char **argv)
{
    static const struct option options[] = {
        {"samples", required_argument, NULL, 's'}, {"jobs", required_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    unsigned long samples = 50000, most = MOST_JOBS;
    bool good = true;
    optind = 1;
    for (int c; good && (c = option_next(argc, argv, options, NULL)) != -1;) {
        char *end = "-";
        unsigned long value = c == '?' || *optarg < '0' || *optarg > '9' ? 0 : strtoul(optarg, &end, 10);
        good = !*end && value >= 1 && value <= (c == 's' ? DRIVE_SAMPLES_MAX : MOST_JOBS);
        *(c == 's' ? &samples : &most) = value;
    }
    if (!good || optind != argc) {
        fprintf(stderr,
                "usage: %s [--samples N] [--jobs N]\n"
                "a dataset of N samples (1 to %d, default 50000); 1, 4, 16 and 64 jobs, but no more than N\n",
                argv[0], DRIVE_SAMPLES_MAX);
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
