/* An anchor's engine and merge, and model nodes behind a network that loses, repeats and reorders. The nodes hold what
 * they gave until it is acknowledged, forget guests, refuse, and go away. Whatever happens, the job gets each sample of
 * an epoch once, and the epoch ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/random.h"
#include "server/cluster/merge.h"
#include "tests/play/restart.h"

enum {
    NODES = 4, /* node 0 is the anchor */
    HERE = 0,
    GUESTS_MAX = 512,
    SEQS_MAX = 4096,
    NET_MAX = 4096,
    ACTIONS_MAX = 8192,
    EPOCHS = 2,
    SEEDS = 300,
    ROUNDS_MAX = 200000,
    MANY = 256,
};

/* Odds of 100 for each message or step. */
struct faults {
    uint32_t lost, late, again, forgets, refuses, dies, wrong, stops_short;
};

struct answer {
    bool there;
    uint32_t count;
    struct merge_sample samples[MERGE_SAMPLES_MOST];
    bool last;
};

struct guest {
    bool there;
    uint32_t node;
    uint64_t term;
    bool rest[RUN_IDS_MAX];
    uint64_t acked;
    struct answer answers[SEQS_MAX / 16]; /* by seq */
};

/* What is on its way to the anchor. */
struct message {
    uint64_t at_ns;
    struct merge_event event;
    struct merge_sample samples[MERGE_SAMPLES_MOST];
};

struct world {
    struct run *run;
    struct merge *merge;
    struct rng rng;
    struct faults faults;
    uint64_t now_ns, term;
    uint32_t home[RUN_IDS_MAX], epoch;
    bool dead[NODES];
    bool liars, mute; /* Nodes say that they have given all, and give nothing; or they attach, and answer no more. */
    uint64_t terms[NODES];
    struct guest *guests;
    uint32_t n_guests;
    struct message net[NET_MAX];
    uint32_t n_net;
    bool cancelled[1 << 20]; /* by request */
    struct merge_action todo[ACTIONS_MAX];
    struct idset *ids[ACTIONS_MAX]; /* copies of what the actions point to */
    uint32_t first_todo, n_todo;
    bool taken[RUN_IDS_MAX];
    struct {
        uint32_t task;
        sample_id id;
    } expects[MANY];
    uint32_t n_expects, attachments, requests, given, loads_of_others;
    bool (*see)(void *run, const struct engine_action *action);
};

static bool odds(struct world *world, uint32_t percent)
{
    return random_below(&world->rng, 100) < percent;
}

static int elsewhere(const void *map, uint32_t epoch, const struct bag *left, struct idset **out)
{
    const struct world *world = map;
    (void)epoch, (void)left;
    int code = idset_create(out);
    for (sample_id id = 0; !code && id < world->run->samples; id++)
        if (world->home[id] != HERE)
            idset_add(*out, id);
    return code;
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct world *world = ctx;
    if (action->type == ENGINE_LOAD)
        world->loads_of_others += world->home[action->load.id] != HERE;
    if (action->type != ENGINE_EXPECT)
        return world->see(world->run, action);
    assert_true(world->n_expects < MANY);
    world->expects[world->n_expects].task = action->expect.task;
    world->expects[world->n_expects++].id = action->expect.id;
    return true;
}

/* ── the anchor ── */

static void keep(struct world *world, const struct merge_action *actions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(world->n_todo < ACTIONS_MAX);
        struct merge_action *kept = &world->todo[world->n_todo];
        *kept = actions[i];
        const struct bag *ids = kept->type == MERGE_ATTACH ? kept->attach.ids
                                : kept->type == MERGE_MOVE ? kept->move.ids
                                                           : NULL;
        world->ids[world->n_todo] = NULL;
        if (ids)
            assert_int_equal(bag_ids(ids, &world->ids[world->n_todo]), 0);
        world->n_todo++;
    }
}

static void tell(struct world *world, struct merge_event event)
{
    const struct merge_action *actions;
    event.now_ns = world->now_ns;
    size_t count = merge_step(world->merge, &event, &actions);
    keep(world, actions, count);
}

/* What the engine has come to expect goes to the merge, once no result of an ARRIVE is owed. */
static void tell_expects(struct world *world)
{
    bool any = world->n_expects > 0;
    while (world->n_expects) {
        world->n_expects--;
        tell(world, (struct merge_event){.type = MERGE_EXPECT,
                                         .expect = {world->expects[world->n_expects].task,
                                                    world->expects[world->n_expects].id}});
    }
    if (any)
        tell(world, (struct merge_event){.type = MERGE_TICK});
}

static void arrive(struct world *world, const struct merge_action *action)
{
    bool taken = false, over = false;
    play_event(&world->run->play, (struct engine_event){.type = ENGINE_ARRIVED,
                                                        .arrived = {.task = action->arrive.task,
                                                                    .id = action->arrive.sample.id,
                                                                    .reason = action->arrive.sample.reason,
                                                                    .taken = &taken,
                                                                    .over = &over}});
    if (taken) {
        assert_false(world->taken[action->arrive.sample.id]);
        world->taken[action->arrive.sample.id] = true;
    }
    tell(world, (struct merge_event){.type = MERGE_TAKEN, .taken = {taken, over}});
}

static void add_part(struct world *world, uint32_t node, const struct idset *of)
{
    struct bag *ids;
    assert_int_equal(bag_create(&ids), 0);
    for (sample_id id = 0; id < world->run->samples; id++)
        if (of ? idset_contains(of, id) && id % 2 && !world->taken[id] : world->home[id] == node)
            assert_int_equal(bag_put(ids, id, 1), 0);
    tell(world, (struct merge_event){.type = MERGE_PART, .part = {node, ids}});
}

/* Every second sample moves to another node, if that lives; the engine has the others back. */
static void move(struct world *world, const struct merge_action *action, const struct idset *ids)
{
    uint32_t other = 1 + action->node % (NODES - 1);
    struct idset *back;
    assert_int_equal(idset_create(&back), 0);
    sample_id id;
    bool moves = !world->dead[other] && odds(world, 50);
    for (uint64_t at = 0; idset_select(ids, at, &id); at++)
        if (!moves || id % 2 == 0)
            idset_add(back, id);
    play_event(&world->run->play,
               (struct engine_event){.type = ENGINE_BACK,
                                     .back = {.job = world->run->play.job, .epoch = world->epoch, .ids = back}});
    idset_destroy(back);
    if (moves)
        add_part(world, other, ids);
    tell(world, (struct merge_event){.type = MERGE_MOVED, .request = action->request});
}

/* ── the network and the nodes ── */

static void send(struct world *world, struct merge_event event, const struct merge_sample *samples)
{
    for (int copies = 1 + odds(world, world->faults.again); copies > 0; copies--) {
        assert_true(world->n_net < NET_MAX);
        struct message *message = &world->net[world->n_net++];
        message->event = event;
        message->at_ns = world->now_ns +
                         random_below(&world->rng, odds(world, world->faults.late) ? 900000000 : 2000000);
        if (samples)
            memcpy(message->samples, samples, sizeof message->samples);
    }
}

static struct guest *find_guest(struct world *world, const struct merge_action *action)
{
    struct guest *guest = action->guest && action->guest <= world->n_guests ? &world->guests[action->guest - 1] : NULL;
    return guest && guest->there && guest->node == action->node && guest->term == action->term ? guest : NULL;
}

/* The same attachment again has the same guest. Another one has a higher term. */
static uint64_t attached(struct world *world, const struct merge_action *action, const struct idset *ids)
{
    uint64_t *term = &world->terms[action->node];
    for (uint32_t at = 0; at < world->n_guests; at++)
        if (world->guests[at].node == action->node && world->guests[at].term == action->term)
            return at + 1;
    assert_true(world->n_guests < GUESTS_MAX && action->term > *term);
    *term = action->term;
    struct guest *guest = &world->guests[world->n_guests++];
    *guest = (struct guest){.there = true, .node = action->node, .term = action->term};
    for (sample_id id = 0; id < world->run->samples; id++)
        guest->rest[id] = idset_contains(ids, id);
    return world->n_guests;
}

static void on_attach(struct world *world, const struct merge_action *action, const struct idset *ids)
{
    struct merge_event event = {.type = MERGE_REFUSED, .request = action->request};
    if (!odds(world, world->faults.refuses)) {
        event.type = MERGE_ATTACHED;
        event.guest = attached(world, action, ids);
    }
    send(world, event, NULL);
}

static sample_id give(struct world *world, struct guest *guest)
{
    sample_id some[RUN_IDS_MAX];
    uint32_t count = 0;
    for (sample_id id = 0; id < world->run->samples; id++)
        if (guest->rest[id])
            some[count++] = id;
    if (!count)
        return SAMPLE_NONE;
    sample_id id = some[random_below(&world->rng, count)];
    guest->rest[id] = false;
    return odds(world, world->faults.wrong) ? (sample_id)random_below(&world->rng, world->run->samples) : id;
}

static void fill(struct world *world, struct guest *guest, uint32_t n, struct answer *answer)
{
    struct merge_sample bad[MERGE_SAMPLES_MOST];
    uint32_t n_bad = 0, wanted = odds(world, world->faults.stops_short) ? 1 : n;
    for (sample_id id; answer->count + n_bad < wanted && (id = give(world, guest)) != SAMPLE_NONE;) {
        if (world->run->bad[id])
            bad[n_bad++] = (struct merge_sample){.id = id, .reason = BAD_CORRUPT};
        else
            answer->samples[answer->count++] = (struct merge_sample){.id = id};
    }
    for (uint32_t i = 0; i < n_bad; i++)
        answer->samples[answer->count++] = bad[i];
    answer->last = true;
    for (sample_id id = 0; id < world->run->samples; id++)
        answer->last = answer->last && !guest->rest[id];
    answer->there = answer->count > 0 || answer->last;
    world->given += answer->count;
}

static void on_next(struct world *world, const struct merge_action *action)
{
    struct guest *guest = find_guest(world, action);
    struct merge_event event = {.type = MERGE_GONE, .request = action->request};
    assert_true(action->next.n >= 1 && action->next.n <= MERGE_SAMPLES_MOST);
    world->requests++;
    if (!guest) {
        send(world, event, NULL);
        return;
    }
    assert_true(action->next.seq > action->next.acked && action->next.seq < SEQS_MAX / 16);
    guest->acked = action->next.acked > guest->acked ? action->next.acked : guest->acked;
    assert_true(action->next.seq > guest->acked); /* what was acknowledged may be forgotten */
    struct answer *answer = &guest->answers[action->next.seq];
    if (world->liars)
        *answer = (struct answer){.there = true, .last = true};
    if (!answer->there && !odds(world, world->faults.stops_short))
        fill(world, guest, action->next.n, answer);
    event.type = answer->there ? MERGE_BATCH : MERGE_EMPTY;
    event.batch.last = answer->last;
    event.batch.count = answer->count;
    send(world, event, answer->samples);
}

/* A request goes out: to a node that is dead, it fails at once; a lost one, or a lost answer, after a while. */
static void request(struct world *world, const struct merge_action *action, const struct idset *ids)
{
    struct merge_event failed = {.type = MERGE_FAILED, .request = action->request};
    assert_true(action->request < sizeof world->cancelled);
    world->attachments += action->type == MERGE_ATTACH;
    bool mute = world->mute && action->type == MERGE_NEXT;
    if (world->dead[action->node] || mute || odds(world, world->faults.lost)) {
        send(world, failed, NULL);
        return;
    }
    uint32_t before = world->n_net;
    if (action->type == MERGE_ATTACH)
        on_attach(world, action, ids);
    else
        on_next(world, action);
    if (odds(world, world->faults.lost)) { /* the node has done it, and nobody hears of it */
        world->n_net = before;
        send(world, failed, NULL);
    }
}

static void carry_out(struct world *world)
{
    while (world->first_todo < world->n_todo) {
        struct merge_action action = world->todo[world->first_todo];
        struct idset *ids = world->ids[world->first_todo++];
        switch (action.type) {
        case MERGE_ARRIVE: arrive(world, &action); break;
        case MERGE_MOVE: move(world, &action, ids); break;
        case MERGE_CANCEL: world->cancelled[action.request] = true; break;
        case MERGE_DETACH:
            if (find_guest(world, &action))
                find_guest(world, &action)->there = false;
            break;
        case MERGE_ATTACH:
        case MERGE_NEXT: request(world, &action, ids); break;
        }
        idset_destroy(ids);
        bool owed = false;
        for (uint32_t at = world->first_todo; at < world->n_todo; at++)
            owed = owed || world->todo[at].type == MERGE_ARRIVE;
        if (!owed)
            tell_expects(world);
    }
    world->first_todo = world->n_todo = 0;
    tell_expects(world);
    if (world->n_todo)
        carry_out(world);
}

/* The message that comes first is delivered. A request that is cancelled or answered hears of nothing more. */
static bool deliver(struct world *world)
{
    uint32_t best = 0;
    if (!world->n_net)
        return false;
    for (uint32_t i = 1; i < world->n_net; i++)
        best = world->net[i].at_ns < world->net[best].at_ns ? i : best;
    struct message message = world->net[best];
    world->net[best] = world->net[--world->n_net];
    world->now_ns = message.at_ns > world->now_ns ? message.at_ns : world->now_ns;
    if (world->cancelled[message.event.request])
        return true;
    message.event.batch.samples = message.event.type == MERGE_BATCH ? message.samples : message.event.batch.samples;
    tell(world, message.event);
    carry_out(world);
    return true;
}

static void mishap(struct world *world)
{
    if (world->n_guests && odds(world, world->faults.forgets))
        world->guests[random_below(&world->rng, world->n_guests)].there = false;
    if (odds(world, world->faults.dies) && odds(world, 5))
        world->dead[1 + random_below(&world->rng, NODES - 1)] ^= true;
}

/* ── an epoch ── */

static bool through(const struct world *world)
{
    for (uint32_t rank = 0; rank < world->run->desc.world_size; rank++) {
        const struct run_rank *had = &world->run->ranks[rank];
        bool last = false;
        for (uint32_t i = 0; i < had->n_batches; i++)
            last = last || (had->batches[i].epoch == world->epoch && had->batches[i].last);
        if (!last)
            return false;
    }
    return true;
}

static void step(struct world *world)
{
    uint64_t alarm = merge_alarm(world->merge);
    if (odds(world, 30)) {
        run_ask(world->run, (uint32_t)random_below(&world->rng, world->run->desc.world_size), world->epoch, 1);
        carry_out(world);
    } else if (!deliver(world) && alarm != UINT64_MAX) {
        world->now_ns = alarm;
        tell(world, (struct merge_event){.type = MERGE_TICK});
        carry_out(world);
    }
    if (alarm != UINT64_MAX && alarm <= world->now_ns) {
        tell(world, (struct merge_event){.type = MERGE_TICK});
        carry_out(world);
    }
    mishap(world);
}

static void end_merge(struct world *world)
{
    const struct merge_action *actions;
    keep(world, actions, merge_end(world->merge, &actions));
    for (; world->first_todo < world->n_todo; world->first_todo++) {
        bool taken, over;
        const struct merge_action *action = &world->todo[world->first_todo];
        if (action->type != MERGE_ARRIVE)
            continue;
        play_event(&world->run->play,
                   (struct engine_event){
                       .type = ENGINE_ARRIVED,
                       .arrived = {.task = action->arrive.task, .id = SAMPLE_NONE, .taken = &taken, .over = &over}});
        assert_true(over);
    }
    assert_int_equal(world->n_expects, 0);
    world->first_todo = world->n_todo = 0;
    world->term = merge_term(world->merge);
    merge_destroy(world->merge);
    world->merge = NULL;
}

static void epoch(struct world *world, uint32_t epoch)
{
    world->epoch = epoch;
    memset(world->taken, 0, sizeof world->taken);
    memset(world->cancelled, 0, sizeof world->cancelled);
    world->n_guests = world->n_net = 0;
    assert_int_equal(merge_create(world->term, &world->merge), 0);
    for (uint32_t node = 1; node < NODES; node++)
        add_part(world, node, NULL);
    for (uint32_t rank = 0; rank < world->run->desc.world_size; rank++)
        run_ask(world->run, rank, epoch, 1);
    carry_out(world);
    for (uint32_t round = 0; !through(world); round++) {
        assert_int_equal(world->run->play.failed, 0);
        assert_true(round < ROUNDS_MAX);
        step(world);
    }
    end_merge(world);
}

static struct world *begin(uint64_t seed, uint32_t samples, uint32_t ranks, bool drop_last, struct faults faults)
{
    struct world *world = xcalloc(1, sizeof *world);
    world->guests = xcalloc(GUESTS_MAX, sizeof *world->guests);
    world->run = run_new(SHUFFLE_DEPENDENT, samples, ranks, 4);
    world->faults = faults;
    random_seed_keys(&world->rng, seed, 3, 0, 0);
    world->see = world->run->play.see;
    world->run->play.see = see;
    world->run->play.ctx = world;
    world->run->desc.drop_last = drop_last;
    world->run->desc.homes = (struct engine_homes){elsewhere, world};
    for (sample_id id = 0; id < samples; id++)
        world->home[id] = (uint32_t)random_below(&world->rng, NODES);
    for (uint32_t rank = 0; rank < ranks; rank++)
        run_come_without(world->run, rank);
    assert_int_equal(world->run->play.refused, 0);
    return world;
}

static void end(struct world *world)
{
    run_free(world->run);
    free(world->guests);
    free(world);
}

static void assert_once(const struct world *world)
{
    uint32_t times[RUN_IDS_MAX] = {0};
    run_count(world->run, world->epoch, MANY, times);
    for (sample_id id = 0; id < world->run->samples; id++)
        assert_true(world->run->desc.drop_last ? times[id] <= 1 : times[id] == !world->run->bad[id]);
}

/* Without faults nothing is asked for twice, nothing of other nodes is read here but repeats, and a request brings more
 * samples than one. */
static void test_faultless(void **state)
{
    (void)state;
    uint32_t requests = 0, given = 0;
    for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
        struct world *world = begin(seed, 40 + seed % 80, 1, false, (struct faults){0});
        for (uint32_t at = 0; at < EPOCHS; at++) {
            epoch(world, at);
            assert_once(world);
        }
        assert_int_equal(world->loads_of_others, 0);
        uint32_t others = 0;
        for (sample_id id = 0; id < world->run->samples; id++)
            others += world->home[id] != HERE;
        assert_int_equal(world->given, EPOCHS * others);
        requests += world->requests;
        given += world->given;
        end(world);
    }
    print_message("%u samples in %u requests\n", given, requests);
    assert_true(requests < given);
}

static void test_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rng rng;
        random_seed_keys(&rng, seed, 4, 0, 0);
        struct faults faults = {random_below(&rng, 30), random_below(&rng, 50), random_below(&rng, 30),
                                random_below(&rng, 4),  random_below(&rng, 20), random_below(&rng, 10),
                                random_below(&rng, 20), random_below(&rng, 30)};
        struct world *world = begin(seed, 1 + (uint32_t)random_below(&rng, 120), 1 + seed % 3, seed % 5 == 0, faults);
        for (sample_id id = 1; id < world->run->samples && seed % 2; id++)
            world->run->bad[id] = random_below(&rng, 12) == 0;
        for (uint32_t at = 0; at < EPOCHS; at++) {
            epoch(world, at);
            assert_once(world);
        }
        end(world);
    }
}

/* Nodes that do not answer are asked twice each, and then the anchor draws all itself. */
static void test_dead(void **state)
{
    (void)state;
    struct world *world = begin(1, 100, 1, false, (struct faults){0});
    memset(world->dead, true, sizeof world->dead);
    epoch(world, 0);
    assert_once(world);
    assert_int_equal(world->attachments, 2 * (NODES - 1));
    assert_int_equal(world->given, 0);
    end(world);
}

/* So it does where nodes give nothing of what they should, or nothing at all. */
static void test_liars(void **state)
{
    (void)state;
    for (int mute = 0; mute <= 1; mute++) {
        struct world *world = begin(1, 100, 1, false, (struct faults){0});
        world->liars = !mute;
        world->mute = mute;
        epoch(world, 0);
        assert_once(world);
        assert_true(world->attachments < 100);
        end(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faultless), cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_dead), cmocka_unit_test(test_liars)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
