/* test_fetch: threads fetch samples from the source and from a storage class at once. Each sample has the right bytes,
 * and in the end all come from the class, also after it was opened anew. What a read in pieces leaves is not written to
 * the class before it was read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/random.h"
#include "server/storage/origins.h"
#include "server/workers/fetch.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { THREADS = 4, SAMPLES = 120, READ = 8, READS = 60, DELAY_MS = 2 };

static char root[TREE_NAME_MAX], class_path[TREE_NAME_MAX + 16], curves[TREE_NAME_MAX + 16];

static int set_up(void **state)
{
    (void)state;
    tree_new(root);
    snprintf(class_path, sizeof class_path, "%s/class", root);
    snprintf(curves, sizeof curves, "%s/curves", root);
    for (int i = 0; i < SAMPLES; i++) {
        char content[400];
        snprintf(content, sizeof content, "%d %0*d", i, 20 + i * 2, i);
        tree_file(content, "%s/data/c%d/%04d.jpg", root, i / 60, i);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tree_remove(root);
    return 0;
}

struct shared {
    struct fetch fetch;
    struct dataset *dataset;
    uint32_t number; /* of the next thread */
    pthread_mutex_t lock;
};

static void check_sample(const struct shared *shared, const struct sample_read *read)
{
    struct error err;
    uint64_t bytes = dataset_size(shared->dataset, read->index);
    char *right = xmalloc(bytes + 1);
    CHECK(read->err.code == 0 && dataset_read(shared->dataset, read->index, right, &err) == 0);
    CHECK(memcmp(right, read->buf, bytes) == 0);
    free(right);
}

/* fetch_piece fetches what it can until then, checks it, and moves what is left to the front: it gives how many. */
static uint32_t fetch_piece(struct shared *shared, struct sample_read *reads, uint32_t count, uint64_t until_ns)
{
    struct fetch_classed classed;
    uint32_t left = 0;
    fetch_samples(&shared->fetch, &(struct fetch_read){shared->dataset, 1, reads, count, until_ns}, &classed);
    CHECK(classed.samples <= count && (classed.samples > 0) == (classed.class == 1));
    CHECK((classed.took_ns > 0) == (classed.class == 1));
    for (uint32_t i = 0; i < count; i++) {
        if (reads[i].left) {
            CHECK(until_ns);
            reads[left++] = (struct sample_read){.index = reads[i].index, .buf = reads[i].buf};
            continue;
        }
        check_sample(shared, &reads[i]);
        free(reads[i].buf);
    }
    CHECK(left < count && (!until_ns || classed.samples > 0 || left == count - 1));
    return left;
}

static void *fetch_some(void *arg)
{
    struct shared *shared = arg;
    struct rng rng;
    pthread_mutex_lock(&shared->lock);
    random_seed(&rng, shared->number++);
    pthread_mutex_unlock(&shared->lock);
    for (int n = 0; n < READS; n++) {
        struct sample_read reads[READ] = {{.index = 0}};
        uint32_t first = n < SAMPLES / READ ? (uint32_t)n * READ : (uint32_t)random_below(&rng, SAMPLES - READ + 1);
        for (uint32_t i = 0; i < READ; i++)
            reads[i] = (struct sample_read){.index = first + i, .buf = xcalloc(1, 1000)};
        for (uint32_t left = READ; left;) /* every other read in pieces of one sample of the source */
            left = fetch_piece(shared, reads, left, n % 2 ? 1 : 0);
    }
    return NULL;
}

static struct origins *open_origins(void)
{
    struct origins *origins = NULL;
    struct error err;
    struct origins_config config = {
        .classes = {{class_path, 1 << 20, 2}}, .n_classes = 1, .behind_bytes = 1 << 20, .curves = curves};
    if (origins_create(&config, &origins, &err))
        fail_msg("%s", err.text);
    return origins;
}

/* Gives the status at the end. */
static struct origins_status run(struct dataset *dataset)
{
    struct shared shared = {.fetch = {.origins = open_origins(), .delay_ms = DELAY_MS}, .dataset = dataset};
    pthread_t threads[THREADS];
    struct origins_status status;
    pthread_mutex_init(&shared.lock, NULL);
    origins_want(shared.fetch.origins, (const struct dataset *const[]){dataset}, 1, false);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fetch_some, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    origins_status(shared.fetch.origins, &status);
    status.classes[0].path = NULL;
    uint32_t indexes[READ];
    for (uint32_t i = 0; i < READ; i++)
        indexes[i] = i;
    struct origins_classed expected = origins_expect(shared.fetch.origins, dataset, indexes, READ, false);
    assert_true(expected.samples <= READ && (expected.samples > 0) == (expected.class == 1));
    origins_destroy(shared.fetch.origins);
    pthread_mutex_destroy(&shared.lock);
    return status;
}

static void test_fetch(void **state)
{
    (void)state;
    char path[TREE_NAME_MAX + 16];
    struct catalog *catalog;
    struct dataset *dataset;
    struct error err;
    snprintf(path, sizeof path, "%s/data", root);
    assert_int_equal(catalog_create(NULL, &catalog, &err), 0);
    assert_int_equal(catalog_open(catalog, path, &dataset, &err), 0);
    struct origins_status first = run(dataset), second = run(dataset);
    uint64_t all = (uint64_t)THREADS * READS * READ;
    assert_int_equal(first.source_samples + first.classes[0].read_samples, all);
    assert_true(first.source_samples >= SAMPLES && first.classes[0].read_samples > 0);
    assert_int_equal(second.classes[0].tier.samples, SAMPLES);
    /* Of the class, but where a busy machine made the source look faster for a while. */
    assert_int_equal(second.source_samples + second.classes[0].read_samples, all);
    assert_true(second.classes[0].read_samples > 0);
    assert_int_equal(second.classes[0].tier.corrupt, 0);
    dataset_unref(&dataset);
    catalog_destroy(catalog);
}

/* A delay of reads is no part of the time after which they leave what they have not begun. It is longer than that
 * time here, and still more than one sample comes. */
static void test_delay(void **state)
{
    (void)state;
    char path[TREE_NAME_MAX + 16], bytes[READ][1000];
    struct fetch fetch = {.delay_ms = 600};
    struct sample_read reads[READ];
    struct fetch_classed classed;
    struct catalog *catalog;
    struct dataset *dataset;
    struct error err;
    uint32_t came = 0;
    snprintf(path, sizeof path, "%s/data", root);
    assert_int_equal(catalog_create(NULL, &catalog, &err), 0);
    assert_int_equal(catalog_open(catalog, path, &dataset, &err), 0);
    for (uint32_t i = 0; i < READ; i++)
        reads[i] = (struct sample_read){.index = i, .buf = bytes[i]};
    uint64_t until_ns = clock_now_ns() + 500 * CLOCK_NS_PER_MS;
    fetch_samples(&fetch, &(struct fetch_read){dataset, 1, reads, READ, until_ns}, &classed);
    for (uint32_t i = 0; i < READ; i++)
        came += !reads[i].left;
    assert_true(came > 1);
    dataset_unref(&dataset);
    catalog_destroy(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_fetch, set_up, tear_down),
                                       cmocka_unit_test_setup_teardown(test_delay, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
