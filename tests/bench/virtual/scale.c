/* scale.c: `larder_bench scale`: what jobs of one dataset wait for because of its size, or because of each other.
 *
 * While a step of the engine runs, nobody is delivered to. So its longest step must not grow with what is in memory.
 * The bench drives the engine on datasets of several sizes (drive.h) and times steps by the thread's own clock. A
 * longest step is that of an epoch, from its first batch to its last. Of three epochs it gives the middle one, because
 * interrupts count in a thread's time too. All that is measured in samples or virtual time is the same in each run. */
#include "tests/bench/virtual/scale.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/option.h"
#include "tests/bench/virtual/drive.h"
#include "tests/bench/virtual/sharing.h"
#include "tests/bench/virtual/walls.h"

#define WAIT_NS (1000 * CLOCK_NS_PER_S) /* of virtual time, for a first batch */

enum { TURNS = 3, ENTERING = 8, SHARERS = 4, SHARED_EPOCHS = 3, SIZES_MAX = 8 };

/* ── longest steps ── */

/* begin forgets the longest step, and longest_ms returns the longest one since then. */
static void begin(struct drive *drive)
{
    drive->play.timed = true;
    drive->play.longest_ns = 0;
}

static double longest_ms(const struct drive *drive)
{
    return (double)drive->play.longest_ns / CLOCK_NS_PER_MS;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* turns gives the longest step of an epoch, the turn to it included, of a job whose samples are all in memory. */
static bool turns(const char *name, const struct drive_case *what)
{
    double ms[TURNS];
    struct drive drive;
    if (drive_create(&drive, what))
        return false;
    uint32_t job = drive_add(&drive, 0, 0, DRIVE_SLOT_BYTES);
    drive_epoch(&drive, &job, 1, 0);
    for (uint32_t i = 0; i < TURNS; i++) {
        begin(&drive);
        drive_epoch(&drive, &job, 1, i + 1);
        ms[i] = longest_ms(&drive);
    }
    qsort(ms, TURNS, sizeof *ms, compare);
    printf(", \"%s\": %.2f", name, ms[TURNS / 2]);
    drive_end(&drive);
    return !drive.refused;
}

/* ── jobs that come ── */

/* comes tells the longest steps when jobs come: the first, another one on its dataset, and one on another dataset. Two
 * for each: until the job is there, and from when it asks for its first batch until it has it. */
static bool comes(const struct drive_case *what)
{
    static const char *const names[] = {"first_job", "second_job", "other_dataset"};
    static const uint32_t datasets[] = {0, 0, 1};
    struct drive drive;
    if (drive_create(&drive, what))
        return false;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        begin(&drive);
        uint32_t job = drive_add(&drive, datasets[i], i, DRIVE_SLOT_BYTES);
        printf(", \"%s_ms\": %.2f", names[i], longest_ms(&drive));
        begin(&drive);
        play_next(&drive.play, job, 0, 0, 1);
        printf(", \"%s_batch_ms\": %.2f", names[i], longest_ms(&drive));
        play_next(&drive.play, job, 0, 0, what->samples / DRIVE_BATCH);
    }
    drive_end(&drive);
    return !drive.refused;
}

/* enter tells how long after the first one's the last of several jobs that come together gets its first batch, in
 * virtual time. All samples are prepared already, and fill the arena. */
static bool enter(const char *name, const struct drive_case *what, uint64_t slot_bytes)
{
    struct drive drive;
    if (drive_create(&drive, what))
        return false;
    uint32_t job = drive_add(&drive, 0, 0, DRIVE_SLOT_BYTES);
    drive_epoch(&drive, &job, 1, 0);
    begin(&drive);
    drive.served = 0;
    for (uint32_t i = 1; i <= ENTERING; i++)
        play_next(&drive.play, drive_add(&drive, 0, i, slot_bytes), 0, 0, 1);
    while (drive.served < ENTERING && !drive.refused && drive.play.now_ns < WAIT_NS) {
        drive.play.now_ns += CLOCK_NS_PER_MS;
        play_event(&drive.play, (struct engine_event){.type = ENGINE_TICK});
    }
    printf(", \"%s_ms\": %.0f, \"%s_step_ms\": %.2f", name, (double)(drive.last_ns - drive.first_ns) / CLOCK_NS_PER_MS,
           name, longest_ms(&drive));
    drive_end(&drive);
    return !drive.refused && drive.served == ENTERING;
}

/* ── what it takes to deliver a sample ── */

/* costs gives the engine's work for a sample that it delivers to one of several jobs. */
static bool costs(const struct drive_case *what)
{
    uint32_t jobs[SHARERS];
    struct drive_work work;
    struct drive drive;
    if (drive_create(&drive, what))
        return false;
    for (uint32_t i = 0; i < SHARERS; i++)
        jobs[i] = drive_add(&drive, 0, i, DRIVE_SLOT_BYTES);
    drive_epoch(&drive, jobs, SHARERS, 0);
    drive_work(&drive, jobs, SHARERS, 1, 2, &work);
    printf(", \"ns\": %.0f, ", work.ns / work.delivered);
    drive_print_instructions(&work);
    drive_end(&drive);
    return !drive.refused;
}

/* prepared gives the preparations of a delivered sample of jobs that follow each other on the same part of a dataset,
 * and have memory for 5 % of it prepared, and for so much encoded. Below 0: it is not known. */
static double prepared(uint32_t samples, double part, double encoded)
{
    static struct sharing_scenario scenario;
    json_t *report;
    scenario = (struct sharing_scenario){.samples = samples,
                                         .chunk = DRIVE_CHUNK,
                                         .nodes = 1,
                                         .prepared = 0.05 * part,
                                         .encoded = encoded,
                                         .seed = 1,
                                         .redirect = true,
                                         .width = ENGINE_REDIRECT_HALF,
                                         .batch = 1,
                                         .prefetch = 1,
                                         .n_jobs = SHARERS};
    for (uint32_t i = 0; i < SHARERS; i++)
        scenario.jobs[i] = (struct sharing_job){.training = i,
                                                .start = 0.3 * i * part,
                                                .rate = 1,
                                                .epochs = SHARED_EPOCHS,
                                                .view = SHARING_FRACTION,
                                                .fraction = part,
                                                .view_seed = 1};
    if (sharing_run(&scenario, NULL, NULL, &report))
        return -1;
    double made = json_number_value(json_object_get(report, "prepared_per_delivered"));
    json_decref(report);
    return made;
}

/* ── the command ── */

static bool measure(uint32_t samples)
{
    struct drive_case prepared = {samples, 1, ENTERING + 1, false, false}, again = {samples, 1, 1, true, false},
                      encoded = {samples, samples, 1, false, false}, tenth = {samples, 10, SHARERS, false, false};
    printf("  {\"samples\": %u", samples);
    bool good = turns("turn_prepared_ms", &prepared) && turns("turn_again_ms", &again) &&
                turns("turn_encoded_ms", &encoded) && comes(&tenth) && enter("enter", &prepared, DRIVE_SLOT_BYTES) &&
                enter("enter_longer", &prepared, DRIVE_SLOT_BYTES * 2) && costs(&tenth);
    printf("},\n");
    fflush(stdout);
    return good;
}

/* share prints how much is prepared for jobs on parts of a dataset, with all bytes in memory and with a tenth. */
static bool share(uint32_t samples)
{
    static const double parts[] = {1, 0.5, 0.2, 0.1, 0.05};
    bool good = true;
    for (size_t i = 0; good && i < sizeof parts / sizeof *parts; i++) {
        double all = prepared(samples, parts[i], 1), little = prepared(samples, parts[i], 0.1 * parts[i]);
        printf("  {\"samples\": %u, \"part\": %.2f, \"prepared_all_bytes\": %.3f, \"prepared_few_bytes\": %.3f}%s\n",
               samples, parts[i], all, little, i + 1 < sizeof parts / sizeof *parts ? "," : "");
        good = all >= 0 && little >= 0;
    }
    return good;
}

/* read_sizes reads numbers with commas between them. False: some are none, are out of bounds or are too many. */
static bool read_sizes(const char *text, uint32_t *sizes, size_t *count)
{
    for (*count = 0; *count < SIZES_MAX; text++) {
        char *end;
        unsigned long size = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
        if (size < DRIVE_BATCH || size > DRIVE_SAMPLES_MAX)
            return false;
        sizes[(*count)++] = (uint32_t)size;
        text = end;
        if (*text != ',')
            return !*text;
    }
    return false;
}

int scale_bench_main(int argc, char **argv)
{
    static const struct option options[] = {
        {"samples", required_argument, NULL, 's'}, {"walls", no_argument, NULL, 'w'}, {NULL, 0, NULL, 0}};
    uint32_t sizes[SIZES_MAX] = {10000, 100000, 1000000};
    size_t n_sizes = 3;
    bool good = true, walls = false;
    optind = 1;
    for (int c; good && (c = option_next(argc, argv, options, NULL)) != -1;) {
        walls = walls || c == 'w';
        good = c == 'w' || (c == 's' && read_sizes(optarg, sizes, &n_sizes));
    }
    if (!good || optind != argc) {
        fprintf(stderr,
                "usage: %s [--samples N,N…] [--walls]\n"
                "datasets of so many samples (%d to %d), up to %d of them; default 10000,100000,1000000\n"
                "--walls: the work for a delivered sample by samples, jobs and nodes, instead of longest steps\n",
                argv[0], DRIVE_BATCH, DRIVE_SAMPLES_MAX, SIZES_MAX);
        return 2;
    }
    if (walls)
        return !walls_bench(sizes, n_sizes);
    printf("[\n");
    for (size_t i = 0; good && i < n_sizes; i++)
        good = measure(sizes[i]);
    good = good && share(sizes[0]);
    printf("]\n");
    return !good;
}
