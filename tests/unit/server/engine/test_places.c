/* test_places.c: samples that get their places before their job comes, and residents that enter new groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/engine/engine_priv.h"
#include "server/plan/play.h"

enum { CHUNK = 16, SAMPLES = 4096, FIRST = SAMPLES_PAGE - SAMPLES / 2, BATCH = 64 }; /* on two pages of records */
enum { SWEPT = 32 };

static struct chunk_slot places[SAMPLES];

static void begin(struct play *play)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 1 << 20,
                                   .encoded_bytes = (uint64_t)SAMPLES * PLAY_SAMPLE_BYTES / 4,
                                   .inflight_loads = 64,
                                   .inflight_prepares = 64,
                                   .redirect_width = 8};
    assert_int_equal(play_create(config, play, NULL), 0);
    play->check_every = 7;
    for (uint32_t i = 0; i < SAMPLES; i++)
        places[i] = (struct chunk_slot){i * 7 % SAMPLES / CHUNK, i * 7 % SAMPLES % CHUNK};
}

static struct engine_chunks chunks_from(uint32_t first)
{
    return (struct engine_chunks){.places = places + first, .count = SAMPLES / CHUNK, .samples = CHUNK, .key = {1}};
}

static void place(struct play *play, uint32_t first, uint32_t end)
{
    sample_id ids[SAMPLES];
    for (uint32_t i = first; i < end; i++)
        ids[i - first] = FIRST + i;
    struct engine_placing placing = {.ids = ids, .count = end - first, .chunks = chunks_from(first)};
    play_event(play, (struct engine_event){.type = ENGINE_PLACE, .place = &placing});
}

static void add_and_train(struct play *play)
{
    struct idset *view;
    assert_int_equal(idset_from_range(FIRST, FIRST + SAMPLES, &view), 0);
    struct engine_job_desc desc = {.client = 1,
                                   .name = "job",
                                   .slot_bytes = 64,
                                   .batch_size = BATCH,
                                   .prefetch = 1,
                                   .sampled = {.view = view},
                                   .chunks = chunks_from(0)};
    uint32_t job = play_add(play, &desc);
    assert_int_not_equal(job, UINT32_MAX);
    for (uint32_t batch = 0; batch < SAMPLES / BATCH; batch++)
        play_next(play, job, 0, 0, 1);
    idset_destroy(view);
}

/* The step in which a job is added places no sample that a PLACE has placed, and all others, so that training is the
 * same with and without PLACE. */
static void test_pieces(void **state)
{
    (void)state;
    struct play whole, pieces;
    begin(&whole);
    begin(&pieces);
    place(&pieces, 0, 1000);
    place(&pieces, 3000, SAMPLES);
    uint64_t moves = pieces.engine->chunks.moves;
    assert_int_equal(moves, SAMPLES - 2000);
    add_and_train(&pieces);
    assert_int_equal(pieces.engine->chunks.moves, SAMPLES);
    add_and_train(&whole);
    for (sample_id id = FIRST; id < FIRST + SAMPLES; id++) {
        const struct chunk_place *a = chunks_place(&whole.engine->chunks, id);
        const struct chunk_place *b = chunks_place(&pieces.engine->chunks, id);
        assert_true(a->chunk == b->chunk && a->slot == b->slot && a->chunk != ENGINE_NONE);
    }
    struct engine_totals a, b;
    engine_totals(whole.engine, &a);
    engine_totals(pieces.engine, &b);
    assert_memory_equal(&a.counts, &b.counts, sizeof a.counts);
    assert_int_equal(a.counts.samples_delivered, SAMPLES);
    play_end(&whole);
    play_end(&pieces);
}

/* A sample that is placed before its job comes, and is forgotten, gets its place when the job comes after all. */
static void test_forgotten(void **state)
{
    (void)state;
    struct play play;
    begin(&play);
    place(&play, 0, SAMPLES);
    sample_id ids[] = {FIRST + 5, FIRST + 6};
    uint32_t kept;
    play_event(&play, (struct engine_event){.type = ENGINE_SAMPLES_GONE,
                                            .samples_gone = {.ids = ids, .count = 2, .kept = &kept}});
    assert_int_equal(kept, 0);
    assert_int_equal(chunks_place(&play.engine->chunks, FIRST + 5)->chunk, ENGINE_NONE);
    add_and_train(&play);
    assert_int_equal(chunks_place(&play.engine->chunks, FIRST + 5)->chunk, places[5].chunk);
    play_end(&play);
}

static uint32_t count_entered(const struct engine *engine)
{
    const struct sweep *sweep = &engine->residents.sweep;
    return sweep->to_enter_instance + sweep->to_enter_encoded;
}

/* When groups are made anew, each step has so many residents enter their fibers as it may look at, until all have. */
static void test_new_groups(void **state)
{
    (void)state;
    struct play play;
    begin(&play);
    add_and_train(&play);
    struct engine *engine = play.engine;
    uint32_t residents = engine->prepared.slab.size + engine->encoded.slab.size, steps = 0;
    assert_true(residents > 4 * SWEPT && !engine->chunks.arranging);
    engine->env.config.sweep_residents = SWEPT;
    residents_step(&engine->residents);
    residents_arrange(&engine->residents);
    assert_int_equal(count_entered(engine), SWEPT);
    for (uint32_t before = SWEPT; engine->chunks.arranging; before = count_entered(engine)) {
        const struct engine_action *actions;
        struct engine_event tick = {.type = ENGINE_TICK};
        assert_true(engine_wakes_ns(engine) <= play.now_ns);
        engine_step(engine, play.now_ns, &tick, 1, &actions);
        engine_check(engine);
        assert_in_range(count_entered(engine) - before, 1, SWEPT);
        steps++;
    }
    assert_int_equal(steps, (residents + SWEPT - 1) / SWEPT - 1);
    play_end(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces), cmocka_unit_test(test_forgotten),
                                       cmocka_unit_test(test_new_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
