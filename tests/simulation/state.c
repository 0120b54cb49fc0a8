/* state.c: from what was taken to bytes, and from bytes to what the engine is told. */
#include "tests/simulation/state.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "tests/simulation/solo.h"

/* ── bytes ── */

void state_keep(const struct record *record, struct state *out)
{
    struct error err;
    size_t cap = record_bytes(record);
    *out = (struct state){.bytes = xcalloc(cap + 1, 1)};
    CHECK(record_encode(record, out->bytes, cap, &out->len_bytes) == 0);
    CHECK(record_decode(out->bytes, out->len_bytes, &out->record, &err) == 0);
}

void state_free(struct state *state)
{
    free(state->bytes);
    *state = (struct state){0};
}

struct record state_about(const struct scenario *sc, const struct client_plan *plan, uint32_t epoch)
{
    return (struct record){.dataset = {plan->dataset, 1},
                           .view = {plan->group, 2},
                           .seed = plan->seed,
                           .shuffle = plan->shuffle,
                           .epoch = epoch,
                           .samples = sc->datasets[plan->dataset].n_ids};
}

/* ── what a client has taken ── */

void memory_begin(struct memory *memory, uint32_t epoch, const struct state *base)
{
    memory->epoch = epoch;
    memory->base = base;
    memory->n_batches = memory->n_turns = 0;
}

void memory_take(struct memory *memory, const struct record_batch *batch, const uint32_t *turns)
{
    memory->batches = xgrow(memory->batches, sizeof *memory->batches, &memory->cap_batches,
                            memory->n_batches + (size_t)1);
    memory->batches[memory->n_batches++] = *batch;
    memory->turns = xgrow(memory->turns, sizeof *memory->turns, &memory->cap_turns,
                          (size_t)memory->n_turns + batch->n_turns + 1);
    if (batch->n_turns)
        memcpy(&memory->turns[memory->n_turns], turns, batch->n_turns * sizeof *turns);
    memory->n_turns += batch->n_turns;
}

void memory_free(struct memory *memory)
{
    free(memory->batches);
    free(memory->turns);
}

/* The base, as the record that it was read from has it. */
static struct record with_base(const struct memory *memory, const struct scenario *sc, const struct client_plan *plan)
{
    struct record record = state_about(sc, plan, memory->epoch);
    if (memory->base == NULL)
        return record;
    const struct record *base = &memory->base->record;
    CHECK(base->epoch == memory->epoch);
    record.batches = base->batches;
    record.over = base->over;
    record.over_bytes = base->over_bytes;
    record.n_segments = base->n_segments;
    memcpy(record.segments, base->segments, sizeof record.segments);
    return record;
}

void memory_record(const struct memory *memory, const struct scenario *sc, const struct client_plan *plan,
                   struct state *out)
{
    struct record record = with_base(memory, sc, plan);
    uint8_t *history = xcalloc(memory->n_batches + (size_t)1, RECORD_BATCH_BYTES);
    uint8_t *turns = xcalloc(memory->n_turns + (size_t)1, RECORD_TURN_BYTES);
    for (uint32_t i = 0; i < memory->n_batches; i++)
        record_batch_put(history, i, &memory->batches[i]);
    for (uint32_t i = 0; i < memory->n_turns; i++)
        put_u32(&turns[(size_t)i * RECORD_TURN_BYTES], memory->turns[i]);
    record.world_size = plan->world_size;
    record.rank = plan->rank;
    record.n_batches = memory->n_batches;
    record.n_turns = memory->n_turns;
    record.history = history;
    record.turns = turns;
    state_keep(&record, out);
    free(history);
    free(turns);
}

void memory_token(const struct memory *memory, const struct scenario *sc, const struct client_plan *plan,
                  struct state *out)
{
    struct record record = with_base(memory, sc, plan);
    uint8_t *over = xcalloc((size_t)record_set_bytes(record.samples) + 1, 1), through[sizeof(uint32_t)];
    CHECK(plan->world_size == 1);
    if (plan->shuffle == SHUFFLE_DEPENDENT && (record.over_bytes || memory->n_turns)) {
        if (record.over_bytes)
            memcpy(over, record.over, record.over_bytes);
        for (uint32_t i = 0; i < memory->n_turns; i++)
            record_set_add(over, memory->turns[i]);
        record.over = over;
        record.over_bytes = record_set_bytes(record.samples);
    }
    if (plan->shuffle != SHUFFLE_DEPENDENT && memory->n_batches) {
        put_u32(through, memory->batches[memory->n_batches - 1].through);
        CHECK(record_add_segment(&record, 1, 1, through) == 0);
    }
    record.batches += memory->n_batches;
    state_keep(&record, out);
    free(over);
}

/* ── what the registrar makes of a record ── */

static struct idset *set_of(const sample_id *ids, uint32_t count, const uint32_t *indices)
{
    struct idset *set;
    CHECK(idset_create(&set) == 0);
    for (uint32_t i = 0; i < count; i++)
        idset_add(set, ids[indices ? indices[i] : i]);
    return set;
}

static uint64_t key_of(const struct record *record)
{
    uint64_t key = random_mix64(record->epoch + UINT64_C(1)) + record->batches;
    for (uint32_t i = 0; i < record->over_bytes; i++)
        key = random_mix64(key ^ record->over[i]);
    for (uint32_t i = 0; i < record->n_segments; i++) {
        const struct record_segment *segment = &record->segments[i];
        key = random_mix64(key ^ segment->world_size);
        for (uint32_t rank = 0; rank < segment->world_size; rank++)
            key = random_mix64(key ^ record_through(segment, rank));
    }
    return key;
}

static void read_set(const struct scenario_dataset *dataset, const struct record *record, struct state_resume *out)
{
    uint32_t *indices = xcalloc(record->n_turns + record->samples + 1, sizeof *indices), count = 0;
    for (uint32_t i = 0; i < record->samples; i++) {
        if (record_turn_over(record, i))
            indices[count++] = i;
    }
    out->base = count ? set_of(dataset->ids, count, indices) : NULL;
    for (count = 0; count < record->n_turns; count++)
        indices[count] = record_turn(record, count);
    out->turns = count ? set_of(dataset->ids, count, indices) : NULL;
    free(indices);
}

/* A last segment of the plan's own world size is no part of the base: the ranks go on in it. */
static void read_segments(const struct client_plan *plan, const struct record *record, struct state_resume *out)
{
    uint32_t *to = out->throughs;
    for (uint32_t i = 0; i < record->n_segments; i++) {
        const struct record_segment *segment = &record->segments[i];
        out->segments[i] = (struct engine_segment){.world_size = segment->world_size, .through = to};
        for (uint32_t rank = 0; rank < segment->world_size; rank++)
            *to++ = record_through(segment, rank);
    }
    out->desc.segments = out->segments;
    out->desc.n_segments = record->n_segments;
    if (record->n_segments == 0 || out->segments[record->n_segments - 1].world_size != plan->world_size)
        return;
    const struct engine_segment *last = &out->segments[--out->desc.n_segments];
    uint64_t samples = engine_segments_left(out->segments, out->desc.n_segments, plan->n_view);
    out->desc.through = last->through[plan->rank];
    out->desc.delivered = engine_segment_delivered(last, samples);
}

void state_resume_make(const struct scenario *sc, const struct client_plan *plan, const struct record *record,
                       bool presented, struct state_resume *out)
{
    *out = (struct state_resume){.desc = {.epoch = record->epoch,
                                          .key = key_of(record),
                                          .base_batches = record->batches,
                                          .batches = record->n_batches,
                                          .presented = presented}};
    CHECK(record->seed == plan->seed && record->view[0] == plan->group && record->dataset[0] == plan->dataset);
    CHECK(record->world_size == 0 || (record->world_size == plan->world_size && record->rank == plan->rank));
    if (plan->shuffle == SHUFFLE_DEPENDENT)
        read_set(&sc->datasets[plan->dataset], record, out);
    else
        read_segments(plan, record, out);
    for (uint32_t i = 0; i < record->n_batches; i++) {
        struct record_batch batch = record_batch_get(record, i);
        out->desc.delivered += batch.delivered;
        out->desc.through = plan->shuffle == SHUFFLE_DEPENDENT ? 0 : batch.through;
    }
    out->desc.base = out->base;
    out->desc.turns = out->turns;
}

void state_resume_free(struct state_resume *resume)
{
    idset_destroy(resume->base);
    idset_destroy(resume->turns);
}

/* ── what a base says ── */

sample_id *state_order(const struct scenario *sc, const struct client_plan *plan, uint32_t epoch)
{
    if (plan->shuffle == SHUFFLE_STRICT && !plan->invalid && plan->n_view > 0)
        return solo_order(sc, plan, epoch);
    sample_id *order = xcalloc(plan->n_view + (size_t)1, sizeof *order);
    memcpy(order, plan->order, plan->n_view * sizeof *order);
    return order;
}

/* Goes through the sequences as they are defined, one after another. */
static void walk_segments(const struct client_plan *plan, const struct record *record, struct base_read *out)
{
    sample_id *left = xcalloc(plan->n_view + (size_t)1, sizeof *left);
    for (uint32_t k = 0; record && k < record->n_segments; k++) {
        const struct record_segment *segment = &record->segments[k];
        bool goes_on = k + 1 == record->n_segments && segment->world_size == plan->world_size;
        uint32_t n_left = 0;
        for (uint32_t i = 0; i < out->n_rest; i++) {
            if (i / segment->world_size < record_through(segment, i % segment->world_size))
                out->over[out->rest[i]] = 1;
            else
                left[n_left++] = out->rest[i];
        }
        out->n_left = n_left;
        for (uint32_t rank = 0; goes_on && rank < plan->world_size; rank++)
            out->first[rank] = record_through(segment, rank);
        if (goes_on)
            break;
        memcpy(out->rest, left, n_left * sizeof *left);
        out->n_rest = n_left;
    }
    free(left);
}

void base_read(const struct scenario *sc, const struct client_plan *plan, const struct record *record, uint32_t epoch,
               struct base_read *out)
{
    const struct scenario_dataset *dataset = &sc->datasets[plan->dataset];
    *out = (struct base_read){.over = xcalloc(sc->n_samples, 1), .n_rest = plan->n_view, .n_left = plan->n_view};
    if (plan->shuffle != SHUFFLE_DEPENDENT) {
        out->rest = state_order(sc, plan, epoch);
        walk_segments(plan, record, out);
        return;
    }
    for (uint32_t i = 0; record && i < record->samples; i++) {
        if (record_turn_over(record, i)) {
            out->over[dataset->ids[i]] = 1;
            out->n_left--;
        }
    }
    out->n_rest = out->n_left;
}

void base_free(struct base_read *base)
{
    free(base->over);
    free(base->rest);
}
