/* test_ids: ids of samples: the same for the same identity while a dataset has it, given anew only after what was kept
 * under them is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/catalog/catalog_priv.h"
#include "common/check.h"
#include "common/log.h"
#include "common/random.h"

static struct identity identity_of(uint32_t file)
{
    /* Few homes: identities stand in each other's way. */
    return (struct identity){.low = random_mix64(file) & 0x3f, .high = file};
}

static struct id_table *make_table(void)
{
    struct id_table *table = NULL;
    assert_int_equal(id_table_create(&table), 0);
    return table;
}

/* A dataset of numbered files. */
struct some_dataset {
    struct source source;
    const uint32_t *files;
    uint32_t count;
    sample_id *ids;
};

static int make(const struct id_wish *wish, struct identity *identities)
{
    const struct some_dataset *dataset = (const struct some_dataset *)wish->source;
    for (size_t i = 0; i < wish->count; i++)
        identities[i] = identity_of(dataset->files[i]);
    return 0;
}

static void give(struct id_table *table, const struct some_dataset *dataset)
{
    const struct id_wish wish = {.make = make, .source = &dataset->source, .count = dataset->count};
    assert_int_equal(id_table_give(table, &wish, dataset->ids), 0);
}

static void drop(struct id_table *table, const struct some_dataset *dataset)
{
    id_table_drop(table, dataset->ids, dataset->count);
}

/* An id that no dataset has is nobody's until it is settled; then the lowest are given first, in ascending order. */
static void test_life(void **state)
{
    (void)state;
    struct id_table *table = make_table();
    sample_id ids[3], other_ids[2], later_ids[3], retired[8];
    const struct some_dataset dataset = {.files = (const uint32_t[]){1, 2, 3}, .count = 3, .ids = ids};
    const struct some_dataset other = {.files = (const uint32_t[]){3, 4}, .count = 2, .ids = other_ids};
    const struct some_dataset later = {.files = (const uint32_t[]){7, 8, 9}, .count = 3, .ids = later_ids};
    give(table, &dataset);
    give(table, &other);
    assert_true(ids[0] == 0 && ids[1] == 1 && ids[2] == 2 && other_ids[0] == 2 && other_ids[1] == 3);
    assert_int_equal(id_table_take_retired(table, retired, 8), 0);
    drop(table, &dataset);
    assert_int_equal(id_table_used(table), 2);
    assert_int_equal(id_table_take_retired(table, retired, 8), 2); /* the third is the other dataset's too */
    assert_true(retired[0] == 0 && retired[1] == 1);
    give(table, &dataset); /* the same files again, before anything is forgotten: other ids, but for the third's */
    assert_true(ids[0] == 4 && ids[1] == 5 && ids[2] == 2);
    id_table_settle(table, retired, 1, true);
    id_table_settle(table, retired + 1, 1, false);
    give(table, &later);
    assert_true(later_ids[0] == 0 && later_ids[1] == 6 && later_ids[2] == 7);
    assert_int_equal(id_table_take_retired(table, retired, 8), 1);
    assert_int_equal(retired[0], 1);
    drop(table, &dataset);
    drop(table, &other);
    drop(table, &later);
    id_table_unref(&table);
}

enum { FILES = 400, DATASETS = 12, TURNS = 4000 };

/* What the table should say. */
struct expected {
    uint32_t users[FILES];
    sample_id id[FILES];         /* while there are users */
    bool held[FILES * DATASETS]; /* by id: retired, or taken and not settled */
};

static void open_one(struct id_table *table, struct some_dataset *dataset, struct expected *expected, struct rng *rng)
{
    uint32_t first = (uint32_t)random_below(rng, FILES);
    uint32_t *files = xcalloc(FILES, sizeof *files);
    for (uint32_t i = 0; i < FILES; i++)
        files[i] = (first + i) % FILES;
    *dataset = (struct some_dataset){
        .files = files, .count = 1 + (uint32_t)random_below(rng, FILES), .ids = xcalloc(FILES, sizeof *dataset->ids)};
    give(table, dataset);
    for (uint32_t i = 0; i < dataset->count; i++) {
        uint32_t file = dataset->files[i];
        sample_id id = dataset->ids[i];
        assert_true(id < FILES * DATASETS && !expected->held[id]);
        assert_true(expected->users[file] == 0 || expected->id[file] == id);
        for (uint32_t other = 0; other < FILES && expected->users[file] == 0; other++)
            assert_true(expected->users[other] == 0 || expected->id[other] != id);
        expected->users[file]++;
        expected->id[file] = id;
    }
}

static void close_one(struct id_table *table, struct some_dataset *dataset, struct expected *expected)
{
    drop(table, dataset);
    for (uint32_t i = 0; i < dataset->count; i++) {
        if (--expected->users[dataset->files[i]] == 0)
            expected->held[dataset->ids[i]] = true;
    }
    free((void *)dataset->files);
    free(dataset->ids);
    *dataset = (struct some_dataset){.count = 0};
}

static void forget_some(struct id_table *table, struct expected *expected, struct rng *rng)
{
    sample_id ids[100];
    uint32_t count = id_table_take_retired(table, ids, 1 + (uint32_t)random_below(rng, 100));
    uint32_t kept = (uint32_t)random_below(rng, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(expected->held[ids[i]]);
        expected->held[ids[i]] = i < kept;
    }
    id_table_settle(table, ids, kept, false);
    id_table_settle(table, ids + kept, count - kept, true);
}

/* Datasets that come and go in any order: identities in use have ids of their own, the same in each dataset, and none
 * that is still held; so there are never more ids than files in use and ids held. */
static void test_any_order(void **state)
{
    (void)state;
    struct rng rng;
    const char *text = getenv("LARDER_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 20261122;
    printf("seed %llu (LARDER_TEST_SEED)\n", (unsigned long long)seed);
    random_seed(&rng, seed);
    struct id_table *table = make_table();
    struct some_dataset *datasets = xcalloc(DATASETS, sizeof *datasets);
    struct expected *expected = xcalloc(1, sizeof *expected);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        struct some_dataset *dataset = &datasets[random_below(&rng, DATASETS)];
        if (dataset->count)
            close_one(table, dataset, expected);
        else
            open_one(table, dataset, expected, &rng);
        if (random_below(&rng, 3))
            forget_some(table, expected, &rng);
        uint64_t used = 0;
        for (uint32_t file = 0; file < FILES; file++)
            used += expected->users[file] > 0;
        assert_int_equal(id_table_used(table), used);
    }
    for (uint32_t i = 0; i < DATASETS; i++) {
        if (datasets[i].count)
            close_one(table, &datasets[i], expected);
    }
    id_table_unref(&table);
    free(datasets);
    free(expected);
}

/* ── a store and the files that it was packed from ── */

enum { CONTENTS = 12, SAMPLES_MOST = 16, SOURCES = 6, ROUNDS = 3000 };

/* A dataset of files, or a store. A file's device is its number, and its time of change tells two states of it apart;
 * its size is its content. */
struct some_source {
    struct source source;
    struct index_sample samples[SAMPLES_MOST];
    struct identity origins[SAMPLES_MOST], identities[SAMPLES_MOST];
    sample_id ids[SAMPLES_MOST];
    uint32_t count, made; /* samples, and how often their identities were made */
};

static struct identity file_identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed)
{
    return index_identity(&source->index.samples[index], apart, NULL, seed);
}

static int make_some(const struct id_wish *wish, struct identity *identities)
{
    struct some_source *some = (struct some_source *)wish->source;
    memcpy(identities, some->identities, wish->count * sizeof *identities);
    some->made++;
    return 0;
}

static void give_some(struct id_table *table, struct some_source *some)
{
    const struct id_wish wish = {.make = make_some, .source = &some->source, .count = some->count};
    assert_int_equal(id_table_give(table, &wish, some->ids), 0);
}

static const struct source_kind file_kind = {.name = "files", .identity = file_identity};

/* Draws samples: of each content there are two files, and each file has two states. A file comes once; in a store a
 * content comes any number of times, as copies that lie in several files. */
static void draw_source(struct some_source *some, bool store, struct rng *rng)
{
    *some = (struct some_source){.source = {.kind = &file_kind, .index = {.text = "some", .samples = some->samples}}};
    bool had[CONTENTS * 2] = {false};
    uint32_t earlier[CONTENTS] = {0};
    uint32_t want = 1 + (uint32_t)random_below(rng, SAMPLES_MOST);
    while (some->count < want) {
        uint32_t file = (uint32_t)random_below(rng, CONTENTS * 2), at = some->count;
        if (had[file])
            continue;
        had[file] = true;
        some->samples[at] = (struct index_sample){
            .device = file, .size = file / 2, .ctime_ns = 1 + (int64_t)random_below(rng, 2)};
        if (store && random_below(rng, 4)) /* else it is not known of which file */
            assert_true(source_content_id(&some->source, at, SOURCE_ORIGIN_SEED, &some->origins[at]));
        some->identities[at] = store ? (struct identity){1 + file / 2, 1000 + earlier[file / 2]++}
                                     : file_identity(&some->source, at, 0, 77);
        some->count++;
    }
    some->source.packing.packed = store;
    some->source.origins = store ? some->origins : NULL;
}

/* Whatever stores and files come and go, each dataset has an id of its own for each of its samples; datasets that are
 * open at once have one id for samples of one content alone, and stores and files do have some. */
static void test_origins(void **state)
{
    (void)state;
    struct rng rng;
    const char *text = getenv("LARDER_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 20261128, shared = 0;
    printf("seed %llu (LARDER_TEST_SEED)\n", (unsigned long long)seed);
    random_seed(&rng, seed);
    log_set_level(LOG_WARN);
    struct id_table *table = make_table();
    struct some_source *open = xcalloc(SOURCES, sizeof *open);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t which = (uint32_t)random_below(&rng, SOURCES);
        struct some_source *some = &open[which];
        if (some->count) {
            id_table_drop(table, some->ids, some->count);
            some->count = 0;
            continue;
        }
        draw_source(some, which % 2, &rng);
        give_some(table, some);
        for (uint32_t i = 0; i < some->count; i++) {
            for (uint32_t j = 0; j < i; j++)
                assert_int_not_equal(some->ids[i], some->ids[j]);
            for (uint32_t other = 0; other < SOURCES; other++) {
                for (uint32_t j = 0; j < open[other].count; j++) {
                    bool same = some->ids[i] == open[other].ids[j];
                    assert_true(!same || some->samples[i].size == open[other].samples[j].size);
                    shared += same && other % 2 != which % 2;
                }
            }
        }
    }
    assert_true(shared > 200);
    for (uint32_t which = 0; which < SOURCES; which++) {
        if (open[which].count)
            id_table_drop(table, open[which].ids, open[which].count);
    }
    id_table_unref(&table);
    free(open);
}

/* Puts `count` files in a dataset, or in a store that knows what it was packed from. */
static void put_files(struct some_source *some, bool store, uint32_t count)
{
    *some = (struct some_source){.source = {.kind = &file_kind, .index = {.text = "some", .samples = some->samples}}};
    for (some->count = 0; some->count < count; some->count++) {
        uint32_t at = some->count;
        some->samples[at] = (struct index_sample){.device = at, .size = at, .ctime_ns = 1};
        assert_true(source_content_id(&some->source, at, SOURCE_ORIGIN_SEED, &some->origins[at]));
        some->identities[at] = store ? (struct identity){1 + at, 1000} : file_identity(&some->source, at, 0, 77);
    }
    some->source.packing.packed = store;
    some->source.origins = store ? some->origins : NULL;
}

/* A dataset that is alone is not identified. The second one joins it nevertheless, whichever of the two is the store;
 * and when both have gone, the next is alone again. */
static void test_joins_one_alone(void **state)
{
    (void)state;
    log_set_level(LOG_WARN);
    struct id_table *table = make_table();
    struct some_source *first = xcalloc(1, sizeof *first), *second = xcalloc(1, sizeof *second);
    for (uint32_t round = 0; round < 4; round++) {
        put_files(first, round % 2, SAMPLES_MOST - 2);
        put_files(second, round % 2 == 0, SAMPLES_MOST);
        give_some(table, first);
        assert_int_equal(first->made, 0);
        assert_int_equal(id_table_used(table), first->count);
        give_some(table, second);
        assert_true(first->made == 1 && second->made == 1);
        assert_memory_equal(first->ids, second->ids, first->count * sizeof *first->ids);
        assert_int_equal(id_table_used(table), second->count);
        id_table_drop(table, round < 2 ? first->ids : second->ids, round < 2 ? first->count : second->count);
        assert_int_equal(id_table_used(table), round < 2 ? second->count : first->count);
        id_table_drop(table, round < 2 ? second->ids : first->ids, round < 2 ? second->count : first->count);
        assert_int_equal(id_table_used(table), 0);
    }
    id_table_unref(&table);
    free(first);
    free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_life), cmocka_unit_test(test_any_order),
                                       cmocka_unit_test(test_origins), cmocka_unit_test(test_joins_one_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
