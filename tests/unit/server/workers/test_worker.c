/* test_worker.c: proves that a worker without file descriptors waits for one, loses no sample over it, and can be
 * stopped. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mailbox.h"
#include "server/workers/worker.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { FILES = 40, LOADERS = 3 };

static char root[TREE_NAME_MAX];
static struct catalog *catalog;
static struct dataset *dataset;
static struct arena *arena;
static struct mailbox *results;
static struct workers *workers;
static struct rlimit before;
static int lowest; /* descriptor that is free: all below it are taken */

/* Stands in for open: counts the times that no descriptor was free. */
static atomic_uint starved;
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    unsigned mode = flags & O_CREAT ? va_arg(more, unsigned) : 0;
    va_end(more);
    int fd = __real_open(path, flags, mode);
    if (fd < 0 && errno == EMFILE)
        atomic_fetch_add(&starved, 1);
    return fd;
}

/* What the workers tell. */
struct result {
    bool is_read; /* the end of one; else a sample of it */
    struct worker_loaded loaded;
};

static void on_loaded(void *ctx, const struct worker_loaded *loaded, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(mailbox_push(ctx, &(struct result){.loaded = loaded[i]}), 0);
}

static void on_read(void *ctx, const struct worker_read *read)
{
    (void)read;
    assert_int_equal(mailbox_push(ctx, &(struct result){.is_read = true}), 0);
}

/* Leaves room for so many descriptors more. */
static void leave_descriptors(unsigned count)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)lowest + count, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static int set_up(void **state)
{
    (void)state;
    struct error err;
    tree_new(root);
    for (int i = 0; i < FILES; i++)
        tree_file("the bytes of a sample", "%s/class/%02d.jpg", root, i);
    struct worker_config config = {.workers = 1, .readers = LOADERS, .inflight_loads = FILES, .inflight_prepares = 1};
    assert_int_equal(catalog_create(NULL, &catalog, &err), 0);
    assert_int_equal(catalog_open(catalog, root, &dataset, &err), 0);
    catalog_wait_saved(catalog); /* what reads the dataset's version has given its descriptors back */
    assert_int_equal(arena_create(1 << 20, "", &arena, &err), 0);
    assert_int_equal(mailbox_create(4 * FILES, sizeof(struct result), &results), 0);
    config.arena = arena;
    config.results = (struct worker_results){.ctx = results, .on_loaded = on_loaded, .on_read = on_read};
    assert_int_equal(workers_create(&config, &workers, &err), 0);
    atomic_store(&starved, 0);
    lowest = dup(0);
    assert_true(lowest >= 0);
    close(lowest);
    return getrlimit(RLIMIT_NOFILE, &before);
}

static int tear_down(void **state)
{
    (void)state;
    setrlimit(RLIMIT_NOFILE, &before);
    workers_destroy(workers);
    mailbox_destroy(results);
    arena_destroy(arena);
    dataset_unref(&dataset);
    catalog_destroy(catalog);
    tree_remove(root);
    return 0;
}

/* Asks for the samples from `first` on in one read. */
static void load(uint32_t first, uint32_t count)
{
    struct worker_load task = {
        .dataset = dataset_ref(dataset), .samples = calloc(count, sizeof *task.samples), .count = count};
    for (uint32_t i = 0; i < count; i++)
        task.samples[i] = (struct worker_sample){dataset_id(dataset, first + i), dataset_size(dataset, first + i)};
    workers_load(workers, &task);
}

static void wait_starved(unsigned times)
{
    while (atomic_load(&starved) < times && mailbox_length(results) == 0)
        sched_yield();
}

/* Takes results until `reads` reads have ended; counts the samples that came with their bytes. */
static uint32_t take(uint32_t reads)
{
    uint32_t came = 0;
    struct result result;
    while (reads && mailbox_pop(results, &result, -1) == 0) {
        reads -= result.is_read;
        if (result.is_read)
            continue;
        assert_true(!result.loaded.encoded == (result.loaded.reason != BAD_NONE));
        came += result.loaded.encoded && memcmp(result.loaded.encoded, "the bytes of a sample", 21) == 0;
        free(result.loaded.encoded);
    }
    return came;
}

/* A task that is halved and its half have all samples once, in order, and each a reference to the dataset. */
static void test_a_task_is_halved(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 7; count++) {
        struct worker_load task = {
            .dataset = dataset_ref(dataset), .samples = calloc(count, sizeof *task.samples), .count = count};
        for (uint32_t i = 0; i < count; i++)
            task.samples[i].bytes = i;
        struct worker_load half = workers_halve(&task);
        assert_int_equal(half.count, count / 2);
        assert_int_equal(task.count, count - count / 2);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal((i % 2 ? &half : &task)->samples[i / 2].bytes, i);
        free(task.samples);
        free(half.samples);
        dataset_unref(&task.dataset);
        dataset_unref(&half.dataset);
    }
}

/* While no descriptor is free no sample is reported, neither read nor bad; with a single one, for which all loaders
 * contend, all come with their bytes. */
static void test_reads_wait_for_a_descriptor(void **state)
{
    (void)state;
    leave_descriptors(0);
    for (uint32_t i = 0; i < 4; i++)
        load(i * FILES / 4, FILES / 4);
    wait_starved(3 * FILES);
    assert_int_equal(mailbox_length(results), 0);
    leave_descriptors(1);
    assert_int_equal(take(4), FILES);
}

/* Workers that wait for a descriptor can be stopped: what they have not read is reported as not read. */
static void test_waiting_reads_can_be_stopped(void **state)
{
    (void)state;
    leave_descriptors(0);
    for (uint32_t i = 0; i < 4; i++) /* one more than there are readers: it waits for a thread */
        load(i * FILES / 4, FILES / 4);
    wait_starved(2 * FILES);
    workers_stop(workers);
    assert_int_equal(take(4), 0);
    assert_int_equal(mailbox_length(results), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_task_is_halved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reads_wait_for_a_descriptor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_reads_can_be_stopped, set_up, tear_down),
    };
    prepare_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
