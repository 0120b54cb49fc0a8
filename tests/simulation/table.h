/* table.h: a hash table from 64-bit keys to 64-bit values, for the simulator's books. UINT64_MAX is no key. */
#ifndef LARDER_SIMULATION_TABLE_H
#define LARDER_SIMULATION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table {
    uint64_t *keys, *values;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

/* A zeroed struct is an empty table. */
void table_free(struct table *table);
/* table_at returns the place of key's value, made with value 0 when missing; valid until the next table_at. */
uint64_t *table_at(struct table *table, uint64_t key);

#endif
