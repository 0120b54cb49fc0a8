/* deal_shapes.c: see deal_shapes.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/server/cluster/deal_shapes.h"

uint64_t seed = 20;

void make_shape(struct shape *shape, enum kind kind)
{
    static const char *const names[KINDS] = {"empty",  "one sample",   "one chunk",    "even chunks",
                                             "ragged", "parts of few", "chunks mixed", "no chunks"};
    static const uint32_t counts[KINDS] = {0, 1, 61, 1024, 1001, 333, 999, 77};
    struct rng rng;
    random_seed_keys(&rng, seed, kind, 0, 0);
    *shape = (struct shape){.name = names[kind], .count = counts[kind], .n_chunks = 64, .chunked = kind != KIND_SINGLE};
    for (uint32_t i = 0; i < shape->count; i++) {
        shape->ids[i] = (i * 7 + 3) % 8191 + 70000;
        if (kind == KIND_ONE_CHUNK || kind == KIND_ONE)
            shape->chunk_of[i] = 5;
        else if (kind == KIND_SPARSE)
            shape->chunk_of[i] = i / 40 * 7;
        else if (kind == KIND_MIXED)
            shape->chunk_of[i] = (uint32_t)random_below(&rng, shape->n_chunks);
        else if (kind == KIND_RAGGED && i)
            shape->chunk_of[i] = shape->chunk_of[i - 1] + (shape->chunk_of[i - 1] < 63 && random_below(&rng, 20) == 0);
        else
            shape->chunk_of[i] = i / 16;
    }
}

struct deal *deal_of(const struct shape *shape)
{
    struct deal *deal;
    assert_int_equal(
        deal_create(shape->ids, shape->chunked ? shape->chunk_of : NULL, shape->count, shape->n_chunks, &deal), 0);
    return deal;
}

struct idset *share_of(const struct shape *shape, const struct deal *deal, uint32_t epoch,
                       const struct deal_ranks *ranks)
{
    struct idset *share;
    assert_int_equal(deal_share(deal, seed, epoch, NULL, ranks, &share), 0);
    assert_int_equal(idset_count(share), deal_count(shape->count, ranks));
    return share;
}

void check_world(const struct shape *shape, const struct deal *deal, uint32_t world_size, bool drop_last)
{
    struct idset *all, *view;
    assert_int_equal(idset_create(&all), 0);
    assert_int_equal(idset_create(&view), 0);
    idset_add_many(view, shape->ids, shape->count);
    for (uint32_t rank = 0; rank < world_size; rank++) {
        const struct deal_ranks ranks = {world_size, rank, 1, drop_last};
        struct idset *share = share_of(shape, deal, 3, &ranks), *again = share_of(shape, deal, 3, &ranks);
        assert_true(idset_equal(share, again));
        uint64_t each = shape->count / world_size;
        assert_in_range(idset_count(share), each, each + (!drop_last && shape->count % world_size != 0));
        assert_int_equal(idset_intersection_count(share, all), 0);
        idset_add_all(all, share);
        idset_destroy(share);
        idset_destroy(again);
        const struct deal_ranks so_far = {world_size, 0, rank + 1, drop_last};
        share = share_of(shape, deal, 3, &so_far);
        assert_true(idset_equal(share, all));
        idset_destroy(share);
    }
    assert_int_equal(idset_intersection_count(all, view), idset_count(all));
    assert_int_equal(idset_count(all), drop_last ? shape->count - shape->count % world_size : shape->count);
    idset_destroy(all);
    idset_destroy(view);
}

struct idset *begin_set(void)
{
    struct idset *set;
    assert_int_equal(idset_create(&set), 0);
    return set;
}

void take_some(const struct shape *shape, const struct deal *deal, const struct deal_ranks *world, uint64_t most,
               struct rng *rng, struct idset *gone)
{
    struct idset *all = begin_set();
    uint64_t left = shape->count - idset_count(gone), each = left / world->world_size;
    for (uint32_t rank = 0; rank < world->world_size; rank++) {
        const struct deal_ranks one = {world->world_size, rank, 1, world->drop_last};
        struct idset *share;
        sample_id id;
        assert_int_equal(deal_share(deal, seed, 3, gone, &one, &share), 0);
        assert_in_range(idset_count(share), each, each + (!world->drop_last && left % world->world_size != 0));
        assert_int_equal(idset_intersection_count(share, gone), 0);
        assert_int_equal(idset_intersection_count(share, all), 0);
        while (idset_count(share) > (most < each ? each - most : 0)) {
            assert_true(idset_select(share, random_below(rng, idset_count(share)), &id));
            idset_remove(share, id);
            idset_add(all, id);
        }
        idset_destroy(share);
    }
    idset_add_all(gone, all);
    idset_destroy(all);
}

uint32_t make_counts(const struct shape *shape, enum times times, uint32_t *counts)
{
    struct rng rng;
    uint32_t sum = 0;
    random_seed_keys(&rng, seed, times, shape->count, 1);
    for (uint32_t i = 0; i < shape->count; i++) {
        counts[i] = times == TIMES_THREE ? 3 : times == TIMES_ONCE;
        if (times == TIMES_FEW)
            counts[i] = (uint32_t)random_below(&rng, 6);
        else if (times == TIMES_RARE && random_below(&rng, 9) == 0)
            counts[i] = (uint32_t)random_below(&rng, 101);
        sum += counts[i];
    }
    return sum;
}

struct deal *numbers_of(const struct shape *shape)
{
    struct deal *deal;
    sample_id numbers[SAMPLES_MAX];
    for (uint32_t i = 0; i < shape->count; i++)
        numbers[i] = i;
    assert_int_equal(
        deal_create(numbers, shape->chunked ? shape->chunk_of : NULL, shape->count, shape->n_chunks, &deal), 0);
    return deal;
}

void draws_of(const struct shape *shape, const struct deal *deal, const struct deal_ranks *ranks,
              const uint32_t *counts, uint32_t *out)
{
    uint32_t all = 0, sum = 0;
    memcpy(out, counts, shape->count * sizeof *out);
    assert_int_equal(deal_draws(deal, seed, 3, ranks, out), 0);
    for (uint32_t i = 0; i < shape->count; i++) {
        all += counts[i];
        sum += out[i];
    }
    assert_int_equal(sum, deal_count(all, ranks));
}

void check_draws(const struct shape *shape, const struct deal *deal, const uint32_t *counts, uint32_t world_size,
                 bool drop_last, bool apart)
{
    uint32_t sum[SAMPLES_MAX] = {0}, before[SAMPLES_MAX] = {0}, own[SAMPLES_MAX], so_far[SAMPLES_MAX], missing = 0;
    uint32_t all = 0;
    for (uint32_t rank = 0; rank < world_size; rank++) {
        uint32_t common = 0;
        draws_of(shape, deal, &(struct deal_ranks){world_size, rank, 1, drop_last}, counts, own);
        draws_of(shape, deal, &(struct deal_ranks){world_size, 0, rank + 1, drop_last}, counts, so_far);
        for (uint32_t i = 0; i < shape->count; i++) {
            common += before[i] > 0 && own[i] > 0;
            sum[i] += own[i];
            assert_true(!apart || own[i] <= 1);
        }
        assert_true(apart || common <= 1);
        assert_memory_equal(sum, so_far, shape->count * sizeof *sum);
        memcpy(before, own, shape->count * sizeof *own);
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        assert_true(sum[i] <= counts[i]);
        missing += counts[i] - sum[i];
        all += counts[i];
    }
    assert_int_equal(missing, drop_last ? all % world_size : 0);
}
