/* test_silent_sources.c: jobs whose sources never answer leave memory and loads to one whose source does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/engine/engine_priv.h"
#include "server/plan/play.h"

enum { CHUNKS = 40, CHUNK = 16, SAMPLES = CHUNKS * CHUNK, BATCH = 16, SILENT = 3, MEMORY_CHUNKS = 32 };

static struct play play;
static struct chunk_slot places[SAMPLES];
static char datasets[SILENT + 1]; /* the last one answers */
static uint32_t answered;

/* Loads of the silent datasets are never answered. */
static bool see(void *ctx, const struct engine_action *action)
{
    (void)ctx;
    answered += action->type == ENGINE_LOAD && action->load.dataset == &datasets[SILENT];
    return action->type == ENGINE_LOAD && action->load.dataset != &datasets[SILENT];
}

static uint32_t add(uint32_t number, struct idset *view)
{
    char name[] = {'j', (char)('0' + number), '\0'};
    struct engine_job_desc desc = {
        .name = name,
        .dataset = &datasets[number],
        .slot_bytes = 64,
        .batch_size = BATCH,
        .prefetch = 2,
        .sampled = {.view = view},
        .chunks = {.places = places, .key = {number + 1}, .count = CHUNKS, .samples = CHUNK}};
    return play_add(&play, &desc);
}

/* However many jobs wait for silent sources already, whether loads in flight are scarce or memory is: a job that comes
 * after them gets its whole epoch, and what it reads comes by chunks. */
static void test_a_newcomer_has_room(void **state)
{
    (void)state;
    for (uint32_t scarce = 0; scarce <= 1; scarce++) {
        struct engine_config config = {.seed = 1,
                                       .arena_bytes = 1 << 20,
                                       .encoded_bytes = (uint64_t)MEMORY_CHUNKS * CHUNK * PLAY_SAMPLE_BYTES *
                                                        (scarce ? 1 : 10),
                                       .inflight_loads = MEMORY_CHUNKS * CHUNK * (scarce ? 10 : 1),
                                       .inflight_prepares = 64,
                                       .redirect_width = CHUNK / 2};
        assert_int_equal(play_create(config, &play, NULL), 0);
        play.see = see;
        answered = 0;
        for (uint32_t i = 0; i < SAMPLES; i++)
            places[i] = (struct chunk_slot){i / CHUNK, i % CHUNK};
        for (uint32_t number = 0; number <= SILENT; number++) {
            struct idset *view;
            assert_int_equal(idset_from_range(number * SAMPLES, (number + 1) * SAMPLES, &view), 0);
            uint32_t job = add(number, view);
            idset_destroy(view);
            play_next(&play, job, 0, 0, 1);
            for (uint32_t batch = 1; number == SILENT && batch < SAMPLES / BATCH; batch++)
                play_next(&play, job, 0, 0, 1);
            play_settle(&play);
        }
        struct engine_totals totals;
        engine_totals(play.engine, &totals);
        assert_int_equal(totals.counts.samples_delivered, SAMPLES);
        assert_true(totals.loads_inflight >= SILENT * CHUNK); /* each of the others has read what it may */
        assert_true(answered < SAMPLES * 5 / 4);
        engine_check(play.engine);
        play_end(&play);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_newcomer_has_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
