/* test_ids: ids of samples: the same for the same identity while a dataset has it, given anew only after what was kept
 * under them is forgotten; whichever threads datasets come and go in. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cache/catalog/catalog_priv.h"
#include "common/check.h"
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

static atomic_uint made; /* how often identities were made */

static int make(const struct id_maker *maker, struct identity *identities)
{
    atomic_fetch_add(&made, 1);
    const uint32_t *files = maker->context;
    for (size_t i = 0; i < maker->count; i++)
        identities[i] = identity_of(files[i]);
    return 0;
}

static void give(struct id_table *table, const uint32_t *files, uint32_t count, sample_id *ids)
{
    const struct id_maker maker = {.make = make, .context = files, .count = count};
    assert_int_equal(id_table_give(table, &maker, ids), 0);
}

/* An id that no dataset has is nobody's until it is settled; then the lowest are given first, in ascending order. */
static void test_life(void **state)
{
    (void)state;
    struct id_table *table = make_table();
    const uint32_t files[] = {1, 2, 3}, others[] = {3, 4}, later[] = {7, 8, 9};
    sample_id ids[3], other_ids[2], later_ids[3], retired[8];
    give(table, files, 3, ids);
    give(table, others, 2, other_ids);
    assert_true(ids[0] == 0 && ids[1] == 1 && ids[2] == 2 && other_ids[0] == 2 && other_ids[1] == 3);
    assert_int_equal(id_table_take_retired(table, retired, 8), 0);
    id_table_drop(table, ids, 3);
    assert_int_equal(id_table_used(table), 2);
    assert_int_equal(id_table_take_retired(table, retired, 8), 2); /* the third is the other dataset's too */
    assert_true(retired[0] == 0 && retired[1] == 1);
    give(table, files, 3, ids); /* the same files again, before anything is forgotten: other ids, but for the third's */
    assert_true(ids[0] == 4 && ids[1] == 5 && ids[2] == 2);
    id_table_settle(table, retired, 1, true);
    id_table_settle(table, retired + 1, 1, false);
    give(table, later, 3, later_ids);
    assert_true(later_ids[0] == 0 && later_ids[1] == 6 && later_ids[2] == 7);
    assert_int_equal(id_table_take_retired(table, retired, 8), 1);
    assert_int_equal(retired[0], 1);
    id_table_unref(&table);
}

/* A dataset that is alone is identified when a second one comes, once; and after both have gone the next is alone. */
static void test_alone(void **state)
{
    (void)state;
    struct id_table *table = make_table();
    const uint32_t files[] = {1, 2, 3}, others[] = {5, 3, 1}, more[] = {2, 6};
    sample_id ids[3], other_ids[3], more_ids[2];
    for (unsigned round = 0; round < 2; round++) {
        atomic_store(&made, 0);
        give(table, files, 3, ids);
        assert_int_equal(id_table_used(table), 3);
        assert_int_equal(atomic_load(&made), 0);
        give(table, others, 3, other_ids);
        assert_int_equal(atomic_load(&made), 2);
        assert_true(other_ids[1] == ids[2] && other_ids[2] == ids[0] && other_ids[0] == ids[2] + 1);
        id_table_drop(table, round ? ids : other_ids, 3);
        give(table, more, 2, more_ids);
        assert_int_equal(atomic_load(&made), 3);
        assert_true(round || more_ids[0] == ids[1]);
        id_table_drop(table, more_ids, 2);
        id_table_drop(table, round ? other_ids : ids, 3);
        assert_int_equal(id_table_used(table), 0);
    }
    id_table_unref(&table);
}

enum { FILES = 400, DATASETS = 12, TURNS = 4000 };

struct some_dataset {
    uint32_t files[FILES], count;
    sample_id ids[FILES];
};

/* What the table should say. */
struct expected {
    uint32_t users[FILES];
    sample_id id[FILES];         /* while there are users */
    bool held[FILES * DATASETS]; /* by id: retired, or taken and not settled */
};

static void open_one(struct id_table *table, struct some_dataset *dataset, struct expected *expected, struct rng *rng)
{
    uint32_t first = (uint32_t)random_below(rng, FILES);
    dataset->count = 1 + (uint32_t)random_below(rng, FILES);
    for (uint32_t i = 0; i < dataset->count; i++)
        dataset->files[i] = (first + i) % FILES;
    give(table, dataset->files, dataset->count, dataset->ids);
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
    id_table_drop(table, dataset->ids, dataset->count);
    for (uint32_t i = 0; i < dataset->count; i++) {
        if (--expected->users[dataset->files[i]] == 0)
            expected->held[dataset->ids[i]] = true;
    }
    dataset->count = 0;
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
    id_table_unref(&table);
    free(datasets);
    free(expected);
}

/* ── several threads ── */

enum { THREADS = 4, THREAD_FILES = 60, ROUNDS = 400 };

struct crowd {
    struct id_table *table;
    pthread_barrier_t barrier;
    struct member {
        struct crowd *crowd;
        pthread_t thread;
        uint32_t number, files[THREAD_FILES], count; /* count 0: its dataset is not open */
        sample_id ids[THREAD_FILES];
    } members[THREADS];
};

/* Two samples have one id when they are of one file, and only then. */
static void check_crowd(const struct crowd *crowd)
{
    for (uint32_t pair = 0; pair < THREADS * THREADS; pair++) {
        const struct member *a = &crowd->members[pair / THREADS], *b = &crowd->members[pair % THREADS];
        for (uint32_t i = 0; i < a->count; i++) {
            for (uint32_t j = 0; j < b->count; j++)
                CHECK((a->ids[i] == b->ids[j]) == (a->files[i] == b->files[j]));
        }
    }
}

static void *come_and_go(void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    struct rng rng;
    random_seed(&rng, 20261128 + member->number);
    for (uint32_t round = 0; round <= ROUNDS; round++) {
        if (member->count)
            id_table_drop(crowd->table, member->ids, member->count);
        member->count = random_below(&rng, 2) && round < ROUNDS ? 1 + (uint32_t)random_below(&rng, THREAD_FILES) : 0;
        for (uint32_t i = 0; i < member->count; i++)
            member->files[i] = i * 2 + round % 2;
        const struct id_maker maker = {.make = make, .context = member->files, .count = member->count};
        CHECK(!member->count || id_table_give(crowd->table, &maker, member->ids) == 0);
        pthread_barrier_wait(&crowd->barrier);
        if (member->number == 0)
            check_crowd(crowd);
        pthread_barrier_wait(&crowd->barrier);
    }
    return NULL;
}

/* Datasets that come and go in several threads at once share ids where they share files, one that is alone just before
 * or just after among them. */
static void test_threads(void **state)
{
    (void)state;
    struct crowd *crowd = xcalloc(1, sizeof *crowd);
    crowd->table = make_table();
    assert_int_equal(pthread_barrier_init(&crowd->barrier, NULL, THREADS), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        struct member *member = &crowd->members[i];
        member->crowd = crowd;
        member->number = i;
        assert_int_equal(pthread_create(&member->thread, NULL, come_and_go, member), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(crowd->members[i].thread, NULL), 0);
    assert_int_equal(id_table_used(crowd->table), 0);
    pthread_barrier_destroy(&crowd->barrier);
    id_table_unref(&crowd->table);
    free(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_life), cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_any_order), cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
