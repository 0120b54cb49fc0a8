/* A job that comes in the place of another one gets no instance that the other one had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/plan/play.h"

enum { SAMPLES = 64, SLOT = 64, BATCH = 8, PLACES = 256, INSTANCES = 64 };

/* Which instance lies at each place of the arena, and who got which. */
struct seen {
    struct {
        sample_id id;
        uint64_t instance;
    } at[PLACES];
    bool had[3][SAMPLES][INSTANCES];
    uint32_t twice; /* instances that both jobs got */
    /* The second job asks for all of its batches at once when it has come. */
    bool at_once;
    struct play *play;
};

static bool see(void *ctx, const struct engine_action *action)
{
    struct seen *seen = ctx;
    if (action->type == ENGINE_JOB_ADDED && action->client == 1 && seen->at_once)
        play_push(seen->play, (struct engine_event){.type = ENGINE_NEXT, .next = {action->job, 0, SAMPLES / BATCH, 0}});
    if (action->type == ENGINE_PREPARE) {
        for (uint32_t i = 0; i < action->prepare.n_outputs; i++) {
            const struct engine_output *output = &action->prepare.outputs[i];
            assert_true(output->offset / SLOT < PLACES && output->instance < INSTANCES);
            seen->at[output->offset / SLOT].id = action->prepare.id;
            seen->at[output->offset / SLOT].instance = output->instance;
        }
    }
    if (action->type == ENGINE_DELIVER) {
        for (uint32_t i = 0; i < action->deliver.count; i++) {
            uint64_t at = action->deliver.entries[i].offset / SLOT, instance = seen->at[at].instance;
            sample_id id = action->deliver.entries[i].id;
            assert_int_equal(seen->at[at].id, id);
            seen->had[action->client][id][instance] = true;
            seen->twice += seen->had[0][id][instance] && seen->had[1][id][instance];
        }
    }
    return false;
}

static uint32_t add_kin(struct play *play, uint64_t client, enum engine_inherits inherits, uint32_t predecessor,
                        uint64_t family, bool repeatable)
{
    static const char *const names[] = {"first", "second", "third"};
    struct idset *view;
    assert_int_equal(idset_from_range(0, SAMPLES, &view), 0);
    struct engine_job_desc desc = {.client = client,
                                   .name = names[client],
                                   .slot_bytes = SLOT,
                                   .batch_size = BATCH,
                                   .prefetch = 2,
                                   .sampled = {.view = view, .shuffle = SHUFFLE_DEPENDENT},
                                   .inherits = inherits,
                                   .predecessor = predecessor,
                                   .family = family,
                                   .repeatable = repeatable};
    uint32_t job = play_add(play, &desc);
    idset_destroy(view);
    return job;
}

static uint32_t add(struct play *play, uint64_t client, enum engine_inherits inherits, uint32_t predecessor)
{
    return add_kin(play, client, inherits, predecessor, 0, false);
}

/* How many instances the second job gets that the first one got, too. Both are in their first epoch at once. `sweep`:
 * how many residents a step may settle. */
static uint32_t got_twice(enum engine_inherits inherits, uint32_t sweep)
{
    struct play play;
    struct seen seen = {.at_once = sweep > 0, .play = &play};
    struct engine_config config = {
        .seed = 1, .arena_bytes = PLACES * SLOT, .encoded_bytes = 100000, .inflight_loads = 8, .inflight_prepares = 8};
    config.sweep_residents = sweep;
    assert_int_equal(play_create(config, &play, NULL), 0);
    play.see = see;
    play.ctx = &seen;
    play.check_every = 1;
    uint32_t first = add(&play, 0, ENGINE_INHERITS_NOTHING, 0), other;
    for (uint32_t i = 0; i < SAMPLES / BATCH / 2; i++)
        play_next(&play, first, 0, 0, 1);
    other = add(&play, 1, inherits, first);
    assert_int_not_equal(other, UINT32_MAX);
    if (inherits == ENGINE_INHERITS_JOB)
        play_gone(&play, first, 0);
    for (uint32_t i = 0; i < SAMPLES / BATCH && !seen.at_once; i++)
        play_next(&play, other, 0, 0, 1);
    assert_int_equal(play.failed, 0);
    play_end(&play);
    return seen.twice;
}

static void test_inherits(void **state)
{
    (void)state;
    assert_true(got_twice(ENGINE_INHERITS_NOTHING, 0) > 0);
    assert_int_equal(got_twice(ENGINE_INHERITS_JOB, 0), 0);
    assert_int_equal(got_twice(ENGINE_INHERITS_ALL, 0), 0);
}

/* That holds as well while most instances have not followed yet, since a step settles only one. */
static void test_far_behind(void **state)
{
    (void)state;
    assert_int_equal(got_twice(ENGINE_INHERITS_JOB, 1), 0);
    assert_int_equal(got_twice(ENGINE_INHERITS_ALL, 1), 0);
}

/* How many instances a member of a family gets that another one got, which had gone before it came. A third job, which
 * wants them all, keeps them in memory. */
static uint32_t kin_got_twice(uint64_t family, bool repeatable)
{
    struct play play;
    struct seen seen = {.play = &play};
    struct engine_config config = {
        .seed = 1, .arena_bytes = PLACES * SLOT, .encoded_bytes = 100000, .inflight_loads = 8, .inflight_prepares = 8};
    assert_int_equal(play_create(config, &play, NULL), 0);
    play.see = see;
    play.ctx = &seen;
    play.check_every = 1;
    uint32_t first = add_kin(&play, 0, ENGINE_INHERITS_NOTHING, 0, family, repeatable);
    uint32_t keeper = add_kin(&play, 2, ENGINE_INHERITS_NOTHING, 0, 0, repeatable);
    for (uint32_t i = 0; i < SAMPLES / BATCH / 2; i++)
        play_next(&play, first, 0, 0, 1);
    play_gone(&play, first, 0);
    uint32_t other = add_kin(&play, 1, ENGINE_INHERITS_NOTHING, 0, family, repeatable);
    for (uint32_t i = 0; i < SAMPLES / BATCH; i++)
        play_next(&play, other, 0, 0, 1);
    play_gone(&play, keeper, 0);
    assert_int_equal(play.failed, 0);
    play_end(&play);
    return seen.twice;
}

/* A family that has gone is not known any more. The first member that comes then gets nothing that exists, unless the
 * pipeline's instances may come again. */
static void test_family_comes_again(void **state)
{
    (void)state;
    assert_true(kin_got_twice(0, false) > 0);
    assert_int_equal(kin_got_twice(7, false), 0);
    assert_true(kin_got_twice(7, true) > 0);
}

static void test_wrong(void **state)
{
    (void)state;
    struct play play;
    struct engine_config config = {
        .seed = 1, .arena_bytes = PLACES * SLOT, .encoded_bytes = 100000, .inflight_loads = 8, .inflight_prepares = 8};
    assert_int_equal(play_create(config, &play, NULL), 0);
    assert_int_equal(add(&play, 1, ENGINE_INHERITS_JOB, JOBS_MAX), UINT32_MAX);
    assert_int_equal(play.refused, LARDER_EINVAL);
    assert_int_not_equal(add(&play, 1, ENGINE_INHERITS_JOB, JOBS_MAX - 1), UINT32_MAX); /* it had nothing */
    play_end(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_inherits), cmocka_unit_test(test_far_behind),
                                       cmocka_unit_test(test_family_comes_again), cmocka_unit_test(test_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
