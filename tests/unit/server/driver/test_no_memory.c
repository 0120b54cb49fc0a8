/* test_no_memory.c: proves that a registration for which there is no memory, at whatever allocation that depends on its
 * size, is refused with a text, and leaves everything as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/mailbox.h"
#include "server/plan/play.h"
#include "server/registration/registrar.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { SAMPLES = 300000, LARGE = 65536, CLASSES = 300 };

/* Of the allocations of these sizes the one after `left` more fails; below 0: none does. */
static atomic_size_t from_bytes, to_bytes;
static atomic_int left = -1;
static atomic_bool failed;

static bool fails(size_t count, size_t size)
{
    size_t bytes = count * size;
    if (bytes < atomic_load(&from_bytes) || bytes > atomic_load(&to_bytes) || atomic_load(&left) < 0)
        return false;
    bool now = atomic_fetch_sub(&left, 1) == 0;
    if (now)
        atomic_store(&failed, true);
    return now;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails(1, size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails(count, size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return fails(1, size) ? NULL : __real_realloc(ptr, size);
}

static void fail_at(int which, size_t from, size_t to)
{
    atomic_store(&from_bytes, from);
    atomic_store(&to_bytes, to);
    atomic_store(&failed, false);
    atomic_store(&left, which);
}

/* ── the engine ── */

static bool add(struct play *play, const struct engine_job_desc *desc)
{
    bool added = play_add(play, desc) != UINT32_MAX;
    if (!added) {
        assert_int_equal(play->refused, LARDER_ENOMEM);
        assert_non_null(strstr(play->text, "no memory"));
    }
    return added;
}

/* Adds a job with each of its large allocations failing in turn, until none does any more and the job is there. Gives
 * how many there are. */
static int add_at_last(const struct engine_job_desc *desc)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 64 << 20,
                                   .encoded_bytes = 1 << 20,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 8,
                                   .redirect_width = 1};
    struct play play;
    struct engine_totals totals;
    int which = 0;
    assert_int_equal(play_create(config, &play, NULL), 0);
    for (bool done = false; !done; which += !done) {
        fail_at(which, LARGE, SIZE_MAX);
        bool added = add(&play, desc);
        atomic_store(&left, -1);
        done = !atomic_load(&failed);
        assert_true(added || !done);
        engine_check(play.engine);
        engine_totals(play.engine, &totals);
        assert_int_equal(totals.jobs, added);
        if (added && !done) /* without memory to find out what to keep, it is there all the same */
            play_gone(&play, play.job, 0);
    }
    play_end(&play);
    return which;
}

/* Datasets of many chunks and of long ones, jobs with an order of their own and several ranks. */
static void test_the_engine(void **state)
{
    (void)state;
    struct idset *view;
    assert_int_equal(idset_from_range(0, SAMPLES, &view), 0);
    struct chunk_slot *places = xcalloc(SAMPLES, sizeof *places);
    static const uint32_t chunk_samples[] = {1, 50000};
    for (size_t i = 0; i < sizeof chunk_samples / sizeof *chunk_samples; i++) {
        uint32_t size = chunk_samples[i];
        for (uint32_t id = 0; id < SAMPLES; id++)
            places[id] = (struct chunk_slot){id / size, id % size};
        struct engine_job_desc desc = {
            .name = "j",
            .slot_bytes = 64,
            .batch_size = 8,
            .prefetch = 2,
            .world_size = 2,
            .sampled = {.shuffle = SHUFFLE_STRICT, .view = view},
            .chunks = {.places = places, .count = (SAMPLES + size - 1) / size, .samples = size}};
        int count = add_at_last(&desc);
        print_message("%d allocations of 64 KiB and more, chunks of %u\n", count, size);
        assert_true(count >= 5);
    }
    free(places);
    idset_destroy(view);
}

/* ── the registrar ── */

/* Takes what comes from the registrar, as registrar_means.done. */
static void push(void *inbox, struct registration *registration)
{
    assert_int_equal(mailbox_push(inbox, &registration), 0);
}

static int register_once(struct registrar *registrar, struct mailbox *inbox, const char *root)
{
    struct registration *reg = calloc(1, sizeof *reg);
    struct registration *came;
    *reg = (struct registration){.client = 1,
                                 .name = strdup("a job"),
                                 .asked = {.source = strdup(root),
                                           .pipeline_json = strdup("[]"),
                                           .flags = WIRE_RELABEL,
                                           .batch_size = 1,
                                           .world_size = 1,
                                           .file_fd = -1}};
    assert_int_equal(registrar_submit(registrar, reg), 0);
    assert_int_equal(mailbox_pop(inbox, &came, 300000), 0); /* milliseconds: else it waits for ever */
    int code = came->code;
    assert_true(!code || strstr(came->err.text, "no memory"));
    registration_destroy(came);
    return code;
}

/* The numbers that classes get under relabelling. */
static void test_the_registrar(void **state)
{
    (void)state;
    char root[TREE_NAME_MAX];
    static struct config config; /* of no datasets */
    struct catalog *catalog;
    struct mailbox *inbox;
    struct registrar *registrar;
    tree_new(root);
    for (int i = 0; i < 2 * CLASSES; i++)
        tree_file("x", "%s/class%03d/%d.jpg", root, i / 2, i % 2);
    assert_int_equal(catalog_create(NULL, &catalog, NULL), 0);
    assert_int_equal(mailbox_create(16, sizeof(struct registration *), &inbox), 0);
    assert_int_equal(registrar_create(&(struct registrar_means){catalog, &config, push, inbox, NULL}, &registrar, NULL),
                     0);
    assert_int_equal(register_once(registrar, inbox, root), 0);
    for (int which = 0; which < 2; which++) {
        fail_at(which, CLASSES * sizeof(int32_t), (CLASSES + 1) * sizeof(int32_t));
        assert_int_equal(register_once(registrar, inbox, root), LARDER_ENOMEM);
        assert_true(atomic_load(&failed));
        atomic_store(&left, -1);
    }
    assert_int_equal(register_once(registrar, inbox, root), 0);
    registrar_destroy(registrar);
    mailbox_destroy(inbox);
    catalog_destroy(catalog);
    tree_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_engine),
        cmocka_unit_test(test_the_registrar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
