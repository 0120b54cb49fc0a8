#include "tests/play/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "tests/play/inside.h"

enum { OTHER = 900, ROUNDS_MAX = 20000 };

static bool elsewhere_now(const struct world *world, sample_id id)
{
    return world->home[id] != WORLD_HERE && !world->gone[world->home[id]];
}

static int elsewhere(const void *map, uint32_t epoch, const struct bag *left, struct idset **out)
{
    const struct world *world = map;
    (void)epoch;
    for (sample_id id = 0; id < world->run->samples; id++)
        assert_true(bag_times(left, id) <= world->times[id]);
    int code = idset_create(out);
    for (sample_id id = 0; !code && id < world->run->samples; id++)
        if (world->home[id] != WORLD_HERE)
            idset_add(*out, id);
    return code;
}

static void other_has(struct world *world, const struct engine_action *action)
{
    struct world_other *other = &world->other;
    assert_int_equal(action->deliver.epoch, other->epoch);
    for (uint32_t i = 0; i < action->deliver.count; i++)
        other->times[action->deliver.entries[i].id]++;
    other->had += action->deliver.count;
    if (!action->deliver.last)
        return;
    other->epoch++;
    for (sample_id id = 0; id < world->run->samples; id++)
        assert_int_equal(other->times[id], other->epoch);
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct world *world = ctx;
    if (action->type == ENGINE_DELIVER && action->client == OTHER) {
        other_has(world, action);
        return false;
    }
    if (action->type == ENGINE_LOAD)
        world->loads_of_others += elsewhere_now(world, action->load.id) && !world->received[action->load.id] &&
                                  world->times[action->load.id];
    if (action->type != ENGINE_EXPECT)
        return world->see(world->run, action);
    assert_true(world->n_open < WORLD_OPEN_MAX);
    assert_int_equal(action->expect.bytes, world->run->desc.slot_bytes);
    world->open[world->n_open++] = (struct world_expected){action->expect.task, world->home[action->expect.id],
                                                           action->expect.id};
    return true;
}

static bool odds(struct world *world, uint32_t percent)
{
    return random_below(&world->rng, 100) < percent;
}

/* A sample that the node has to give, or with `again` one that it has given; SAMPLE_NONE: there is none. Copies that
 * are dealt together are given one after the other. */
static sample_id choose(struct world *world, uint32_t node, bool again)
{
    sample_id some[RUN_IDS_MAX];
    uint32_t count = 0;
    bool together = world->multiset && multiset_is_together(world->multiset) && !again;
    for (sample_id id = 0; together && id < world->run->samples; id++)
        if (world->home[id] == node && world->given[id] > 0 && world->given[id] < world->times[id])
            return id;
    for (sample_id id = 0; id < world->run->samples; id++)
        if (world->home[id] == node && (again ? world->given[id] > 0 : world->given[id] < world->times[id]))
            some[count++] = id;
    return count ? some[random_below(&world->rng, count)] : SAMPLE_NONE;
}

static void arrive(struct world *world, uint32_t at, sample_id id)
{
    bool taken = false, over = false;
    bool bad = id != SAMPLE_NONE && world->run->bad[id];
    struct engine_event event = {.type = ENGINE_ARRIVED,
                                 .arrived = {.task = world->open[at].task,
                                             .id = id,
                                             .reason = bad ? BAD_CORRUPT : 0,
                                             .bytes = run_length(world->run, id),
                                             .taken = &taken,
                                             .over = &over}};
    struct world_expected was = world->open[at];
    world->open[at] = world->open[--world->n_open]; /* the step may expect more */
    play_event(&world->run->play, event);
    if (!over)
        world->open[world->n_open++] = was;
    if (!taken)
        return;
    assert_true(id != SAMPLE_NONE && world->home[id] != WORLD_HERE && world->received[id] < world->times[id]);
    world->received[id]++;
    world->arrivals++;
    for (uint32_t other = 0; other < world->n_open; other++) /* they have changed places */
        world->open[other].id = world->open[other].id == id ? was.id : world->open[other].id;
}

/* Whoever a node's part is attached to again gives what was not received. */
static void attach_again(struct world *world, uint32_t node)
{
    for (sample_id id = 0; id < world->run->samples; id++)
        if (world->home[id] == node)
            world->given[id] = world->received[id];
}

static void node_dies(struct world *world, uint32_t node)
{
    struct idset *ids;
    assert_int_equal(idset_create(&ids), 0);
    for (sample_id id = 0; id < world->run->samples; id++)
        if (world->home[id] == node && world->received[id] < world->times[id])
            idset_add(ids, id);
    world->gone[node] = true;
    play_event(&world->run->play,
               (struct engine_event){.type = ENGINE_BACK,
                                     .back = {.job = world->run->play.job, .epoch = world->epoch, .ids = ids}});
    idset_destroy(ids);
    for (uint32_t at = 0; at < world->n_open;) {
        if (world->open[at].node == node)
            arrive(world, at, SAMPLE_NONE);
        else
            at++;
    }
}

/* A sample of the node's that an entry without a place expects; SAMPLE_NONE: none is known. When no sample elsewhere is
 * left to be drawn, each that has not come is expected, and has a place or none. Of a multiset that is not known. */
static sample_id without_place(const struct world *world, uint32_t node)
{
    struct inside_share share;
    inside_share(world->run->play.engine, world->run->play.job, &share);
    bool known = !world->multiset && share.unplaced && share.undrawn == 0;
    for (sample_id id = 0; known && id < world->run->samples; id++) {
        bool placed = world->home[id] != node || world->received[id];
        for (uint32_t at = 0; at < world->n_open; at++)
            placed = placed || world->open[at].id == id;
        if (!placed)
            return id;
    }
    return SAMPLE_NONE;
}

/* One open EXPECT is answered, or something happens to its node. */
static void answer(struct world *world)
{
    uint32_t at = (uint32_t)random_below(&world->rng, world->n_open), node = world->open[at].node;
    sample_id displaced = world->gone[node] ? SAMPLE_NONE : without_place(world, node);
    if (displaced != SAMPLE_NONE) {
        world->displaced++;
        world->given[displaced]++;
        arrive(world, at, displaced);
    } else if (world->gone[node] || odds(world, world->faults.none)) {
        arrive(world, at, SAMPLE_NONE);
    } else if (odds(world, world->faults.again)) {
        arrive(world, at, choose(world, node, true));
    } else if (odds(world, world->faults.foreign)) {
        arrive(world, at, (sample_id)random_below(&world->rng, world->run->samples));
    } else if (odds(world, world->faults.dies)) {
        node_dies(world, node);
    } else {
        sample_id id = choose(world, node, false);
        if (id == SAMPLE_NONE)
            attach_again(world, node);
        else
            world->given[id]++;
        arrive(world, at, id);
    }
}

static bool through(const struct world *world, uint32_t epoch)
{
    for (uint32_t rank = 0; rank < world->run->desc.world_size; rank++) {
        const struct run_rank *had = &world->run->ranks[rank];
        bool last = false;
        for (uint32_t i = 0; i < had->n_batches; i++)
            last = last || (had->batches[i].epoch == epoch && had->batches[i].last);
        if (!last)
            return false;
    }
    return true;
}

/* A rank's client leaves, or comes back. The others get what its node had given by then, and more. */
static void leave_or_come(struct world *world)
{
    if (world->away == UINT32_MAX) {
        world->away = (uint32_t)random_below(&world->rng, world->run->desc.world_size);
        run_leave(world->run, world->away);
    } else {
        run_come_without(world->run, world->away);
        world->away = UINT32_MAX;
    }
}

static void ask(struct world *world)
{
    uint32_t rank = (uint32_t)random_below(&world->rng, world->run->desc.world_size);
    if (world->other.job != UINT32_MAX && odds(world, 50))
        play_next(&world->run->play, world->other.job, 0, world->other.epoch, 1);
    else if (rank != world->away)
        run_ask(world->run, rank, world->epoch, 1);
}

/* see_times finds out how often each sample comes in an epoch. */
static void see_times(struct world *world, uint32_t epoch)
{
    uint32_t counts[RUN_IDS_MAX], n = 0;
    for (sample_id id = 0; id < world->run->samples; id++)
        world->times[id] = 1;
    if (!world->multiset)
        return;
    const sample_id *ids = multiset_ids(world->multiset, &n);
    assert_int_equal(multiset_epoch(world->multiset, epoch, counts), 0);
    for (uint32_t i = 0; i < n; i++)
        world->times[ids[i]] = counts[i];
}

void world_epoch(struct world *world, uint32_t epoch)
{
    world->epoch = epoch;
    see_times(world, epoch);
    memset(world->received, 0, sizeof world->received);
    memset(world->given, 0, sizeof world->given);
    memset(world->gone, 0, sizeof world->gone);
    for (uint32_t round = 0; !through(world, epoch); round++) {
        assert_int_equal(world->run->play.failed, 0);
        assert_true(round < ROUNDS_MAX);
        if (world->n_open && odds(world, 70))
            answer(world);
        else
            ask(world);
        if (world->run->desc.world_size > 1 && odds(world, world->faults.rank_leaves))
            leave_or_come(world);
    }
}

void world_begin(struct world *world, uint64_t seed, uint32_t samples, uint32_t ranks, struct world_faults faults)
{
    *world = (struct world){.run = run_new(SHUFFLE_DEPENDENT, samples, ranks, 4),
                            .other.job = UINT32_MAX,
                            .away = UINT32_MAX,
                            .faults = faults};
    random_seed_keys(&world->rng, seed, 1, 0, 0);
    world->see = world->run->play.see;
    world->run->play.see = see;
    world->run->play.ctx = world;
    world->run->desc.homes = (struct engine_homes){elsewhere, world};
    world->run->desc.sized = random_mix64(seed) % 3 == 0;
    for (sample_id id = 0; id < samples; id++)
        world->home[id] = (uint32_t)random_below(&world->rng, WORLD_NODES);
}

void world_draw(struct world *world, uint64_t seed)
{
    sample_id ids[RUN_IDS_MAX];
    double weights[RUN_IDS_MAX];
    int32_t labels[RUN_IDS_MAX];
    struct error err;
    uint32_t samples = world->run->samples;
    struct multiset_spec spec = {.kind = MULTISET_REPEAT + (enum multiset_kind)(seed % 3),
                                 .copies = 2 + (uint32_t)(seed / 3 % 3),
                                 .draws = 1 + random_below(&world->rng, 3 * samples),
                                 .seed = seed,
                                 .ids = ids,
                                 .weights = weights,
                                 .labels = labels,
                                 .count = samples};
    for (sample_id id = 0; id < samples; id++) {
        ids[id] = id;
        weights[id] = id == 0 ? 20 : (double)random_below(&world->rng, 3);
        labels[id] = (int32_t)random_below(&world->rng, 4);
    }
    assert_int_equal(multiset_create(&spec, &world->multiset, &err), 0);
    world->run->desc.sampled.multiset = world->multiset;
}

void world_tighten(const struct world *world, uint64_t slots)
{
    struct play *play = &world->run->play, before = *play;
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = slots * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 4,
                                   .made_bytes = run_most_bytes,
                                   .rank_timeout_ns = UINT64_MAX};
    play_end(play);
    assert_int_equal(play_create(config, play, NULL), 0);
    play->see = before.see;
    play->ctx = before.ctx;
    play->check_every = PLAY_CHECK_EVERY;
}

void world_other_comes(struct world *world)
{
    struct engine_job_desc desc = world->run->desc;
    desc.name = "other";
    desc.client = OTHER;
    desc.world_size = 1;
    desc.drop_last = false;
    desc.homes = (struct engine_homes){0};
    desc.sampled.multiset = NULL;
    world->other.job = play_add(&world->run->play, &desc);
    assert_int_not_equal(world->other.job, UINT32_MAX);
}

void world_come(struct world *world)
{
    for (uint32_t rank = 0; rank < world->run->desc.world_size; rank++)
        run_come_without(world->run, rank);
    assert_int_equal(world->run->play.refused, 0);
}

void world_end(struct world *world)
{
    if (world->other.job != UINT32_MAX)
        play_gone(&world->run->play, world->other.job, 0);
    for (uint32_t rank = 0; rank < world->run->desc.world_size; rank++)
        if (rank != world->away)
            run_leave(world->run, rank);
    while (world->n_open) /* nobody waits for these any more */
        arrive(world, 0, odds(world, 50) ? SAMPLE_NONE : 0);
    engine_check(world->run->play.engine);
    run_free(world->run);
    multiset_destroy(world->multiset);
}
