/* restore_order.c: what was taken of a fixed order, part by part, and the batches of any order. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "server/registration/ranks.h"
#include "server/registration/registration.h"
#include "server/registration/restore_priv.h"

/* part_length returns how many of n positions are a rank's. */
static uint32_t part_length(uint32_t n, uint32_t world_size, uint32_t rank)
{
    return n > rank ? (n - rank - 1) / world_size + 1 : 0;
}

static int beyond(uint32_t through, uint32_t rank, uint32_t world_size, uint32_t length, struct error *err)
{
    return error_set(err, LARDER_EFORMAT,
                     "the state is damaged: rank %u of %u is through %u numbers of its part, which has %u", rank,
                     world_size, through, length);
}

/* take_segment takes one segment of a sequence of *left samples. numbers has a place for each of its ranks. */
static int take_segment(const struct record_segment *segment, uint32_t *numbers, uint32_t *left, struct error *err)
{
    uint32_t taken = 0;
    for (uint32_t rank = 0; rank < segment->world_size; rank++) {
        uint32_t length = part_length(*left, segment->world_size, rank);
        numbers[rank] = record_through(segment, rank);
        if (numbers[rank] > length)
            return beyond(numbers[rank], rank, segment->world_size, length, err);
        taken += numbers[rank];
    }
    *left -= taken;
    return 0;
}

int restore_take_order(struct restore *restore, const struct registration *reg, struct error *err)
{
    const struct record *record = &restore->record;
    uint32_t left = reg->found.selection->view.count, before = left;
    size_t count = 0;
    for (uint32_t i = 0; i < record->n_segments; i++)
        count += record->segments[i].world_size;
    uint32_t *numbers = restore->throughs = malloc((count + 1) * sizeof *numbers);
    if (!numbers)
        return restore_no_memory(err);
    for (uint32_t i = 0; i < record->n_segments; i++) {
        const struct record_segment *segment = &record->segments[i];
        before = left;
        int rc = take_segment(segment, numbers, &left, err);
        if (rc)
            return rc;
        restore->segments[i] = (struct engine_segment){.world_size = segment->world_size, .through = numbers};
        numbers += segment->world_size;
    }
    restore->engine.segments = restore->segments;
    restore->engine.n_segments = record->n_segments;
    restore->left = left;
    const struct engine_segment *last = record->n_segments ? &restore->segments[record->n_segments - 1] : NULL;
    struct deal_ranks ranks = ranks_here(reg);
    if (last && last->world_size == ranks.world_size) { /* its parts go on where they were */
        restore->engine.n_segments--;
        restore->engine.through = last->through[ranks.first + reg->asked.rank];
        restore->engine.delivered = engine_segment_delivered(last, before);
        for (uint32_t i = 0; i < restore->engine.n_done; i++) {
            restore->done[i].through = last->through[ranks.first + restore->done[i].rank];
            restore->done[i].delivered = restore->engine.delivered;
        }
        restore->left = before;
    }
    return 0;
}

/* check_through checks how far a rank's batches say that its part is over. */
static int check_through(const struct restore *restore, const struct record *record, uint64_t before, struct error *err)
{
    uint32_t first = record_batch_get(record, 0).through,
             last = record_batch_get(record, record->n_batches - 1).through;
    uint32_t length = part_length(restore->left, record->world_size, record->rank);
    if (last > length)
        return beyond(last, record->rank, record->world_size, length, err);
    if (first < before)
        return error_set(err, LARDER_EFORMAT,
                         "the state is damaged: it goes back from number %llu of the rank's part to %u",
                         (unsigned long long)before, first);
    return 0;
}

/* take_history takes the batches of one rank's history. */
static int take_history(const struct restore *restore, const struct registration *reg, const struct record *record,
                        struct engine_done *had, struct error *err)
{
    uint32_t most = reg->asked.batch_size, ranks = ranks_here(reg).world_size;
    uint64_t share = ((uint64_t)restore->left + ranks - 1) / ranks;
    if (record->batches > UINT32_MAX - record->n_batches)
        return error_set(err, LARDER_EFORMAT, "the state is damaged: it has more batches than can be counted");
    for (uint32_t i = 0; i < record->n_batches; i++) {
        uint32_t delivered = record_batch_get(record, i).delivered;
        if (delivered == 0 || delivered > most)
            return error_set(err, LARDER_EFORMAT,
                             "the state is damaged: a batch of %u samples, where this job's have 1 to %u", delivered,
                             most);
        had->delivered += delivered;
    }
    had->batches = record->n_batches;
    if (had->delivered > share)
        return error_set(err, LARDER_EFORMAT, "the state is damaged: rank %u of %u had %llu samples of a share of %llu",
                         record->rank, ranks, (unsigned long long)had->delivered, (unsigned long long)share);
    if (record->shuffle == SHUFFLE_DEPENDENT || record->n_batches == 0)
        return 0;
    int rc = check_through(restore, record, had->through, err);
    had->through = record_batch_get(record, record->n_batches - 1).through;
    return rc;
}

int restore_take_batches(struct restore *restore, const struct registration *reg, struct error *err)
{
    struct engine_resume *engine = &restore->engine;
    struct engine_done own = {.delivered = engine->delivered, .through = engine->through};
    struct record done;
    size_t at = 0;
    int rc = take_history(restore, reg, &restore->record, &own, err);
    engine->delivered = own.delivered;
    engine->through = own.through;
    for (uint32_t i = 0; !rc && record_done_next(&restore->record, &at, &done); i++)
        rc = take_history(restore, reg, &done, &restore->done[i], err);
    return rc;
}

uint64_t restore_key(const struct record *record)
{
    bool any = false;
    uint64_t key = XXH3_64bits_withSeed(&record->epoch, sizeof record->epoch, record->batches);
    for (uint32_t i = 0; i < record->over_bytes && !any; i++)
        any = record->over[i] != 0;
    if (any)
        key = XXH3_64bits_withSeed(record->over, record->over_bytes, key);
    if (record->n_copies)
        key = XXH3_64bits_withSeed(record->copies, (size_t)record->n_copies * RECORD_COPY_BYTES, key);
    for (uint32_t i = 0; i < record->n_segments; i++) {
        const struct record_segment *segment = &record->segments[i];
        key = XXH3_64bits_withSeed(&segment->world_size, sizeof segment->world_size, key);
        for (uint32_t rank = 0; rank < segment->world_size; rank++) {
            uint32_t through = record_through(segment, rank); /* one number may stand for all */
            key = XXH3_64bits_withSeed(&through, sizeof through, key);
        }
    }
    return key;
}
