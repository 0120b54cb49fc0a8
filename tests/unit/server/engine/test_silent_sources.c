/* test_silent_sources.c: jobs whose sources never answer leave loads and memory to one whose source does, decoded forms
 * of its samples included. A source that brings little has little in flight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/engine/engine_priv.h"
#include "server/plan/play.h"

enum { CHUNKS = 40, CHUNK = 16, SAMPLES = CHUNKS * CHUNK, BATCH = 16, SILENT = 3, MEMORY_CHUNKS = 32 };
enum { EPOCHS = 40, FORM_BYTES = 3 * PLAY_SAMPLE_BYTES, ASKED_NS = 1000000 };

static struct play play;
static struct chunk_slot places[SAMPLES];
static char datasets[SILENT + 1]; /* the last one answers */
static uint32_t answered;
static struct engine_action withheld[SAMPLES]; /* loads of silent datasets */
static uint32_t n_withheld;

/* Loads of the silent datasets are never answered. */
static bool see(void *ctx, const struct engine_action *action)
{
    (void)ctx;
    answered += action->type == ENGINE_LOAD && action->load.dataset == &datasets[SILENT];
    return action->type == ENGINE_LOAD && action->load.dataset != &datasets[SILENT];
}

static uint32_t add(uint32_t number, struct idset *view, uint32_t epochs)
{
    char name[] = {'j', (char)('0' + number), '\0'};
    struct engine_job_desc desc = {
        .name = name,
        .dataset = &datasets[number],
        .slot_bytes = 64,
        .batch_size = BATCH,
        .epochs = epochs,
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
            uint32_t job = add(number, view, 1);
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

/* Every sample has a form, and a silent dataset's loads can be answered later. */
static bool see_forms(void *ctx, const struct engine_action *action)
{
    static char form;
    if (action->type == ENGINE_PREPARE && action->prepare.form_bytes >= FORM_BYTES) {
        play_push(&play,
                  (struct engine_event){
                      .type = ENGINE_PREPARED,
                      .prepared = {.task = action->prepare.task, .decoded = &form, .decoded_bytes = FORM_BYTES}});
        return true;
    }
    bool silent = action->type == ENGINE_LOAD && action->load.dataset != &datasets[SILENT];
    if (silent)
        withheld[n_withheld++] = *action;
    return silent || see(ctx, action);
}

static void take_epochs(uint32_t job, uint32_t first, uint32_t end)
{
    for (uint32_t batch = first * (SAMPLES / BATCH); batch < end * (SAMPLES / BATCH); batch++) {
        play.now_ns += ASKED_NS;
        play_next(&play, job, 0, batch / (SAMPLES / BATCH), 1);
        play_settle(&play);
    }
}

/* Memory has room for forms of one dataset, or for both as they are read and forms of two thirds of one. While one
 * source is silent, the other's job has forms of nearly all its samples, and reads nothing twice. When the silent one
 * answers after all, its job gets its epoch, and what forms have to give up is read again. */
static void test_forms_take_what_is_not_read(void **state)
{
    (void)state;
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 1 << 14,
                                   .encoded_bytes = (uint64_t)SAMPLES * FORM_BYTES + 4 * BATCH * FORM_BYTES,
                                   .inflight_loads = 2 * CHUNK,
                                   .inflight_prepares = 4,
                                   .redirect_width = CHUNK / 2,
                                   .decoded = true};
    assert_int_equal(play_create(config, &play, NULL), 0);
    play.see = see_forms;
    play.check_every = 16;
    answered = n_withheld = 0;
    uint32_t jobs[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct idset *view;
        assert_int_equal(idset_from_range(i * SAMPLES, (i + 1) * SAMPLES, &view), 0);
        jobs[i] = add(i ? SILENT : 0, view, i ? EPOCHS : 1);
        idset_destroy(view);
    }
    play_next(&play, jobs[0], 0, 0, 1);
    play_settle(&play);
    take_epochs(jobs[1], 0, EPOCHS / 2);
    struct engine_totals totals;
    engine_totals(play.engine, &totals);
    assert_in_range(totals.encoded.forms, SAMPLES * 9 / 10, SAMPLES);
    assert_int_equal(answered, SAMPLES);
    assert_int_equal(n_withheld, CHUNK);
    for (uint32_t i = 0; i < SAMPLES / BATCH; i++) {
        for (; n_withheld > 0; n_withheld--)
            play_answer_at(&play, play.now_ns, &withheld[n_withheld - 1]);
        play_next(&play, jobs[0], 0, 0, 1);
        play_settle(&play);
    }
    take_epochs(jobs[1], EPOCHS / 2, EPOCHS);
    engine_totals(play.engine, &totals);
    assert_int_equal(totals.counts.samples_delivered, (EPOCHS + 1) * SAMPLES);
    assert_true(answered <= 2 * SAMPLES);
    engine_check(play.engine);
    play_end(&play);
}

/* answer answers as many loads of the silent dataset, each `pace_ns` after the one before. It returns the most loads
 * that were in flight after one. */
static uint32_t answer(uint32_t *from, uint32_t count, uint64_t pace_ns)
{
    uint32_t most = 0;
    for (; count > 0 && *from < n_withheld; count--) {
        struct engine_totals totals;
        play.now_ns += pace_ns;
        play_answer_at(&play, play.now_ns, &withheld[(*from)++]);
        play_settle(&play);
        engine_totals(play.engine, &totals);
        most = totals.loads_inflight > most ? totals.loads_inflight : most;
    }
    return most;
}

/* A source has an eighth of memory in flight, whether it answers slowly or not at all. If it brings much, it has up to
 * a half. Once it is silent, it begins no read until an eighth is left. */
static void test_in_flight_is_what_comes_soon(void **state)
{
    (void)state;
    enum { EIGHTH = MEMORY_CHUNKS * CHUNK / 8, TENTH_NS = 100000000 };
    for (uint32_t fast = 0; fast <= 1; fast++) {
        struct engine_config config = {.seed = 1,
                                       .arena_bytes = 1 << 20,
                                       .encoded_bytes = (uint64_t)MEMORY_CHUNKS * CHUNK * PLAY_SAMPLE_BYTES,
                                       .inflight_loads = 10 * SAMPLES,
                                       .inflight_prepares = 64,
                                       .redirect_width = CHUNK / 2};
        struct idset *view;
        uint32_t from = 0;
        assert_int_equal(play_create(config, &play, NULL), 0);
        play.see = see_forms;
        n_withheld = 0;
        assert_int_equal(idset_from_range(0, SAMPLES, &view), 0);
        play_next(&play, add(0, view, 1), 0, 0, 1);
        idset_destroy(view);
        play_settle(&play);
        assert_in_range(n_withheld, CHUNK, EIGHTH);
        uint32_t most = answer(&from, EIGHTH * 2, fast ? 0 : TENTH_NS);
        assert_in_range(most, fast ? EIGHTH * 2 : CHUNK, fast ? EIGHTH * 4 : EIGHTH);
        uint32_t begun = n_withheld, inflight = begun - from;
        play.now_ns += (uint64_t)600 * TENTH_NS;
        if (fast) {
            answer(&from, inflight - EIGHTH, TENTH_NS);
            assert_int_equal(n_withheld, begun);
        }
        engine_check(play.engine);
        play_end(&play);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_newcomer_has_room),
                                       cmocka_unit_test(test_in_flight_is_what_comes_soon),
                                       cmocka_unit_test(test_forms_take_what_is_not_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
