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

struct worker_load workers_halve(struct worker_load *task)
{
    struct worker_load half = *task;
    half.count = task->count / 2;
    task->count -= half.count;
    return half;
}

void workers_set_preparers(struct workers *workers, uint32_t most)
{
    (void)workers;
    assert_true(most > 0);
}

/* ── helpers ── */

static struct governor_live *make(uint32_t reads)
{
    struct governor_live *live;
    n_given = 0;
    assert_int_equal(governor_live_create(4, reads, &live, NULL), 0);
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

static void load(struct governor_live *live, uint32_t job, uint32_t rank)
{
    governor_live_load(live, &(struct worker_load){.count = BATCH, .queue = governor_live_queue(live, job, rank)});
}

/* Ends a read after so many of its samples; the rest is left. */
static void end_piece(struct governor_live *live, uint32_t index, uint32_t samples, uint64_t took_ms)
{
    struct worker_load task = given[index], rest = task;
    given[index] = given[--n_given];
    rest.count -= samples;
    rest.class = rest.classed = 0;
    governor_live_on_read(
        live, &(struct worker_read){.queue = task.queue,
                                    .origin = task.origin,
                                    .samples = samples,
                                    .class = task.class,
                                    .classed = task.classed,
                                    .took_ns = took_ms * CLOCK_NS_PER_MS,
                                    .came = {task.class, task.classed, task.classed ? took_ms * CLOCK_NS_PER_MS : 0},
                                    .rest = rest});
}

static void end_read(struct governor_live *live, uint32_t index, uint64_t took_ms)
{
    end_piece(live, index, given[index].count, took_ms);
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
    uint64_t former = governor_live_queue(live, 0, 0);
    uint32_t line = status_of(live, 0, 0).line;
    for (int i = 0; i < 3; i++)
        load(live, 0, 0);
    assert_int_equal(n_given, 1);
    end(live, 0);
    begin(live, 0, 1, 7);
    struct status_queue status = status_of(live, 0, 0);
    assert_int_equal(status.line, line);
    assert_true(governor_live_queue(live, 0, 0) != former);
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

static uint32_t given_to(struct governor_live *live, uint32_t job)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n_given; i++)
        count += given[i].queue == governor_live_queue(live, job, 0);
    return count;
}

/* Each source has reads of its own: one that answers nothing takes none of them from another, nor from another's reads
 * that a job has left; and there is one for the last of many sources when others have all that there are together. */
static void test_a_silent_source(void **state)
{
    (void)state;
    struct governor_live *live = make(8);
    begin(live, 0, 1, 7);
    begin(live, 1, 1, 8);
    for (int i = 0; i < 20; i++)
        load(live, 0, 0);
    assert_int_equal(n_given, 8); /* that is all that its source may have, and these never end */
    for (int i = 0; i < 20; i++)
        load(live, 1, 0);
    assert_int_equal(given_to(live, 1), 8);
    end(live, 0);
    end(live, 1);
    for (uint32_t left = 20; left; left--) { /* the second job's alone */
        assert_int_equal(n_given, 8 + (left < 8 ? left : 8));
        end_read(live, 8, 10);
    }
    while (n_given)
        end_read(live, 0, 10);
    governor_live_destroy(live);

    live = make(GOVERNOR_READS_MAX / 2);
    for (uint32_t job = 0; job < 8; job++) {
        begin(live, job, 1, job);
        for (int i = 0; i < 600; i++)
            load(live, job, 0);
        assert_true(given_to(live, job) >= 1 && (job > 1 || given_to(live, job) >= READS_MOST / 4));
    }
    assert_true(n_given <= READS_MOST);
    for (uint32_t job = 0; job < 8; job++)
        end(live, job);
    while (n_given)
        end_read(live, 0, 10);
    governor_live_destroy(live);
}

/* Jobs that read from one source share the time of its reads by their weights, also when it has one read at once, one
 * job's reads take longer, and reads end in pieces; one that comes later begins where the others are. */
static void test_shares_of_a_source(void **state)
{
    (void)state;
    for (uint32_t most = 1; most <= 5; most += 2) {
        struct governor_live *live = make(most);
        uint64_t had_ms[3] = {0};
        for (uint32_t job = 0; job < 3; job++) {
            if (job < 2)
                begin(live, job, 1, 7);
        }
        governor_live_on_event(live, &(struct engine_event){.type = ENGINE_WEIGHT, .weight = {1, 3}});
        for (int step = 0; step < 12000; step++) {
            if (step == 6000)
                begin(live, 2, 1, 7);
            for (uint32_t job = 0; job < (step < 6000 ? 2u : 3u); job++) {
                while (status_of(live, job, 0).pending_reads < 2 * most)
                    load(live, job, 0);
            }
            uint32_t job = 0;
            while (given[0].queue != governor_live_queue(live, job, 0))
                job++;
            uint64_t took_ms = job == 0 ? 20 : 5;
            had_ms[job] += step < 6000 && job < 2 ? took_ms : job == 2 && step >= 6000 && step < 6060 ? took_ms : 0;
            end_piece(live, 0, given[0].count > 1 ? given[0].count / 2 : 1, took_ms);
        }
        double part = (double)had_ms[1] / (double)had_ms[0];
        assert_true(part > 2.8 && part < 3.2);
        assert_true(had_ms[2] > 0 && had_ms[2] < 60 * 5);
        for (uint32_t i = 0; i < 3; i++)
            end(live, i);
        while (n_given)
            end_read(live, 0, 10);
        governor_live_destroy(live);
    }
}

/* Whatever jobs come, go and leave, each read is given to the readers until nothing of it is left, no more of one
 * source at a time than it may have, and when all have ended nothing is left over. */
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
                uint32_t index = (uint32_t)random_below(&rng, n_given), count = given[index].count;
                uint32_t samples = random_below(&rng, 2) ? count : 1 + (uint32_t)random_below(&rng, count);
                reads += samples == count;
                end_piece(live, index, samples, 1 + random_below(&rng, 50));
            }
        }
        uint32_t at[READS_ORIGINS] = {0};
        for (uint32_t i = 0; i < n_given; i++)
            assert_true(++at[given[i].origin] <= 6);
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

/* The rest of a read of files goes to two readers as long as there are some that have nothing to do. A rest of a store
 * stays whole, for its samples come with one request. */
static void test_rests_of_files(void **state)
{
    (void)state;
    for (int apart = 0; apart <= 1; apart++) {
        struct governor_live *live = make(4);
        begin(live, 0, 1, 7);
        uint64_t queue = governor_live_queue(live, 0, 0);
        governor_live_load(live, &(struct worker_load){.count = 64, .apart = apart, .queue = queue});
        uint32_t most = 0;
        for (uint32_t pieces = 0; n_given; pieces++) {
            most = n_given > most ? n_given : most;
            assert_true(pieces < 64);
            end_piece(live, 0, 1, 100);
        }
        assert_int_equal(most, apart ? 4 : 1);
        assert_int_equal(status_of(live, 0, 0).pending_samples, 0);
        end(live, 0);
        governor_live_destroy(live);
    }
}

/* Of the reads that wait, what is needed soonest is next: the rest of a read does not go before what is needed
 * sooner. */
static void test_rests_in_order_of_need(void **state)
{
    (void)state;
    struct governor_live *live = make(1);
    begin(live, 0, 1, 7);
    uint64_t queue = governor_live_queue(live, 0, 0);
    for (uint64_t need = 0; need < 4; need++)
        governor_live_load(live, &(struct worker_load){.count = 2, .needed = need * 10, .apart = true, .queue = queue});
    const uint64_t later[] = {15, 25, 40, 30}; /* when the rests of the reads are needed */
    const uint64_t order[] = {0, 10, 15, 20, 25, 30, 30, 40};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        assert_int_equal(n_given, 1);
        assert_int_equal(given[0].needed, order[i]);
        bool begun = given[0].count == 2;
        given[0].needed = begun ? later[order[i] / 10] : given[0].needed;
        end_piece(live, 0, 1, 100);
    }
    assert_int_equal(n_given, 0);
    end(live, 0);
    governor_live_destroy(live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_job_leaves),  cmocka_unit_test(test_a_silent_source),
        cmocka_unit_test(test_shares_of_a_source), cmocka_unit_test(test_no_read_is_lost),
        cmocka_unit_test(test_many_devices),       cmocka_unit_test(test_classes_beside_a_source),
        cmocka_unit_test(test_rests_of_files),     cmocka_unit_test(test_rests_in_order_of_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
