/* Copies of samples that go to different ranks: each sample as often as it should, and to each rank once, wherever the
 * epoch is left and gone on with, from states and by ranks that present what they had. Where a sample has more copies
 * than there are ranks, the ranks have them as evenly as can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "tests/play/restart.h"

/* In the world of seed 2399 copies have to change ranks for others. */
enum { FIRST_SEED = 2200, LAST_SEED = 2500, LEGS_MAX = 4, MANY = 128 };

/* A job, and what was had of its epoch: by the base, and by each rank since. */
struct job {
    uint32_t samples, world_size, copies, batch_size;
    bool drop_last;
    struct multiset *multiset;
    struct rng rng;
    uint32_t base_batches, base[RUN_WORLD_MAX][RUN_IDS_MAX];
    struct run_batch since[RUN_WORLD_MAX][RUN_BATCHES_MAX];
    uint32_t n_since[RUN_WORLD_MAX];
};

static struct job new_job(uint64_t seed)
{
    struct job job = {.samples = 0};
    sample_id ids[RUN_IDS_MAX];
    struct error err;
    random_seed_keys(&job.rng, seed, 0, 0, 0);
    job.samples = 1 + (uint32_t)random_below(&job.rng, seed % 2 ? 14 : 40);
    job.world_size = 2 + (uint32_t)random_below(&job.rng, RUN_WORLD_MAX - 1);
    job.copies = 2 + (uint32_t)random_below(&job.rng, job.world_size + 1);
    job.batch_size = 1 + (uint32_t)random_below(&job.rng, RUN_BATCH_MAX);
    job.drop_last = random_below(&job.rng, 2);
    for (uint32_t i = 0; i < job.samples; i++)
        ids[i] = i;
    const struct multiset_spec spec = {.kind = MULTISET_REPEAT, .copies = job.copies, .ids = ids, .count = job.samples};
    assert_int_equal(multiset_create(&spec, &job.multiset, &err), 0);
    return job;
}

static void count_batch(const struct run_batch *batch, uint32_t times[RUN_IDS_MAX])
{
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->turns[i] != SAMPLE_NONE)
            times[batch->turns[i]]++;
}

/* What engine_resume borrows of lists of draws. */
struct lists {
    sample_id base_again[RUN_IDS_MAX * 8], again[RUN_IDS_MAX * 8];
    struct engine_copy copies[RUN_IDS_MAX * 8];
};

static void add_draws(const uint32_t *times, struct idset *set, sample_id *list, uint64_t *n)
{
    for (sample_id id = 0; id < RUN_IDS_MAX; id++) {
        if (times[id])
            idset_add(set, id);
        for (uint32_t i = 1; i < times[id]; i++)
            list[(*n)++] = id;
    }
}

/* pack_base packs what all ranks had: the samples, and who had the copies of those of which not all have come. */
static void pack_base(const struct job *job, struct engine_resume *resume, struct lists *lists)
{
    struct idset *base;
    uint32_t times[RUN_IDS_MAX] = {0};
    uint64_t n = 0;
    assert_int_equal(idset_create(&base), 0);
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        for (sample_id id = 0; id < job->samples; id++)
            times[id] += job->base[rank][id];
    add_draws(times, base, lists->base_again, &n);
    for (sample_id id = 0; id < job->samples; id++)
        for (uint32_t rank = 0; rank < job->world_size && times[id] < job->copies; rank++)
            for (uint32_t i = 0; i < job->base[rank][id]; i++)
                lists->copies[resume->n_copies++] = (struct engine_copy){id, rank};
    resume->base = base;
    resume->base_again = (struct engine_again){lists->base_again, n};
    resume->copies = lists->copies;
}

/* come has a rank come with the base, and with what it had since. */
static void come(struct job *job, struct run *run, uint32_t rank, bool presented)
{
    struct lists *lists = calloc(1, sizeof *lists);
    assert_non_null(lists);
    struct luggage luggage = {.resume = {.key = 1 + job->base_batches,
                                         .base_batches = job->base_batches,
                                         .batches = job->n_since[rank],
                                         .presented = presented}};
    struct idset *turns;
    uint32_t times[RUN_IDS_MAX] = {0};
    uint64_t n = 0;
    assert_int_equal(idset_create(&turns), 0);
    pack_base(job, &luggage.resume, lists);
    for (uint32_t at = 0; at < job->n_since[rank]; at++) {
        count_batch(&job->since[rank][at], times);
        luggage.resume.delivered += job->since[rank][at].count;
    }
    add_draws(times, turns, lists->again, &n);
    luggage.resume.turns = turns;
    luggage.resume.again = (struct engine_again){lists->again, n};
    run_come_with(run, rank, &luggage);
    assert_int_equal(run->play.refused, 0);
    run_unpack(&luggage);
    free(lists);
}

/* keep notes what the ranks had in the run. */
static void keep(struct job *job, const struct run *run)
{
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        for (uint32_t at = 0; at < run_had(run, rank, 0); at++)
            job->since[rank][job->n_since[rank]++] = *run_find(run, rank, 0, at);
}

/* checkpoint makes the first batches of each rank the base, as many as all have. */
static void checkpoint(struct job *job)
{
    uint32_t batches = UINT32_MAX;
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        batches = job->n_since[rank] < batches ? job->n_since[rank] : batches;
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        for (uint32_t at = 0; at < batches; at++)
            count_batch(&job->since[rank][at], job->base[rank]);
        job->n_since[rank] = 0;
    }
    job->base_batches += batches;
}

/* check says that the epoch was as it should be. */
static void check(struct job *job, uint64_t seed)
{
    uint32_t most = (job->copies + job->world_size - 1) / job->world_size;
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        for (uint32_t at = 0; at < job->n_since[rank]; at++)
            count_batch(&job->since[rank][at], job->base[rank]);
    for (sample_id id = 0; id < job->samples; id++) {
        uint32_t times = 0;
        for (uint32_t rank = 0; rank < job->world_size; rank++) {
            times += job->base[rank][id];
            if (job->base[rank][id] > most)
                fail_msg("seed %llu: rank %u of %u had sample %u %u times, of %u", (unsigned long long)seed, rank,
                         job->world_size, id, job->base[rank][id], job->copies);
        }
        if (job->drop_last ? times > job->copies : times != job->copies)
            fail_msg("seed %llu: sample %u came %u times, not %u", (unsigned long long)seed, id, times, job->copies);
    }
}

/* leg has the ranks train for a while, each at its own speed, or to the end of the epoch. */
static void leg(struct job *job, bool first, bool presented, bool last)
{
    struct run *run = run_new(SHUFFLE_DEPENDENT, job->samples, job->world_size, job->batch_size);
    run->desc.drop_last = job->drop_last;
    run->desc.sampled.multiset = job->multiset;
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        if (first)
            run_come_without(run, rank);
        else
            come(job, run, rank, presented);
    }
    for (uint32_t turns = (uint32_t)random_below(&job->rng, 3 * MANY / job->batch_size); turns > 0; turns--)
        run_ask(run, (uint32_t)random_below(&job->rng, job->world_size), 0, 1);
    if (last)
        run_all(run, 0, MANY);
    assert_int_equal(run->play.failed, 0);
    keep(job, run);
    run_free(run);
}

static void test_each_rank_once(void **state)
{
    (void)state;
    for (uint64_t seed = FIRST_SEED; seed <= LAST_SEED; seed++) {
        struct job job = new_job(seed);
        uint32_t legs = 1 + (uint32_t)random_below(&job.rng, LEGS_MAX);
        bool presented = false;
        for (uint32_t at = 0; at < legs; at++) {
            leg(&job, at == 0, presented, at + 1 == legs);
            presented = random_below(&job.rng, 2);
            if (!presented && at + 1 < legs)
                checkpoint(&job);
        }
        check(&job, seed);
        multiset_destroy(job.multiset);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_rank_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
