/* test_governor_live.c: what the governor in the daemon does with jobs that come and go: their reads, times and
 * devices. The engine and the pool are this test's own. LARDER_SEED sets the random tests' seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/random.h"
#include "server/governor/live.h"

enum { BATCH = 8, READS_MAX = 4096 };

/* ── the engine and the pool ── */

static uint32_t world_sizes[JOBS_MAX];

size_t engine_queue_statuses(const struct engine *engine, uint32_t job, uint64_t now_ns,
                             struct engine_queue_status *out, size_t max)
{
    (void)engine, (void)now_ns;
    for (uint32_t rank = 0; rank < world_sizes[job] && rank < max; rank++)
        out[rank] = (struct engine_queue_status){.rank = rank};
    return world_sizes[job];
}

static struct worker_load given[READS_MAX]; /* with the pool */
static uint32_t n_given;

void workers_load(struct workers *workers, const struct worker_load *task)
{
    (void)workers;
    CHECK(n_given < READS_MAX);
    given[n_given++] = *task;
}

static uint32_t expected_class, expected_samples; /* of each read that comes */

void workers_expect(struct workers *workers, struct worker_load *task)
{
    (void)workers;
    task->class = expected_class;
    task->classed = expected_samples;
}

void workers_set_split(struct workers *workers, uint32_t loaders, uint32_t preparers_most)
{
    (void)workers, (void)loaders;
    assert_true(preparers_most > 0);
}

/* ── helpers ── */

static struct governor_live *make(uint32_t loaders)
{
    struct governor_live *live;
    n_given = 0;
    assert_int_equal(governor_live_create(4, loaders, &live, NULL), 0);
    return live;
}

static void begin(struct governor_live *live, uint32_t job, uint32_t ranks, uint64_t device)
{
    world_sizes[job] = ranks;
    governor_live_job_begin(
        live, &(struct reads_job){.job = job, .world_size = ranks, .batch_size = BATCH, .device = device, .weight = 1});
}

static void end(struct governor_live *live, uint32_t job)
{
    governor_live_on_action(live, &(struct engine_action){.type = ENGINE_JOB_ENDED, .job = job});
}

static void prepare(struct governor_live *live)
{
    governor_live_on_action(live, &(struct engine_action){.type = ENGINE_PREPARE});
}

static void load(struct governor_live *live, uint32_t job, uint32_t rank)
{
    governor_live_load(live, &(struct worker_load){.count = BATCH, .queue = governor_live_queue(live, job, rank)});
}

static void end_read(struct governor_live *live, uint32_t index, uint64_t took_ms)
{
    struct worker_load task = given[index];
    given[index] = given[--n_given];
    governor_live_on_read(
        live, &(struct worker_read){.queue = task.queue,
                                    .samples = BATCH,
                                    .class = task.class,
                                    .classed = task.classed,
                                    .took_ns = took_ms * CLOCK_NS_PER_MS,
                                    .came = {task.class, task.classed, task.classed ? took_ms * CLOCK_NS_PER_MS : 0}});
}

static struct status_queue status_of(struct governor_live *live, uint32_t job, uint32_t rank)
{
    struct status_queue queues[ENGINE_RANKS_MAX];
    struct status_job of = {.engine = {.job = job}, .governed = queues, .n_queues = world_sizes[job]};
    governor_live_status(live, &(struct daemon_status){.jobs = &of, .n_jobs = 1});
    return queues[rank];
}

static struct status_governor governor_status(struct governor_live *live)
{
    struct daemon_status status = {.n_jobs = 0};
    governor_live_status(live, &status);
    return status.governor;
}

static void decide(struct governor_live *live)
{
    static uint64_t later_ns;
    later_ns += UINT64_C(10) * CLOCK_NS_PER_S;
    assert_true(governor_live_tick(live, NULL, clock_now_ns() + later_ns));
}

/* ── tests ── */

/* What a job leaves behind, reads with a thread, reads that wait and preparations, is never taken for the job that
 * has its queue's place next: neither is it counted as that one's work, nor are its times. All of it is read
 * nevertheless. */
static void test_what_a_job_leaves(void **state)
{
    (void)state;
    struct governor_live *live = make(1);
    begin(live, 0, 1, 7);
    for (int i = 0; i < 8; i++)
        prepare(live); /* all workers are busy */
    uint32_t former = governor_live_queue(live, 0, 0), line = status_of(live, 0, 0).line;
    for (int i = 0; i < 3; i++)
        load(live, 0, 0);
    assert_int_equal(n_given, 1);
    end(live, 0);
    begin(live, 0, 1, 7);
    struct status_queue status = status_of(live, 0, 0);
    assert_int_equal(status.line, line);
    assert_int_not_equal(governor_live_queue(live, 0, 0), former);
    assert_true(status.pending_reads == 0 && status.pending_samples == 0 && status.reading == 0);
    load(live, 0, 0);
    for (int i = 0; i < 8; i++)
        governor_live_on_prepared(live,
                                  &(struct worker_cost){.queue = former, .busy = 1, .took_ns = 9 * CLOCK_NS_PER_S});
    uint32_t of_former = 0;
    while (n_given) {
        bool its = given[0].queue == former;
        of_former += its;
        end_read(live, 0, its ? 5000 : 16);
    }
    assert_int_equal(of_former, 3);
    decide(live);
    status = status_of(live, 0, 0);
    assert_true(status.load_s > 0.0019 && status.load_s < 0.0021); /* 16 ms for 8 samples */
    assert_true(status.prepare_s == 0 && status.pending_samples == 0);
    end(live, 0);
    governor_live_destroy(live);
}

/* A worker that has nothing to prepare reads, apart from one; as preparations come, no further reads are given out than
 * the loaders' own. */
static void test_idle_workers_read(void **state)
{
    (void)state;
    for (uint32_t preparing = 0; preparing <= 6; preparing++) {
        struct governor_live *live = make(2);
        begin(live, 0, 1, 7);
        decide(live);
        for (uint32_t i = 0; i < preparing; i++)
            prepare(live);
        for (int i = 0; i < 20; i++)
            load(live, 0, 0);
        struct status_governor status = governor_status(live);
        uint32_t idle = preparing == 0 ? 3 : preparing < 4 ? 4 - preparing : 0;
        uint32_t expected = 2 + idle > status.loaders ? 2 + idle : status.loaders;
        assert_int_equal(n_given, expected);
        for (uint32_t i = 0; i < preparing; i++)
            governor_live_on_prepared(live, &(struct worker_cost){.busy = 1});
        assert_int_equal(n_given, 5); /* those that wait come with the last preparation's end */
        end(live, 0);
        while (n_given)
            end_read(live, 0, 1);
        governor_live_destroy(live);
    }
}

/* Whatever jobs come, go and leave, each read is given to the pool once, no more at a time than there are loaders,
 * and when all have ended nothing is left over. */
static void test_no_read_is_lost(void **state)
{
    (void)state;
    const char *text = getenv("LARDER_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 7;
    print_message("LARDER_SEED=%llu\n", (unsigned long long)seed);
    struct rng rng;
    random_seed(&rng, seed);
    struct governor_live *live = make(6);
    bool there[8] = {false};
    uint32_t loads = 0, reads = 0;
    for (int step = 0; step < 20000; step++) {
        uint32_t job = (uint32_t)random_below(&rng, 8);
        switch (random_below(&rng, 8)) {
        case 0:
            if (there[job])
                end(live, job);
            else
                begin(live, job, 1 + (uint32_t)random_below(&rng, 200), random_below(&rng, 40));
            there[job] = !there[job];
            break;
        case 1:
            if (there[job])
                decide(live);
            break;
        case 2:
        case 3:
        case 4:
            if (there[job]) {
                load(live, job, (uint32_t)random_below(&rng, world_sizes[job]));
                loads++;
            }
            break;
        default:
            if (n_given) {
                end_read(live, (uint32_t)random_below(&rng, n_given), 1 + random_below(&rng, 50));
                reads++;
            }
        }
        struct status_governor status = governor_status(live);
        assert_true(n_given <= 10 && status.loaders <= 10); /* all threads */
    }
    for (uint32_t job = 0; job < 8; job++) {
        if (there[job])
            end(live, job);
    }
    for (; n_given; reads++)
        end_read(live, 0, 1);
    assert_int_equal(loads, reads);
    governor_live_destroy(live);
}

/* Reads at once that a job with reads waiting has, when its device serves no more than six at once. */
static uint32_t loaders_of(struct governor_live *live, uint32_t job, bool saturated)
{
    struct status_governor status = {.loaders = 0};
    for (int window = 0; window < 60; window++) {
        for (int i = 0; i < 40; i++) {
            while (n_given < 64 && status_of(live, job, 0).pending_reads < 64)
                load(live, job, 0);
            end_read(live, 0, saturated && n_given > 6 ? 10 * (n_given + 1) / 6 : 10);
        }
        decide(live);
        status = governor_status(live);
    }
    end(live, job);
    while (n_given)
        end_read(live, 0, 10);
    return status.loaders;
}

/* The hundredth device is learned as the first was, however many were seen before, and nothing known of one that has
 * gone is taken for it: a saturated one after unsaturated ones, and the other way round. */
static void test_many_devices(void **state)
{
    (void)state;
    struct governor_live *live = make(32);
    for (uint64_t device = 1; device <= 100; device++) {
        bool saturated = device % 3 == 0; /* so that places of one kind go to the other */
        begin(live, 0, 1, device);
        uint32_t loaders = loaders_of(live, 0, saturated);
        if (saturated ? loaders > 12 : loaders < 30)
            fail_msg("device %llu, which is %ssaturated: %u loaders", (unsigned long long)device, saturated ? "" : "un",
                     loaders);
    }
    governor_live_destroy(live);
}

/* Reads that a storage class will bring do not wait for the few that a saturated source may have, nor do these count
 * when the class's reads end. */
static void test_classes_beside_a_source(void **state)
{
    (void)state;
    struct governor_live *live = make(32);
    begin(live, 0, 1, 7);
    for (int window = 0; window < 100; window++) {
        for (int k = 0; k < 40; k++) {
            while (n_given < 64 && status_of(live, 0, 0).pending_reads < 64)
                load(live, 0, 0);
            end_read(live, 0, n_given > 6 ? 10 * (n_given + 1) / 6 : 10);
        }
        decide(live);
    }
    while (n_given)
        end_read(live, 0, 10);
    for (int i = 0; i < 64; i++)
        load(live, 0, 0);
    uint32_t sources = n_given;
    assert_true(sources <= 12);
    while (n_given)
        end_read(live, 0, 10);
    for (uint32_t i = 0; i < sources; i++) /* as many as it may have */
        load(live, 0, 0);
    expected_class = 2;
    expected_samples = BATCH;
    for (int i = 0; i < 8; i++)
        load(live, 0, 0);
    assert_int_equal(n_given, sources + 8);
    while (n_given)
        end_read(live, 0, 10);
    assert_int_equal(status_of(live, 0, 0).pending_samples, 0);
    expected_class = expected_samples = 0;
    end(live, 0);
    governor_live_destroy(live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_job_leaves),       cmocka_unit_test(test_idle_workers_read),
        cmocka_unit_test(test_no_read_is_lost),         cmocka_unit_test(test_many_devices),
        cmocka_unit_test(test_classes_beside_a_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
