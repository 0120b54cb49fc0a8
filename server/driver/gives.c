/* gives.c: the observer that counts for whom samples were prepared, and who got them.
 *
 * It notes at which place of the arena an instance was begun, and for which job, in a table of bounded size. Where two
 * places meet in a cell, the later one has it; what the other one gives is then not counted. So the counts may be too
 * small in very large arenas, and engine_job_status has the exact sum of each job. */
#include "server/driver/gives.h"

#include <stdlib.h>
#include <string.h>

#include "cache/memory/extent.h"
#include "common/check.h"
#include "common/random.h"
#include "server/driver/driver_priv.h"

enum { CELLS_MIN = 1 << 10, CELLS_MAX = 1 << 18, ROW = JOBS_MAX + 1 };

struct cell {
    uint32_t tag; /* the offset's, never 0; 0: the cell is free */
    uint16_t place;
    uint16_t turn; /* of the jobs at that place */
};

struct gives {
    struct cell *cells;
    uint32_t mask;
    uint16_t turn[JOBS_MAX]; /* how many jobs the place has had */
    uint32_t *gave;          /* [to * ROW + from]; from JOBS_MAX: a job that is gone */
};

struct gives *gives_create(uint64_t arena_bytes, uint64_t slot_least)
{
    struct gives *gives = xcalloc(1, sizeof *gives);
    uint64_t slots = arena_bytes / (slot_least > EXTENT_ALIGN ? slot_least : EXTENT_ALIGN), cells = CELLS_MIN;
    while (cells < CELLS_MAX && cells < 2 * slots)
        cells *= 2;
    gives->cells = xcalloc(cells, sizeof *gives->cells);
    gives->mask = (uint32_t)cells - 1;
    gives->gave = xcalloc((size_t)JOBS_MAX * ROW, sizeof *gives->gave);
    return gives;
}

void gives_destroy(struct gives *gives)
{
    if (!gives)
        return;
    free(gives->cells);
    free(gives->gave);
    free(gives);
}

size_t gives_bytes(const struct gives *gives)
{
    return sizeof *gives + ((size_t)gives->mask + 1) * sizeof *gives->cells +
           (size_t)JOBS_MAX * ROW * sizeof *gives->gave;
}

static struct cell *cell_of(struct gives *gives, uint64_t offset, uint32_t *tag)
{
    uint64_t hash = random_mix64(offset / EXTENT_ALIGN);
    *tag = (uint32_t)(offset / EXTENT_ALIGN) + 1;
    return &gives->cells[hash & gives->mask];
}

static void forget(struct gives *gives, uint64_t offset)
{
    uint32_t tag;
    struct cell *cell = cell_of(gives, offset, &tag);
    if (cell->tag == tag)
        cell->tag = 0;
}

/* Of an instance that was begun for another job than the one whose turn it is nothing is noted. */
static void prepare(struct gives *gives, const struct engine_action *action)
{
    for (uint32_t i = 0; i < action->prepare.n_outputs; i++) {
        const struct engine_output *output = &action->prepare.outputs[i];
        uint32_t tag;
        struct cell *cell = cell_of(gives, output->offset, &tag);
        if (output->own)
            *cell = (struct cell){tag, (uint16_t)action->job, gives->turn[action->job]};
        else if (cell->tag == tag)
            cell->tag = 0;
    }
}

static void deliver(struct gives *gives, const struct engine_action *action)
{
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        uint32_t tag;
        const struct cell *cell = cell_of(gives, action->deliver.entries[i].offset, &tag);
        if (cell->tag != tag)
            continue;
        bool gone = cell->turn != gives->turn[cell->place];
        if (gone || cell->place != action->job)
            gives->gave[(size_t)action->job * ROW + (gone ? JOBS_MAX : cell->place)]++;
    }
}

/* begin: another job has the place. */
static void begin(struct gives *gives, uint32_t place)
{
    gives->turn[place]++;
    memset(gives->gave + (size_t)place * ROW, 0, ROW * sizeof *gives->gave);
    for (uint32_t to = 0; to < JOBS_MAX; to++)
        gives->gave[(size_t)to * ROW + place] = 0;
}

void gives_on_action(void *ctx, const struct engine_action *action)
{
    struct gives *gives = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        if (!action->job_added.attached)
            begin(gives, action->job);
        break;
    case ENGINE_PREPARE: prepare(gives, action); break;
    case ENGINE_EXPECT: forget(gives, action->expect.offset); break;
    case ENGINE_DELIVER: deliver(gives, action); break;
    default: break;
    }
}

size_t gives_to(const struct gives *gives, uint32_t to, struct past_giver **out)
{
    const uint32_t *row = gives->gave + (size_t)to * ROW;
    size_t n = 0, cap = 0;
    *out = NULL;
    for (uint32_t from = 0; from < ROW; from++) {
        if (!row[from])
            continue;
        *out = xgrow(*out, sizeof **out, &cap, n + 1);
        (*out)[n++] = (struct past_giver){(uint16_t)from, row[from]};
    }
    return n;
}
