/* test_keep.c: which chunks encoded memory keeps over all epochs, for jobs that come and go. */
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

enum { CHUNKS = 128, CHUNK = 16, SAMPLES = CHUNKS * CHUNK, BATCH = 16, ENCODED = 10000 };

static struct play play;
static sample_id order[SAMPLES];
static struct engine_homes homes; /* of the jobs that are added */
static bool home;                 /* of the engines that begin */

static uint64_t encoded_bytes(const void *dataset, sample_id id)
{
    (void)dataset, (void)id;
    return ENCODED;
}

static void begin(uint32_t samples_held)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 1 << 20,
                                   .encoded_bytes = (uint64_t)samples_held * ENCODED,
                                   .sample_bytes = encoded_bytes,
                                   .inflight_loads = 64,
                                   .inflight_prepares = 64,
                                   .redirect_width = 8,
                                   .home = home};
    assert_int_equal(play_create(config, &play, NULL), 0);
    play.check_every = 7;
}

/* A job on samples first … end - 1. Chunk c has samples 16 c … 16 c + 15. */
static uint32_t add(const char *name, uint32_t first, uint32_t end, enum shuffle_mode shuffle, uint32_t pipeline)
{
    struct idset *view;
    struct chunk_slot *places = xcalloc(end - first, sizeof *places);
    assert_int_equal(idset_from_range(first, end, &view), 0);
    for (uint32_t i = 0; i < end - first; i++) {
        places[i] = (struct chunk_slot){(first + i) / CHUNK, (first + i) % CHUNK};
        order[i] = first + i;
    }
    struct engine_job_desc desc = {.client = (uint64_t)name[0],
                                   .name = name,
                                   .slot_bytes = 64,
                                   .batch_size = BATCH,
                                   .prefetch = 1,
                                   .pipeline = pipeline,
                                   .homes = homes,
                                   .sampled = {.view = view, .shuffle = shuffle, .order = order},
                                   .chunks = {.places = places, .count = CHUNKS, .samples = CHUNK}};
    uint32_t job = play_add(&play, &desc);
    assert_int_not_equal(job, UINT32_MAX);
    idset_destroy(view);
    free(places);
    return job;
}

static void run_epoch(uint32_t job, uint32_t epoch, uint32_t samples)
{
    for (uint32_t batch = 0; batch < samples / BATCH; batch++)
        play_next(&play, job, 0, epoch, 1);
}

static uint64_t loaded(void)
{
    struct engine_totals totals;
    engine_totals(play.engine, &totals);
    return totals.counts.samples_loaded;
}

/* The chunks that are kept. Groups are of one kind, and no sample is kept that is in none of these chunks. */
static uint32_t kept(bool chunks[CHUNKS])
{
    const struct engine *engine = play.engine;
    uint32_t count = 0;
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
        chunks[chunk] = engine->chunks.chunks[chunk].kept;
        count += chunks[chunk];
        assert_int_equal(engine->chunks.groups[engine->chunks.chunks[chunk].group].kept, chunks[chunk]);
        for (uint32_t slot = 0; slot < CHUNK; slot++) {
            sample_id id = chunk * CHUNK + slot;
            assert_true(chunks[chunk] || id >= engine->env.samples.ids || !encoded_keeps(&engine->encoded, id));
        }
    }
    return count;
}

static uint32_t differ(const bool a[CHUNKS], const bool b[CHUNKS])
{
    uint32_t count = 0;
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        count += a[chunk] != b[chunk];
    return count;
}

/* With memory for half of the samples, an epoch after the first reads what is not kept, and hardly any of that twice.
 * The last job's end leaves nothing behind. */
static void test_half(void **state)
{
    (void)state;
    bool chunks[CHUNKS];
    begin(SAMPLES / 2);
    uint32_t job = add("half", 0, SAMPLES, SHUFFLE_DEPENDENT, 0), n = kept(chunks);
    assert_in_range(n, CHUNKS * 2 / 5, CHUNKS / 2 - 1);
    run_epoch(job, 0, SAMPLES);
    assert_int_equal(loaded(), SAMPLES);
    for (uint32_t epoch = 1; epoch < 4; epoch++) {
        run_epoch(job, epoch, SAMPLES);
        uint32_t rest = epoch * (CHUNKS - n) * CHUNK;
        assert_in_range(loaded(), SAMPLES + rest, SAMPLES + rest * 102 / 100);
    }
    play_gone(&play, job, 0);
    engine_check(play.engine);
    assert_int_equal(kept(chunks), CHUNKS); /* nobody wants anything, and there is room for that */
    struct engine_totals totals;
    engine_totals(play.engine, &totals);
    assert_int_equal(totals.encoded.used_bytes, 0);
    play_end(&play);
}

static int other_half(const void *map, uint32_t epoch, const struct bag *left, struct idset **out)
{
    (void)map, (void)epoch, (void)left;
    return idset_from_range(SAMPLES / 2, SAMPLES, out);
}

/* A job of which other nodes give the half that memory has no room for takes no room from what is kept for another job,
 * either before its first epoch, when nobody has asked yet what they give. */
static void test_homes(void **state)
{
    (void)state;
    begin(SAMPLES / 2);
    uint32_t job = add("guest", 0, SAMPLES / 2, SHUFFLE_DEPENDENT, 0);
    run_epoch(job, 0, SAMPLES / 2);
    assert_int_equal(loaded(), SAMPLES / 2);
    homes.elsewhere = other_half;
    add("homes", 0, SAMPLES, SHUFFLE_DEPENDENT, 0);
    homes.elsewhere = NULL;
    run_epoch(job, 1, SAMPLES / 2);
    assert_int_equal(loaded(), SAMPLES / 2);
    engine_check(play.engine);
    play_end(&play);
}

/* Jobs on the same samples, of another pipeline or order, change nothing. Chunks that more jobs want stay first, and
 * when such a job goes, the same chunks stay as before it came. */
static void test_jobs_come_and_go(void **state)
{
    (void)state;
    bool before[CHUNKS], now[CHUNKS];
    uint32_t twice = 0;
    begin(SAMPLES / 2);
    uint32_t first = add("first", 0, SAMPLES, SHUFFLE_DEPENDENT, 0), n = kept(before);
    run_epoch(first, 0, SAMPLES);
    add("another pipeline", 0, SAMPLES, SHUFFLE_DEPENDENT, 1);
    kept(now);
    assert_true(differ(before, now) <= 2);
    uint32_t part = add("part", 0, SAMPLES / 4, SHUFFLE_DEPENDENT, 0);
    assert_in_range(kept(now), n - 8, n);
    for (uint32_t chunk = 0; chunk < CHUNKS / 4; chunk++)
        twice += now[chunk];
    assert_int_equal(twice, CHUNKS / 4);
    run_epoch(part, 0, SAMPLES / 4);
    run_epoch(first, 1, SAMPLES);
    play_gone(&play, part, 0);
    kept(now);
    assert_true(differ(before, now) <= 2);
    engine_check(play.engine);
    play_end(&play);
}

/* Memory for all keeps all, and memory for little keeps nothing. */
static void test_all_and_nothing(void **state)
{
    (void)state;
    bool chunks[CHUNKS];
    begin(SAMPLES * 11 / 10);
    uint32_t job = add("all", 0, SAMPLES, SHUFFLE_DEPENDENT, 0);
    assert_int_equal(kept(chunks), CHUNKS);
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        run_epoch(job, epoch, SAMPLES);
    assert_int_equal(loaded(), SAMPLES);
    play_end(&play);
    begin(SAMPLES / 10);
    job = add("little", 0, SAMPLES, SHUFFLE_DEPENDENT, 0);
    assert_int_equal(kept(chunks), 0);
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        run_epoch(job, epoch, SAMPLES);
    assert_in_range(loaded(), 3 * SAMPLES, 3 * SAMPLES * 102 / 100);
    play_end(&play);
}

/* Records take memory for at most three chunks. */
static void expect_kept(uint32_t most)
{
    bool chunks[CHUNKS];
    assert_in_range(kept(chunks), most < 3 ? 0 : most - 3, most);
}

/* At a home less stays: of what does not stay, memory for .16 is for shuffling, and for a twelfth on a machine of its
 * own. It is the same for jobs apart. */
static void test_at_home(void **state)
{
    (void)state;
    static const struct {
        uint32_t held, one_job, apart; /* memory for so many chunks; those that stay */
        bool home;
    } cases[] = {{64, 58, 58, false}, {64, 52, 52, true}, {26, 16, 16, false}, {26, 8, 8, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        home = cases[i].home;
        begin(cases[i].held * CHUNK);
        home = false;
        uint32_t job = add("one", 0, SAMPLES, SHUFFLE_DEPENDENT, 0);
        expect_kept(cases[i].one_job);
        run_epoch(job, 0, SAMPLES / 2);
        add("other", 0, SAMPLES, SHUFFLE_DEPENDENT, 0);
        expect_kept(cases[i].apart);
        engine_check(play.engine);
        play_end(&play);
    }
}

/* Where orders are known, memory is full of what the next epoch uses when an epoch ends. More cannot be saved: what an
 * epoch does not read is there at its beginning. Jobs of all kinds come and go. */
static void test_known_orders(void **state)
{
    (void)state;
    static const enum shuffle_mode orders[] = {SHUFFLE_STRICT, SHUFFLE_NONE};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        begin(SAMPLES / 4);
        uint32_t job = add("known", 0, SAMPLES, orders[i], 0);
        run_epoch(job, 0, SAMPLES);
        uint64_t before = loaded();
        assert_int_equal(before, SAMPLES);
        for (uint32_t epoch = 1; epoch < 5; epoch++, before = loaded()) {
            run_epoch(job, epoch, SAMPLES);
            assert_in_range(loaded() - before, SAMPLES - SAMPLES / 4, SAMPLES - SAMPLES / 4 + 8);
        }
        uint32_t other = add("other", 0, SAMPLES / 2, SHUFFLE_STRICT, 0), dependent;
        run_epoch(other, 0, SAMPLES / 2);
        run_epoch(job, 5, SAMPLES);
        dependent = add("dependent", 0, SAMPLES / 2, SHUFFLE_DEPENDENT, 0); /* from now on chunks stay */
        run_epoch(dependent, 0, SAMPLES / 2);
        run_epoch(job, 6, SAMPLES);
        play_gone(&play, dependent, 0);
        run_epoch(other, 1, SAMPLES / 2);
        play_gone(&play, other, 0);
        run_epoch(job, 7, SAMPLES);
        play_gone(&play, job, 0);
        engine_check(play.engine);
        play_end(&play);
    }
}

/* What the orders of jobs took that have left, or that need none any more, is of use to those that stay: a set that
 * memory has just room for is read once. */
static void test_fits_after_known_orders(void **state)
{
    (void)state;
    begin(SAMPLES / 2);
    uint32_t large = add("large", 0, SAMPLES, SHUFFLE_STRICT, 0);
    uint32_t small = add("small", 0, SAMPLES / 2, SHUFFLE_STRICT, 0);
    run_epoch(large, 0, SAMPLES);
    run_epoch(small, 0, SAMPLES / 2);
    play_gone(&play, large, 0);
    run_epoch(small, 1, SAMPLES / 2);
    uint64_t before = loaded();
    for (uint32_t epoch = 2; epoch < 5; epoch++)
        run_epoch(small, epoch, SAMPLES / 2);
    assert_int_equal(loaded(), before);
    engine_check(play.engine);
    play_end(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_homes),
        cmocka_unit_test(test_jobs_come_and_go),
        cmocka_unit_test(test_all_and_nothing),
        cmocka_unit_test(test_at_home),
        cmocka_unit_test(test_known_orders),
        cmocka_unit_test(test_fits_after_known_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
