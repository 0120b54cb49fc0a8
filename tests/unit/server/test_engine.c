/* The engine by hand: small scenes whose every action is known. Random ones are the simulator's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "preprocess/prepare.h"
#include "server/engine.h"

enum { SLOT = 1000, ENCODED = 100, IDS_MAX = 1024, SECOND = 1000000000 };

/* A played world: loads and prepares come back at once, unless the sample is in `bad`. */
struct scene {
    struct engine *engine;
    uint64_t now;
    uint32_t job;            /* of the last JOB_ADDED */
    uint32_t held_max;
    int refused;             /* code of the last JOB_REFUSED, or 0 */
    char text[ERROR_TEXT_MAX]; /* and what it said */
    uint32_t ahead[JOBS_MAX];  /* batches of look-ahead, as last told */
    uint32_t changes;          /* times that it was told since */
    int failed;              /* code of the last JOB_ERROR */
    bool hold;               /* keep tasks back */
    bool slow;               /* keep the next load back */
    sample_id slow_id;
    bool bad[IDS_MAX];
    uint32_t loads, prepares, drops;
    uint32_t got[JOBS_MAX][IDS_MAX];
    uint64_t last_batch[JOBS_MAX];
    uint32_t batches[JOBS_MAX], last_count[JOBS_MAX];
    bool last[JOBS_MAX];
    bool release;            /* give batches back at once */
};

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset;
    return ENCODED + id % 7;
}

static char bytes; /* of every encoded sample: the engine never looks at them */

static void step(struct scene *scene, struct engine_event event);

static void react(struct scene *scene, const struct engine_action *action)
{
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        scene->job = action->job;
        scene->held_max = action->job_added.held_max;
        scene->ahead[action->job] = action->job_added.ahead;
        break;
    case ENGINE_JOB_REFUSED:
        scene->refused = action->error.error.code;
        strcpy(scene->text, action->error.error.text);
        break;
    case ENGINE_JOB_ERROR:
        scene->failed = action->error.error.code;
        break;
    case ENGINE_LOAD:
        scene->loads++;
        if (scene->slow) {
            scene->slow = false;
            scene->slow_id = action->load.id;
        } else if (!scene->hold) {
            step(scene, (struct engine_event){.type = ENGINE_LOADED,
                                              .loaded = {.id = action->load.id, .encoded = &bytes, .bytes = action->load.bytes}});
        }
        break;
    case ENGINE_PREPARE:
        scene->prepares += action->prepare.n_outputs;
        step(scene, (struct engine_event){.type = ENGINE_PREPARED,
                                          .prepared = {.task = action->prepare.task,
                                                       .reason = scene->bad[action->prepare.id] ? BAD_CORRUPT : 0}});
        break;
    case ENGINE_DROP_ENCODED:
        scene->drops++;
        break;
    case ENGINE_DELIVER:
        scene->batches[action->job]++;
        if (action->deliver.last) { /* reactions nest: batches may be seen out of order */
            assert_false(scene->last[action->job]);
            scene->last[action->job] = true;
            scene->last_count[action->job] = action->deliver.count;
        }
        scene->last_batch[action->job] = action->deliver.batch;
        for (uint32_t i = 0; i < action->deliver.count; i++)
            scene->got[action->job][action->deliver.entries[i].id]++;
        if (scene->release)
            step(scene, (struct engine_event){.type = ENGINE_RELEASE, .release = {action->job, action->deliver.batch}});
        break;
    case ENGINE_AHEAD:
        assert_int_equal(scene->ahead[action->job], action->ahead.from);
        scene->ahead[action->job] = action->ahead.to;
        scene->changes++;
        break;
    case ENGINE_JOB_ENDED:
        break;
    }
}

static void step_all(struct scene *scene, const struct engine_event *events, size_t n_events)
{
    const struct engine_action *actions;
    size_t count = engine_step_all(scene->engine, ++scene->now, events, n_events, &actions);
    /* The actions are the engine's until its next step, which reactions take: copy them, and what they point to. */
    struct engine_action *copy = xcalloc(count, sizeof *copy);
    struct engine_entry **entries = xcalloc(count, sizeof *entries);
    memcpy(copy, actions, count * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        if (copy[i].type != ENGINE_DELIVER)
            continue;
        entries[i] = xcalloc(copy[i].deliver.count, sizeof **entries);
        memcpy(entries[i], copy[i].deliver.entries, copy[i].deliver.count * sizeof **entries);
        copy[i].deliver.entries = entries[i];
    }
    engine_check(scene->engine);
    for (size_t i = 0; i < count; i++) {
        react(scene, &copy[i]);
        free(entries[i]);
    }
    free(entries);
    free(copy);
}

static void step(struct scene *scene, struct engine_event event)
{
    step_all(scene, &event, 1);
}

static struct scene *scene_new(uint64_t arena_slots)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = arena_slots * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 4,
                                   .ahead_window_ns = SECOND,
                                   .sample_bytes = sample_bytes};
    assert_int_equal(engine_create(&config, &scene->engine, NULL), 0);
    scene->release = true;
    return scene;
}

static void scene_free(struct scene *scene)
{
    engine_destroy(scene->engine);
    free(scene);
}

static struct engine_job_desc job_desc(const char *name, const struct idset *view)
{
    return (struct engine_job_desc){
        .client = (uint64_t)(unsigned char)name[0], .name = name, .slot_bytes = SLOT, .batch_size = 8, .prefetch = 2, .view = view};
}

static void add(struct scene *scene, const struct engine_job_desc *desc)
{
    scene->refused = 0;
    step(scene, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = desc});
}

static void next(struct scene *scene, uint32_t job, uint32_t epoch, uint32_t credits)
{
    step(scene, (struct engine_event){.type = ENGINE_NEXT, .next = {job, epoch, credits}});
}

/* Three jobs of one pipeline on one dataset get every sample once, and each sample is prepared once for all three. */
static void test_three_jobs_share_every_sample(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    const char *names[] = {"a", "b", "c"};
    uint32_t jobs[3];
    for (int i = 0; i < 3; i++) {
        struct engine_job_desc desc = job_desc(names[i], view);
        add(scene, &desc);
        jobs[i] = scene->job;
    }
    for (int batch = 0; batch < 13; batch++) {
        for (int i = 0; i < 3; i++)
            next(scene, jobs[i], 0, 1);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(scene->batches[jobs[i]], 13);
        assert_int_equal(scene->last_count[jobs[i]], 4); /* 100 = 12 · 8 + 4 */
        assert_true(scene->last[jobs[i]]);
        for (uint32_t id = 0; id < 100; id++)
            assert_int_equal(scene->got[jobs[i]][id], 1);
    }
    assert_int_equal(scene->prepares, 100);
    struct engine_totals totals;
    engine_totals(scene->engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 0);
    assert_int_equal(totals.encoded_used_bytes, 0); /* nobody wants them: not kept */
    assert_int_equal(totals.samples_delivered, 300);
    idset_destroy(view);
    scene_free(scene);
}

/* A client that keeps its batches gets held_max of them and no more; what it keeps is pinned, and back when it leaves. */
static void test_a_client_that_keeps_batches_stops_at_its_quota(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = job_desc("a", view);
    add(scene, &desc);
    scene->release = false;
    next(scene, scene->job, 0, 10);
    assert_int_equal(scene->held_max, 2);
    assert_int_equal(scene->batches[scene->job], 2);
    struct engine_totals totals;
    engine_totals(scene->engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 4 * 8 * 1024); /* two held, two ready behind them */
    step(scene, (struct engine_event){.type = ENGINE_RELEASE, .release = {scene->job, scene->last_batch[scene->job]}});
    assert_int_equal(scene->batches[scene->job], 3);
    step(scene, (struct engine_event){.type = ENGINE_RELEASE, .release = {scene->job, 999}});
    engine_totals(scene->engine, &totals);
    assert_int_equal(totals.unknown_releases, 1);
    step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {scene->job}});
    engine_totals(scene->engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 0);
    assert_int_equal(totals.jobs, 0);
    idset_destroy(view);
    scene_free(scene);
}

/* A bad sample costs one sample under `skip`, nothing in number under `replace`, and the job under `error`. */
static void test_bad_samples_follow_the_policy(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 20, &view), 0);
    scene->bad[3] = scene->bad[11] = true;
    const enum bad_policy policies[] = {BAD_SKIP, BAD_REPLACE, BAD_ERROR};
    const char *names[] = {"s", "r", "e"};
    uint32_t jobs[3];
    for (int i = 0; i < 3; i++) {
        struct engine_job_desc desc = job_desc(names[i], view);
        desc.bad_policy = policies[i];
        add(scene, &desc);
        jobs[i] = scene->job;
        next(scene, jobs[i], 0, 10);
    }
    uint32_t total[3] = {0};
    for (int i = 0; i < 3; i++) {
        for (uint32_t id = 0; id < 20; id++)
            total[i] += scene->got[jobs[i]][id];
        assert_int_equal(scene->got[jobs[i]][3] + scene->got[jobs[i]][11], 0);
    }
    assert_int_equal(total[0], 18);
    assert_int_equal(scene->batches[jobs[0]], 3);
    assert_int_equal(total[1], 20);
    assert_true(scene->last[jobs[0]] && scene->last[jobs[1]]);
    assert_int_equal(scene->failed, LARDER_ESAMPLE);
    idset_destroy(view);
    scene_free(scene);
}

/* What cannot be served is refused, each with its own code. */
static void test_refusals(void **state)
{
    (void)state;
    struct scene *scene = scene_new(64);
    struct idset *view, *empty;
    assert_int_equal(idset_from_range(0, 500, &view), 0);
    assert_int_equal(idset_create(&empty), 0);
    struct engine_job_desc desc = job_desc("a", view);
    desc.batch_size = 65; /* the arena has 64 slots */
    add(scene, &desc);
    assert_int_equal(scene->refused, LARDER_EQUOTA);
    desc.batch_size = 33; /* two batches do not fit */
    add(scene, &desc);
    assert_int_equal(scene->refused, LARDER_EQUOTA);
    desc.batch_size = 0;
    add(scene, &desc);
    assert_int_equal(scene->refused, LARDER_EINVAL);
    desc = job_desc("a", empty);
    add(scene, &desc);
    assert_int_equal(scene->refused, LARDER_EINVAL);
    desc = job_desc("a", view);
    desc.batch_size = 32; /* just fits, with no batch ahead */
    add(scene, &desc);
    assert_int_equal(scene->refused, 0);
    assert_int_equal(scene->held_max, 2);
    add(scene, &desc);
    assert_int_equal(scene->refused, LARDER_EBUSY);
    desc.name = "b";
    add(scene, &desc);
    assert_int_equal(scene->refused, LARDER_EQUOTA); /* all is promised */
    step(scene, (struct engine_event){.type = ENGINE_DRAIN});
    add(scene, &desc);
    assert_int_equal(scene->refused, LARDER_EGONE);
    idset_destroy(view);
    idset_destroy(empty);
    scene_free(scene);
}

/* Breaking an epoch off drops what is left of it; the next one brings the whole view again. */
static void test_a_broken_off_epoch_is_dropped(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = job_desc("a", view);
    desc.drop_last = true;
    add(scene, &desc);
    next(scene, scene->job, 0, 3);
    memset(scene->got, 0, sizeof scene->got);
    scene->batches[scene->job] = 0;
    next(scene, scene->job, 1, 30);
    next(scene, scene->job, 0, 30); /* an old one: ignored */
    uint32_t total = 0;
    for (uint32_t id = 0; id < 100; id++) {
        assert_true(scene->got[scene->job][id] <= 1);
        total += scene->got[scene->job][id];
    }
    assert_int_equal(total, 96); /* drop_last */
    assert_int_equal(scene->batches[scene->job], 12);
    assert_true(scene->last[scene->job]);
    idset_destroy(view);
    scene_free(scene);
}

static void gone(struct scene *scene, uint32_t job)
{
    step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {job}});
}

/* What the engine keeps for jobs is given back to be freed. */
static void leave_all(struct scene *scene)
{
    struct engine_job_status rows[JOBS_MAX];
    for (size_t count = engine_job_statuses(scene->engine, scene->now, rows, JOBS_MAX); count > 0; count--)
        gone(scene, rows[count - 1].job);
}

/* A job that comes gets room that another was ahead with, at once and whatever that one's client does; each sample still
 * comes once, and who stays gets the room back. */
static void test_look_ahead_is_given_back(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80); /* ten batches */
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = job_desc("a", view);
    desc.prefetch = 8;
    add(scene, &desc);
    uint32_t first = scene->job;
    assert_int_equal(scene->ahead[first], 8);
    scene->release = false;
    next(scene, first, 0, 64);
    struct engine_totals totals;
    engine_totals(scene->engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 80 * 1024); /* two batches held, eight ready */
    desc = job_desc("b", view);
    desc.pipeline = 1; /* no instance of the first job's */
    desc.prefetch = 8;
    add(scene, &desc);
    uint32_t second = scene->job;
    assert_int_equal(scene->ahead[first], 3);
    assert_int_equal(scene->ahead[second], 3);
    assert_int_equal(scene->changes, 1);
    scene->release = true;
    next(scene, second, 0, 64);
    assert_true(scene->last[second]); /* all of it, beside one that holds what it has */
    engine_totals(scene->engine, &totals);
    assert_int_equal(totals.ahead_shortened, 1);
    gone(scene, second);
    assert_int_equal(scene->ahead[first], 8);
    step(scene, (struct engine_event){.type = ENGINE_RELEASE, .release = {first, scene->last_batch[first]}});
    step(scene, (struct engine_event){.type = ENGINE_RELEASE, .release = {first, 1}});
    next(scene, first, 0, 64);
    assert_true(scene->last[first]);
    for (uint32_t id = 0; id < 100; id++) {
        assert_int_equal(scene->got[first][id], 1);
        assert_int_equal(scene->got[second][id], 1);
    }
    leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* Jobs come until two batches of each fill the arena; the next is refused, in words that say how much it would take. */
static void test_only_the_least_refuses(void **state)
{
    (void)state;
    struct scene *scene = scene_new(81);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    const char *names[] = {"a", "b", "c", "d", "e"};
    uint32_t jobs[5];
    for (uint32_t i = 0; i < 5; i++) {
        struct engine_job_desc desc = job_desc(names[i], view);
        desc.prefetch = 16;
        desc.pipeline = i;
        desc.shuffle = i % 2 ? SHUFFLE_STRICT : SHUFFLE_DEPENDENT;
        add(scene, &desc);
        assert_int_equal(scene->refused, 0);
        jobs[i] = scene->job;
        next(scene, jobs[i], 0, 1);
    }
    struct engine_job_desc desc = job_desc("f", view);
    add(scene, &desc);
    assert_int_equal(scene->refused, LARDER_EQUOTA);
    assert_non_null(strstr(scene->text, "at least 98304")); /* 12 batches of 8 slots of 1 KiB */
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(scene->ahead[jobs[i]], 0);
    for (uint32_t i = 0; i < 5; i++)
        next(scene, jobs[i], 0, 64);
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(scene->last[jobs[i]]);
        for (uint32_t id = 0; id < 100; id++)
            assert_int_equal(scene->got[jobs[i]][id], 1);
    }
    leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* A slow sample delays itself and not the batches behind it, until as many samples have overtaken it as the queue looks
 * ahead; then the queue waits for it, and it is in the next batch. */
static void test_a_slow_sample_is_overtaken_within_bounds(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 1000, &view), 0);
    struct engine_job_desc desc = job_desc("a", view);
    desc.prefetch = 5;
    scene->slow = true;
    add(scene, &desc);
    next(scene, scene->job, 0, 60);
    static char slow_bytes;
    sample_id slow_id = scene->slow_id;
    uint32_t job = scene->job, ahead = (desc.prefetch + 2) * desc.batch_size, batches = scene->batches[job];
    assert_in_range(batches * desc.batch_size, ahead - desc.batch_size, ahead);
    assert_int_equal(scene->got[job][slow_id], 0);
    step(scene, (struct engine_event){
                    .type = ENGINE_LOADED,
                    .loaded = {.id = slow_id, .encoded = &slow_bytes, .bytes = sample_bytes(NULL, slow_id)}});
    assert_int_equal(scene->got[job][slow_id], 1);
    assert_int_equal(scene->batches[job], 60);
    leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* What a client was promised that it may hold is not taken back, and no more than that. */
static void test_what_may_be_held_stays(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = job_desc("a", view);
    desc.hold = 6;
    add(scene, &desc);
    uint32_t first = scene->job;
    assert_int_equal(scene->held_max, 6);
    desc = job_desc("b", view);
    desc.pipeline = 1;
    desc.hold = 9;
    add(scene, &desc);
    assert_int_equal(scene->held_max, 4); /* what remains */
    uint32_t second = scene->job;
    desc = job_desc("c", view);
    add(scene, &desc);
    assert_int_equal(scene->refused, LARDER_EQUOTA);
    scene->release = false;
    next(scene, first, 0, 64);
    next(scene, second, 0, 64);
    assert_int_equal(scene->batches[first], 6);
    assert_int_equal(scene->batches[second], 4);
    leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

static uint32_t look_ahead(struct scene *scene)
{
    struct engine_job_status row;
    assert_int_equal(engine_job_statuses(scene->engine, scene->now, &row, 1), 1);
    return row.look_ahead;
}

/* A queue looks no farther ahead than its client's pace and the longest preparation ask for, once that has been measured
 * for long enough; and as far as it may as soon as the client had to wait. */
static void test_look_ahead_by_need(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 1000, &view), 0);
    struct engine_job_desc desc = job_desc("a", view);
    desc.prefetch = 16;
    add(scene, &desc);
    struct engine_totals totals;
    for (uint32_t batch = 0; batch < 100; batch++) {
        next(scene, scene->job, 0, 1);
        if (batch == ENGINE_AHEAD_WINDOWS * 8)
            assert_int_equal(look_ahead(scene), 16);
        scene->now += SECOND / 10;
    }
    assert_int_equal(scene->batches[scene->job], 100);
    assert_int_equal(look_ahead(scene), 0);
    engine_totals(scene->engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 2 * 8 * 1024);
    scene->hold = true; /* no load comes back from now on */
    for (uint32_t batch = 0; batch < 3; batch++) {
        next(scene, scene->job, 0, 1);
        scene->now += SECOND / 10;
    }
    assert_int_equal(scene->batches[scene->job], 102);
    assert_int_equal(look_ahead(scene), 16);
    leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* Where the arena is short, what each job needs comes before what it only asked for. */
static void test_needs_come_first(void **state)
{
    (void)state;
    struct scene *scene = scene_new(160); /* twenty batches */
    struct idset *view;
    assert_int_equal(idset_from_range(0, 1000, &view), 0);
    struct engine_job_desc desc = job_desc("a", view);
    desc.prefetch = 16;
    add(scene, &desc);
    uint32_t calm = scene->job;
    desc = job_desc("b", view);
    desc.pipeline = 1;
    desc.prefetch = 16;
    add(scene, &desc);
    uint32_t unknown = scene->job;
    assert_int_equal(scene->ahead[calm], 8);
    assert_int_equal(scene->ahead[unknown], 8);
    for (uint32_t batch = 0; batch < 100; batch++) {
        next(scene, calm, 0, 1);
        scene->now += SECOND / 10;
    }
    assert_int_equal(scene->ahead[calm], 0);
    assert_int_equal(scene->ahead[unknown], 16);
    assert_int_equal(scene->batches[calm], 100);
    leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* Two jobs of one-slot batches plan in turns, and one of them leaves: 16 slots stay held, with one free between them. */
static void scatter(struct scene *scene, struct engine_job_desc desc, const char *stays, const char *goes)
{
    struct engine_event both[2] = {{.type = ENGINE_NEXT, .next = {.credits = 16}}, {.type = ENGINE_NEXT, .next = {.credits = 16}}};
    desc.prefetch = 14;
    desc.hold = 16;
    desc.name = stays;
    desc.pipeline = 2;
    add(scene, &desc);
    both[0].next.job = scene->job;
    desc.name = goes;
    desc.pipeline = 3;
    add(scene, &desc);
    both[1].next.job = scene->job;
    step_all(scene, both, 2);
    assert_int_equal(scene->batches[both[0].next.job], 16);
    assert_int_equal(scene->batches[both[1].next.job], 16);
    gone(scene, both[1].next.job);
    scene->batches[both[1].next.job] = 0;
}

/* A job in a fixed order whose next sample lost its place gets one, though clients that have stopped want what is ready
 * behind it. */
static void test_the_next_sample_takes_a_place_behind_it(void **state)
{
    (void)state;
    struct scene *scene = scene_new(40);
    struct idset *view;
    sample_id order[100];
    for (sample_id id = 0; id < 100; id++)
        order[id] = id;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = job_desc("c", view);
    desc.batch_size = 1;
    desc.shuffle = SHUFFLE_NONE;
    desc.order = order;
    scene->release = false; /* clients stop with what they have */
    scatter(scene, desc, "c", "d");
    desc.slot_bytes = 2 * 1024;
    desc.name = "a";
    add(scene, &desc);
    next(scene, scene->job, 0, 1); /* holds sample 0; 1, 2 and 3 are ready: all that free space has room for */
    scene->release = true;
    desc.name = "b";
    add(scene, &desc);
    uint32_t job = scene->job;
    next(scene, job, 0, 1);
    assert_int_equal(scene->batches[job], 1);
    scene->release = false;
    desc.name = "e";
    desc.pipeline = 1;
    add(scene, &desc);
    next(scene, scene->job, 0, 1); /* takes the place of 1, which nobody waits for, in this step: no other need come */
    assert_int_equal(scene->batches[scene->job], 1);
    scene->release = true;
    for (uint32_t batch = 1; batch < 100; batch++) {
        next(scene, job, 0, 1);
        assert_int_equal(scene->batches[job], batch + 1);
    }
    leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_jobs_share_every_sample), cmocka_unit_test(test_a_client_that_keeps_batches_stops_at_its_quota),
        cmocka_unit_test(test_bad_samples_follow_the_policy), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_broken_off_epoch_is_dropped), cmocka_unit_test(test_look_ahead_is_given_back),
        cmocka_unit_test(test_only_the_least_refuses), cmocka_unit_test(test_what_may_be_held_stays),
        cmocka_unit_test(test_a_slow_sample_is_overtaken_within_bounds),
        cmocka_unit_test(test_look_ahead_by_need), cmocka_unit_test(test_needs_come_first),
        cmocka_unit_test(test_the_next_sample_takes_a_place_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
