/* test_addresses.c: who lives at which address: the same events come of the same answers, however addresses come, go,
 * and change their nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/random.h"
#include "server/discovery/addresses.h"

static const uint8_t self[MAP_NODE_ID_BYTES] = {99};
static struct addresses addresses;
static struct members_event events[ADDRESSES_EVENTS_MAX];

static int set_up(void **state)
{
    (void)state;
    addresses_init(&addresses, self);
    return 0;
}

/* Asks the next address that is due, and answers as this node; 0: nobody. */
static size_t answer_next(uint8_t id, const char *url, uint64_t now_ns)
{
    const struct address *address = addresses_due(&addresses, now_ns);
    struct discovery_node node = {.id = {id}, .boot = 7, .weight = 1, .leaving = id == 9};
    assert_non_null(address);
    assert_string_equal(address->url, url);
    if (id)
        return addresses_answered(&addresses, address->number, &node, now_ns, events);
    addresses_failed(&addresses, address->number, now_ns);
    return 0;
}

static void check_event(size_t i, enum members_event_type type, uint8_t id, uint64_t revision)
{
    assert_int_equal(events[i].type, type);
    assert_int_equal(events[i].id[0], id);
    assert_int_equal(events[i].revision, revision);
}

/* Nodes are listed when they answer, not before; who does not is asked again sooner than who did. */
static void test_listed(void **state)
{
    (void)state;
    const char *const urls[] = {"a", "b", "c", "a"};
    assert_int_equal(addresses_set(&addresses, urls, 4, 5, events), 0);
    assert_int_equal(addresses_alarm(&addresses), 5);
    assert_int_equal(answer_next(1, "a", 5), 1);
    check_event(0, MEMBERS_LISTED, 1, 1);
    assert_true(events[0].boot == 7 && events[0].weight == 1 && !events[0].leaving);
    answer_next(0, "b", 5);
    assert_int_equal(answer_next(99, "c", 5), 0); /* oneself */
    assert_null(addresses_due(&addresses, 5));
    assert_int_equal(addresses_alarm(&addresses), 5 + ADDRESSES_FIRST_NS);
    assert_int_equal(answer_next(9, "b", 5 + ADDRESSES_FIRST_NS), 1);
    check_event(0, MEMBERS_LISTED, 9, 2);
    assert_true(events[0].leaving);
    assert_int_equal(addresses_alarm(&addresses), 5 + ADDRESSES_AGAIN_NS);
    answer_next(0, "a", 5 + ADDRESSES_AGAIN_NS); /* silence alone makes nobody vanish */
    assert_int_equal(addresses_set(&addresses, urls, 4, 6, events), 0);
}

/* An address where nobody answers is asked after .125, .25, .5 and 1 s, then every 2 s; listed anew, sooner again. */
static void test_waits(void **state)
{
    (void)state;
    const char *const urls[] = {"a"};
    uint64_t now_ns = 0;
    addresses_set(&addresses, urls, 1, 0, events);
    for (int i = 0; i < 8; i++) {
        uint64_t wait_ns = i < 4 ? ADDRESSES_FIRST_NS << i : ADDRESSES_ASK_NS;
        answer_next(0, "a", now_ns);
        assert_int_equal(addresses_alarm(&addresses) - now_ns, wait_ns);
        now_ns += wait_ns;
    }
    addresses_set(&addresses, urls, 0, now_ns, events);
    addresses_set(&addresses, urls, 1, now_ns, events);
    answer_next(0, "a", now_ns);
    assert_int_equal(addresses_alarm(&addresses) - now_ns, ADDRESSES_FIRST_NS);
}

/* A node vanishes with its last address, or when another one has moved in. */
static void test_vanished(void **state)
{
    (void)state;
    const char *const urls[] = {"a", "b"};
    addresses_set(&addresses, urls, 2, 0, events);
    answer_next(1, "a", 0);
    answer_next(1, "b", 0);
    assert_int_equal(answer_next(2, "a", ADDRESSES_AGAIN_NS), 1); /* 1 still lives at b */
    check_event(0, MEMBERS_LISTED, 2, 3);
    assert_int_equal(answer_next(3, "b", ADDRESSES_AGAIN_NS), 2);
    check_event(0, MEMBERS_VANISHED, 1, 4);
    check_event(1, MEMBERS_LISTED, 3, 5);
    assert_int_equal(addresses_set(&addresses, urls + 1, 1, 0, events), 1);
    check_event(0, MEMBERS_VANISHED, 2, 6);
    assert_int_equal(addresses_set(&addresses, urls, 0, 0, events), 1);
    check_event(0, MEMBERS_VANISHED, 3, 7);
    assert_int_equal(addresses_alarm(&addresses), UINT64_MAX);
}

/* An answer that comes when its address has left the list says nothing, though the address is there again. */
static void test_late(void **state)
{
    (void)state;
    const char *const urls[] = {"a"};
    struct discovery_node node = {.id = {1}, .weight = 1};
    addresses_set(&addresses, urls, 1, 0, events);
    uint32_t number = addresses_due(&addresses, 0)->number;
    addresses_set(&addresses, urls, 0, 0, events);
    addresses_set(&addresses, urls, 1, 0, events);
    assert_int_equal(addresses_answered(&addresses, number, &node, 0, events), 0);
    addresses_failed(&addresses, number, 0);
    assert_non_null(addresses_due(&addresses, 0));
}

/* Whatever comes, who is listed by the events is who lives at an address, oneself apart. */
static void test_random(void **state)
{
    (void)state;
    uint64_t seed = getenv("LARDER_SEED") ? strtoull(getenv("LARDER_SEED"), NULL, 0) : 1;
    const char *const urls[] = {"a", "b", "c", "d", "e", "f"};
    bool listed[8] = {0};
    struct rng rng;
    printf("seed %llu\n", (unsigned long long)seed);
    random_seed(&rng, seed);
    for (uint64_t now_ns = 0, round = 0; round < 20000; round++, now_ns += random_below(&rng, ADDRESSES_ASK_NS)) {
        size_t n = 0, from = random_below(&rng, 6);
        const struct address *address = addresses_due(&addresses, now_ns);
        struct discovery_node node = {.id = {(uint8_t)random_below(&rng, 8)}, .weight = 1};
        node.id[0] = node.id[0] ? node.id[0] : 99;
        if (address && random_below(&rng, 3))
            n = addresses_answered(&addresses, address->number, &node, now_ns, events);
        else if (address)
            addresses_failed(&addresses, address->number, now_ns);
        else if (random_below(&rng, 4) == 0)
            n = addresses_set(&addresses, urls + from, random_below(&rng, 7 - from), now_ns, events);
        for (size_t i = 0; i < n; i++)
            listed[events[i].id[0] % 8] = events[i].type == MEMBERS_LISTED; /* 99 would be 3's place, and fail */
        bool lives[8] = {0};
        for (uint32_t i = 0; i < addresses.count; i++)
            if (addresses.all[i].known && addresses.all[i].id[0] != 99)
                lives[addresses.all[i].id[0]] = true;
        assert_memory_equal(listed, lives, sizeof lives);
    }
}

/* There is room for so many; the rest is left out. */
static void test_room(void **state)
{
    (void)state;
    static char texts[DISCOVERY_NODES_MAX + 5][16];
    const char *urls[DISCOVERY_NODES_MAX + 5];
    for (size_t i = 0; i < DISCOVERY_NODES_MAX + 5; i++) {
        sprintf(texts[i], "u%zu", i);
        urls[i] = texts[i];
    }
    addresses_set(&addresses, urls, DISCOVERY_NODES_MAX + 5, 0, events);
    assert_int_equal(addresses.count, DISCOVERY_NODES_MAX);
    for (size_t i = 0; i < DISCOVERY_NODES_MAX; i++)
        answer_next((uint8_t)(1 + i), urls[i], 0);
    assert_int_equal(addresses_set(&addresses, urls, 0, 0, events), DISCOVERY_NODES_MAX - 1); /* one is oneself */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_listed, set_up),   cmocka_unit_test_setup(test_waits, set_up),
        cmocka_unit_test_setup(test_vanished, set_up), cmocka_unit_test_setup(test_late, set_up),
        cmocka_unit_test_setup(test_random, set_up),   cmocka_unit_test_setup(test_room, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
