/* test_mailbox.c: the mailbox between threads: nothing lost, nothing twice, each producer's order kept, and waits that
 * end. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/mailbox.h"

#define PRODUCERS 4
#define CONSUMERS 3
#define PER_PRODUCER 20000
#define CHUNK 7
#define BUNDLE 13 /* pushed at once; more than some of the mailboxes hold */

struct item {
    uint32_t producer, number;
};

struct shared {
    struct mailbox *mailbox;
    uint32_t producer;
    uint32_t last[PRODUCERS]; /* one consumer's own view: numbers it got from a producer only rise */
    bool in_order;
    _Atomic uint32_t *seen; /* one counter an item, for all consumers */
};

static void *produce(void *arg)
{
    struct shared *shared = arg;
    for (uint32_t i = 0, count; i < PER_PRODUCER; i += count) {
        struct item items[BUNDLE];
        count = i % 4 == 0 && PER_PRODUCER - i >= BUNDLE ? BUNDLE : 1;
        for (uint32_t n = 0; n < count; n++)
            items[n] = (struct item){.producer = shared->producer, .number = i + n + 1};
        int rc = i % 3 || count > 1 ? LARDER_ELIMIT : mailbox_try_push(shared->mailbox, items);
        if (rc == LARDER_ELIMIT)
            rc = count > 1 ? mailbox_push_many(shared->mailbox, items, count) : mailbox_push(shared->mailbox, items);
        if (rc != 0)
            return "push failed";
    }
    return NULL;
}

static void *consume(void *arg)
{
    struct shared *shared = arg;
    struct item items[CHUNK];
    size_t count;
    int rc;
    while ((rc = mailbox_pop_many(shared->mailbox, items, CHUNK, &count, -1)) == 0) {
        for (size_t i = 0; i < count; i++) {
            uint32_t *last = &shared->last[items[i].producer];
            shared->in_order = shared->in_order && items[i].number > *last;
            *last = items[i].number;
            atomic_fetch_add(&shared->seen[items[i].producer * PER_PRODUCER + items[i].number - 1], 1);
        }
    }
    return rc == LARDER_EGONE ? NULL : "pop failed";
}

static void join(pthread_t thread)
{
    void *why;
    assert_int_equal(pthread_join(thread, &why), 0);
    if (why)
        fail_msg("%s", (const char *)why);
}

static void run_threads(size_t capacity)
{
    struct shared producers[PRODUCERS], consumers[CONSUMERS];
    pthread_t threads[PRODUCERS + CONSUMERS];
    struct mailbox *mailbox = NULL;
    _Atomic uint32_t *seen = calloc(PRODUCERS * PER_PRODUCER, sizeof *seen);
    assert_int_equal(mailbox_create(capacity, sizeof(struct item), &mailbox), 0);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        consumers[i] = (struct shared){.mailbox = mailbox, .in_order = true, .seen = seen};
        assert_int_equal(pthread_create(&threads[PRODUCERS + i], NULL, consume, &consumers[i]), 0);
    }
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct shared){.mailbox = mailbox, .producer = i};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        join(threads[i]);
    mailbox_close(mailbox);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        join(threads[PRODUCERS + i]);
        assert_true(consumers[i].in_order);
    }
    for (size_t i = 0; i < (size_t)PRODUCERS * PER_PRODUCER; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(mailbox_length(mailbox), 0);
    mailbox_destroy(mailbox);
    free(seen);
}

/* Several producers and consumers over a small, a middling and a large ring: every item arrives once, and each consumer
 * sees each producer's items in order; the close reaches all consumers. */
static void carries_all(void **state)
{
    (void)state;
    run_threads(1);
    run_threads(16);
    run_threads(4096);
}

/* A full mailbox refuses try_push; a closed one refuses pushes, and pops give what is left, in order, before
 * LARDER_EGONE. */
static void fills_and_closes(void **state)
{
    (void)state;
    struct mailbox *mailbox = NULL;
    int value, values[8];
    size_t count = 77;
    assert_int_equal(mailbox_create(0, 4, &mailbox), LARDER_EINVAL);
    assert_int_equal(mailbox_create(4, 0, &mailbox), LARDER_EINVAL);
    assert_int_equal(mailbox_create(SIZE_MAX / 2, 4, &mailbox), LARDER_EINVAL);
    assert_null(mailbox);
    assert_int_equal(mailbox_create(4, sizeof value, &mailbox), 0);
    for (value = 0; value < 2; value++)
        assert_int_equal(mailbox_try_push(mailbox, &value), 0);
    assert_int_equal(mailbox_pop(mailbox, &value, 0), 0);
    assert_int_equal(value, 0);
    for (value = 2; value < 5; value++) /* over the ring's end */
        assert_int_equal(mailbox_try_push(mailbox, &value), 0);
    assert_int_equal(mailbox_try_push(mailbox, &value), LARDER_ELIMIT);
    assert_int_equal(mailbox_length(mailbox), 4);
    mailbox_close(mailbox);
    mailbox_close(mailbox);
    assert_int_equal(mailbox_try_push(mailbox, &value), LARDER_EGONE);
    assert_int_equal(mailbox_push(mailbox, &value), LARDER_EGONE);
    assert_int_equal(mailbox_push_many(mailbox, values, 2), LARDER_EGONE);
    assert_int_equal(mailbox_pop_many(mailbox, values, 3, &count, -1), 0);
    assert_int_equal(count, 3);
    assert_true(values[0] == 1 && values[1] == 2 && values[2] == 3);
    assert_int_equal(mailbox_pop_many(mailbox, values, 8, &count, -1), 0);
    assert_int_equal(count, 1);
    assert_int_equal(values[0], 4);
    assert_int_equal(mailbox_pop_many(mailbox, values, 8, &count, -1), LARDER_EGONE);
    assert_int_equal(count, 1);
    mailbox_destroy(mailbox);
    mailbox_destroy(NULL);
}

/* A pop's time-out is kept: not at all, and about as long as asked for, not less. */
static void times_out(void **state)
{
    (void)state;
    struct mailbox *mailbox = NULL;
    int value = 7;
    assert_int_equal(mailbox_create(4, sizeof value, &mailbox), 0);
    assert_int_equal(mailbox_pop(mailbox, &value, 0), LARDER_ETIMEOUT);
    uint64_t start_ns = clock_now_ns();
    assert_int_equal(mailbox_pop(mailbox, &value, 30), LARDER_ETIMEOUT);
    assert_true(clock_now_ns() - start_ns >= 30 * CLOCK_NS_PER_MS);
    assert_int_equal(value, 7);
    mailbox_destroy(mailbox);
}

static void *push_blocked(void *arg)
{
    int value = 2;
    return mailbox_push(arg, &value) == LARDER_EGONE ? NULL : "the push was not refused";
}

static void *pop_blocked(void *arg)
{
    int value;
    return mailbox_pop(arg, &value, -1) == LARDER_EGONE ? NULL : "the pop was not refused";
}

/* Closing wakes a push that waits for room and a pop that waits for an item. */
static void close_wakes(void **state)
{
    (void)state;
    struct mailbox *full = NULL, *empty = NULL;
    pthread_t pusher, popper;
    int value = 1;
    assert_int_equal(mailbox_create(1, sizeof value, &full), 0);
    assert_int_equal(mailbox_create(1, sizeof value, &empty), 0);
    assert_int_equal(mailbox_push(full, &value), 0);
    assert_int_equal(pthread_create(&pusher, NULL, push_blocked, full), 0);
    assert_int_equal(pthread_create(&popper, NULL, pop_blocked, empty), 0);
    poll(NULL, 0, 20); /* lets them reach their waits mostly; right either way */
    mailbox_close(full);
    mailbox_close(empty);
    join(pusher);
    join(popper);
    assert_int_equal(mailbox_pop(full, &value, 0), 0);
    assert_int_equal(value, 1);
    mailbox_destroy(full);
    mailbox_destroy(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries_all),
        cmocka_unit_test(fills_and_closes),
        cmocka_unit_test(times_out),
        cmocka_unit_test(close_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
