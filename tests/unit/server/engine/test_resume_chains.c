/* Jobs that are begun again and again within one epoch, each time with any number of ranks, after any number of
 * batches: together they get what the epoch has. LARDER_TEST_SEED=n takes other cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "tests/play/restart.h"

#define MANY 160 /* batches: more than an epoch has */

/* With a sanitizer a quarter: what it finds in one case in 58 it still finds 95 times in 100, and the rest is proved
 * without one. */
#ifdef __SANITIZE_ADDRESS__
enum { CASES = 175 };
#else
enum { CASES = 700 };
#endif
enum { LINKS_MAX = 4 };

/* One epoch, in so many jobs. */
struct chain {
    enum shuffle_mode shuffle;
    bool drop_last;
    uint32_t samples, batch_size, epoch;
    uint32_t n_links, world_size[LINKS_MAX], batches[LINKS_MAX]; /* batches that each rank takes from a job */
    uint32_t later_size; /* of the batches of all jobs but the first; 0: the same */
};

/* What comes of it. */
struct outcome {
    uint32_t times[RUN_IDS_MAX], repeats, last_left; /* samples that the last job began with */
};

static uint32_t size_of(const struct chain *chain, uint32_t link)
{
    return link > 0 && chain->later_size ? chain->later_size : chain->batch_size;
}

static struct run *begin(const struct chain *chain, uint32_t link, const struct checkpoint *at)
{
    struct run *run = run_new(chain->shuffle, chain->samples, chain->world_size[link], size_of(chain, link));
    run->desc.drop_last = chain->drop_last;
    if (link > 0) {
        run_go_on(run, at);
        return run;
    }
    for (uint32_t rank = 0; rank < run->desc.world_size; rank++)
        run_come_without(run, rank);
    return run;
}

/* Plays the chain. All ranks of a job take equally many batches, or all that there are. */
static struct outcome play(const struct chain *chain)
{
    struct outcome outcome = {.last_left = chain->samples};
    struct checkpoint at = {0};
    for (uint32_t link = 0; link < chain->n_links; link++) {
        struct run *run = begin(chain, link, &at);
        uint32_t batches = link + 1 < chain->n_links ? chain->batches[link] : MANY;
        run_all(run, chain->epoch, batches);
        uint32_t had = run_had(run, 0, chain->epoch);
        for (uint32_t rank = 1; rank < run->desc.world_size; rank++)
            assert_int_equal(run_had(run, rank, chain->epoch), had);
        batches = batches < had ? batches : had;
        outcome.repeats += run_count(run, chain->epoch, batches, outcome.times);
        at = run_checkpoint(run, chain->epoch, batches);
        for (uint32_t rank = 0; link + 1 == chain->n_links && rank < run->desc.world_size; rank++)
            assert_true(run->ranks[rank].batches[run->ranks[rank].n_batches - 1].last);
        run_free(run);
        if (link + 2 == chain->n_links)
            for (sample_id id = 0; id < chain->samples; id++)
                outcome.last_left -= outcome.times[id];
    }
    return outcome;
}

/* Every sample had its turn once; under drop_last, all but the remainder that makes no whole batch for each rank. */
static void check(const struct chain *chain)
{
    struct outcome outcome = play(chain);
    uint32_t world_size = chain->world_size[chain->n_links - 1], left = chain->samples;
    for (sample_id id = 0; id < chain->samples; id++) {
        assert_true(outcome.times[id] <= 1);
        left -= outcome.times[id];
    }
    if (chain->drop_last)
        assert_int_equal(left, outcome.last_left % (world_size * size_of(chain, chain->n_links - 1)));
    else
        assert_int_equal(left, 0);
    if (chain->n_links == 1 || chain->drop_last)
        assert_int_equal(outcome.repeats,
                         chain->drop_last ? 0 : (world_size - chain->samples % world_size) % world_size);
}

/* From each number of ranks to each other, in each order, after each number of batches. */
static void test_from_any_to_any(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * 2 * 16 * 3; i++) {
        struct chain chain = {.shuffle = (enum shuffle_mode)(i % 3),
                              .drop_last = i / 3 % 2,
                              .samples = 50,
                              .batch_size = 3,
                              .n_links = 2,
                              .world_size = {i / 6 % 4 + 1, i / 24 % 4 + 1},
                              .batches = {i / 96 * 2 + 1}};
        check(&chain);
    }
}

/* An epoch that is begun three times: each time the rest is dealt anew. */
static void test_twice(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        check(&(struct chain){(enum shuffle_mode)i, false, 50, 3, 5, 3, {4, 3, 2}, {2, 3}, 0});
        check(&(struct chain){(enum shuffle_mode)i, false, 50, 3, 0, 3, {3, 4, 3}, {1, 2}, 0});
        check(&(struct chain){(enum shuffle_mode)i, false, 50, 3, 1, 4, {2, 2, 4, 4}, {3, 2, 1}, 0});
    }
}

/* Batches of another size: whole ones count from where the ranks go on. */
static void test_another_batch_size(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * 2 * 5 * 4 * 3; i++) {
        struct chain chain = {.shuffle = (enum shuffle_mode)(i % 3),
                              .drop_last = i / 3 % 2,
                              .samples = 50,
                              .batch_size = 4,
                              .later_size = i / 6 % 5 + 1,
                              .n_links = 3,
                              .world_size = {i / 30 % 4 + 1, i / 30 % 4 + 1, i / 30 % 4 + 1},
                              .batches = {i / 120 + 1, 1}};
        check(&chain);
    }
}

static void test_chance(void **state)
{
    (void)state;
    const char *text = getenv("LARDER_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    struct rng rng;
    for (uint64_t i = 0; i < CASES; i++) {
        random_seed_keys(&rng, seed, i, 0, 0);
        struct chain chain = {.shuffle = (enum shuffle_mode)random_below(&rng, 3),
                              .drop_last = random_below(&rng, 2),
                              .samples = 1 + (uint32_t)random_below(&rng, 70),
                              .batch_size = 1 + (uint32_t)random_below(&rng, 5),
                              .epoch = (uint32_t)random_below(&rng, 3),
                              .n_links = 1 + (uint32_t)random_below(&rng, LINKS_MAX)};
        for (uint32_t link = 0; link < chain.n_links; link++) {
            chain.world_size[link] = 1 + (uint32_t)random_below(&rng, RUN_WORLD_MAX);
            chain.batches[link] = (uint32_t)random_below(&rng, 8);
        }
        print_message("LARDER_TEST_SEED=%llu case %llu: order %d%s, %u samples, batches of %u, %u jobs\n",
                      (unsigned long long)seed, (unsigned long long)i, chain.shuffle,
                      chain.drop_last ? ", drop_last" : "", chain.samples, chain.batch_size, chain.n_links);
        check(&chain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_any_to_any),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_another_batch_size),
        cmocka_unit_test(test_chance),
    };
    return cmocka_run_group_tests_name("resume_chains", tests, NULL, NULL);
}
