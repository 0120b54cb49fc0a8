/* An anchor's part is given up MERGE_STARVED_NS after the engine last took a sample of it, or MERGE_EMPTY_MORE_NS after
 * the node last said that it has none, whichever is later. An answer that is of no use to the engine gives the node no
 * more time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/cluster/merge.h"

#define S UINT64_C(1000000000)

enum { NODE = 1, GUEST = 9, TASK = 20, SAMPLES = 4 };

/* The last requests that the merge made, and whether the part was given up. */
struct seen {
    uint64_t attach, next;
    bool moved;
};

static void tell(struct merge *merge, struct seen *seen, struct merge_event event)
{
    const struct merge_action *actions;
    size_t count = merge_step(merge, &event, &actions);
    for (size_t i = 0; i < count; i++) {
        if (actions[i].type == MERGE_ATTACH)
            seen->attach = actions[i].request;
        else if (actions[i].type == MERGE_NEXT)
            seen->next = actions[i].request;
        seen->moved = seen->moved || actions[i].type == MERGE_MOVE;
    }
}

/* ask begins an epoch at time 0 in which the engine expects all samples of one part, whose node is asked for them. */
static struct merge *ask(struct seen *seen)
{
    struct merge *merge;
    struct bag *ids;
    assert_int_equal(merge_create(0, &merge), 0);
    assert_int_equal(bag_create(&ids), 0);
    for (sample_id id = 0; id < SAMPLES; id++)
        assert_int_equal(bag_put(ids, id, 1), 0);
    *seen = (struct seen){0};
    tell(merge, seen, (struct merge_event){.type = MERGE_PART, .part = {NODE, ids}});
    assert_int_not_equal(seen->attach, 0);
    tell(merge, seen, (struct merge_event){.type = MERGE_ATTACHED, .request = seen->attach, .guest = GUEST});
    for (sample_id id = 0; id < SAMPLES; id++)
        tell(merge, seen, (struct merge_event){.type = MERGE_EXPECT, .expect = {TASK + id, id, SAMPLES}});
    tell(merge, seen, (struct merge_event){.type = MERGE_TICK});
    assert_int_not_equal(seen->next, 0);
    return merge;
}

/* give_one has the node answer with one sample. Nobody waits in its slot any more unless the engine takes it. */
static void give_one(struct merge *merge, struct seen *seen, uint64_t at_ns, bool taken)
{
    const struct merge_sample sample = {.id = 0};
    struct merge_event event = {.type = MERGE_BATCH, .now_ns = at_ns, .request = seen->next};
    event.batch.count = 1;
    event.batch.samples = &sample;
    tell(merge, seen, event);
    tell(merge, seen, (struct merge_event){.type = MERGE_TAKEN, .now_ns = at_ns, .taken = {taken, true}});
}

/* given_up lets nothing more come, and gives the time at which the part is given up. */
static uint64_t given_up(struct merge *merge, struct seen *seen)
{
    uint64_t now_ns = 0;
    while (!seen->moved) {
        now_ns = merge_alarm(merge);
        assert_true(now_ns != UINT64_MAX);
        tell(merge, seen, (struct merge_event){.type = MERGE_TICK, .now_ns = now_ns});
    }
    merge_destroy(merge);
    return now_ns;
}

static void test_silent(void **state)
{
    (void)state;
    struct seen seen;
    struct merge *merge = ask(&seen);
    assert_int_equal(given_up(merge, &seen), MERGE_STARVED_NS);
}

static void test_taken(void **state)
{
    (void)state;
    struct seen seen;
    struct merge *merge = ask(&seen);
    give_one(merge, &seen, 3 * S, true);
    assert_int_equal(given_up(merge, &seen), 3 * S + MERGE_STARVED_NS);
}

static void test_not_taken(void **state)
{
    (void)state;
    struct seen seen;
    struct merge *merge = ask(&seen);
    give_one(merge, &seen, 3 * S, false);
    assert_int_equal(given_up(merge, &seen), MERGE_STARVED_NS);
}

/* An answer that is later than the part has time counts all the same, if the engine takes it. */
static void test_late(void **state)
{
    (void)state;
    struct seen seen;
    struct merge *merge = ask(&seen);
    give_one(merge, &seen, 7 * S, true);
    assert_false(seen.moved);
    assert_int_equal(given_up(merge, &seen), 7 * S + MERGE_STARVED_NS);
    merge = ask(&seen);
    give_one(merge, &seen, 7 * S, false);
    assert_true(seen.moved);
    merge_destroy(merge);
}

/* A node that has none yet is there: it gets more time, whether it says EMPTY or gives a batch of none. */
static void test_none(void **state)
{
    (void)state;
    for (int batch = 0; batch <= 1; batch++) {
        struct seen seen;
        struct merge *merge = ask(&seen);
        tell(merge, &seen,
             (struct merge_event){.type = batch ? MERGE_BATCH : MERGE_EMPTY, .now_ns = 5 * S, .request = seen.next});
        assert_int_equal(given_up(merge, &seen), 5 * S + MERGE_EMPTY_MORE_NS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_silent), cmocka_unit_test(test_taken),
                                       cmocka_unit_test(test_not_taken), cmocka_unit_test(test_late),
                                       cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
