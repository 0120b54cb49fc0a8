/* Jobs with several ranks, by hand: who gets what, who waits for whom, and what happens to a rank that goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/engine/engine.h"
#include "tests/unit/server/engine/engine_play.h"

enum { SLOT = 1000, ENCODED = 100, IDS_MAX = 256, RANKS_MAX = 4, BATCHES_MAX = 64 };

struct seat {
    bool there;
    uint32_t epoch_told; /* by JOB_ADDED */
    sample_id got[IDS_MAX];
    uint32_t n_got, batches, n_batches;
    bool last;
    uint64_t held[BATCHES_MAX];
    uint32_t n_held;
    int failed;
    char text[ERROR_TEXT_MAX];
};

/* One job whose loads and prepares come back at once, but for the sample `slow`, which waits for let_go. */
struct scene {
    struct engine *engine;
    uint64_t now_ns;
    uint32_t job;
    struct engine_job_desc desc;
    struct idset *view;
    sample_id order[IDS_MAX];
    struct seat seats[RANKS_MAX];
    int refused;
    char text[ERROR_TEXT_MAX];
    bool keep;      /* batches */
    bool ended;
    sample_id slow;
    bool slow_running;
    uint32_t slow_task;
};

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset;
    (void)id;
    return ENCODED;
}

static void step(struct scene *scene, struct engine_event event);

static void take_batch(struct scene *scene, const struct engine_action *action)
{
    struct seat *seat = &scene->seats[action->rank];
    assert_true(seat->there && action->client == 100 + action->rank);
    for (uint32_t i = 0; i < action->deliver.count; i++)
        seat->got[seat->n_got++] = action->deliver.entries[i].id;
    seat->batches++;
    seat->last = seat->last || action->deliver.last; /* reactions nest: batches may be seen out of order */
    if (scene->keep)
        seat->held[seat->n_held++] = action->deliver.batch;
    else
        step(scene, (struct engine_event){
                        .type = ENGINE_RELEASE, .rank = action->rank, .release = {action->job, action->deliver.batch}});
}

static void prepare(struct scene *scene, const struct engine_action *action)
{
    if (action->prepare.id == scene->slow) {
        scene->slow_running = true;
        scene->slow_task = action->prepare.task;
        return;
    }
    step(scene, (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = action->prepare.task}});
}

static void react(void *ctx, const struct engine_action *action)
{
    struct scene *scene = ctx;
    struct seat *seat = &scene->seats[action->rank < RANKS_MAX ? action->rank : 0];
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        scene->job = action->job;
        seat->there = true;
        seat->epoch_told = action->job_added.epoch;
        seat->n_batches = action->job_added.n_batches;
        break;
    case ENGINE_JOB_REFUSED:
        scene->refused = action->error.error.code;
        strcpy(scene->text, action->error.error.text);
        break;
    case ENGINE_JOB_ERROR:
        seat->failed = action->error.error.code;
        strcpy(seat->text, action->error.error.text);
        break;
    case ENGINE_LOAD:
        step(scene, (struct engine_event){.type = ENGINE_LOADED,
                                          .loaded = {.id = action->load.id, .encoded = xmalloc(1), .bytes = action->load.bytes}});
        break;
    case ENGINE_PREPARE:
        prepare(scene, action);
        break;
    case ENGINE_DROP_ENCODED:
        free(action->drop.encoded);
        break;
    case ENGINE_DELIVER:
        take_batch(scene, action);
        break;
    case ENGINE_AHEAD:
    case ENGINE_SOURCE:
        break;
    case ENGINE_JOB_ENDED:
        scene->ended = true;
        break;
    }
}

static void step(struct scene *scene, struct engine_event event)
{
    engine_play(scene->engine, scene->now_ns, &event, 1, react, scene);
}

static struct scene *scene_new(uint32_t samples, uint32_t world_size, uint32_t batch_size)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 64 * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 4,
                                   .rank_timeout_ns = 10 * CLOCK_NS_PER_S,
                                   .sample_bytes = sample_bytes};
    assert_int_equal(engine_create(&config, &scene->engine, NULL), 0);
    assert_int_equal(idset_from_range(0, samples, &scene->view), 0);
    for (uint32_t i = 0; i < samples; i++)
        scene->order[i] = samples - 1 - i;
    scene->slow = SAMPLE_NONE;
    scene->desc = (struct engine_job_desc){.name = "ddp",
                                           .dataset = scene,
                                           .slot_bytes = SLOT,
                                           .batch_size = batch_size,
                                           .prefetch = 2,
                                           .hold = 3,
                                           .world_size = world_size,
                                           .view = scene->view,
                                           .order = scene->order};
    return scene;
}

static void wait_s(struct scene *scene, double seconds)
{
    scene->now_ns += (uint64_t)(seconds * 1e9);
    step(scene, (struct engine_event){.type = ENGINE_TICK});
}

static void scene_free(struct scene *scene)
{
    for (uint32_t rank = 0; rank < scene->desc.world_size && rank < RANKS_MAX; rank++) {
        if (scene->seats[rank].there)
            step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .rank = rank, .job_gone = {scene->job}});
    }
    if (!scene->ended)
        wait_s(scene, 11); /* for ranks that never came */
    assert_true(scene->ended);
    engine_destroy(scene->engine);
    idset_destroy(scene->view);
    free(scene);
}

static void attach(struct scene *scene, uint32_t rank)
{
    scene->desc.rank = rank;
    scene->desc.client = 100 + rank;
    step(scene, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &scene->desc});
}

static void ask(struct scene *scene, uint32_t rank, uint32_t epoch, uint32_t credits)
{
    step(scene, (struct engine_event){.type = ENGINE_NEXT, .rank = rank, .next = {scene->job, epoch, credits}});
}

static void leave(struct scene *scene, uint32_t rank)
{
    step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .rank = rank, .job_gone = {scene->job}});
    scene->seats[rank].there = false;
    scene->seats[rank].n_held = 0;
}

/* How often each sample of the view came to any rank. */
static void count_all(const struct scene *scene, uint32_t *counts)
{
    memset(counts, 0, IDS_MAX * sizeof *counts);
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++) {
        for (uint32_t i = 0; i < scene->seats[rank].n_got; i++)
            counts[scene->seats[rank].got[i]]++;
    }
}

static uint32_t repeats(const struct scene *scene, uint32_t samples)
{
    uint32_t counts[IDS_MAX], sum = 0;
    count_all(scene, counts);
    for (uint32_t id = 0; id < samples; id++) {
        assert_true(counts[id] > 0);
        sum += counts[id] - 1;
    }
    return sum;
}

/* Ranks share the view without overlap; what makes the shares equal is repeated, and nothing else is. */
static void test_shares_are_equal(void **state)
{
    (void)state;
    struct scene *scene = scene_new(42, 4, 3);
    for (uint32_t rank = 0; rank < 4; rank++)
        attach(scene, rank);
    for (uint32_t rank = 0; rank < 4; rank++)
        ask(scene, rank, 0, 64);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(scene->seats[rank].n_got, 11);
        assert_int_equal(scene->seats[rank].batches, 4);
        assert_int_equal(scene->seats[rank].n_batches, 4);
        assert_true(scene->seats[rank].last);
    }
    assert_int_equal(repeats(scene, 42), 2);
    scene_free(scene);
}

/* drop_last: whole batches only, the same number for every rank, nothing twice. */
static void test_drop_last(void **state)
{
    (void)state;
    struct scene *scene = scene_new(42, 4, 3);
    uint32_t counts[IDS_MAX];
    scene->desc.drop_last = true;
    for (uint32_t rank = 0; rank < 4; rank++)
        attach(scene, rank);
    for (uint32_t rank = 0; rank < 4; rank++)
        ask(scene, rank, 0, 64);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(scene->seats[rank].n_got, 9);
        assert_true(scene->seats[rank].last);
    }
    count_all(scene, counts);
    for (uint32_t id = 0; id < 42; id++)
        assert_true(counts[id] <= 1);
    scene_free(scene);
}

/* In a fixed order rank r gets samples r, r + W, … and the repeats are the order's first ones, as DistributedSampler has it,
 * even when one rank runs through alone before the others ask. */
static void test_fixed_order_is_dealt_in_turn(void **state)
{
    (void)state;
    struct scene *scene = scene_new(10, 4, 2);
    scene->desc.shuffle = SHUFFLE_NONE;
    for (uint32_t rank = 0; rank < 4; rank++)
        attach(scene, rank);
    for (uint32_t rank = 4; rank-- > 0;)
        ask(scene, rank, 0, 64);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(scene->seats[rank].n_got, 3);
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(scene->seats[rank].got[k], scene->order[(rank + 4 * k) % 10]);
    }
    scene_free(scene);
}

/* A rank that does not ask holds nobody up: the other gets all of its own share, and none of the slow one's. */
static void test_a_slow_rank_delays_nobody(void **state)
{
    (void)state;
    struct scene *scene = scene_new(100, 2, 5);
    attach(scene, 0);
    attach(scene, 1);
    ask(scene, 1, 0, 64);
    assert_int_equal(scene->seats[1].n_got, 50);
    assert_true(scene->seats[1].last);
    assert_int_equal(scene->seats[0].n_got, 0);
    ask(scene, 0, 0, 64);
    assert_int_equal(scene->seats[0].n_got, 50);
    assert_int_equal(repeats(scene, 100), 0);
    scene_free(scene);
}

/* An epoch begins for all when the last rank is through with the one before; who asked earlier gets it then. */
static void test_epochs_wait_for_the_last_rank(void **state)
{
    (void)state;
    struct scene *scene = scene_new(20, 2, 5);
    attach(scene, 0);
    attach(scene, 1);
    ask(scene, 0, 0, 64);
    ask(scene, 0, 1, 64);
    assert_int_equal(scene->seats[0].n_got, 10);
    ask(scene, 1, 0, 1);
    assert_int_equal(scene->seats[0].n_got, 10);
    ask(scene, 1, 0, 1);
    assert_int_equal(scene->seats[1].n_got, 10);
    assert_int_equal(scene->seats[0].n_got, 20);
    ask(scene, 1, 0, 1); /* sent before its last batch had come: the job is in epoch 1 by now, and that is no mistake */
    assert_int_equal(scene->seats[1].failed, 0);
    ask(scene, 1, 1, 64);
    assert_int_equal(repeats(scene, 20), 20);
    scene_free(scene);
}

/* A rank that leaves an epoch early waits for the others, who still get all of their own shares. */
static void test_leaving_an_epoch_early(void **state)
{
    (void)state;
    struct scene *scene = scene_new(40, 2, 5);
    attach(scene, 0);
    attach(scene, 1);
    ask(scene, 0, 0, 1);
    ask(scene, 0, 1, 1);
    assert_int_equal(scene->seats[0].n_got, 5);
    ask(scene, 1, 0, 64);
    assert_int_equal(scene->seats[1].n_got, 20);
    assert_int_equal(scene->seats[0].n_got, 10);
    ask(scene, 1, 0, 1); /* a late request for what is over does nothing */
    assert_int_equal(scene->seats[1].failed, 0);
    leave(scene, 1);
    attach(scene, 1);
    ask(scene, 1, 0, 1); /* by one that was told to go on with the next */
    assert_int_equal(scene->seats[1].failed, LARDER_EINVAL);
    scene_free(scene);
}

/* A rank that dies and comes back goes on with its share: what it held and had not released first, all else once. */
static void test_a_rank_comes_back(void **state)
{
    (void)state;
    struct scene *scene = scene_new(60, 3, 4);
    for (uint32_t rank = 0; rank < 3; rank++)
        attach(scene, rank);
    ask(scene, 1, 0, 2);
    assert_int_equal(scene->seats[1].n_got, 8);
    scene->keep = true;
    ask(scene, 1, 0, 2);
    sample_id lost[8];
    memcpy(lost, scene->seats[1].got + 8, sizeof lost);
    leave(scene, 1);
    scene->keep = false;
    ask(scene, 0, 0, 64);
    ask(scene, 2, 0, 64);
    assert_int_equal(scene->seats[0].n_got, 20);
    assert_int_equal(scene->seats[2].n_got, 20);
    scene->seats[1].n_got = 8;
    attach(scene, 1);
    assert_int_equal(scene->seats[1].epoch_told, 0);
    ask(scene, 1, 0, 64);
    assert_int_equal(scene->seats[1].n_got, 20);
    assert_memory_equal(scene->seats[1].got + 8, lost, sizeof lost);
    assert_int_equal(repeats(scene, 60), 0);
    leave(scene, 1);
    attach(scene, 1); /* after its share: it is told to go on with the next epoch, and an empty batch ends this one */
    assert_int_equal(scene->seats[1].epoch_told, 1);
    scene->seats[1].last = false;
    ask(scene, 1, 0, 1);
    assert_true(scene->seats[1].last);
    assert_int_equal(scene->seats[1].n_got, 20);
    scene_free(scene);
}

/* A rank that never comes, and one that does not come back, fail the job after the stated time, by name. */
static void test_a_rank_is_missing(void **state)
{
    (void)state;
    struct scene *scene = scene_new(40, 3, 5);
    attach(scene, 0);
    attach(scene, 1);
    wait_s(scene, 100); /* nobody has asked yet, so nobody waits */
    assert_int_equal(scene->seats[0].failed, 0);
    ask(scene, 0, 0, 64);
    wait_s(scene, 0.001);
    wait_s(scene, 9.9);
    assert_int_equal(scene->seats[0].failed, 0);
    wait_s(scene, 0.2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(scene->seats[rank].failed, LARDER_ETIMEOUT);
        assert_non_null(strstr(scene->seats[rank].text, "rank 2 of 3 has not come within"));
    }
    attach(scene, 2);
    assert_int_equal(scene->refused, LARDER_EGONE);
    leave(scene, 0);
    assert_false(scene->ended);
    leave(scene, 1);
    assert_true(scene->ended);
    scene->ended = false;
    memset(scene->seats, 0, sizeof scene->seats);
    for (uint32_t rank = 0; rank < 3; rank++)
        attach(scene, rank);
    for (uint32_t rank = 0; rank < 3; rank++)
        ask(scene, rank, 0, 64);
    leave(scene, 0); /* after its share: missed only when somebody wants the next epoch */
    wait_s(scene, 100);
    assert_int_equal(scene->seats[1].failed, 0);
    ask(scene, 1, 1, 1);
    wait_s(scene, 0.001);
    wait_s(scene, 11);
    assert_int_equal(scene->seats[1].failed, LARDER_ETIMEOUT);
    assert_non_null(strstr(scene->seats[1].text, "rank 0 of 3 has not come back within"));
    scene_free(scene);
}

/* Ranks that miss each other are still one job: one that is through and has gone before the next comes leaves it the rest. */
static void test_ranks_one_after_the_other(void **state)
{
    (void)state;
    struct scene *scene = scene_new(42, 3, 5);
    for (uint32_t rank = 0; rank < 3; rank++) {
        attach(scene, rank);
        ask(scene, rank, 0, 64);
        assert_int_equal(scene->seats[rank].n_got, 14);
        assert_false(scene->ended);
        leave(scene, rank);
        wait_s(scene, 9);
    }
    assert_true(scene->ended);
    assert_int_equal(repeats(scene, 42), 0);
    scene->ended = false;
    attach(scene, 0);
    leave(scene, 0);
    wait_s(scene, 11); /* the others never come */
    assert_true(scene->ended);
    scene->ended = false;
    attach(scene, 0);
    leave(scene, 0);
    step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .rank = 1, .job_gone = {scene->job}}); /* cancelled */
    scene_free(scene);
}

static void refused(struct scene *scene, int code, const char *text)
{
    scene->refused = 0;
    attach(scene, scene->desc.rank);
    assert_int_equal(scene->refused, code);
    assert_non_null(strstr(scene->text, text));
}

/* A rank that disagrees with the first is refused, and told over what. */
static void test_ranks_must_agree(void **state)
{
    (void)state;
    struct scene *scene = scene_new(40, 3, 5);
    attach(scene, 1);
    refused(scene, LARDER_EBUSY, "rank 1 is there already");
    scene->desc.rank = 0;
    struct engine_job_desc good = scene->desc;
    scene->desc.batch_size = 6;
    refused(scene, LARDER_EINVAL, "batch_size");
    scene->desc = good;
    scene->desc.world_size = 2;
    refused(scene, LARDER_EINVAL, "world_size");
    scene->desc = good;
    scene->desc.seed = 7;
    refused(scene, LARDER_EINVAL, "seed");
    scene->desc = good;
    scene->desc.shuffle = SHUFFLE_STRICT;
    refused(scene, LARDER_EINVAL, "shuffle");
    scene->desc = good;
    scene->desc.drop_last = true;
    refused(scene, LARDER_EINVAL, "drop_last");
    scene->desc = good;
    scene->desc.pipeline = 3;
    refused(scene, LARDER_EINVAL, "pipeline");
    scene->desc = good;
    scene->desc.ordered = true;
    refused(scene, LARDER_EINVAL, "ordered");
    scene->desc = good;
    struct idset *other;
    assert_int_equal(idset_from_range(1, 41, &other), 0);
    scene->desc.view = other;
    refused(scene, LARDER_EINVAL, "subset");
    idset_destroy(other);
    scene->desc = good;
    scene->desc.rank = 3;
    refused(scene, LARDER_EINVAL, "out of its range");
    scene->desc = good;
    attach(scene, 0);
    assert_true(scene->seats[0].there);
    scene_free(scene);
}

static void let_go(struct scene *scene)
{
    assert_true(scene->slow_running);
    scene->slow = SAMPLE_NONE;
    step(scene, (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = scene->slow_task}});
}

/* One slow sample delays its own delivery and not the batch, within two batches of look-ahead; an ordered job waits. */
static void test_a_slow_sample_is_overtaken(void **state)
{
    (void)state;
    for (int ordered = 0; ordered <= 1; ordered++) {
        struct scene *scene = scene_new(40, 1, 5);
        scene->desc.ordered = ordered;
        scene->slow = 0;
        attach(scene, 0);
        ask(scene, 0, 0, 64);
        uint32_t before = scene->seats[0].n_got;
        if (ordered)
            assert_true(before < 40 && before % 5 == 0);
        else
            assert_int_equal(before, 35); /* all but the last batch, which cannot be without it */
        for (uint32_t i = 0; i < before; i++)
            assert_int_not_equal(scene->seats[0].got[i], 0);
        let_go(scene);
        assert_int_equal(scene->seats[0].n_got, 40);
        assert_int_equal(repeats(scene, 40), 0);
        scene_free(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_are_equal),
        cmocka_unit_test(test_drop_last),
        cmocka_unit_test(test_fixed_order_is_dealt_in_turn),
        cmocka_unit_test(test_a_slow_rank_delays_nobody),
        cmocka_unit_test(test_epochs_wait_for_the_last_rank),
        cmocka_unit_test(test_leaving_an_epoch_early),
        cmocka_unit_test(test_a_rank_comes_back),
        cmocka_unit_test(test_a_rank_is_missing),
        cmocka_unit_test(test_ranks_one_after_the_other),
        cmocka_unit_test(test_ranks_must_agree),
        cmocka_unit_test(test_a_slow_sample_is_overtaken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
