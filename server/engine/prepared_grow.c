/* prepared_grow.c: the arena grows by need, and shrinks when it is told to.
 *
 * Offsets are given within config.arena_bytes, the budget. The first reserved_bytes of it are there. What lies above is
 * one used block, the wall, which no instance owns and nobody clears. So nothing is ever placed above. With
 * config.reserve_bytes 0 all of the budget is there from the start, and there is no wall.
 *
 * More is asked for ahead of need: when little is free, or a zone finds no room. One request is out at a time. What is
 * wanted grows the arena. Leftovers, which no running job wants, grow it only as long as there are fewer than samples
 * in the views of all pipelines: about one instance of each sample for whoever comes next. After that the oldest
 * leftovers make way for new instances. While what was asked for may still come, nothing is evicted for what finds no
 * room: it waits for the answer. */
#include "common/check.h"
#include "server/engine/outbox.h"
#include "server/engine/prepared.h"

enum {
    FREE_PART = 8, /* More is asked for when less than one part in so many is free. */
    STEP_PART = 4  /* Then it is one part in so many of what is there. */
};
#define RETRY_NS UINT64_C(1000000000) /* after a request was refused */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool has_wall(const struct prepared *prepared)
{
    return prepared->growth.wall != EXTENT_NONE;
}

/* last_below gives the block that ends where the reserved part ends; EXTENT_NONE when nothing is reserved. */
static uint32_t last_below(const struct prepared *prepared)
{
    if (has_wall(prepared))
        return extent_prev(prepared->extents, prepared->growth.wall);
    uint32_t block = extent_first(prepared->extents);
    while (extent_next(prepared->extents, block) != EXTENT_NONE)
        block = extent_next(prepared->extents, block);
    return block;
}

static bool is_free(const struct prepared *prepared, uint32_t block)
{
    uint32_t owner;
    return block != EXTENT_NONE && !extent_owner(prepared->extents, block, &owner);
}

/* move_wall makes the reserved part end at so many bytes. What lies between the old end and the new one is free. */
static void move_wall(struct prepared *prepared, uint64_t bytes)
{
    uint64_t arena = prepared->env->config.arena_bytes;
    uint32_t tail = last_below(prepared);
    if (has_wall(prepared)) {
        uint32_t wall = prepared->growth.wall;
        tail = is_free(prepared, tail) ? tail : wall; /* the wall becomes a part of a free block before it */
        extent_free(prepared->extents, wall);
    }
    prepared->growth.wall = EXTENT_NONE;
    if (bytes < arena)
        prepared->growth.wall = extent_alloc_at(prepared->extents, tail, bytes, arena - bytes, ENGINE_NONE);
    prepared->growth.reserved_bytes = bytes;
    prepared->room_changes++;
}

void prepared_growth_begin(struct prepared *prepared)
{
    prepared->growth = (struct growth){.wall = EXTENT_NONE, .reserved_bytes = prepared->env->config.arena_bytes};
    if (prepared->env->config.reserve_bytes > 0)
        move_wall(prepared, 0);
}

uint64_t prepared_used_bytes(const struct prepared *prepared)
{
    return extents_used_bytes(prepared->extents) -
           (has_wall(prepared) ? extent_bytes(prepared->extents, prepared->growth.wall) : 0);
}

bool prepared_may_grow(const struct prepared *prepared)
{
    const struct growth *growth = &prepared->growth;
    return (has_wall(prepared) && !growth->refused) || growth->came_ns == prepared->env->now_ns;
}

void prepared_count_leftovers(struct prepared *prepared)
{
    const struct jobs *jobs = prepared->jobs;
    uint64_t most = 0;
    for (const struct job *job = jobs_first(jobs); job; job = jobs_after(jobs, job)) {
        const struct job *other = jobs_first(jobs);
        while (other != job &&
               (other->terms.pipeline != job->terms.pipeline || other->terms.dataset != job->terms.dataset))
            other = jobs_after(jobs, other);
        if (other == job) /* the first job of its pipeline and dataset counts for all of them */
            most += job->shape.view_samples;
    }
    prepared->growth.leftovers_most = most;
    if (!jobs_first(jobs))
        prepared->growth.wanted_bytes = 0;
}

void prepared_want(struct prepared *prepared, uint64_t bytes)
{
    struct growth *growth = &prepared->growth;
    bytes = least(bytes, prepared->env->config.arena_bytes);
    if (has_wall(prepared) && bytes > growth->wanted_bytes)
        growth->wanted_bytes = bytes;
}

void prepared_note_room(struct prepared *prepared, uint64_t bytes, bool found)
{
    const struct growth *growth = &prepared->growth;
    if (!has_wall(prepared))
        return;
    uint64_t free_bytes = growth->reserved_bytes - prepared_used_bytes(prepared);
    if (found &&
        (free_bytes >= growth->reserved_bytes / FREE_PART || prepared_idle(prepared) >= growth->leftovers_most))
        return;
    uint64_t step = growth->reserved_bytes / STEP_PART;
    prepared_want(prepared, growth->reserved_bytes + (step > bytes ? step : bytes));
}

bool prepared_room_comes(const struct prepared *prepared)
{
    const struct growth *growth = &prepared->growth;
    return has_wall(prepared) && !growth->refused && prepared_idle(prepared) < growth->leftovers_most;
}

void prepared_ask(struct prepared *prepared, struct outbox *outbox)
{
    struct growth *growth = &prepared->growth;
    uint64_t unit = prepared->env->config.reserve_bytes;
    if (growth->asked_bytes > 0 || growth->wanted_bytes <= growth->reserved_bytes ||
        prepared->env->now_ns < growth->again_ns)
        return;
    growth->asked_bytes = least((growth->wanted_bytes + unit - 1) / unit * unit, prepared->env->config.arena_bytes);
    outbox_add(outbox, ENGINE_RESERVE)->reserve.bytes = growth->asked_bytes;
}

void prepared_on_reserved(struct prepared *prepared, uint64_t bytes, bool refused)
{
    struct growth *growth = &prepared->growth;
    CHECK(growth->asked_bytes > 0 && bytes >= growth->reserved_bytes && bytes <= growth->asked_bytes);
    growth->asked_bytes = 0;
    growth->refused = refused;
    prepared->room_changes += refused; /* now what is there makes way: what found no room looks again */
    growth->again_ns = refused ? prepared->env->now_ns + RETRY_NS : 0;
    if (bytes > growth->reserved_bytes) {
        growth->came_ns = prepared->env->now_ns;
        move_wall(prepared, bytes);
    }
    if (growth->wanted_bytes <= bytes)
        growth->wanted_bytes = 0;
}

uint64_t prepared_wakes_ns(const struct prepared *prepared)
{
    const struct growth *growth = &prepared->growth;
    bool waits = growth->asked_bytes == 0 && growth->wanted_bytes > growth->reserved_bytes;
    return waits ? growth->again_ns : UINT64_MAX;
}

/* is_leftover tells whether the block holds an instance that may go: nobody pins it, no running job wants it, and it
 * lies in no zone. */
static bool is_leftover(const struct prepared *prepared, uint32_t block, uint32_t *owner)
{
    *owner = ENGINE_NONE;
    return extent_owner(prepared->extents, block, owner) && *owner != ENGINE_NONE &&
           !prepared->instances[*owner].zoned && residency_pins(prepared->residency, *owner) == 0 &&
           !prepared_is_wanted(prepared, *owner);
}

void prepared_give_back(struct prepared *prepared, uint64_t keep_bytes, struct outbox *outbox)
{
    uint64_t unit = prepared->env->config.reserve_bytes, end = prepared->growth.reserved_bytes;
    if (unit == 0 || prepared->growth.asked_bytes > 0)
        return;
    while (end > keep_bytes) {
        uint32_t block = last_below(prepared), owner;
        if (is_free(prepared, block)) {
            end = extent_offset(prepared->extents, block);
            block = extent_prev(prepared->extents, block);
        }
        if (end <= keep_bytes || block == EXTENT_NONE || !is_leftover(prepared, block, &owner))
            break;
        prepared_evict(prepared, owner);
    }
    end = end > keep_bytes ? end : keep_bytes;
    end = (end + unit - 1) / unit * unit;
    if (end >= prepared->growth.reserved_bytes)
        return;
    move_wall(prepared, end);
    prepared->growth.wanted_bytes = 0;
    outbox_add(outbox, ENGINE_RETURN)->reserve.bytes = end;
}
