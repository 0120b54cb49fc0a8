/* A job whose ranks lie at several nodes. Each node is an engine of its own that knows nothing of the others: together
 * they deal every sample once an epoch, and all ranks train in step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/cluster/deal.h"
#include "tests/play/restart.h"

enum { BATCH = 4, MANY = 64, CHUNK = 5, NODES_MAX = 4, EPOCHS = 3 };

/* How many ranks each node has. */
struct split {
    uint32_t ranks[NODES_MAX];
};

static const struct split splits[] = {{{1, 1}}, {{2, 1}}, {{1, 3}}, {{2, 2}}, {{1, 1, 1, 1}}, {{3, 2, 3}}, {{4, 4}}};
static const enum shuffle_mode orders[] = {SHUFFLE_DEPENDENT, SHUFFLE_STRICT, SHUFFLE_NONE};

struct node {
    struct deal_ranks ranks;
    struct deal *deal;
    struct run *run;
};

struct job {
    uint32_t samples, n_nodes, world_size;
    enum shuffle_mode shuffle;
    bool drop_last;
    struct node nodes[NODES_MAX];
};

static int share(const void *deal, uint32_t epoch, const struct idset *gone, struct idset **out)
{
    const struct node *node = deal;
    return deal_share(node->deal, 7, epoch, gone, &node->ranks, out);
}

/* Gives the node an engine where nobody is yet. */
static void begin_node(const struct job *job, struct node *node)
{
    node->run = run_new(job->shuffle, job->samples, node->ranks.n_ranks, BATCH);
    node->run->desc.drop_last = job->drop_last;
    node->run->desc.part = (struct engine_part){
        .world_size = job->world_size, .first = node->ranks.first, .share = share, .deal = node};
}

static void begin(struct job *job, const struct split *split, enum shuffle_mode shuffle, uint32_t samples,
                  bool drop_last)
{
    sample_id ids[RUN_IDS_MAX];
    uint32_t chunks[RUN_IDS_MAX];
    *job = (struct job){.samples = samples, .shuffle = shuffle, .drop_last = drop_last};
    for (uint32_t i = 0; i < samples; i++) {
        ids[i] = i;
        chunks[i] = i / CHUNK;
    }
    for (; job->n_nodes < NODES_MAX && split->ranks[job->n_nodes]; job->n_nodes++) {
        struct node *node = &job->nodes[job->n_nodes];
        node->ranks = (struct deal_ranks){
            .first = job->world_size, .n_ranks = split->ranks[job->n_nodes], .drop_last = drop_last};
        assert_int_equal(deal_create(ids, chunks, samples, (samples + CHUNK - 1) / CHUNK, &node->deal), 0);
        job->world_size += node->ranks.n_ranks;
    }
    for (uint32_t i = 0; i < job->n_nodes; i++) {
        struct node *node = &job->nodes[i];
        node->ranks.world_size = job->world_size;
        begin_node(job, node);
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
        deal_destroy(job->nodes[i].deal);
    }
}

/* The samples that each rank gets in an epoch. */
static uint32_t rank_samples(const struct job *job)
{
    uint32_t each = job->samples / job->world_size;
    return job->drop_last ? each / BATCH * BATCH : each + (job->samples % job->world_size > 0);
}

/* Counts what a rank had of the epoch, and asserts that it is what all ranks have. */
static void assert_in_step(const struct job *job, const struct run *run, uint32_t rank, uint32_t epoch)
{
    uint32_t had = 0, batches = run_had(run, rank, epoch);
    for (uint32_t at = 0; at < batches; at++)
        had += run_find(run, rank, epoch, at)->count;
    assert_int_equal(had, rank_samples(job));
    assert_int_equal(batches, (rank_samples(job) + BATCH - 1) / BATCH);
}

/* Each sample once over all nodes; with drop_last never twice; and as many repeats as rounding up needs. */
static void assert_once(const struct job *job, uint32_t epoch)
{
    uint32_t times[RUN_IDS_MAX] = {0}, repeats = 0, once = 0;
    for (uint32_t i = 0; i < job->n_nodes; i++) {
        const struct node *node = &job->nodes[i];
        repeats += run_count(node->run, epoch, MANY, times);
        for (uint32_t rank = 0; rank < node->ranks.n_ranks; rank++)
            assert_in_step(job, node->run, rank, epoch);
    }
    for (uint32_t id = 0; id < job->samples; id++) {
        assert_true(times[id] <= 1);
        once += times[id];
    }
    assert_int_equal(once + repeats, rank_samples(job) * job->world_size);
    assert_int_equal(once, job->drop_last ? rank_samples(job) * job->world_size : job->samples);
}

static void each_job(void (*test)(const struct split *split, enum shuffle_mode shuffle, uint32_t samples, bool drop))
{
    static const uint32_t samples[] = {60, 61, 64, 7, 2, 1};
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++)
        for (size_t o = 0; o < sizeof orders / sizeof *orders; o++)
            for (size_t n = 0; n < sizeof samples / sizeof *samples; n++)
                for (int drop = 0; drop <= 1; drop++)
                    test(&splits[s], orders[o], samples[n], drop);
}

static void epochs_of(const struct split *split, enum shuffle_mode shuffle, uint32_t samples, bool drop_last)
{
    struct job job;
    begin(&job, split, shuffle, samples, drop_last);
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (uint32_t i = 0; i < job.n_nodes; i++)
            run_all(job.nodes[i].run, epoch, MANY);
        assert_once(&job, epoch);
    }
    end(&job);
}

static void test_each_sample_once(void **state)
{
    (void)state;
    each_job(epochs_of);
}

/* In a fixed order rank r gets what DistributedSampler gives it: the positions r, r + world_size, … of the order, which
 * begins again behind its end. */
static void order_of(const struct split *split, enum shuffle_mode shuffle, uint32_t samples, bool drop_last)
{
    if (shuffle == SHUFFLE_DEPENDENT)
        return;
    struct run *whole = run_new(shuffle, samples, 1, BATCH);
    struct job job;
    run_come_without(whole, 0);
    begin(&job, split, shuffle, samples, drop_last);
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        sample_id order[RUN_IDS_MAX];
        uint32_t n = 0;
        run_all(whole, epoch, MANY);
        for (uint32_t at = 0; at < run_had(whole, 0, epoch); at++)
            for (uint32_t i = 0; i < run_find(whole, 0, epoch, at)->count; i++)
                order[n++] = run_find(whole, 0, epoch, at)->ids[i];
        assert_int_equal(n, samples);
        for (uint32_t i = 0; i < job.n_nodes; i++) {
            const struct node *node = &job.nodes[i];
            run_all(node->run, epoch, MANY);
            for (uint32_t rank = 0; rank < node->ranks.n_ranks; rank++) {
                uint32_t position = node->ranks.first + rank;
                for (uint32_t at = 0; at < run_had(node->run, rank, epoch); at++)
                    for (uint32_t k = 0; k < run_find(node->run, rank, epoch, at)->count; k++) {
                        assert_int_equal(run_find(node->run, rank, epoch, at)->ids[k], order[position % samples]);
                        position += job.world_size;
                    }
            }
        }
    }
    run_free(whole);
    end(&job);
}

static void test_order_is_distributed_samplers(void **state)
{
    (void)state;
    each_job(order_of);
}

/* A daemon dies in the middle of an epoch: its ranks come to the next one with what they had, and get the rest. The
 * ranks at the other nodes notice nothing. */
static void restart_of(const struct split *split, enum shuffle_mode shuffle, uint32_t samples, bool drop_last)
{
    struct job job;
    begin(&job, split, shuffle, samples, drop_last);
    struct node *node = &job.nodes[1];
    uint32_t had = run_had(node->run, 0, 0), world_size = node->ranks.n_ranks;
    run_all(node->run, 0, 2);
    for (uint32_t i = 0; i < job.n_nodes; i++)
        if (i != 1)
            run_all(job.nodes[i].run, 0, MANY);
    struct run *before = node->run;
    begin_node(&job, node);
    for (uint32_t rank = 0; rank < world_size; rank++) {
        had = run_had(before, rank, 0);
        run_come(node->run, rank, true, before, rank % 2 ? 0 : had);
        assert_int_equal(node->run->play.refused, 0);
    }
    run_all(node->run, 0, MANY);
    /* What they had before belongs to the epoch. */
    uint32_t times[RUN_IDS_MAX] = {0}, twice = 0, once = 0;
    for (uint32_t rank = 0; rank < world_size; rank += 2)
        for (uint32_t at = 0; at < run_had(before, rank, 0); at++)
            for (uint32_t i = 0; i < run_find(before, rank, 0, at)->count; i++)
                if (run_find(before, rank, 0, at)->turns[i] != SAMPLE_NONE)
                    times[run_find(before, rank, 0, at)->turns[i]]++;
    for (uint32_t i = 0; i < job.n_nodes; i++)
        run_count(job.nodes[i].run, 0, MANY, times);
    for (uint32_t id = 0; id < samples; id++) {
        twice += times[id] > 1;
        once += times[id] == 1;
    }
    assert_int_equal(twice, 0);
    assert_int_equal(once, drop_last ? rank_samples(&job) * job.world_size : samples);
    run_all(node->run, 1, MANY);
    for (uint32_t i = 0; i < job.n_nodes; i++)
        if (i != 1)
            run_all(job.nodes[i].run, 1, MANY);
    assert_once(&job, 1);
    run_free(before);
    end(&job);
}

static void test_a_daemon_dies(void **state)
{
    (void)state;
    each_job(restart_of);
}

/* Bad samples leave no holes: all ranks go on in step. */
static void test_bad_samples(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++)
        for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
            struct job job;
            begin(&job, &splits[s], orders[o], 60, false);
            for (uint32_t i = 0; i < job.n_nodes; i++) {
                for (uint32_t id = 0; id < 60; id += 9)
                    job.nodes[i].run->bad[id] = true;
                run_all(job.nodes[i].run, 0, MANY);
                for (uint32_t rank = 0; rank < job.nodes[i].ranks.n_ranks; rank++)
                    assert_in_step(&job, job.nodes[i].run, rank, 0);
            }
            end(&job);
        }
}

/* Ranks that bring along samples of other nodes' shares are told so. With a checkpoint from the middle of an epoch they
 * get their share of what is left. */
static void test_wrong_states(void **state)
{
    (void)state;
    struct job job, other;
    begin(&job, &splits[3], SHUFFLE_DEPENDENT, 60, false);
    begin(&other, &splits[3], SHUFFLE_DEPENDENT, 60, false);
    run_all(job.nodes[0].run, 0, 2);
    struct node *node = &other.nodes[1];
    struct run *unused = node->run;
    begin_node(&other, node);
    for (uint32_t rank = 0; rank < 2; rank++)
        run_come(node->run, rank, true, job.nodes[0].run, 2);
    assert_int_equal(node->run->play.refused, 0);
    run_all(node->run, 0, 1);
    assert_int_equal(node->run->play.failed, LARDER_EINVAL);
    assert_non_null(strstr(node->run->play.text, "deals to other nodes"));
    run_free(node->run);
    begin_node(&other, node);
    node->run->base = run_checkpoint(job.nodes[0].run, 0, 1);
    for (uint32_t rank = 0; rank < 2; rank++)
        run_come(node->run, rank, false, NULL, 0);
    assert_int_equal(node->run->play.refused, 0);
    run_all(node->run, 0, 1);
    uint32_t times[RUN_IDS_MAX] = {0}, had = 0;
    run_count(node->run, 0, 1, times);
    for (uint32_t id = 0; id < 60; id++) {
        assert_true(times[id] + node->run->base.turns[id] <= 1);
        had += times[id];
    }
    assert_int_equal(had, 2 * BATCH);
    run_free(node->run);
    node->run = unused;
    end(&other);
    end(&job);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sample_once), cmocka_unit_test(test_order_is_distributed_samplers),
        cmocka_unit_test(test_a_daemon_dies),    cmocka_unit_test(test_bad_samples),
        cmocka_unit_test(test_wrong_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
