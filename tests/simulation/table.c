/* table.c: open addressing with linear probing; grows at half full; nothing is ever removed. */
#include "tests/simulation/table.h"

#include <stdlib.h>

#include "common/check.h"
#include "common/random.h"

#define NO_KEY UINT64_MAX
#define CAPACITY_FIRST 64

static size_t find(const struct table *table, uint64_t key)
{
    size_t at = random_mix64(key) & (table->capacity - 1);
    while (table->keys[at] != NO_KEY && table->keys[at] != key)
        at = (at + 1) & (table->capacity - 1);
    return at;
}

static void grow(struct table *table)
{
    struct table old = *table;
    table->capacity = old.capacity ? old.capacity * 2 : CAPACITY_FIRST;
    table->keys = xrealloc(NULL, table->capacity, sizeof *table->keys);
    table->values = xcalloc(table->capacity, sizeof *table->values);
    for (size_t i = 0; i < table->capacity; i++)
        table->keys[i] = NO_KEY;
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.keys[i] == NO_KEY)
            continue;
        size_t at = find(table, old.keys[i]);
        table->keys[at] = old.keys[i];
        table->values[at] = old.values[i];
    }
    table_free(&old);
}

void table_free(struct table *table)
{
    free(table->keys);
    free(table->values);
    *table = (struct table){0};
}

uint64_t *table_at(struct table *table, uint64_t key)
{
    CHECK(key != NO_KEY);
    if ((table->count + 1) * 2 > table->capacity)
        grow(table);
    size_t at = find(table, key);
    if (table->keys[at] == NO_KEY) {
        table->keys[at] = key;
        table->count++;
    }
    return &table->values[at];
}
