/* test_tier_threads: many threads read a class while one writes it and segments give place: all that comes is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <cmocka.h>

#include "cache/tier/tier.h"
#include "common/check.h"
#include "common/random.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { READERS = 4, SAMPLES = 2000, BATCH = 16, ROUNDS = 3, SAMPLE_BYTES = 4000 };

struct shared {
    struct tier *tier;
    atomic_bool done;
    atomic_uint came, wrong;
};

static struct tier_key key_of(uint32_t number)
{
    return (struct tier_key){random_mix64(number), number};
}

static void fill(uint32_t number, uint64_t *bytes)
{
    for (uint32_t i = 0; i < SAMPLE_BYTES / 8; i++)
        bytes[i] = random_mix64((uint64_t)number << 32 | i);
}

static void *read_some(void *arg)
{
    struct shared *shared = arg;
    struct rng rng;
    uint64_t(*bytes)[SAMPLE_BYTES / 8] = xmalloc(BATCH * SAMPLE_BYTES), right[SAMPLE_BYTES / 8];
    random_seed(&rng, (uint64_t)(uintptr_t)&rng);
    while (!atomic_load(&shared->done)) {
        struct tier_read reads[BATCH];
        uint32_t first = (uint32_t)random_below(&rng, SAMPLES);
        for (uint32_t i = 0; i < BATCH; i++)
            reads[i] = (struct tier_read){.key = key_of(first + i), .bytes = SAMPLE_BYTES, .buf = bytes[i]};
        atomic_fetch_add(&shared->came, tier_read_many(shared->tier, reads, BATCH));
        for (uint32_t i = 0; i < BATCH; i++) {
            fill(first + i, right);
            if (reads[i].done && memcmp(right, bytes[i], SAMPLE_BYTES) != 0)
                atomic_fetch_add(&shared->wrong, 1);
        }
        struct tier_stats stats;
        tier_stats(shared->tier, &stats);
    }
    free(bytes);
    return NULL;
}

static void write_all(struct tier *tier, uint64_t owner)
{
    uint64_t(*bytes)[SAMPLE_BYTES / 8] = xmalloc(BATCH * SAMPLE_BYTES);
    tier_want(tier, &owner, 1);
    for (uint32_t first = 0; first < SAMPLES; first += BATCH) {
        struct tier_record records[BATCH];
        for (uint32_t i = 0; i < BATCH; i++) {
            fill(first + i, bytes[i]);
            records[i] = (struct tier_record){key_of(first + i), bytes[i], SAMPLE_BYTES};
        }
        tier_write(tier, owner, records, BATCH);
    }
    free(bytes);
}

static void test_threads(void **state)
{
    (void)state;
    char folder[TREE_NAME_MAX];
    struct shared shared = {.done = false};
    struct error err;
    pthread_t threads[READERS];
    tree_new(folder);
    assert_int_equal(tier_open(folder, UINT64_C(4) << 20, &shared.tier, &err), 0);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_some, &shared), 0);
    struct tier_stats stats;
    for (uint64_t owner = 1; owner <= ROUNDS; owner++)
        write_all(shared.tier, owner);
    while (atomic_load(&shared.came) == 0)
        usleep(1000);
    atomic_store(&shared.done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    tier_stats(shared.tier, &stats);
    assert_int_equal(atomic_load(&shared.wrong), 0);
    assert_int_equal(stats.corrupt, 0);
    assert_true(stats.given_up > 0 && stats.used_bytes <= stats.size_bytes);
    tier_close(shared.tier);
    tree_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
