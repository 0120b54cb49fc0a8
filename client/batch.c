/* batch.c: what the program does with a batch: look at it, copy it, give it back.
 *
 * The connection that brought a batch is its lease. When the daemon is gone, nobody writes to its memory any more, and
 * the batch's bytes stay what they are for as long as it refers to the mapping. When the connection was closed for
 * another reason, the daemon may have put other samples there. */
#include <stdlib.h>
#include <string.h>

#include "client/loader_priv.h"

static bool valid(const struct larder_batch *batch)
{
    return batch && batch->magic == BATCH_MAGIC;
}

uint32_t larder_loader_lost(const struct larder_loader *loader)
{
    return loader ? loader->stream.lost : 0;
}

uint32_t larder_loader_missed(const struct larder_loader *loader)
{
    return loader ? loader->missed : 0;
}

uint32_t larder_batch_count(const struct larder_batch *batch)
{
    return valid(batch) ? batch->count : 0;
}

uint32_t larder_batch_epoch(const struct larder_batch *batch)
{
    return valid(batch) ? batch->epoch : 0;
}

uint32_t larder_batch_index(const struct larder_batch *batch)
{
    return valid(batch) ? batch->index : 0;
}

size_t larder_batch_bytes(const struct larder_batch *batch)
{
    return valid(batch) ? batch->bytes : 0;
}

/* enter is loader_enter for a batch in the program's hands: it outlives the daemon that brought it, and after a failure
 * it is leased while the connection is open. */
static int enter(const struct larder_batch *batch)
{
    int rc = loader_enter(batch->loader);
    return rc && loader_failed(batch->loader) && batch->arena->state != ARENA_LOST ? 0 : rc;
}

/* lease_lost is called when the connection of a batch is closed. It returns 0 if its bytes stay as they are. */
static int lease_lost(struct larder_loader *loader)
{
    if (!loader->broken)
        return link_lost(loader);
    loader_close(loader);
    return loader->broken;
}

int larder_batch_sample(const struct larder_batch *batch, uint32_t position, struct larder_sample *out)
{
    if (!valid(batch) || !out)
        return LARDER_EINVAL;
    int rc = enter(batch);
    if (rc)
        return rc;
    if (position >= batch->count)
        return error_set(&batch->loader->error, LARDER_EINVAL, "position %u is not in a batch of %u samples", position,
                         batch->count);
    const struct wire_entry *entry = &batch->entries[position];
    *out = (struct larder_sample){.data = batch->arena->data + entry->offset,
                                  .len_bytes = entry->len_bytes,
                                  .id = entry->id,
                                  .index = entry->index,
                                  .label = entry->label};
    return 0;
}

int larder_batch_array_sized(const struct larder_batch *batch, uint32_t position, uint32_t number,
                             struct larder_array *out, size_t size_bytes)
{
    struct larder_sample sample;
    if (!out || !valid(batch) || number >= larder_field_count(batch->loader))
        return LARDER_EINVAL;
    int rc = larder_batch_sample(batch, position, &sample);
    if (rc)
        return rc;
    const struct sample_layout *layout = &batch->loader->job.layout;
    const struct sample_field *field = &layout->fields[number];
    struct field_place place = {.offset = field->offset};
    memcpy(place.dims, field->dims, sizeof place.dims);
    if (sample_layout_is_ragged(layout))
        place = sample_head_get(sample.data, number);
    if (sample_layout_is_ragged(layout) && !sample_head_check(layout, number, &place, sample.len_bytes))
        return error_set(&batch->loader->error, LARDER_EFORMAT, "the daemon has changed sample %u", sample.id);
    struct larder_array made = {
        .data = (const char *)sample.data + place.offset, .dtype = field->dtype, .rank = field->rank};
    memcpy(made.dims, place.dims, sizeof made.dims);
    memset(out, 0, size_bytes);
    memcpy(out, &made, size_bytes < sizeof made ? size_bytes : sizeof made);
    return 0;
}

/* copy_part writes `part` bytes of each sample, from byte `from` on, one after the other; part 0: all of its bytes. */
static int copy_part(const struct larder_batch *batch, uint64_t from, uint64_t part, void *dst, size_t cap_bytes)
{
    struct larder_loader *loader = batch->loader;
    uint64_t bytes = part ? part * batch->count : batch->bytes;
    int rc = enter(batch);
    if (rc)
        return rc;
    if (bytes > cap_bytes)
        return error_set(&loader->error, LARDER_ELIMIT, "a batch of %llu bytes does not fit in %zu",
                         (unsigned long long)bytes, cap_bytes);
    uint8_t *at = dst;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint64_t len = part ? part : batch->entries[i].len_bytes;
        memcpy(at, batch->arena->data + batch->entries[i].offset + from, len);
        at += len;
    }
    /* A daemon that has closed the connection may have put other samples there while they were copied. */
    if (batch->arena->state == ARENA_LEASED && connection_lost(&loader->connection))
        return lease_lost(loader);
    return 0;
}

int larder_batch_copy(const struct larder_batch *batch, void *dst, size_t cap_bytes)
{
    if (!valid(batch) || (!dst && batch->bytes))
        return LARDER_EINVAL;
    return copy_part(batch, 0, 0, dst, cap_bytes);
}

int larder_batch_copy_field(const struct larder_batch *batch, uint32_t number, void *dst, size_t cap_bytes)
{
    struct larder_field field;
    if (!valid(batch) || !dst || larder_field_sized(batch->loader, number, &field, sizeof field))
        return LARDER_EINVAL;
    if (field.bytes == 0)
        return error_set(&batch->loader->error, LARDER_EINVAL,
                         "field %s differs in size from sample to sample: look at each with larder_batch_array",
                         field.name);
    return copy_part(batch, field.offset, field.bytes, dst, cap_bytes);
}

static void let_go(struct larder_batch *batch)
{
    struct larder_loader *loader = batch->loader;
    if (batch->previous)
        batch->previous->next = batch->next;
    else
        loader->batches = batch->next;
    if (batch->next)
        batch->next->previous = batch->previous;
    loader->held--;
    waiting_free(batch);
}

/* release_leased gives a batch back to the daemon that lives. After a failure the connection goes with the last one. */
static int release_leased(struct larder_loader *loader, uint64_t number)
{
    struct wire_message msg = {.type = WIRE_RELEASE, .release = {.batch = number}};
    if (!loader->broken)
        return loader_release(loader, number);
    if (connection_lost(&loader->connection))
        return lease_lost(loader);
    if (loader->batches)
        connection_send(&loader->connection, &msg, -1, 0, NULL); /* else closing the connection gives it back */
    else
        loader_close(loader);
    return 0;
}

int larder_batch_release(struct larder_batch **batch)
{
    if (!batch || !*batch)
        return 0;
    struct larder_batch *held = *batch;
    if (!valid(held))
        return LARDER_EINVAL;
    *batch = NULL;
    struct larder_loader *loader = held->loader;
    uint64_t number = held->number;
    bool leased = held->arena->state == ARENA_LEASED;
    int rc = enter(held);
    let_go(held);
    if (rc == 0 && leased)
        rc = release_leased(loader, number);
    else if (rc == 0 && loader->broken && !loader->batches)
        loader_close(loader);
    if (rc == 0 && !loader->broken)
        loader_ask_ahead(loader); /* a failure shows with the next call; this batch was sound */
    return rc;
}
