/* deliver.c: sends a batch to its client. */
#include "common/check.h"
#include "server/driver/states.h"

static void make_room(struct driver_batch *batch, uint32_t count)
{
    if (count <= batch->cap)
        return;
    batch->entries = xrealloc(batch->entries, count, WIRE_ENTRY_BYTES);
    batch->turns = xrealloc(batch->turns, count, WIRE_TURN_BYTES);
    batch->over = xrealloc(batch->over, count, sizeof *batch->over);
    batch->cap = count;
}

/* turn_of returns the index of the sample whose turn the entry is. WIRE_TURN_NONE: it is no sample's turn. */
static uint32_t turn_of(const struct dataset *dataset, const struct engine_entry *entry, uint32_t own)
{
    uint32_t index = own;
    if (entry->turn == SAMPLE_NONE)
        return WIRE_TURN_NONE;
    if (entry->turn != entry->id)
        CHECK(dataset_index(dataset, entry->turn, &index));
    return index;
}

/* put_entry puts entry i into the batch, in all its forms. */
static void put_entry(struct driver_batch *batch, uint32_t i, const struct engine_entry *from,
                      const struct registration_found *found)
{
    struct wire_entry entry = {.offset = from->offset, .len_bytes = (uint32_t)from->bytes, .id = from->id};
    CHECK(dataset_index(found->dataset, from->id, &entry.index));
    entry.label = dataset_label(found->dataset, entry.index);
    if (found->labels.of)
        entry.label = found->labels.of[entry.label];
    wire_entry_put(batch->entries, i, &entry);
    uint32_t turn = turn_of(found->dataset, from, entry.index);
    if (turn != WIRE_TURN_NONE)
        batch->over[batch->n_over++] = turn;
    if (turn != entry.index)
        wire_turn_put(batch->turns, batch->n_turns++, &(struct wire_turn){.position = i, .index = turn});
}

void driver_deliver(struct driver *driver, const struct engine_action *action)
{
    const struct driver_job *job = &driver->tables.jobs[action->job];
    struct driver_batch *batch = &driver->batch;
    make_room(batch, action->deliver.count);
    batch->n_turns = batch->n_over = 0;
    for (uint32_t i = 0; i < action->deliver.count; i++)
        put_entry(batch, i, &action->deliver.entries[i], &job->reg->found);
    states_delivered(driver, action, batch->over, batch->n_over);
    struct wire_message turns = {
        .type = WIRE_TURNS, .turns = {.batch = action->deliver.batch, .count = batch->n_turns, .turns = batch->turns}};
    if (batch->n_turns && job->reg->asked.shuffle == SHUFFLE_DEPENDENT)
        session_send(driver->session, action->client, &turns);
    struct wire_message message = {.type = WIRE_BATCH,
                                   .batch = {.batch = action->deliver.batch,
                                             .epoch = action->deliver.epoch,
                                             .index = action->deliver.index,
                                             .flags = action->deliver.last ? WIRE_BATCH_LAST : 0,
                                             .weight = job->weight,
                                             .count = action->deliver.count,
                                             .lost = (uint32_t)action->deliver.lost,
                                             .through = action->deliver.through,
                                             .entries = batch->entries}};
    session_send(driver->session, action->client, &message);
}
