/* test_reads.c: what reads bring to jobs that are out of step, on a machine of its own and at a home of a cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/engine/engine_priv.h"
#include "server/plan/play.h"

enum { CHUNKS = 100, CHUNK = 64, SAMPLES = CHUNKS * CHUNK, BATCH = 16, EPOCH = SAMPLES / BATCH, STEP_NS = 1000 };

/* How many samples of a chunk one read may bring a job: parts of .6, .8 and 1. */
enum { OF_IN_STEP = 38, OF_APART = 51, OF_ONE_SPEED = CHUNK };

static struct play play;
static struct engine *engine;
static struct idset *view;
static struct chunk_slot places[SAMPLES];
static uint32_t taken[4]; /* by job: the batches that it has asked for */

static void begin(bool home)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 1 << 20,
                                   .encoded_bytes = (uint64_t)SAMPLES / 10 * PLAY_SAMPLE_BYTES,
                                   .inflight_loads = 64,
                                   .inflight_prepares = 64,
                                   .redirect_width = CHUNK / 2,
                                   .home = home};
    assert_int_equal(play_create(config, &play, NULL), 0);
    assert_int_equal(idset_from_range(0, SAMPLES, &view), 0);
    engine = play.engine;
    memset(taken, 0, sizeof taken);
    for (uint32_t i = 0; i < SAMPLES; i++)
        places[i] = (struct chunk_slot){i / CHUNK, i % CHUNK};
}

static void end(void)
{
    engine_check(engine);
    play_end(&play);
    idset_destroy(view);
}

/* Another job on all samples; jobs are numbered from 0. */
static uint32_t add(void)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static uint32_t named;
    struct engine_job_desc desc = {.name = names[named++ % 4],
                                   .slot_bytes = 64,
                                   .batch_size = BATCH,
                                   .prefetch = 1,
                                   .sampled = {.view = view},
                                   .chunks = {.places = places, .count = CHUNKS, .samples = CHUNK}};
    uint32_t job = play_add(&play, &desc);
    assert_in_range(job, 0, 3);
    return job;
}

/* The job takes batches, while the others wait. */
static void take(uint32_t job, uint32_t batches)
{
    for (; batches > 0; batches--, taken[job]++)
        play_next(&play, job, 0, taken[job] / EPOCH, 1);
}

/* In each step of time job 0 takes so many batches, and job 1 so many. */
static void go_on(uint32_t steps, uint32_t of_0, uint32_t of_1)
{
    for (; steps > 0; steps--) {
        play.now_ns += STEP_NS;
        take(0, of_0);
        if (of_1)
            take(1, of_1);
    }
}

static uint32_t measure(const struct chunk *chunk)
{
    encoded_measure_shortage(&engine->encoded, &engine->chunks.groups[chunk->group]);
    return engine->encoded.shortage.most[0];
}

/* What the jobs' reads of any chunk may bring each of them now. */
static void expect_parts(uint32_t samples)
{
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        assert_int_equal(measure(&engine->chunks.chunks[chunk]), samples);
}

/* What reads of the chunks would bring, looked at together. */
struct looks {
    uint32_t steps;    /* from one sample of a read to the next which fewer jobs need */
    uint32_t upwards;  /* and which more jobs need */
    uint32_t repeated; /* chunks of which two reads would have one order */
};

/* Each slot must come once in a read's order. */
static struct looks look(void)
{
    struct looks looks = {0};
    for (uint32_t at = 0; at < CHUNKS; at++) {
        const struct chunk *chunk = &engine->chunks.chunks[at];
        uint32_t first[CHUNK], times[CHUNK] = {0}, before = UINT32_MAX;
        measure(chunk);
        memcpy(first, encoded_slots(&engine->encoded, chunk), sizeof first);
        looks.repeated += memcmp(first, encoded_slots(&engine->encoded, chunk), sizeof first) == 0;
        for (uint32_t i = 0; i < CHUNK; i++) {
            assert_in_range(first[i], 0, CHUNK - 1);
            assert_int_equal(++times[first[i]], 1);
            uint32_t wants = encoded_count_wants(&engine->encoded, chunk->members[first[i]]);
            looks.steps += wants < before && before != UINT32_MAX;
            looks.upwards += wants > before && before != UINT32_MAX;
            before = wants;
        }
    }
    return looks;
}

/* A read for jobs out of step and of one speed brings first what both need, then what one needs, then the rest. Among
 * these the order is random. */
static void test_one_speed(void **state)
{
    (void)state;
    uint32_t steps = 0;
    begin(false);
    add();
    go_on(EPOCH / 2, 1, 0);
    add();
    for (uint32_t times = 0; times < 8; times++) {
        go_on(EPOCH / 16, 1, 1);
        struct looks looks = look();
        assert_int_equal(looks.upwards, 0);
        assert_int_equal(looks.repeated, 0);
        steps += looks.steps;
    }
    assert_true(steps > 2 * CHUNKS);
    end();
}

/* For jobs of other speeds, and for jobs in step, the whole order is random. */
static void test_other_jobs(void **state)
{
    (void)state;
    for (uint32_t of_0 = 1; of_0 <= 2; of_0++) {
        begin(false);
        add();
        add();
        go_on(EPOCH / 4, of_0, 1);
        struct looks looks = look();
        assert_true(looks.upwards > CHUNKS);
        assert_int_equal(looks.repeated, 0);
        end();
    }
}

/* How much jobs that are so many batches apart, and then take so many each in a step, may get by one read. */
static void expect_apart(bool home, uint32_t batches, uint32_t of_0, uint32_t samples)
{
    begin(home);
    add();
    go_on(batches, 1, 0);
    add();
    go_on(EPOCH / 8, of_0, 1);
    expect_parts(samples);
    end();
}

/* Two jobs .03 of an epoch apart are in step, and two that are .1 apart are not. It is the same at a home. */
static void test_parts(void **state)
{
    (void)state;
    for (int home = 0; home <= 1; home++) {
        expect_apart(home, EPOCH / 200, 1, OF_IN_STEP);
        expect_apart(home, EPOCH * 3 / 100, 1, OF_IN_STEP);
        expect_apart(home, EPOCH / 10, 1, OF_ONE_SPEED);
        expect_apart(home, 0, 2, OF_APART);
    }
}

/* Two jobs of one speed, half an epoch apart, some way into the second one's first epoch: memory is full. */
static void half_an_epoch_apart(void)
{
    add();
    go_on(EPOCH / 2, 1, 0);
    add();
    go_on(EPOCH / 3, 1, 1);
}

/* Eviction fills whole stocks at a home only, for the job that a read is for and for one to which little is left. */
static void test_whole_stocks(void **state)
{
    (void)state;
    for (int home = 0; home <= 1; home++) {
        uint32_t whole[2] = {0};
        begin(home);
        half_an_epoch_apart();
        for (uint32_t at = 0; at < CHUNKS; at++) {
            const struct chunk *chunk = &engine->chunks.chunks[at];
            measure(chunk);
            encoded_measure_whole(&engine->encoded, chunk, 0);
            for (uint32_t job = 0; job < 2; job++)
                whole[job] += engine->encoded.shortage.whole[job];
        }
        assert_true(home ? whole[0] > CHUNKS / 4 : whole[0] == 0);
        assert_true(home ? whole[1] > CHUNKS / 20 && whole[1] < whole[0] : whole[1] == 0);
        end();
    }
}

/* How many reads a home, or a machine of its own, needs for three epochs of four jobs a quarter of an epoch apart. */
static uint64_t reads(bool home)
{
    begin(home);
    for (uint32_t job = 0; job < 4; job++) {
        add();
        for (uint32_t step = 0; step < EPOCH / 4; step++) {
            play.now_ns += STEP_NS;
            for (uint32_t i = 0; i <= job; i++)
                take(i, 1);
        }
    }
    for (uint32_t step = 0; step < 2 * EPOCH; step++) {
        play.now_ns += STEP_NS;
        for (uint32_t job = 0; job < 4; job++)
            take(job, 1);
    }
    struct engine_totals totals;
    engine_totals(engine, &totals);
    end();
    return totals.counts.reads;
}

/* So a home reads chunks less often for jobs out of step. */
static void test_reads(void **state)
{
    (void)state;
    uint64_t at_home = reads(true), alone = reads(false);
    print_message("four jobs a quarter apart: %lu reads at a home, %lu on a machine of its own\n",
                  (unsigned long)at_home, (unsigned long)alone);
    assert_true(at_home < alone * .95);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_speed),    cmocka_unit_test(test_other_jobs), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_whole_stocks), cmocka_unit_test(test_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
