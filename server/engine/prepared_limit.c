/* prepared_limit.c: up to where there is memory.
 *
 * Offsets are given within config.arena_bytes, the budget. Below the limit everything is there. Nothing is placed above
 * it but into slots of zones that are there. Up there lie blocks that are away, which nobody owns and which the caller
 * has no memory for, and islands: instances and slots of zones that were there when the limit came down. An island that
 * is freed is away from then on. With config.reserve_bytes 0 all of the budget is there from the start, and the limit
 * is its end. */
#include "server/engine/prepared.h"

#define PAGE_MOST UINT64_C(65536) /* bytes of a page, at most */

bool prepared_is_free(const struct prepared *prepared, uint32_t block)
{
    uint32_t owner;
    return block != EXTENT_NONE && !extent_owner(prepared->extents, block, &owner);
}

bool prepared_is_away(const struct prepared *prepared, uint32_t block)
{
    uint32_t owner;
    return block != EXTENT_NONE && extent_owner(prepared->extents, block, &owner) && owner == PREPARED_AWAY;
}

uint32_t prepared_last_below(const struct prepared *prepared)
{
    if (prepared->growth.above != EXTENT_NONE)
        return extent_prev(prepared->extents, prepared->growth.above);
    uint32_t block = extent_first(prepared->extents);
    while (extent_next(prepared->extents, block) != EXTENT_NONE)
        block = extent_next(prepared->extents, block);
    return block;
}

/* set_above has the limit lie where `above` begins, or at the arena's end. */
static void set_above(struct prepared *prepared, uint32_t above)
{
    prepared->growth.above = above;
    prepared->growth.limit = above == EXTENT_NONE ? prepared->env->config.arena_bytes
                                                  : extent_offset(prepared->extents, above);
}

/* send_away makes the part of a free block from `from` on a block that is away. */
static uint32_t send_away(struct prepared *prepared, uint32_t block, uint64_t from)
{
    uint64_t bytes = extent_offset(prepared->extents, block) + extent_bytes(prepared->extents, block) - from;
    prepared->growth.away_bytes += bytes;
    return extent_alloc_at(prepared->extents, block, from, bytes, PREPARED_AWAY);
}

/* bring_back frees a block without memory, and returns the free block that it is then part of. */
static uint32_t bring_back(struct prepared *prepared, uint32_t block)
{
    uint32_t before = extent_prev(prepared->extents, block);
    prepared->growth.away_bytes -= extent_bytes(prepared->extents, block);
    before = prepared_is_free(prepared, before) ? before : block; /* a free block takes in the one behind it */
    extent_free(prepared->extents, block);
    return before;
}

/* return_range tells the caller that nothing lies between the two. */
static void return_range(struct prepared *prepared, uint64_t from, uint64_t to)
{
    struct outbox *outbox = prepared->outbox;
    struct engine_action *last = outbox->n_actions ? &outbox->actions[outbox->n_actions - 1] : NULL;
    if (last && last->type == ENGINE_RETURN && from <= last->give_back.to && last->give_back.from <= to) {
        last->give_back.from = from < last->give_back.from ? from : last->give_back.from;
        last->give_back.to = to > last->give_back.to ? to : last->give_back.to;
        return;
    }
    struct engine_action *action = outbox_add(outbox, ENGINE_RETURN);
    action->give_back.from = from;
    action->give_back.to = to;
}

/* return_part returns part of a block without memory. Neighbouring ranges without memory are returned once more, up to
 * a page's bounds: a page is freed only when all of it is returned. */
static void return_part(struct prepared *prepared, uint32_t block, uint64_t from, uint64_t to)
{
    uint64_t first = extent_offset(prepared->extents, block), end = first + extent_bytes(prepared->extents, block);
    uint32_t at = extent_prev(prepared->extents, block);
    for (; prepared_is_away(prepared, at) && from - first < PAGE_MOST; at = extent_prev(prepared->extents, at))
        first = extent_offset(prepared->extents, at);
    at = extent_next(prepared->extents, block);
    for (; prepared_is_away(prepared, at) && end - to < PAGE_MOST; at = extent_next(prepared->extents, at))
        end += extent_bytes(prepared->extents, at);
    from = from - first < PAGE_MOST ? first : from - PAGE_MOST;
    to = end - to < PAGE_MOST ? end : to + PAGE_MOST;
    return_range(prepared, from, to);
}

void prepared_return_all(struct prepared *prepared)
{
    for (uint32_t block = prepared->growth.above; block != EXTENT_NONE; block = extent_next(prepared->extents, block)) {
        uint64_t from = extent_offset(prepared->extents, block);
        if (prepared_is_away(prepared, block))
            return_range(prepared, from, from + extent_bytes(prepared->extents, block));
    }
}

void prepared_lift(struct prepared *prepared, uint64_t bytes)
{
    uint32_t block = prepared->growth.above;
    while (block != EXTENT_NONE && extent_offset(prepared->extents, block) < bytes) {
        uint32_t next = extent_next(prepared->extents, block);
        uint64_t end = extent_offset(prepared->extents, block) + extent_bytes(prepared->extents, block);
        if (prepared_is_away(prepared, block)) {
            block = bring_back(prepared, block);
            next = end > bytes ? send_away(prepared, block, bytes) : next;
        }
        block = next;
    }
    set_above(prepared, block);
    prepared->room_changes++;
}

void prepared_cut(struct prepared *prepared, uint32_t block, uint64_t from)
{
    uint64_t end = prepared->growth.limit;
    if (prepared_is_away(prepared, prepared->growth.above))
        bring_back(prepared, prepared->growth.above);
    set_above(prepared, send_away(prepared, block, from));
    return_part(prepared, prepared->growth.above, from, end);
}

void prepared_leave_island(struct prepared *prepared, uint32_t block)
{
    set_above(prepared, block);
}

void prepared_limit_begin(struct prepared *prepared)
{
    set_above(prepared, EXTENT_NONE);
    if (prepared->env->config.reserve_bytes > 0)
        set_above(prepared, send_away(prepared, extent_first(prepared->extents), 0));
}

void prepared_release(struct prepared *prepared, uint32_t block)
{
    struct growth *growth = &prepared->growth;
    uint64_t from = extent_offset(prepared->extents, block), bytes = extent_bytes(prepared->extents, block);
    if (from < growth->limit) {
        extent_free(prepared->extents, block);
        return;
    }
    extent_set_owner(prepared->extents, block, PREPARED_AWAY);
    growth->away_bytes += bytes;
    if (growth->asked_bytes > 0) { /* the answer may be on its way, and have its memory */
        growth->returns_again = true;
        growth->owed_bytes += bytes;
        return;
    }
    return_part(prepared, block, from, from + bytes);
}

uint64_t prepared_there_bytes(const struct prepared *prepared)
{
    return prepared->env->config.arena_bytes - prepared->growth.away_bytes;
}

uint64_t prepared_used_bytes(const struct prepared *prepared)
{
    return extents_used_bytes(prepared->extents) - prepared->growth.away_bytes;
}
