/* A job whose samples come from several homes: this engine gives some of them, other nodes the others. The nodes here
 * give any sample of theirs, the same one again, bad ones, ones that are not theirs, and none; they die, and their
 * samples come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/random.h"
#include "tests/play/restart.h"

enum { NODES = 3, HERE = 0, OTHER = 900, OPEN_MAX = 512, EPOCHS = 3, SEEDS = 400, ROUNDS_MAX = 20000, MANY = 256 };

struct expected {
    uint32_t task, node;
    sample_id id;
};

/* Odds, of 100, that a node does something else than giving one of its samples. */
struct faults {
    uint32_t none, again, foreign, dies, rank_leaves;
};

/* A job beside it, of one rank and without homes, that takes the same pixels. */
struct other {
    uint32_t job, epoch, had;
    uint32_t times[RUN_IDS_MAX];
};

struct world {
    struct run *run;
    struct other other;
    struct rng rng;
    struct faults faults;
    uint32_t home[RUN_IDS_MAX];     /* the node that has the sample */
    struct multiset *multiset;      /* what an epoch is; NULL: each sample once */
    uint32_t times[RUN_IDS_MAX];    /* how often each comes in this epoch */
    uint32_t received[RUN_IDS_MAX]; /* how often it came from another node, in this epoch */
    uint32_t given[RUN_IDS_MAX];    /* how often its node gave it, which does so no oftener than it comes */
    bool gone[NODES];               /* has died in this epoch */
    uint32_t epoch, away;           /* away: the rank that is not there; UINT32_MAX: all are */
    struct expected open[OPEN_MAX];
    uint32_t n_open, loads_of_others, arrivals;
    uint32_t displaced; /* arrivals that an entry without a place expected */
    bool (*see)(void *run, const struct engine_action *action);
};

static bool elsewhere_now(const struct world *world, sample_id id)
{
    return world->home[id] != HERE && !world->gone[world->home[id]];
}

static int elsewhere(const void *map, uint32_t epoch, const struct bag *left, struct idset **out)
{
    const struct world *world = map;
    (void)epoch;
    for (sample_id id = 0; id < world->run->samples; id++)
        assert_true(bag_times(left, id) <= world->times[id]);
    int code = idset_create(out);
    for (sample_id id = 0; !code && id < world->run->samples; id++)
        if (world->home[id] != HERE)
            idset_add(*out, id);
    return code;
}

static void other_has(struct world *world, const struct engine_action *action)
{
    struct other *other = &world->other;
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
    assert_true(world->n_open < OPEN_MAX);
    assert_int_equal(action->expect.bytes, world->run->desc.slot_bytes);
    world->open[world->n_open++] = (struct expected){action->expect.task, world->home[action->expect.id],
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
    struct engine_event event = {
        .type = ENGINE_ARRIVED,
        .arrived = {
            .task = world->open[at].task, .id = id, .reason = bad ? BAD_CORRUPT : 0, .taken = &taken, .over = &over}};
    struct expected was = world->open[at];
    world->open[at] = world->open[--world->n_open]; /* the step may expect more */
    play_event(&world->run->play, event);
    if (!over)
        world->open[world->n_open++] = was;
    if (!taken)
        return;
    assert_true(id != SAMPLE_NONE && world->home[id] != HERE && world->received[id] < world->times[id]);
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
    struct engine_share share;
    engine_share(world->run->play.engine, world->run->play.job, &share);
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

static void epoch(struct world *world, uint32_t epoch)
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

static void begin(struct world *world, uint64_t seed, uint32_t samples, uint32_t ranks, struct faults faults)
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
    for (sample_id id = 0; id < samples; id++)
        world->home[id] = (uint32_t)random_below(&world->rng, NODES);
}

/* make_draws makes the epochs of the world's job multisets. */
static void make_draws(struct world *world, uint64_t seed)
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

static void make_tight(const struct world *world, uint64_t slots)
{
    struct play *play = &world->run->play, before = *play;
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = slots * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 4,
                                   .rank_timeout_ns = UINT64_MAX};
    play_end(play);
    assert_int_equal(play_create(config, play, NULL), 0);
    play->see = before.see;
    play->ctx = before.ctx;
    play->check_every = 1;
}

static void other_comes(struct world *world)
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

static void come(struct world *world)
{
    for (uint32_t rank = 0; rank < world->run->desc.world_size; rank++)
        run_come_without(world->run, rank);
    assert_int_equal(world->run->play.refused, 0);
}

static void end(struct world *world)
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

/* Gives the number of repeats. */
static uint32_t assert_once(const struct world *world, uint32_t epoch, bool may_lack)
{
    uint32_t times[RUN_IDS_MAX] = {0}, repeats = run_count(world->run, epoch, MANY, times);
    for (sample_id id = 0; id < world->run->samples; id++) {
        bool lost = world->run->bad[id] && world->run->desc.bad_policy == BAD_SKIP;
        assert_true(may_lack ? times[id] <= world->times[id] : times[id] == (lost ? 0 : world->times[id]));
    }
    return repeats;
}

/* times_at returns how often a sample had its turn at a rank in an epoch. */
static uint32_t times_at(const struct world *world, uint32_t rank, uint32_t epoch, sample_id id)
{
    uint32_t times = 0;
    for (uint32_t at = 0; at < world->run->ranks[rank].n_batches; at++) {
        const struct run_batch *batch = &world->run->ranks[rank].batches[at];
        for (uint32_t i = 0; batch->epoch == epoch && i < batch->count; i++)
            times += batch->turns[i] == id;
    }
    return times;
}

/* Copies that are dealt together come to different ranks; where they are more than there are ranks, to each as often,
 * give or take one. */
static void assert_apart(const struct world *world, uint32_t epoch)
{
    uint32_t ranks = world->run->desc.world_size;
    if (!world->multiset || !multiset_is_together(world->multiset) || world->run->desc.drop_last)
        return;
    for (sample_id id = 0; id < world->run->samples; id++) {
        for (uint32_t rank = 0; rank < ranks; rank++)
            assert_true(times_at(world, rank, epoch, id) <= (world->times[id] + ranks - 1) / ranks);
    }
}

/* Nodes that give each of their samples once: nothing of theirs is read here, but for repeats. */
static void test_faultless(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
        struct world world;
        begin(&world, seed, 1 + (uint32_t)(seed * 7 % 120), 1 + seed % 4, (struct faults){0});
        uint32_t others = 0, repeats = 0;
        for (sample_id id = 0; id < world.run->samples; id++)
            others += world.home[id] != HERE;
        come(&world);
        for (uint32_t at = 0; at < EPOCHS; at++) {
            uint32_t before = world.arrivals;
            epoch(&world, at);
            repeats += assert_once(&world, at, false);
            assert_int_equal(world.arrivals - before, others);
        }
        assert_true(world.loads_of_others <= repeats);
        end(&world);
    }
}

/* In an arena with hardly more room than the job is sure of, what a rank had asked for before it left still has the
 * places that it would need. A node gives a sample that an entry without a place expects to one that has a place. */
static void test_no_place(void **state)
{
    (void)state;
    uint32_t displaced = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world world;
        begin(&world, seed, 24 + (uint32_t)seed % 40, 2, (struct faults){.none = 2, .rank_leaves = 4});
        make_tight(&world, 2 * 4 * (3 + seed % 3));
        come(&world);
        for (uint32_t at = 0; at < EPOCHS; at++) {
            epoch(&world, at);
            assert_once(&world, at, true);
        }
        displaced += world.displaced;
        end(&world);
    }
    print_message("%u samples came that an entry without a place expected\n", displaced);
    assert_true(displaced > 0);
}

/* Nodes that do all that they should not. */
static void test_faults(void **state)
{
    (void)state;
    uint64_t refused = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world world;
        struct rng rng;
        random_seed_keys(&rng, seed, 2, 0, 0);
        uint32_t samples = 1 + (uint32_t)random_below(&rng, 120), ranks = 1 + (uint32_t)random_below(&rng, 4);
        begin(&world, seed, samples, ranks, (struct faults){10, 15, 15, 1, seed % 3 ? 0 : 3});
        struct engine_job_desc *desc = &world.run->desc;
        desc->drop_last = random_below(&rng, 4) == 0;
        desc->bad_policy = random_below(&rng, 2) ? BAD_SKIP : BAD_REPLACE;
        desc->repeatable = random_below(&rng, 2);
        for (sample_id id = 1; id < samples && seed % 2; id++)
            world.run->bad[id] = random_below(&rng, 12) == 0;
        if (seed % 2 == 0)
            other_comes(&world);
        come(&world);
        for (uint32_t at = 0; at < EPOCHS; at++) {
            epoch(&world, at);
            assert_once(&world, at, desc->drop_last || (seed % 3 == 0 && ranks > 1));
        }
        struct engine_totals totals;
        engine_totals(world.run->play.engine, &totals);
        assert_int_equal(totals.counts.samples_arrived, world.arrivals);
        refused += totals.counts.arrivals_refused;
        end(&world);
    }
    assert_true(refused > SEEDS);
}

/* Epochs that are multisets: each sample comes as often as it is in one, whatever the nodes do. */
static void test_draws(void **state)
{
    (void)state;
    uint64_t refused = 0, arrivals = 0, here = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world world;
        struct rng rng;
        random_seed_keys(&rng, seed, 4, 0, 0);
        uint32_t samples = 1 + (uint32_t)random_below(&rng, 60), ranks = 1 + (uint32_t)random_below(&rng, 4);
        bool faulty = seed % 4, leaves = seed % 4 == 1 && ranks > 1;
        struct faults faults = {10, 15, 15, 1, leaves ? 3 : 0};
        begin(&world, seed, samples, ranks, faulty ? faults : (struct faults){0});
        make_draws(&world, seed);
        world.run->desc.drop_last = random_below(&rng, 4) == 0;
        world.run->desc.repeatable = random_below(&rng, 2);
        if (seed % 3 == 0)
            other_comes(&world);
        come(&world);
        for (uint32_t at = 0; at < EPOCHS; at++) {
            uint32_t before = world.arrivals, elsewhere = 0;
            epoch(&world, at);
            assert_once(&world, at, world.run->desc.drop_last || leaves);
            assert_apart(&world, at);
            for (sample_id id = 0; id < samples; id++)
                elsewhere += world.home[id] != HERE ? world.times[id] : 0;
            if (!faulty && !world.run->desc.drop_last)
                assert_int_equal(world.arrivals - before, elsewhere);
        }
        struct engine_totals totals;
        engine_totals(world.run->play.engine, &totals);
        assert_int_equal(totals.counts.samples_arrived, world.arrivals);
        refused += totals.counts.arrivals_refused;
        arrivals += world.arrivals;
        here += totals.counts.samples_delivered - world.arrivals;
        end(&world);
    }
    print_message("%u draws came, %u were made here, and %u were refused\n", (unsigned)arrivals, (unsigned)here,
                  (unsigned)refused);
    assert_true(refused > SEEDS / 4);
}

/* Copies come to different ranks in whatever order homes give them. Nothing that a home gave is made here again, while
 * the arena has room to keep what came too early. */
static void test_copies(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS / 2; seed++) {
        struct world world;
        begin(&world, seed, 20 + (uint32_t)seed % 30, 2 + (uint32_t)(seed / 3 % 3), (struct faults){0});
        make_draws(&world, 3 * (seed % 3)); /* 2, 3 or 4 of each */
        come(&world);
        for (uint32_t at = 0; at < EPOCHS; at++) {
            epoch(&world, at);
            uint32_t repeats = assert_once(&world, at, false);
            assert_apart(&world, at);
            if (repeats == 0)
                assert_int_equal(world.loads_of_others, 0);
            world.loads_of_others = 0;
        }
        end(&world);
    }
}

/* The same in an arena with hardly more room than the job is sure of, where ranks leave and come again: what came too
 * early may be evicted before its rank has room, and is made here. */
static void test_copies_in_little_room(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS / 2; seed++) {
        struct world world;
        uint32_t ranks = 2 + (uint32_t)seed % 3;
        begin(&world, seed, 24 + (uint32_t)seed % 20, ranks, (struct faults){2, 5, 5, 1, seed % 2 ? 4 : 0});
        make_draws(&world, 3 * (seed / 3 % 3));
        make_tight(&world, ranks * 4 * (3 + seed % 3));
        come(&world);
        for (uint32_t at = 0; at < EPOCHS; at++) {
            epoch(&world, at);
            assert_once(&world, at, seed % 2);
            assert_apart(&world, at);
        }
        end(&world);
    }
}

/* A job that goes on in an epoch does not expect what was had. */
static void test_resume(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
        struct world before, after;
        uint32_t samples = 30 + (uint32_t)seed % 60;
        begin(&before, seed, samples, 2, (struct faults){0});
        come(&before);
        epoch(&before, 0);
        struct checkpoint checkpoint = run_checkpoint(before.run, 0, 1 + (uint32_t)seed % 3);
        begin(&after, seed, samples, 1 + (uint32_t)seed % 3, (struct faults){5, 5, 5, 0, 0});
        run_go_on(after.run, &checkpoint);
        for (sample_id id = 0; id < samples; id++)
            after.received[id] = checkpoint.turns[id] > 0;
        epoch(&after, 0);
        uint32_t times[RUN_IDS_MAX] = {0};
        run_count(after.run, 0, MANY, times);
        for (sample_id id = 0; id < samples; id++)
            assert_int_equal(times[id] + checkpoint.turns[id], 1);
        end(&after);
        end(&before);
    }
}

/* Picks fall on what is here and on what is elsewhere by what is left: samples of both come as early in an epoch. The
 * nodes answer in another order than they were asked. */
static void test_uniform(void **state)
{
    (void)state;
    double places[2] = {0}, counts[2] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world world;
        begin(&world, seed, 120, 1, (struct faults){0});
        come(&world);
        epoch(&world, 0);
        uint32_t place = 0;
        for (uint32_t at = 0; at < run_had(world.run, 0, 0); at++) {
            const struct run_batch *batch = run_find(world.run, 0, 0, at);
            for (uint32_t i = 0; i < batch->count; i++, place++) {
                places[world.home[batch->ids[i]] != HERE] += place;
                counts[world.home[batch->ids[i]] != HERE]++;
            }
        }
        end(&world);
    }
    /* The mean of 16,000 places of 120 has a standard deviation of .3; the two differ by .05 with this seed. */
    double apart = places[0] / counts[0] - places[1] / counts[1];
    print_message("places of an epoch: %.2f here, %.2f elsewhere\n", places[0] / counts[0], places[1] / counts[1]);
    assert_true(apart < 2 && apart > -2);
}

static void test_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct world world;
        begin(&world, 1, 20, 1, (struct faults){0});
        world.run->desc.sampled.shuffle = kind ? SHUFFLE_STRICT : SHUFFLE_DEPENDENT;
        world.run->desc.raw = !kind;
        run_come_without(world.run, 0);
        assert_int_equal(world.run->play.refused, LARDER_EINVAL);
        run_free(world.run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faultless),
        cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_copies_in_little_room),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
