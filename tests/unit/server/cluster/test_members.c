/* test_members.c: proves each transition of a node's state, of the own lease and of a pair's circuit, and that random
 * events keep what must hold between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "server/cluster/circuit.h"
#include "server/cluster/members.h"

#define SECOND UINT64_C(1000000000)

static uint64_t seed = 3;

/* Members, and what the last step did. */
struct play {
    struct members members;
    struct members_action actions[MEMBERS_ACTIONS_MAX];
    size_t n_actions;
    uint64_t now_ns;
};

static void begin(struct play *play, bool leased)
{
    *play = (struct play){.now_ns = 100 * SECOND};
    members_init(&play->members, &(struct map_node){{9}, 1}, leased, 15 * SECOND, play->now_ns);
}

/* An event about the node whose id begins with this byte, some seconds after the last one. */
static void step(struct play *play, double seconds, enum members_event_type type, uint8_t id, uint64_t boot)
{
    play->now_ns += (uint64_t)(seconds * 1e9);
    struct members_event event = {.type = type, .now_ns = play->now_ns, .id = {id}, .boot = boot, .weight = 1};
    event.revision = 7;
    play->n_actions = members_step(&play->members, &event, play->actions);
}

static unsigned did(const struct play *play, enum members_action_type type)
{
    unsigned count = 0;
    for (size_t i = 0; i < play->n_actions; i++)
        count += play->actions[i].type == type;
    return count;
}

static enum member_state state_of(const struct play *play, uint8_t id)
{
    return members_state(&play->members, (uint8_t[MAP_NODE_ID_BYTES]){id});
}

static bool away(const struct play *play, uint8_t id, uint64_t boot)
{
    return members_away(&play->members, (uint8_t[MAP_NODE_ID_BYTES]){id}, boot);
}

/* Listed: UP and in the view, in order. Vanished: probed at once and each 2 s, UP while it answers, LOST after two
 * unanswered probes, back by one answer, forgotten 60 s after. */
static void test_life(void **state)
{
    (void)state;
    struct play play;
    begin(&play, true);
    assert_int_equal(play.members.view.n_nodes, 1);
    step(&play, 3, MEMBERS_LISTED, 1, 11);
    assert_int_equal(state_of(&play, 1), MEMBER_UP);
    assert_int_equal(did(&play, MEMBERS_CHANGED), 1);
    assert_int_equal(play.members.view.n_nodes, 2);
    assert_int_equal(play.members.view.nodes[0].id[0], 1);
    assert_int_equal(play.members.view.revision, 7);
    assert_int_equal(did(&play, MEMBERS_PROBE), 0);
    step(&play, 5, MEMBERS_VANISHED, 1, 0);
    assert_int_equal(did(&play, MEMBERS_PROBE), 1);
    step(&play, 1, MEMBERS_PROBE_ANSWERED, 1, 11);
    assert_int_equal(did(&play, MEMBERS_PROBE), 0);
    step(&play, 1, MEMBERS_TICK, 0, 0);
    assert_int_equal(did(&play, MEMBERS_PROBE), 1);
    step(&play, 2, MEMBERS_PROBE_FAILED, 1, 0);
    assert_int_equal(state_of(&play, 1), MEMBER_UP);
    assert_int_equal(did(&play, MEMBERS_PROBE), 1);
    step(&play, 2, MEMBERS_PROBE_FAILED, 1, 0);
    assert_int_equal(state_of(&play, 1), MEMBER_LOST);
    assert_true(away(&play, 1, 11));
    assert_int_equal(play.members.view.n_nodes, 1);
    step(&play, 1, MEMBERS_DATA_ANSWERED, 1, 11);
    assert_int_equal(state_of(&play, 1), MEMBER_UP);
    assert_false(away(&play, 1, 11));
    for (int i = 0; i < 2; i++) {
        step(&play, 2, MEMBERS_PROBE_FAILED, 1, 0);
        step(&play, 2, MEMBERS_TICK, 0, 0);
    }
    assert_int_equal(state_of(&play, 1), MEMBER_LOST);
    step(&play, 57, MEMBERS_TICK, 0, 0);
    assert_int_equal(state_of(&play, 1), MEMBER_LOST);
    step(&play, 2, MEMBERS_TICK, 0, 0);
    assert_int_equal(did(&play, MEMBERS_FORGOTTEN), 1);
    assert_int_equal(state_of(&play, 1), MEMBER_UNKNOWN);
    step(&play, 1, MEMBERS_PROBE_ANSWERED, 1, 11);
    assert_int_equal(state_of(&play, 1), MEMBER_UNKNOWN);
    assert_false(away(&play, 1, 11)); /* nobody knows */
}

/* A lease outweighs probes. A new boot is told. LEAVING leaves the view; events are gathered for 2 s. */
static void test_listed(void **state)
{
    (void)state;
    struct play play;
    begin(&play, true);
    step(&play, 3, MEMBERS_LISTED, 1, 11);
    for (int i = 0; i < 5; i++)
        step(&play, 0, MEMBERS_PROBE_FAILED, 1, 0);
    assert_int_equal(state_of(&play, 1), MEMBER_UP);
    step(&play, 0.5, MEMBERS_LISTED, 1, 12);
    assert_int_equal(did(&play, MEMBERS_REBOOTED), 1);
    assert_int_equal(did(&play, MEMBERS_CHANGED), 0);
    assert_true(away(&play, 1, 11));
    assert_false(away(&play, 1, 12));
    struct members_event leaving = {.type = MEMBERS_LISTED, .now_ns = play.now_ns, .id = {1}, .boot = 12, .weight = 1};
    leaving.leaving = true;
    play.n_actions = members_step(&play.members, &leaving, play.actions);
    step(&play, 0, MEMBERS_DATA_ANSWERED, 1, 12); /* to guests that it had before */
    assert_int_equal(state_of(&play, 1), MEMBER_LEAVING);
    assert_true(away(&play, 1, 12));
    assert_int_equal(did(&play, MEMBERS_CHANGED), 0);
    assert_int_equal(play.members.view.n_nodes, 2);
    step(&play, 1.5, MEMBERS_LISTED, 2, 21);
    assert_int_equal(did(&play, MEMBERS_CHANGED), 1);
    assert_int_equal(play.members.view.n_nodes, 2);
    assert_int_equal(play.members.view.nodes[0].id[0], 2);
    step(&play, 5, MEMBERS_LISTED, 1, 12);
    assert_int_equal(state_of(&play, 1), MEMBER_UP);
    for (unsigned id = 10; id < 10 + MAP_NODES_MAX; id++)
        step(&play, 0, MEMBERS_LISTED, (uint8_t)id, 1);
    assert_int_equal(play.members.n_members, MAP_NODES_MAX);
    assert_int_equal(play.members.n_refused, 3);
}

/* Without leases listed nodes are probed, LOST by probes alone, and never forgotten while the list has them. */
static void test_static(void **state)
{
    (void)state;
    struct play play;
    begin(&play, false);
    step(&play, 1, MEMBERS_LISTED, 1, 0);
    assert_false(away(&play, 1, 11)); /* its boot is not known yet */
    assert_int_equal(did(&play, MEMBERS_PROBE), 1);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 0);
    for (int i = 0; i < 60; i++)
        step(&play, 2, MEMBERS_PROBE_FAILED, 1, 0);
    assert_int_equal(state_of(&play, 1), MEMBER_LOST);
    step(&play, 0, MEMBERS_PROBE_ANSWERED, 1, 11);
    assert_int_equal(did(&play, MEMBERS_REBOOTED), 0);
    assert_int_equal(state_of(&play, 1), MEMBER_UP);
}

/* The own key is granted at once, kept alive each third of the lease, and put again when it is lost or changes. */
static void test_lease(void **state)
{
    (void)state;
    struct play play;
    begin(&play, true);
    assert_true(members_alarm(&play.members) == play.now_ns);
    step(&play, 0, MEMBERS_TICK, 0, 0);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 1);
    assert_true(members_alarm(&play.members) == UINT64_MAX);
    step(&play, 1, MEMBERS_LEASE_FAILED, 0, 0);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 0);
    step(&play, 5, MEMBERS_TICK, 0, 0);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 1);
    step(&play, 0, MEMBERS_LEASE_GRANTED, 0, 0);
    step(&play, 5, MEMBERS_TICK, 0, 0);
    assert_int_equal(did(&play, MEMBERS_KEEPALIVE), 1);
    step(&play, 1, MEMBERS_LEASE_FAILED, 0, 0);
    assert_int_equal(play.n_actions, 0);
    step(&play, 0, MEMBERS_LEASE_LOST, 0, 0);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 1);
    step(&play, 0, MEMBERS_LEASE_GRANTED, 0, 0);
    step(&play, 0, MEMBERS_VANISHED, 9, 0);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 1);
    assert_int_equal(state_of(&play, 9), MEMBER_UP);
    step(&play, 0, MEMBERS_LEASE_GRANTED, 0, 0);
    step(&play, 0, MEMBERS_LEAVE, 0, 0);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 1);
    assert_int_equal(did(&play, MEMBERS_CHANGED), 1);
    assert_int_equal(state_of(&play, 9), MEMBER_LEAVING);
    assert_int_equal(play.members.view.n_nodes, 0);
}

/* A node that leaves while its key is being put puts it again, since the answer may tell of the state before. */
static void test_leaves_while_asked(void **state)
{
    (void)state;
    struct play play;
    begin(&play, true);
    step(&play, 0, MEMBERS_TICK, 0, 0);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 1);
    step(&play, 1, MEMBERS_LEAVE, 0, 0);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 0);
    step(&play, 1, MEMBERS_LEASE_GRANTED, 0, 0);
    assert_int_equal(did(&play, MEMBERS_REGISTER), 1);
    step(&play, 1, MEMBERS_LEASE_GRANTED, 0, 0);
    assert_int_equal(play.n_actions, 0);
    assert_true(members_alarm(&play.members) == play.now_ns + 5 * SECOND);
}

/* A list that does not know boots says nothing about them: what an answer said stays. */
static void test_list_without_boots(void **state)
{
    (void)state;
    struct play play;
    begin(&play, false);
    step(&play, 1, MEMBERS_LISTED, 1, 0);
    step(&play, 1, MEMBERS_PROBE_ANSWERED, 1, 11);
    step(&play, 1, MEMBERS_LISTED, 1, 0);
    assert_int_equal(did(&play, MEMBERS_REBOOTED), 0);
    step(&play, 1, MEMBERS_DATA_ANSWERED, 1, 11);
    assert_int_equal(did(&play, MEMBERS_REBOOTED), 0);
    step(&play, 1, MEMBERS_LISTED, 1, 0);
    step(&play, 1, MEMBERS_DATA_ANSWERED, 1, 12);
    assert_int_equal(did(&play, MEMBERS_REBOOTED), 1);
}

/* A node that is told again to have vanished is forgotten no later. */
static void test_vanishes_twice(void **state)
{
    (void)state;
    struct play play;
    begin(&play, true);
    step(&play, 3, MEMBERS_LISTED, 1, 11);
    step(&play, 5, MEMBERS_VANISHED, 1, 0);
    step(&play, 2, MEMBERS_PROBE_FAILED, 1, 0);
    step(&play, 2, MEMBERS_PROBE_FAILED, 1, 0);
    assert_int_equal(state_of(&play, 1), MEMBER_LOST);
    step(&play, 30, MEMBERS_VANISHED, 1, 0);
    step(&play, 31, MEMBERS_TICK, 0, 0);
    assert_int_equal(did(&play, MEMBERS_FORGOTTEN), 1);
}

/* After any events: the alarm is later than what was done; the view is in order, its nodes were UP when it was made and
 * changes of it lie 2 s apart; once no change is owed it has exactly the nodes that are UP. */
static void check_play(const struct play *play, uint64_t *last_change_ns)
{
    const struct members *members = &play->members;
    const struct members_view *view = &members->view;
    assert_true(members_alarm(members) > play->now_ns);
    assert_int_not_equal(state_of(play, 9), MEMBER_LOST);
    assert_in_range(did(play, MEMBERS_CHANGED), 0, 1);
    if (did(play, MEMBERS_CHANGED)) {
        assert_true(play->now_ns - *last_change_ns >= 2 * SECOND);
        *last_change_ns = play->now_ns;
    }
    uint32_t up = 0;
    for (uint32_t i = 0; i < members->n_members; i++)
        up += members->members[i].state == MEMBER_UP;
    for (uint32_t i = 0; i < view->n_nodes; i++) {
        assert_true(i == 0 || memcmp(view->nodes[i - 1].id, view->nodes[i].id, MAP_NODE_ID_BYTES) < 0);
        if (!members->changed)
            assert_int_equal(members_state(members, view->nodes[i].id), MEMBER_UP);
    }
    if (!members->changed)
        assert_int_equal(up, view->n_nodes);
}

static void test_random(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct rng rng;
        random_seed_keys(&rng, seed, round, 4, 0);
        struct play play;
        begin(&play, round % 3 != 0);
        uint64_t last_change_ns = play.now_ns;
        for (unsigned i = 0; i < 400; i++) {
            play.now_ns += random_below(&rng, 4) ? random_below(&rng, 3 * SECOND) : 0;
            struct members_event event = {.type = (enum members_event_type)random_below(&rng,
                                                                                        MEMBERS_LEAVE + (i > 300)),
                                          .now_ns = play.now_ns,
                                          .id = {(uint8_t)random_below(&rng, 12)},
                                          .boot = 1 + random_below(&rng, 2),
                                          .weight = 1 + (uint32_t)random_below(&rng, 16),
                                          .leaving = random_below(&rng, 8) == 0};
            play.n_actions = members_step(&play.members, &event, play.actions);
            check_play(&play, &last_change_ns);
        }
    }
}

/* CLOSED, OPEN after three failures or one refusal, HALF after 1, 2, 4 … 30 s, CLOSED after its probe's answer. */
static void test_circuit(void **state)
{
    (void)state;
    struct circuit circuit = {0};
    circuit_failed(&circuit, 0, false);
    circuit_failed(&circuit, 0, false);
    circuit_answered(&circuit);
    circuit_failed(&circuit, 0, false);
    circuit_failed(&circuit, 0, false);
    assert_int_equal(circuit.state, CIRCUIT_CLOSED);
    circuit_failed(&circuit, 0, false);
    assert_int_equal(circuit.state, CIRCUIT_OPEN);
    circuit_answered(&circuit);
    assert_int_equal(circuit.state, CIRCUIT_OPEN);
    static const uint64_t waits[] = {1, 2, 4, 8, 16, 30, 30};
    uint64_t now_ns = 0;
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        assert_false(circuit_probe(&circuit, now_ns + waits[i] * SECOND - 1));
        now_ns += waits[i] * SECOND;
        assert_true(circuit_probe(&circuit, now_ns));
        assert_false(circuit_probe(&circuit, now_ns));
        /* What was asked before the circuit opened comes late, and changes nothing. */
        circuit_answered(&circuit);
        circuit_failed(&circuit, now_ns, true);
        assert_int_equal(circuit.state, CIRCUIT_HALF);
        circuit_probed(&circuit, now_ns, false);
        assert_int_equal(circuit.state, CIRCUIT_OPEN);
        circuit_probed(&circuit, now_ns, true);
        assert_int_equal(circuit.state, CIRCUIT_OPEN);
    }
    assert_true(circuit_probe(&circuit, now_ns + 30 * SECOND));
    circuit_probed(&circuit, now_ns + 30 * SECOND, true);
    assert_int_equal(circuit.state, CIRCUIT_CLOSED);
    circuit_failed(&circuit, now_ns, true);
    assert_int_equal(circuit.state, CIRCUIT_OPEN);
    assert_true(circuit.probe_at == now_ns + SECOND);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_listed),
        cmocka_unit_test(test_static),
        cmocka_unit_test(test_lease),
        cmocka_unit_test(test_leaves_while_asked),
        cmocka_unit_test(test_list_without_boots),
        cmocka_unit_test(test_vanishes_twice),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_circuit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
