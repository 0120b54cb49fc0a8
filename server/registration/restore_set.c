/* restore_set.c: reads what was taken of a dependent job: a set of turns, and the turns that the rank has taken
 * since. */
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
        memcpy(marks->over, record->over, record->over_bytes);
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

/* take_base lists the indices of the base. room has a place for each sample of the view. */
static int take_base(const struct record *record, const struct marks *marks, uint32_t *room, size_t *count,
                     struct error *err)
{
    size_t n = 0;
    for (uint32_t byte = 0; byte < record->over_bytes; byte++) {
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
            return error_set(err, LARDER_EFORMAT, "the state is damaged: it has sample %u twice", index);
        record_set_add(marks->over, index);
        room[i] = index;
    }
    return 0;
}

/* take_done takes the turns of the ranks that are done. */
static int take_done(struct restore *restore, const struct dataset *dataset, const struct marks *marks, uint32_t *room,
                     struct error *err)
{
    struct record done;
    int rc = 0;
    size_t at = 0;
    for (uint32_t i = 0; !rc && record_done_next(&restore->record, &at, &done); i++) {
        struct idset *turns = NULL;
        rc = take_turns(&done, marks, room, err);
        if (!rc)
            rc = make_set(dataset, room, (size_t)done.n_turns, &turns, err);
        restore->done[i].turns = turns;
    }
    return rc;
}

int restore_take_set(struct restore *restore, const struct registration *reg, struct error *err)
{
    const struct record *record = &restore->record;
    const struct registration_found *found = &reg->found;
    struct marks marks = {.bytes = 0};
    size_t count = 0;
    uint32_t *room = malloc(((size_t)found->selection->view.count + 1) * sizeof *room);
    int rc = room ? marks_make(&marks, record, found, err) : restore_no_memory(err);
    if (!rc)
        rc = take_base(record, &marks, room, &count, err);
    if (!rc)
        rc = make_set(found->dataset, room, count, &restore->base, err);
    if (!rc)
        rc = take_turns(record, &marks, room, err); /* no more than the view has: each of them once */
    if (!rc)
        rc = make_set(found->dataset, room, (size_t)record->n_turns, &restore->turns, err);
    if (!rc)
        rc = take_done(restore, found->dataset, &marks, room, err);
    restore->engine.base = restore->base;
    restore->engine.turns = restore->turns;
    restore->left = found->selection->view.count - count;
    free(marks.view);
    free(marks.over);
    free(room);
    return rc;
}
