/* States that nobody can have had, of ranks that fit together or not: the engine refuses them, or makes of them an
 * epoch that ends for each rank, and keeps its invariants. LARDER_TEST_SEED=n takes other cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "tests/play/restart.h"

#define MANY 64 /* batches: more than an epoch has */

/* With a sanitizer a third: what it finds in one case in 333 it still finds 95 times in 100, and the rest is proved
 * without one. */
#ifdef __SANITIZE_ADDRESS__
enum { CASES = 1000 };
#else
enum { CASES = 3000 };
#endif
enum { EPOCHS = 3 };

struct figures {
    uint32_t runs, refused, failed;
};

static uint32_t below(struct rng *rng, uint32_t n)
{
    return (uint32_t)random_below(rng, n);
}

static struct idset *random_ids(struct rng *rng, uint32_t samples, uint32_t rank, uint32_t world_size)
{
    struct idset *ids;
    uint32_t density = 2 + below(rng, 6);
    assert_int_equal(idset_create(&ids), 0);
    for (sample_id id = 0; id < samples; id++)
        if (id % (world_size + 1) == rank && below(rng, density) == 0)
            idset_add(ids, id);
    return ids;
}

/* Segments that fit the epoch, mostly. They are the same for all ranks. */
static void random_segments(struct rng *rng, uint32_t samples, struct luggage *luggage)
{
    uint32_t wrong = below(rng, 20) == 0;
    luggage->resume.segments = luggage->segments;
    luggage->resume.n_segments = below(rng, 3);
    for (uint32_t i = 0; i < luggage->resume.n_segments; i++) {
        uint32_t world_size = 1 + below(rng, RUN_WORLD_MAX);
        for (uint32_t rank = 0; rank < world_size; rank++)
            luggage->through[i][rank] = below(rng, (samples + world_size - 1 - rank) / world_size + 1 + wrong);
        luggage->segments[i] = (struct engine_segment){world_size, luggage->through[i]};
        samples = (uint32_t)engine_segments_left(&luggage->segments[i], 1, samples);
    }
}

static void come(struct run *run, struct rng *rng, uint64_t seed, uint32_t rank)
{
    struct rng base_rng;
    struct luggage luggage = {.resume = {.epoch = below(rng, 8) == 0, .batches = below(rng, 4)}};
    struct engine_resume *resume = &luggage.resume;
    uint32_t world_size = run->desc.world_size, share = run->samples / world_size;
    random_seed_keys(&base_rng, seed, 1, 0, 0);
    resume->base_batches = resume->epoch ? 0 : below(&base_rng, 3);
    resume->base = random_ids(&base_rng, run->samples, world_size, world_size);
    resume->turns = random_ids(rng, run->samples, rank, world_size);
    random_segments(&base_rng, run->samples, &luggage);
    resume->presented = below(rng, 20) > 0;
    resume->delivered = below(rng, 3) ? idset_count(resume->turns) : below(rng, share + 2);
    resume->through = below(rng, share / 2 + 2);
    run_come_with(run, rank, below(rng, 30) ? &luggage : NULL);
    run_unpack(&luggage);
}

static void play_case(uint64_t seed, struct figures *figures)
{
    struct rng rng;
    random_seed_keys(&rng, seed, 0, 0, 0);
    uint32_t world_size = 1 + below(&rng, RUN_WORLD_MAX);
    struct run *run = run_new((enum shuffle_mode)below(&rng, 3), 1 + below(&rng, 60), world_size, 1 + below(&rng, 5));
    run->desc.drop_last = below(&rng, 2);
    run->desc.bad_policy = below(&rng, 2) ? BAD_SKIP : BAD_REPLACE;
    for (sample_id id = 0; below(&rng, 2) && id < run->samples; id++)
        run->bad[id] = below(&rng, 12) == 0;
    for (uint32_t i = 0; i < 3 * world_size; i++) {
        uint32_t rank = i < world_size ? i : below(&rng, world_size);
        come(run, &rng, seed, rank);
        figures->refused += run->play.refused != 0;
        if (below(&rng, 4) == 0)
            run_leave(run, below(&rng, world_size));
        if (below(&rng, 3) == 0)
            run_ask(run, rank, below(&rng, 2), 1 + below(&rng, 3));
    }
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
        run_all(run, epoch, MANY);
    bool ended = true;
    for (uint32_t rank = 0; rank < world_size; rank++) {
        const struct run_rank *seat = &run->ranks[rank];
        ended = ended && seat->n_batches > 0 && seat->batches[seat->n_batches - 1].last;
    }
    figures->failed += run->play.failed != 0;
    figures->runs += ended;
    run_free(run);
}

static void test_garbage(void **state)
{
    (void)state;
    const char *text = getenv("LARDER_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    struct figures figures = {0};
    print_message("LARDER_TEST_SEED=%llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < CASES; i++)
        play_case(seed * CASES + i, &figures);
    print_message("%u of %d ran to the end, %u had errors, %u ranks were refused\n", figures.runs, CASES,
                  figures.failed, figures.refused);
    assert_true(figures.runs > CASES / 10);
    assert_true(figures.refused > CASES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests_name("resume_garbage", tests, NULL, NULL);
}
