/* table.c: places by key, probed linearly in a table that is at most half full. A place that is of no use stays until
 * its key is put again or the table grows. The keys are hashes already. */
#include <stdlib.h>

#include "cache/tier/tier_priv.h"
#include "common/larder_err.h"

#define CAP_LEAST 256

static bool is_free(const struct place *place)
{
    return place->len_bytes == 0;
}

static size_t slot_of(const struct place_table *table, struct tier_key key)
{
    size_t mask = table->cap - 1, slot = (size_t)key.low & mask;
    while (!is_free(&table->places[slot]) &&
           (table->places[slot].key.low != key.low || table->places[slot].key.high != key.high))
        slot = (slot + 1) & mask;
    return slot;
}

struct place *place_find(const struct place_table *table, struct tier_key key)
{
    if (table->cap == 0)
        return NULL;
    struct place *place = &table->places[slot_of(table, key)];
    return is_free(place) ? NULL : place;
}

static int grow(struct place_table *table, bool (*alive)(void *ctx, uint32_t segment), void *ctx)
{
    struct place_table old = *table, grown = {.cap = CAP_LEAST};
    size_t living = 0;
    for (size_t i = 0; i < old.cap; i++)
        living += !is_free(&old.places[i]) && alive(ctx, old.places[i].segment);
    while (grown.cap < living * 4)
        grown.cap *= 2;
    grown.places = calloc(grown.cap, sizeof *grown.places);
    if (!grown.places)
        return LARDER_ENOMEM;
    for (size_t i = 0; i < old.cap; i++) {
        if (is_free(&old.places[i]) || !alive(ctx, old.places[i].segment))
            continue;
        grown.places[slot_of(&grown, old.places[i].key)] = old.places[i];
        grown.used++;
    }
    free(old.places);
    *table = grown;
    return 0;
}

int place_put(struct place_table *table, const struct place *place, bool (*alive)(void *ctx, uint32_t segment),
              void *ctx, struct place *old)
{
    if ((table->used + 1) * 2 > table->cap) {
        int code = grow(table, alive, ctx);
        if (code)
            return code;
    }
    struct place *slot = &table->places[slot_of(table, place->key)];
    *old = *slot;
    if (is_free(slot)) {
        old->segment = SEGMENT_NONE;
        table->used++;
    }
    *slot = *place;
    return 0;
}

void place_table_free(struct place_table *table)
{
    free(table->places);
    *table = (struct place_table){0};
}
