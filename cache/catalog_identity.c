/* catalog_identity.c: identities to dense numbers. 24 bytes an identity at most once the table is full: the identities
 * in the order of their numbers, and a half-full table of numbers that is probed linearly. */
#include <stdlib.h>

#include "cache/catalog_priv.h"
#include "common/check.h"

void identity_table_free(struct identity_table *table)
{
    free(table->identities);
    free(table->places);
    *table = (struct identity_table){0};
}

/* The place where the identity is, or the free one where it belongs. The low word is a hash already. */
static size_t place_of(const struct identity_table *table, struct identity identity)
{
    size_t mask = table->place_count - 1;
    size_t place = (size_t)identity.low & mask;
    for (;;) {
        uint32_t number = table->places[place];
        if (number == 0)
            return place;
        const struct identity *there = &table->identities[number - 1];
        if (there->low == identity.low && there->high == identity.high)
            return place;
        place = (place + 1) & mask;
    }
}

int identity_table_reserve(struct identity_table *table, size_t more)
{
    if (more > SAMPLE_NONE - 1 - table->count)
        return LARDER_ELIMIT;
    size_t want = table->count + more;
    if (want > table->cap) {
        size_t cap = want > table->cap + table->cap / 2 ? want : table->cap + table->cap / 2;
        struct identity *grown = realloc(table->identities, cap * sizeof *grown);
        if (!grown)
            return LARDER_ENOMEM;
        table->identities = grown;
        table->cap = cap;
    }
    if (table->place_count >= want * 2 && table->place_count)
        return 0;
    size_t place_count = 64;
    while (place_count < want * 2)
        place_count *= 2;
    uint32_t *places = calloc(place_count, sizeof *places);
    if (!places)
        return LARDER_ENOMEM;
    free(table->places);
    table->places = places;
    table->place_count = place_count;
    for (size_t i = 0; i < table->count; i++)
        places[place_of(table, table->identities[i])] = (uint32_t)i + 1;
    return 0;
}

uint32_t identity_number(struct identity_table *table, struct identity identity)
{
    CHECK(table->place_count);
    size_t place = place_of(table, identity);
    if (table->places[place] == 0) {
        CHECK(table->count < table->cap && table->count * 2 < table->place_count);
        table->identities[table->count] = identity;
        table->places[place] = (uint32_t)++table->count;
    }
    return table->places[place] - 1;
}
