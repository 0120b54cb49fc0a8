/* restore_set.c: reads what was taken of a dependent job: a set of turns, and the turns that the rank has taken since.
 * Where an epoch is a multiset, a sample may have several turns: the first is in the set, and a list has the others.
 * Whether they are too many is seen by the engine, which knows the epoch's multiset. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "server/registration/registration.h"
#include "server/registration/restore_priv.h"

/* The sets of indices that the turns of a record are checked with; bit sets as a record has them. */
struct marks {
    uint8_t *view; /* samples in the view */
    uint8_t *over; /* samples whose turn is over */
    uint32_t bytes;
};

static int marks_make(struct marks *marks, const struct record *record, const struct registration_found *found,
                      struct error *err)
{
    marks->bytes = record_set_bytes(record->samples);
    marks->view = calloc(marks->bytes + 1, 1);
    marks->over = calloc(marks->bytes + 1, 1);
    if (!marks->view || !marks->over)
        return restore_no_memory(err);
    for (uint32_t i = 0; i < found->selection->view.count; i++)
        record_set_add(marks->view, found->selection->view.indices[i]);
    if (record->over_bytes)
        memcpy(marks->over, record->over, marks->bytes);
    return 0;
}

static int not_in_view(uint32_t index, struct error *err)
{
    return error_set(err, LARDER_EFORMAT,
                     "the state is damaged: it has sample %u, which is no part of what the job trains on", index);
}

/* make_set makes a set of the samples with these indices. NULL when there are none. */
static int make_set(const struct dataset *dataset, sample_id *indices, size_t count, struct idset **out,
                    struct error *err)
{
    if (count == 0)
        return 0;
    if (idset_create(out))
        return restore_no_memory(err);
    for (size_t i = 0; i < count; i++)
        indices[i] = dataset_id(dataset, indices[i]);
    idset_add_many(*out, indices, count);
    return 0;
}

/* make_again lists the samples with these indices: those that come again. *out becomes NULL when there are none. */
static int make_again(const struct dataset *dataset, const uint32_t *indices, size_t count, sample_id **out,
                      struct engine_again *again, struct error *err)
{
    *again = (struct engine_again){NULL, count};
    if (count == 0)
        return 0;
    sample_id *ids = malloc(count * sizeof *ids);
    if (!ids)
        return restore_no_memory(err);
    for (size_t i = 0; i < count; i++)
        ids[i] = dataset_id(dataset, indices[i]);
    again->ids = *out = ids;
    return 0;
}

static int too_often(uint32_t index, struct error *err)
{
    return error_set(err, LARDER_EFORMAT, "the state is damaged: it has sample %u twice", index);
}

/* take_counted_base lists the indices of the base of a multiset, and *again those of further turns. room has a place
 * for each sample of the view; the caller frees *again. */
static int take_counted_base(const struct record *record, const struct marks *marks, uint64_t draws, uint32_t *room,
                             size_t *count, uint32_t **again, size_t *n_again, struct error *err)
{
    size_t n = 0, more = 0;
    uint64_t all = 0;
    for (uint32_t index = 0; index < record->samples; index++)
        all += record_turns_over(record, index);
    if (all > draws)
        return error_set(err, LARDER_EFORMAT, "the state is damaged: %llu draws of an epoch of %llu were taken",
                         (unsigned long long)all, (unsigned long long)draws);
    *again = malloc((all + 1) * sizeof **again);
    if (!*again)
        return restore_no_memory(err);
    for (uint32_t index = 0; index < record->samples; index++) {
        uint64_t turns = record_turns_over(record, index);
        if (turns && !record_set_has(marks->view, index))
            return not_in_view(index, err);
        if (turns)
            room[n++] = index;
        for (uint64_t i = 1; i < turns; i++)
            (*again)[more++] = index;
    }
    *count = n;
    *n_again = more;
    return 0;
}

/* take_counted_turns lists the indices of a rank's turns of a multiset: in room those that come for the first time, and
 * behind them the others. */
static int take_counted_turns(const struct record *record, struct marks *marks, uint32_t *room, size_t *count,
                              struct error *err)
{
    size_t n = 0, end = (size_t)record->n_turns;
    memset(marks->over, 0, marks->bytes);
    for (uint64_t i = 0; i < record->n_turns; i++) {
        uint32_t index = record_turn(record, i);
        if (!record_set_has(marks->view, index))
            return not_in_view(index, err);
        if (record_set_has(marks->over, index))
            room[--end] = index;
        else
            room[n++] = index;
        record_set_add(marks->over, index);
    }
    *count = n;
    return 0;
}

/* take_base lists the indices of the base. room has a place for each sample of the view. */
static int take_base(const struct record *record, const struct marks *marks, uint32_t *room, size_t *count,
                     struct error *err)
{
    size_t n = 0;
    for (uint32_t byte = 0; record->over_bytes && byte < marks->bytes; byte++) {
        for (unsigned bits = marks->over[byte]; bits; bits &= bits - 1) {
            uint32_t index = byte * 8 + (uint32_t)__builtin_ctz(bits);
            if (!record_set_has(marks->view, index))
                return not_in_view(index, err);
            room[n++] = index;
        }
    }
    *count = n;
    return 0;
}

static int take_turns(const struct record *record, const struct marks *marks, uint32_t *room, struct error *err)
{
    for (uint64_t i = 0; i < record->n_turns; i++) {
        uint32_t index = record_turn(record, i);
        if (!record_set_has(marks->view, index))
            return not_in_view(index, err);
        if (record_set_has(marks->over, index))
            return too_often(index, err);
        record_set_add(marks->over, index);
        room[i] = index;
    }
    return 0;
}

/* What a rank has had: a set, and of a multiset a list. */
struct had {
    struct idset *turns;
    sample_id *ids;
    struct engine_again again;
};

/* take_had takes a rank's turns. room has a place for each of them. */
static int take_had(const struct registration_found *found, const struct record *record, struct marks *marks,
                    uint32_t *room, struct had *had, struct error *err)
{
    size_t count = (size_t)record->n_turns;
    int rc = found->multiset ? take_counted_turns(record, marks, room, &count, err)
                             : take_turns(record, marks, room, err);
    if (!rc)
        rc = make_again(found->dataset, room + count, (size_t)record->n_turns - count, &had->ids, &had->again, err);
    return rc ? rc : make_set(found->dataset, room, count, &had->turns, err);
}

/* take_done takes the turns of the ranks that are done. */
static int take_done(struct restore *restore, const struct registration_found *found, struct marks *marks,
                     uint32_t *room, struct error *err)
{
    struct record done;
    int rc = 0;
    size_t at = 0;
    for (uint32_t i = 0; !rc && record_done_next(&restore->record, &at, &done); i++) {
        struct had had = {.turns = NULL};
        rc = take_had(found, &done, marks, room, &had, err);
        restore->done[i].turns = had.turns;
        restore->done[i].again = (struct engine_again){had.ids, had.ids ? had.again.count : 0};
    }
    return rc;
}

/* take_whole_base takes the base. */
static int take_whole_base(struct restore *restore, const struct registration_found *found, struct marks *marks,
                           uint32_t *room, struct error *err)
{
    const struct record *record = &restore->record;
    size_t count = 0, more = 0;
    uint32_t *again = NULL;
    uint64_t draws = found->multiset ? multiset_draws(found->multiset) : found->selection->view.count;
    int rc = 0;
    if (found->multiset)
        rc = take_counted_base(record, marks, draws, room, &count, &again, &more, err);
    else if (record_sets(record) > 1)
        rc = error_set(err, LARDER_EFORMAT, "the state is damaged: it has samples twice");
    else
        rc = take_base(record, marks, room, &count, err);
    if (!rc)
        rc = make_set(found->dataset, room, count, &restore->base, err);
    if (!rc)
        rc = make_again(found->dataset, again, more, &restore->base_again, &restore->engine.base_again, err);
    free(again);
    restore->left = (uint32_t)(draws - count - more);
    return rc;
}

/* take_copies takes which ranks had copies in the base. Of another number of ranks they are other ranks. */
static int take_copies(struct restore *restore, const struct registration *reg, struct error *err)
{
    const struct record *record = &restore->record;
    const struct registration_found *found = &reg->found;
    if (!found->multiset || !multiset_is_together(found->multiset) || record->n_copies == 0 ||
        record->copy_ranks != reg->asked.world_size)
        return 0;
    restore->copies = malloc(record->n_copies * sizeof *restore->copies);
    if (!restore->copies)
        return restore_no_memory(err);
    for (uint32_t i = 0; i < record->n_copies; i++) {
        struct record_copy copy = record_copy_get(record, i);
        restore->copies[i] = (struct engine_copy){dataset_id(found->dataset, copy.index), copy.rank};
    }
    restore->engine.copies = restore->copies;
    restore->engine.n_copies = record->n_copies;
    return 0;
}

/* most_turns returns a number of turns that no history in the record exceeds. */
static uint64_t most_turns(const struct record *record)
{
    struct record done;
    uint64_t most = record->n_turns;
    for (size_t at = 0; record_done_next(record, &at, &done);)
        most = done.n_turns > most ? done.n_turns : most;
    return most;
}

int restore_take_set(struct restore *restore, const struct registration *reg, struct error *err)
{
    const struct registration_found *found = &reg->found;
    struct marks marks = {.bytes = 0};
    struct had had = {.turns = NULL};
    uint64_t places = most_turns(&restore->record);
    places = places > found->selection->view.count ? places : found->selection->view.count;
    uint32_t *room = malloc((places + 1) * sizeof *room);
    int rc = room ? marks_make(&marks, &restore->record, found, err) : restore_no_memory(err);
    if (!rc)
        rc = take_whole_base(restore, found, &marks, room, err);
    if (!rc)
        rc = take_copies(restore, reg, err);
    if (!rc)
        rc = take_had(found, &restore->record, &marks, room, &had, err);
    restore->turns = had.turns;
    restore->again = had.ids;
    restore->engine.again = (struct engine_again){had.ids, had.ids ? had.again.count : 0};
    if (!rc)
        rc = take_done(restore, found, &marks, room, err);
    restore->engine.base = restore->base;
    restore->engine.turns = restore->turns;
    free(marks.view);
    free(marks.over);
    free(room);
    return rc;
}
