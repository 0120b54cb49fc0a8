/* What the nodes of a job read together: each chunk is dealt to one node, which reads it as often as one machine would.
 * Virtual: 20,000 samples in chunks of 64, memory for a tenth of them encoded and a tenth prepared at each node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/cluster/deal.h"
#include "server/plan/play.h"

enum { SAMPLES = 20000, CHUNK = 64, CHUNKS = (SAMPLES + CHUNK - 1) / CHUNK, BATCH = 50, EPOCHS = 4, BYTES = 100000 };

struct node {
    struct play play;
    struct deal *deal;
    struct deal_ranks ranks;
    uint8_t got[SAMPLES];
    uint64_t reads, last_read;
    bool last;
};

static int share(const void *deal, uint32_t epoch, const struct idset *gone, struct idset **out)
{
    const struct node *node = deal;
    return deal_share(node->deal, 1, epoch, gone, &node->ranks, out);
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct node *node = ctx;
    if (action->type == ENGINE_LOAD) {
        node->reads += action->load.read != node->last_read;
        node->last_read = action->load.read;
    } else if (action->type == ENGINE_DELIVER) {
        for (uint32_t i = 0; i < action->deliver.count; i++)
            node->got[action->deliver.entries[i].id]++;
        node->last = action->deliver.last;
    }
    return false;
}

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset;
    (void)id;
    return BYTES;
}

static void begin(struct node *node, const struct idset *view, const struct chunk_slot *places)
{
    struct engine_config config = {.seed = node->ranks.first + 1,
                                   .arena_bytes = SAMPLES / 10 * 64,
                                   .encoded_bytes = (uint64_t)SAMPLES / 10 * BYTES,
                                   .inflight_loads = 32,
                                   .inflight_prepares = 8,
                                   .redirect_width = 64,
                                   .sample_bytes = sample_bytes};
    assert_int_equal(play_create(config, &node->play, NULL), 0);
    node->play.see = see;
    node->play.ctx = node;
    struct engine_job_desc desc = {
        .name = "job",
        .slot_bytes = 64,
        .batch_size = BATCH,
        .prefetch = 2,
        .sampled = {.view = view},
        .part = {.world_size = node->ranks.world_size, .first = node->ranks.first, .share = share, .deal = node},
        .chunks = {.places = places, .count = CHUNKS, .samples = CHUNK, .key = {1}}};
    assert_true(play_add(&node->play, &desc) != UINT32_MAX);
}

/* All nodes' reads a chunk and epoch. */
static double reads_of(uint32_t n_nodes)
{
    struct idset *view;
    sample_id *ids = xcalloc(SAMPLES, sizeof *ids);
    uint32_t *chunk_of = xcalloc(SAMPLES, sizeof *chunk_of);
    struct chunk_slot *places = xcalloc(SAMPLES, sizeof *places);
    struct node *nodes = xcalloc(n_nodes, sizeof *nodes);
    uint64_t reads = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        ids[i] = i;
        chunk_of[i] = i / CHUNK;
        places[i] = (struct chunk_slot){i / CHUNK, i % CHUNK};
    }
    assert_int_equal(idset_from_range(0, SAMPLES, &view), 0);
    for (uint32_t i = 0; i < n_nodes; i++) {
        nodes[i].ranks = (struct deal_ranks){.world_size = n_nodes, .first = i, .n_ranks = 1};
        assert_int_equal(deal_create(ids, chunk_of, SAMPLES, CHUNKS, &nodes[i].deal), 0);
        begin(&nodes[i], view, places);
    }
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint32_t i = 0; i < n_nodes; i++)
            for (nodes[i].last = false; !nodes[i].last;)
                play_next(&nodes[i].play, nodes[i].play.job, 0, epoch, 1);
    for (uint32_t id = 0; id < SAMPLES; id++) {
        uint32_t got = 0;
        for (uint32_t i = 0; i < n_nodes; i++)
            got += nodes[i].got[id];
        assert_int_equal(got, EPOCHS);
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        reads += nodes[i].reads;
        play_gone(&nodes[i].play, nodes[i].play.job, 0);
        play_end(&nodes[i].play);
        deal_destroy(nodes[i].deal);
    }
    idset_destroy(view);
    free(ids);
    free(chunk_of);
    free(places);
    free(nodes);
    return (double)reads / CHUNKS / EPOCHS;
}

static void test_reads(void **state)
{
    (void)state;
    for (uint32_t n_nodes = 1; n_nodes <= 8; n_nodes *= 2) {
        double reads = reads_of(n_nodes);
        print_message("%u nodes: %.3f reads a chunk and epoch, all together\n", n_nodes, reads);
        assert_true(reads <= 2.1);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
