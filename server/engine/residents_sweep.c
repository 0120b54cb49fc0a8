/* residents_sweep.c: residents are settled (changes.h), and enter the fibers of new groups, little by little.
 *
 * The sweep goes through all residents, instances first, by number. When it has finished, all are settled to the line
 * at which it began, and earlier lines are dropped. If more lines have come, it begins again. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/residents.h"

enum {
    SWEEP_RESIDENTS = 2048, /* residents that one step looks at, unless configured */
    LINES_MAX = 4096,       /* With this many lines, the sweep finishes within the step. */
    SAMPLE_WORK = 16,       /* residents that the sweep visits in the time of finding those of one sample */
    ENTER_AHEAD = 16        /* a sample is fetched this many residents before it enters its fiber */
};

static uint32_t sweep_most(const struct residents *residents)
{
    uint32_t most = residents->env->config.sweep_residents;
    return most ? most : SWEEP_RESIDENTS;
}

bool residents_few(const struct residents *residents, uint64_t samples)
{
    return samples <= sweep_most(residents) &&
           samples * SAMPLE_WORK < (uint64_t)residents->prepared->slab.size + residents->encoded->slab.size;
}

/* sweep_instance settles an instance, and evicts it if its pipeline has gone. */
static void sweep_instance(struct prepared *prepared, uint32_t index)
{
    const struct instance *instance = &prepared->instances[index];
    if (instance->state == INSTANCE_FREE)
        return;
    prepared_settle(prepared, index);
    if (instance->form.pipeline == PIPELINE_GONE && instance->state == INSTANCE_READY &&
        residency_pins(prepared->residency, index) == 0)
        prepared_evict(prepared, index);
}

/* sweep_recent settles the instances begun last: those that other jobs are at. A job whose epoch begins while others'
 * do finds them, and so the jobs stay together. */
static void sweep_recent(struct residents *residents)
{
    struct prepared *prepared = residents->prepared;
    uint64_t begun = prepared->n_begun, count = begun < PREPARED_RECENT ? begun : PREPARED_RECENT;
    for (uint64_t i = 1; i <= count && residents->sweep.left > 0; i++, residents->sweep.left--)
        sweep_instance(prepared, prepared->recent[(begun - i) % PREPARED_RECENT]);
}

/* restart begins the sweep anew, to the end of the changes. */
static void restart(struct sweep *sweep, uint32_t end)
{
    sweep->to = end;
    sweep->instance = sweep->encoded = 0;
}

/* drop_lines drops the lines to which all are settled, and begins the sweep anew for the others. */
static void drop_lines(struct changes *changes, struct sweep *sweep)
{
    memmove(changes->lines, changes->lines + (sweep->to - changes->first),
            (changes->end - sweep->to) * sizeof *changes->lines);
    changes->first = sweep->to;
    restart(sweep, changes->end);
}

/* part_end returns where the sweep through `size` places, which is at `at`, ends in this step, and counts it. */
static uint32_t part_end(struct sweep *sweep, uint32_t at, uint32_t size)
{
    uint32_t count = size - at < sweep->left ? size - at : sweep->left;
    sweep->left -= count;
    return at + count;
}

/* go_on goes on with the sweep as far as this step may. */
static void go_on(struct residents *residents)
{
    struct sweep *sweep = &residents->sweep;
    struct encoded_store *store = residents->encoded;
    while (sweep->left > 0 && residents->changes.first != residents->changes.end) {
        uint32_t end = part_end(sweep, sweep->instance, residents->prepared->slab.size);
        for (; sweep->instance < end; sweep->instance++)
            sweep_instance(residents->prepared, sweep->instance);
        end = part_end(sweep, sweep->encoded, store->slab.size);
        for (; sweep->encoded < end; sweep->encoded++) {
            if (store->encodeds[sweep->encoded].state != ENCODED_FREE)
                encoded_settle(store, sweep->encoded);
        }
        if (sweep->encoded == store->slab.size && sweep->instance == residents->prepared->slab.size)
            drop_lines(&residents->changes, sweep);
    }
}

/* enter_some has residents enter their fibers as far as this step may. */
static void enter_some(struct residents *residents)
{
    struct sweep *sweep = &residents->sweep;
    const struct samples *samples = &residents->env->samples;
    struct prepared *prepared = residents->prepared;
    struct encoded_store *store = residents->encoded;
    uint32_t end = part_end(sweep, sweep->to_enter_instance, prepared->slab.size);
    for (uint32_t at = sweep->to_enter_instance; at < end; at++) {
        if (at + ENTER_AHEAD < end) /* an unused place names sample 0 */
            samples_fetch(samples, prepared->instances[at + ENTER_AHEAD].form.id);
        if (prepared->instances[at].state != INSTANCE_FREE && prepared_is_listed(prepared, at))
            prepared_fiber_enter(prepared, at);
    }
    sweep->to_enter_instance = end;
    end = part_end(sweep, sweep->to_enter_encoded, store->slab.size);
    for (uint32_t at = sweep->to_enter_encoded; at < end; at++) {
        if (at + ENTER_AHEAD < end)
            samples_fetch(samples, store->encodeds[at + ENTER_AHEAD].id);
        if (store->encodeds[at].state != ENCODED_FREE)
            encoded_fiber_enter(store, at);
    }
    sweep->to_enter_encoded = end;
    residents->chunks->arranging = end < store->slab.size || sweep->to_enter_instance < prepared->slab.size;
}

void residents_arrange(struct residents *residents)
{
    chunks_arrange(residents->chunks);
    residents->sweep.to_enter_instance = residents->sweep.to_enter_encoded = 0;
    enter_some(residents);
}

void residents_change(struct residents *residents, const struct change *change)
{
    struct changes *changes = &residents->changes;
    struct sweep *sweep = &residents->sweep;
    uint32_t count = changes->end - changes->first;
    changes->lines = xgrow(changes->lines, sizeof *changes->lines, &changes->cap, (size_t)count + 1);
    changes->lines[count] = *change;
    changes->end++;
    if (count == 0)
        restart(sweep, changes->end);
    if (count + 1 >= LINES_MAX)
        sweep->left = UINT32_MAX;
    if ((uint64_t)residents->prepared->slab.size + residents->encoded->slab.size > sweep->left)
        sweep_recent(residents);
    go_on(residents);
}

void residents_drop_idle(struct residents *residents)
{
    struct sweep *sweep = &residents->sweep;
    uint32_t dropped = encoded_drop_idle(residents->encoded, sweep->left);
    sweep->idle = dropped == sweep->left || residents->changes.first != residents->changes.end;
    sweep->left -= dropped;
}

void residents_step(struct residents *residents)
{
    residents->sweep.left = sweep_most(residents);
}

void residents_sweep(struct residents *residents)
{
    if (residents_swept(residents))
        return;
    if (residents->chunks->arranging)
        enter_some(residents);
    go_on(residents);
    residents_drop_idle(residents);
}

bool residents_swept(const struct residents *residents)
{
    const struct sweep *sweep = &residents->sweep;
    return residents->changes.first == residents->changes.end && !sweep->idle && !residents->chunks->arranging;
}
