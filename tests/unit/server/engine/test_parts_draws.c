/* Epochs that are multisets, of a job whose ranks lie at several nodes. Each node is an engine of its own: together
 * they deal each sample as often as the epoch has it, and all ranks train in step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "server/cluster/deal.h"
#include "tests/play/restart.h"

enum { BATCH = 4, MANY = 128, CHUNK = 5, NODES_MAX = 4, EPOCHS = 3, SEED = 7, KINDS = 3 };

/* How many ranks each node has. */
struct split {
    uint32_t ranks[NODES_MAX];
};

static const struct split splits[] = {{{1, 1}}, {{2, 1}}, {{2, 2}}, {{1, 1, 1, 1}}, {{3, 2, 3}}};

struct node {
    struct deal_ranks ranks;
    struct run *run;
};

struct job {
    uint32_t samples, n_nodes, world_size;
    bool drop_last;
    struct multiset *multiset;
    struct deal *deal;
    struct node nodes[NODES_MAX];
};

/* What a node's engine is given to deal with. */
struct dealt {
    const struct deal *deal;
    struct deal_ranks ranks;
};

static int draws(const void *ctx, uint32_t epoch, uint32_t *counts)
{
    const struct dealt *of = ctx;
    return deal_draws(of->deal, SEED, epoch, &of->ranks, counts);
}

static struct multiset *make_multiset(uint32_t samples, int kind)
{
    sample_id ids[RUN_IDS_MAX];
    double weights[RUN_IDS_MAX];
    int32_t labels[RUN_IDS_MAX];
    for (uint32_t i = 0; i < samples; i++) {
        ids[i] = i;
        weights[i] = i % 7 ? i % 4 + 1 : i == 0;
        labels[i] = (int32_t)(i % 3 == 0);
    }
    const struct multiset_spec specs[KINDS] = {{.kind = MULTISET_REPEAT, .copies = 3},
                                               {.kind = MULTISET_WEIGHTS, .draws = samples + 9, .weights = weights},
                                               {.kind = MULTISET_BALANCED, .draws = samples + 1, .labels = labels}};
    struct multiset_spec spec = specs[kind];
    spec.seed = SEED;
    spec.ids = ids;
    spec.count = samples;
    struct multiset *multiset = NULL;
    struct error err;
    assert_int_equal(multiset_create(&spec, &multiset, &err), 0);
    return multiset;
}

static void begin(struct job *job, struct dealt *dealt, const struct split *split, int kind, uint32_t samples,
                  bool drop_last)
{
    sample_id numbers[RUN_IDS_MAX];
    uint32_t chunks[RUN_IDS_MAX];
    *job = (struct job){.samples = samples, .drop_last = drop_last, .multiset = make_multiset(samples, kind)};
    for (uint32_t i = 0; i < samples; i++) {
        numbers[i] = i;
        chunks[i] = i / CHUNK;
    }
    assert_int_equal(deal_create(numbers, chunks, samples, (samples + CHUNK - 1) / CHUNK, &job->deal), 0);
    for (; job->n_nodes < NODES_MAX && split->ranks[job->n_nodes]; job->n_nodes++) {
        job->nodes[job->n_nodes].ranks = (struct deal_ranks){
            .first = job->world_size, .n_ranks = split->ranks[job->n_nodes], .drop_last = drop_last};
        job->world_size += split->ranks[job->n_nodes];
    }
    for (uint32_t i = 0; i < job->n_nodes; i++) {
        struct node *node = &job->nodes[i];
        node->ranks.world_size = job->world_size;
        dealt[i] = (struct dealt){job->deal, node->ranks};
        node->run = run_new(SHUFFLE_DEPENDENT, samples, node->ranks.n_ranks, BATCH);
        node->run->desc.drop_last = drop_last;
        node->run->desc.sampled.multiset = job->multiset;
        node->run->desc.part = (struct engine_part){
            .world_size = job->world_size, .first = node->ranks.first, .draws = draws, .deal = &dealt[i]};
        for (uint32_t rank = 0; rank < node->ranks.n_ranks; rank++)
            run_come_without(node->run, rank);
        assert_int_equal(node->run->play.refused, 0);
    }
}

static void end(struct job *job)
{
    for (uint32_t i = 0; i < job->n_nodes; i++) {
        assert_int_equal(job->nodes[i].run->play.failed, 0);
        run_free(job->nodes[i].run);
    }
    deal_destroy(job->deal);
    multiset_destroy(job->multiset);
}

/* The samples that each rank gets in an epoch. */
static uint32_t rank_samples(const struct job *job)
{
    uint32_t all = (uint32_t)multiset_draws(job->multiset), each = all / job->world_size;
    return job->drop_last ? each / BATCH * BATCH : each + (all % job->world_size > 0);
}

/* All ranks have equally many; a repeat is a sample of the epoch. */
static void assert_in_step(const struct job *job, const struct run *run, uint32_t rank, uint32_t epoch,
                           const uint32_t *counts)
{
    uint32_t had = 0;
    for (uint32_t at = 0; at < run_had(run, rank, epoch); at++) {
        const struct run_batch *batch = run_find(run, rank, epoch, at);
        had += batch->count;
        for (uint32_t i = 0; i < batch->count; i++)
            assert_true(counts[batch->ids[i]] > 0);
    }
    assert_int_equal(had, rank_samples(job));
}

/* Each sample as often as the epoch has it, over all nodes; with drop_last not more often; and as many repeats as
 * rounding up needs. */
static void assert_as_often(const struct job *job, uint32_t epoch)
{
    uint32_t times[RUN_IDS_MAX] = {0}, counts[RUN_IDS_MAX], repeats = 0, turns = 0;
    assert_int_equal(multiset_epoch(job->multiset, epoch, counts), 0);
    for (uint32_t i = 0; i < job->n_nodes; i++) {
        repeats += run_count(job->nodes[i].run, epoch, MANY, times);
        for (uint32_t rank = 0; rank < job->nodes[i].ranks.n_ranks; rank++)
            assert_in_step(job, job->nodes[i].run, rank, epoch, counts);
    }
    for (uint32_t id = 0; id < job->samples; id++) {
        assert_true(job->drop_last ? times[id] <= counts[id] : times[id] == counts[id]);
        turns += times[id];
    }
    assert_int_equal(turns + repeats, rank_samples(job) * job->world_size);
    assert_true(!job->drop_last || repeats == 0);
}

static void epochs_of(const struct split *split, int kind, uint32_t samples, bool drop_last)
{
    struct job job;
    struct dealt dealt[NODES_MAX];
    begin(&job, dealt, split, kind, samples, drop_last);
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (uint32_t i = 0; i < job.n_nodes; i++)
            run_all(job.nodes[i].run, epoch, MANY);
        assert_as_often(&job, epoch);
    }
    end(&job);
}

/* Also with fewer draws than ranks: a node's share may be empty. */
static void test_each_as_often(void **state)
{
    (void)state;
    static const uint32_t samples[] = {60, 61, 7, 2, 1};
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++)
        for (int kind = 0; kind < KINDS; kind++)
            for (size_t n = 0; n < sizeof samples / sizeof *samples; n++)
                for (int drop = 0; drop <= 1; drop++)
                    epochs_of(&splits[s], kind, samples[n], drop);
}

/* Nobody has a sample twice. */
static void assert_apart(const struct run *run, uint32_t epoch)
{
    for (uint32_t rank = 0; rank < run->desc.world_size; rank++) {
        bool has[RUN_IDS_MAX] = {false};
        for (uint32_t at = 0; at < run_had(run, rank, epoch); at++) {
            const struct run_batch *batch = run_find(run, rank, epoch, at);
            for (uint32_t k = 0; k < batch->count; k++) {
                if (batch->turns[k] == SAMPLE_NONE)
                    continue;
                assert_false(has[batch->turns[k]]);
                has[batch->turns[k]] = true;
            }
        }
    }
}

/* repeat=3 with three ranks or more, wherever they are: a sample's copies are at three ranks. Ranks here do not train
 * in step. */
static void test_copies_at_other_ranks(void **state)
{
    (void)state;
    static const struct split some[] = {{{3, 4}}, {{3, 3}},       {{4, 4}},    {{2, 2}},
                                        {{2, 1}}, {{1, 1, 1, 1}}, {{3, 2, 3}}, {{2, 2, 2}}};
    for (size_t s = 0; s < sizeof some / sizeof *some; s++) {
        for (uint32_t samples = 50; samples < 64; samples++) {
            struct job job;
            struct dealt dealt[NODES_MAX];
            struct rng rng;
            random_seed_keys(&rng, SEED, s, samples, 0);
            begin(&job, dealt, &some[s], 0, samples, false);
            for (uint32_t i = 0; i < job.n_nodes; i++) {
                for (uint32_t turn = 0; turn < 40; turn++)
                    run_ask(job.nodes[i].run, (uint32_t)random_below(&rng, job.nodes[i].ranks.n_ranks), 0, 1);
                run_all(job.nodes[i].run, 0, MANY);
                assert_apart(job.nodes[i].run, 0);
            }
            assert_as_often(&job, 0);
            end(&job);
        }
    }
}

/* Ranks that bring along draws of another node's share are told so. */
static void test_wrong_states(void **state)
{
    (void)state;
    static const struct split split = {{2, 2}};
    for (int kind = 0; kind < KINDS; kind++) {
        struct job job;
        struct dealt dealt[NODES_MAX];
        begin(&job, dealt, &split, kind, 60, false);
        run_all(job.nodes[0].run, 0, 3);
        struct run *run = run_new(SHUFFLE_DEPENDENT, 60, 2, BATCH);
        run->desc.sampled.multiset = job.multiset;
        run->desc.part = (struct engine_part){.world_size = 4, .first = 2, .draws = draws, .deal = &dealt[1]};
        for (uint32_t rank = 0; rank < 2; rank++)
            run_come(run, rank, true, job.nodes[0].run, 3);
        assert_int_equal(run->play.refused, 0);
        run_all(run, 0, 1);
        assert_int_equal(run->play.failed, LARDER_EINVAL);
        assert_non_null(strstr(run->play.text, "deals to other nodes"));
        run_free(run);
        end(&job);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_as_often),
        cmocka_unit_test(test_copies_at_other_ranks),
        cmocka_unit_test(test_wrong_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
