/* move.c: goes through the samples that lie as they were read. */
#include <stdlib.h>

#include "cache/file.h"
#include "cache/tier/tier_priv.h"
#include "common/check.h"

void tier_keep_room(struct tier *tier)
{
    CHECK_MAGIC(tier, TIER_MAGIC);
    tier->moves = true;
    pthread_mutex_lock(&tier->writing);
    while (tier->n_segments && tier->stats.used_bytes > tier->size_bytes - tier->segment_bytes)
        tier_give_up(tier, 0);
    pthread_mutex_unlock(&tier->writing);
}

bool tier_is_at_locked(const struct tier *tier, const struct tier_sample *sample)
{
    const struct place *place = place_find(&tier->table, sample->key);
    return place && place->segment == sample->segment && place->offset == sample->offset &&
           tier_segment_locked(tier, place->segment);
}

/* take returns the first segment from `number` on whose samples are yet to be moved, with a reference, and the length
 * that it has. NULL: there is none. What is written from now on goes to another one. */
static struct segment *take(struct tier *tier, uint32_t number, uint64_t *len_bytes)
{
    struct segment *taken = NULL;
    pthread_mutex_lock(&tier->writing);
    pthread_mutex_lock(&tier->lock);
    size_t count = tier->write_off || tier->read_off ? 0 : tier->n_segments;
    for (size_t i = 0; i < count && !taken; i++) {
        if (tier->segments[i]->number >= number && !tier->segments[i]->moved)
            taken = tier->segments[i];
    }
    if (taken) {
        taken->refs++;
        *len_bytes = taken->len_bytes;
    }
    if (taken && taken == tier->open[false])
        tier->open[false] = NULL;
    pthread_mutex_unlock(&tier->lock);
    pthread_mutex_unlock(&tier->writing);
    return taken;
}

/* finish removes a segment that has no sample left. */
static void finish(struct tier *tier, uint32_t number)
{
    pthread_mutex_lock(&tier->writing);
    for (size_t i = 0; i < tier->n_segments; i++) {
        if (tier->segments[i]->number == number && tier->segments[i]->samples == 0) {
            tier_give_up(tier, i);
            break;
        }
    }
    pthread_mutex_unlock(&tier->writing);
}

/* is_there tells whether the sample is to be moved, and forgets it if its bytes are wrong. */
static bool is_there(struct tier *tier, const struct tier_sample *sample, bool right)
{
    pthread_mutex_lock(&tier->lock);
    bool there = tier_is_at_locked(tier, sample);
    if (there && !right) {
        tier_forget_locked(tier, place_find(&tier->table, sample->key));
        tier->stats.corrupt++;
    }
    pthread_mutex_unlock(&tier->lock);
    return there && right;
}

/* read_next reads the next sample of a segment that is to be moved. False: none is left, or it cannot be read. */
static bool read_next(struct tier *tier, const struct segment *segment, uint64_t len_bytes, struct tier_moving *moving,
                      struct tier_sample *out)
{
    uint8_t header[RECORD_HEADER_BYTES];
    struct record record;
    while (moving->offset + RECORD_HEADER_BYTES < len_bytes) {
        uint64_t offset = moving->offset + RECORD_HEADER_BYTES;
        if (file_read_at(segment->fd, header, sizeof header, moving->offset) || !tier_header_parse(header, &record) ||
            record.len_bytes > len_bytes - offset)
            return false;
        *out = (struct tier_sample){.key = record.key,
                                    .owner = record.owner,
                                    .segment = segment->number,
                                    .offset = offset,
                                    .len_bytes = record.len_bytes};
        moving->offset = offset + record.len_bytes;
        if (!is_there(tier, out, true))
            continue;
        out->bytes = malloc(record.len_bytes);
        if (!out->bytes)
            return false;
        bool right = file_read_at(segment->fd, out->bytes, record.len_bytes, offset) == 0 &&
                     tier_hash(out->bytes, record.len_bytes) == record.hash;
        if (is_there(tier, out, right))
            return true;
        free(out->bytes);
    }
    return false;
}

bool tier_next(struct tier *tier, struct tier_moving *moving, struct tier_sample *out)
{
    CHECK_MAGIC(tier, TIER_MAGIC);
    uint64_t len_bytes = 0;
    for (struct segment *segment; (segment = take(tier, moving->segment, &len_bytes));) {
        uint32_t number = segment->number;
        if (number != moving->segment)
            *moving = (struct tier_moving){number, 0};
        bool found = read_next(tier, segment, len_bytes, moving, out);
        tier_release(tier, segment);
        if (found)
            return true;
        finish(tier, number);
        *moving = (struct tier_moving){number + 1, 0};
    }
    return false;
}
