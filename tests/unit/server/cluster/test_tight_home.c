/* A home whose arena has room for a few samples of a guest, and an anchor that wants many: the home's guests and the
 * anchor's merge, with a network between them that takes its time and loses nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/cluster/guests.h"
#include "server/cluster/merge.h"

#define MS UINT64_C(1000000)

enum {
    SAMPLES = 2000,
    AHEAD = 64,      /* that the anchor's engine expects at once, */
    FAR_AHEAD = 96,  /* or where its script has more batches ahead */
    FIRST = 13,      /* that it expects first, when not all at once */
    TRAVELS_MS = 1,  /* a message */
    PREPARES_MS = 1, /* the home's engine, a batch, */
    SLOW_MS = 300,   /* or where it is slow */
    STEP_MS = 600,   /* of a script that takes STEP samples of this home's in a step */
    STEP = 32,
    MESSAGES = 64,
    NODE = 1,
};

struct message {
    uint64_t at_ns; /* 0: none */
    bool to_home;
    struct guests_event asks;
    struct merge_event answers;
    struct merge_sample samples[GUESTS_SAMPLES_MAX];
};

/* What differs from test to test. */
struct setting {
    uint32_t room, prepares_ms, ahead; /* room: batches that the home may hold */
    uint32_t first, step_ms; /* step_ms 0: the script takes all that has come at once, and `first` says nothing */
};

struct world {
    struct setting of;
    struct guests *guests;
    struct merge *merge;
    uint64_t now_ns;
    struct message net[MESSAGES];
    uint32_t out, credits, prepared; /* batches: that are not released, asked for; samples */
    uint64_t batch, ready_ns, guest;
    bool expected[SAMPLES], received[SAMPLES];
    sample_id slots[SAMPLES]; /* by task: what it expects */
    uint32_t n_tasks, n_expected, n_received, requests;
};

static struct message *message(struct world *world, bool to_home)
{
    for (int i = 0; i < MESSAGES; i++) {
        if (world->net[i].at_ns == 0) {
            world->net[i] = (struct message){.at_ns = world->now_ns + TRAVELS_MS * MS, .to_home = to_home};
            return &world->net[i];
        }
    }
    fail();
    return NULL;
}

/* ── the home ── */

static void answer(struct world *world, const struct guests_action *action)
{
    static const enum merge_event_type types[] = {
        [GUESTS_ATTACHED] = MERGE_ATTACHED, [GUESTS_BATCH_IS] = MERGE_BATCH, [GUESTS_EMPTY] = MERGE_EMPTY};
    struct message *answer = message(world, false);
    answer->answers.type = types[action->answer.kind];
    answer->answers.request = action->request;
    if (action->answer.kind == GUESTS_ATTACHED)
        answer->answers.guest = action->guest;
    if (action->answer.kind != GUESTS_BATCH_IS)
        return;
    answer->answers.batch.last = action->answer.last;
    answer->answers.batch.count = action->answer.n_samples;
    for (uint32_t i = 0; i < action->answer.n_samples; i++)
        answer->samples[i] = (struct merge_sample){.id = action->answer.samples[i].id};
}

static void tell_home(struct world *world, struct guests_event event)
{
    const struct guests_action *actions;
    event.now_ns = world->now_ns;
    size_t count = guests_step(world->guests, &event, &actions);
    for (size_t i = 0; i < count; i++) {
        switch (actions[i].type) {
        case GUESTS_RESOLVE: world->guest = actions[i].guest; break;
        case GUESTS_ASK: world->credits += actions[i].credits; break;
        case GUESTS_RELEASE: world->out--; break;
        case GUESTS_GONE: fail(); break;
        case GUESTS_ANSWER: answer(world, &actions[i]); break;
        }
    }
}

/* The engine delivers a batch, when there is room for one and it is prepared. */
static void deliver(struct world *world)
{
    struct guests_sample samples[GUESTS_BATCH];
    uint32_t count = 0;
    if (!world->credits || world->out == world->of.room || world->now_ns < world->ready_ns ||
        world->prepared == SAMPLES)
        return;
    for (; count < GUESTS_BATCH && world->prepared < SAMPLES; count++)
        samples[count] = (struct guests_sample){.id = world->prepared++, .bytes = 1};
    world->credits--;
    world->out++;
    world->ready_ns = world->now_ns + world->of.prepares_ms * MS;
    tell_home(world, (struct guests_event){.type = GUESTS_DELIVERED,
                                           .guest = world->guest,
                                           .delivered = {.batch = ++world->batch,
                                                         .count = count,
                                                         .samples = samples,
                                                         .last = world->prepared == SAMPLES}});
}

/* ── the anchor ── */

static void tell_anchor(struct world *world, struct merge_event event);

/* The slot that expected what came expects what this one did. */
static void arrive(struct world *world, const struct merge_action *action)
{
    sample_id came = action->arrive.sample.id, wanted = world->slots[action->arrive.task];
    assert_true(came < SAMPLES && !world->received[came]);
    for (uint32_t task = 0; task < world->n_tasks; task++) {
        if (world->slots[task] == came)
            world->slots[task] = wanted;
    }
    world->slots[action->arrive.task] = SAMPLE_NONE;
    world->expected[world->expected[came] ? came : wanted] = false;
    world->received[came] = true;
    world->n_expected--;
    world->n_received++;
    tell_anchor(world, (struct merge_event){.type = MERGE_TAKEN, .taken = {.taken = true, .over = true}});
}

static void ask(struct world *world, const struct merge_action *action)
{
    struct guests_event *asks = &message(world, true)->asks;
    *asks = (struct guests_event){.type = GUESTS_NEXT, .request = action->request, .guest = action->guest};
    asks->next.term = action->term;
    asks->next.seq = action->next.seq;
    asks->next.acked = action->next.acked;
    asks->next.more = action->next.more;
    asks->next.n = action->next.n;
    asks->next.wait_ms = action->next.wait_ms;
    world->requests++;
}

static void attach(struct world *world, const struct merge_action *action)
{
    struct guests_event *asks = &message(world, true)->asks;
    *asks = (struct guests_event){.type = GUESTS_ATTACH, .request = action->request};
    asks->attach.key = (struct guests_key){.anchor = {2}, .boot = 1, .job = 1};
    asks->attach.term = action->term;
    asks->attach.count = bag_count(action->attach.ids);
}

static void tell_anchor(struct world *world, struct merge_event event)
{
    struct merge_action all[256];
    const struct merge_action *actions;
    event.now_ns = world->now_ns;
    size_t count = merge_step(world->merge, &event, &actions);
    assert_true(count <= sizeof all / sizeof *all);
    memcpy(all, actions, count * sizeof *all);
    for (size_t i = 0; i < count; i++) {
        switch (all[i].type) {
        case MERGE_ATTACH: attach(world, &all[i]); break;
        case MERGE_NEXT: ask(world, &all[i]); break;
        case MERGE_ARRIVE: arrive(world, &all[i]); break;
        case MERGE_DETACH: break;
        case MERGE_CANCEL:
        case MERGE_MOVE: fail(); break;
        }
    }
}

/* may_expect returns how many the engine may have expected by now. */
static uint64_t may_expect(const struct world *world)
{
    uint64_t steps = world->of.step_ms ? world->now_ns / (world->of.step_ms * MS) : 0;
    if (!world->of.step_ms)
        return SAMPLES;
    return steps ? world->of.ahead + (steps - 1) * STEP : world->of.first;
}

/* The engine expects as many as its look-ahead has. */
static void expect(struct world *world)
{
    uint64_t most = may_expect(world);
    for (sample_id id = 0; id < SAMPLES && world->n_expected < world->of.ahead && world->n_tasks < most; id++) {
        if (world->received[id] || world->expected[id])
            continue;
        assert_true(world->n_tasks < SAMPLES);
        world->expected[id] = true;
        world->n_expected++;
        world->slots[world->n_tasks] = id;
        tell_anchor(world,
                    (struct merge_event){.type = MERGE_EXPECT,
                                         .expect = {.task = world->n_tasks++, .id = id, .ahead = world->of.ahead}});
    }
}

/* ── both ── */

static void carry(struct world *world)
{
    for (int i = 0; i < MESSAGES; i++) {
        struct message got = world->net[i];
        if (!got.at_ns || got.at_ns > world->now_ns)
            continue;
        world->net[i].at_ns = 0;
        got.answers.batch.samples = got.answers.type == MERGE_BATCH ? got.samples : got.answers.batch.samples;
        if (!got.to_home)
            tell_anchor(world, got.answers);
        else
            tell_home(world, got.asks);
        if (got.to_home && got.asks.type == GUESTS_ATTACH)
            tell_home(world, (struct guests_event){.type = GUESTS_ADDED,
                                                   .guest = world->guest,
                                                   .added = {.job = 1, .hold = world->of.room}});
    }
}

static void pass(struct world *world)
{
    world->now_ns += MS;
    carry(world);
    deliver(world);
    if (guests_alarm(world->guests) <= world->now_ns)
        tell_home(world, (struct guests_event){.type = GUESTS_TICK});
    expect(world);
    if (merge_alarm(world->merge) <= world->now_ns)
        tell_anchor(world, (struct merge_event){.type = MERGE_TICK});
}

/* run gives the time in ms in which the anchor has all samples, each of them once. */
static uint64_t run(struct setting setting, uint64_t most_ms, uint32_t *requests)
{
    static struct world world;
    struct guests_config config = {.guests = 1, .lease_ns = 30000 * MS};
    struct idset *ids;
    struct bag *part;
    world = (struct world){.of = setting, .now_ns = MS};
    assert_int_equal(guests_create(&config, &world.guests), 0);
    assert_int_equal(merge_create(0, &world.merge), 0);
    assert_int_equal(idset_from_range(0, SAMPLES, &ids), 0);
    assert_int_equal(bag_of_set(ids, &part), 0);
    idset_destroy(ids);
    tell_anchor(&world, (struct merge_event){.type = MERGE_PART, .part = {.node = NODE, .ids = part}});
    while (world.n_received < SAMPLES && world.now_ns < most_ms * MS)
        pass(&world);
    print_message("room for %u batches: %u samples in %u ms and %u requests\n", setting.room, world.n_received,
                  (unsigned)(world.now_ns / MS), world.requests);
    assert_int_equal(world.n_received, SAMPLES);
    *requests = world.requests;
    merge_destroy(world.merge);
    guests_destroy(world.guests);
    return world.now_ns / MS;
}

/* A home that has room for 16 samples of a guest gives them about as fast as it prepares and the network carries them,
 * by some milliseconds a request: it does not wait for the rest of a request for which it has no room. */
static void test_little_room(void **state)
{
    (void)state;
    uint32_t requests;
    for (uint32_t room = 2; room <= 8; room++) {
        assert_true(run((struct setting){room, PREPARES_MS, AHEAD, 0, 0}, 8000, &requests) < 8000);
        assert_true(requests <= SAMPLES / 6);
    }
}

/* Where there is room enough, requests bring as much as they may. */
static void test_room(void **state)
{
    (void)state;
    uint32_t requests;
    assert_true(run((struct setting){16, PREPARES_MS, AHEAD, 0, 0}, 8000, &requests) < 2000);
    assert_true(requests <= SAMPLES / 28);
}

/* Where the home is slow, they bring about as much as it prepares while they wait, and not each batch by itself. */
static void test_slow_home(void **state)
{
    (void)state;
    uint32_t requests;
    assert_true(run((struct setting){16, SLOW_MS, AHEAD, 0, 0}, 80000, &requests) > 0);
    assert_true(requests <= SAMPLES / 15);
}

/* They do so where more is expected than a home holds for a guest, and answers end within the engine's batches: no
 * request waits in a home that can give nothing until another request says what has come. */
static void test_far_ahead(void **state)
{
    (void)state;
    uint32_t requests;
    assert_true(run((struct setting){GUESTS_HOLD, PREPARES_MS, FAR_AHEAD, FIRST, STEP_MS}, 80000, &requests) > 0);
    assert_true(requests <= SAMPLES / 28);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_little_room), cmocka_unit_test(test_room),
                                       cmocka_unit_test(test_slow_home), cmocka_unit_test(test_far_ahead)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
