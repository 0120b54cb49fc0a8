/* identity.c: identities to dense numbers. 24 bytes an identity at most once the table is full: the identities
 * in the order of their numbers, and a half-full table of numbers that is probed linearly. */
#include <stdlib.h>
#include <string.h>

#include "cache/source/identity.h"
#include "common/check.h"
#include "common/larder_err.h"
#include "common/types.h"

void identity_table_free(struct identity_table *table)
{
    free(table->identities);
    free(table->places);
    free(table->spare);
    *table = (struct identity_table){0};
}

static size_t home_of(const struct identity_table *table, struct identity identity)
{
    return (size_t)identity.low & (table->place_count - 1); /* the low word is a hash already */
}

void identity_expect(const struct identity_table *table, struct identity identity)
{
    __builtin_prefetch(&table->places[home_of(table, identity)], 1);
}

/* The place where the identity is, or the free one where it belongs. */
static size_t place_of(const struct identity_table *table, struct identity identity)
{
    size_t mask = table->place_count - 1, place = home_of(table, identity);
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

static size_t larger(size_t cap, size_t want)
{
    return want > cap + cap / 2 ? want : cap + cap / 2;
}

/* Room for the identities of numbers below `want`. */
static int reserve_identities(struct identity_table *table, size_t want)
{
    if (want <= table->cap)
        return 0;
    size_t cap = larger(table->cap, want);
    struct identity *identities = realloc(table->identities, cap * sizeof *identities);
    if (!identities)
        return LARDER_ENOMEM;
    table->identities = identities;
    table->cap = cap;
    return 0;
}

int identity_numbers_reserve(struct identity_table *table, size_t more)
{
    size_t fresh = more > table->n_spare ? more - table->n_spare : 0, want = table->count + fresh;
    if (fresh > SAMPLE_NONE - 1 - table->count)
        return LARDER_ELIMIT;
    if (want <= table->spare_cap)
        return 0;
    size_t words = (larger(table->spare_cap, want) + 63) / 64, had = table->spare_cap / 64;
    uint64_t *spare = realloc(table->spare, words * sizeof *spare);
    if (!spare)
        return LARDER_ENOMEM;
    memset(spare + had, 0, (words - had) * sizeof *spare);
    table->spare = spare;
    table->spare_cap = words * 64;
    return 0;
}

/* Room in the hash table for `more` further identities. */
static int reserve_places(struct identity_table *table, size_t more)
{
    size_t want = table->used + more;
    if (table->place_count >= want * 2 && table->place_count)
        return 0;
    size_t place_count = 64;
    while (place_count < want * 2)
        place_count *= 2;
    uint32_t *places = calloc(place_count, sizeof *places), *old = table->places;
    if (!places)
        return LARDER_ENOMEM;
    size_t old_count = table->place_count;
    table->places = places;
    table->place_count = place_count;
    for (size_t i = 0; i < old_count; i++) {
        if (old[i])
            places[place_of(table, table->identities[old[i] - 1])] = old[i];
    }
    free(old);
    return 0;
}

int identity_table_reserve(struct identity_table *table, size_t more)
{
    size_t fresh = more > table->n_spare ? more - table->n_spare : 0;
    int code = identity_numbers_reserve(table, more);
    if (!code)
        code = reserve_identities(table, table->count + fresh);
    return code ? code : reserve_places(table, more);
}

int identity_table_expand(struct identity_table *table, size_t more)
{
    int code = reserve_identities(table, table->count);
    return code ? code : reserve_places(table, more);
}

void identity_table_empty(struct identity_table *table)
{
    CHECK(table->used == 0);
    free(table->identities);
    free(table->places);
    table->identities = NULL;
    table->places = NULL;
    table->cap = table->place_count = 0;
}

/* It is the lowest number that is free. */
uint32_t identity_take(struct identity_table *table)
{
    if (table->n_spare == 0) {
        CHECK(table->count < table->spare_cap);
        return (uint32_t)table->count++;
    }
    while (!table->spare[table->spare_from])
        table->spare_from++;
    uint64_t *word = &table->spare[table->spare_from];
    uint32_t number = (uint32_t)(table->spare_from * 64 + (unsigned)__builtin_ctzll(*word));
    *word &= *word - 1;
    table->n_spare--;
    return number;
}

static void put_at(struct identity_table *table, size_t place, uint32_t number, struct identity identity)
{
    CHECK(number < table->cap && table->used * 2 < table->place_count);
    table->identities[number] = identity;
    table->places[place] = number + 1;
    table->used++;
}

void identity_put(struct identity_table *table, uint32_t number, struct identity identity)
{
    size_t place = place_of(table, identity);
    CHECK(table->places[place] == 0);
    put_at(table, place, number, identity);
}

uint32_t identity_number(struct identity_table *table, struct identity identity)
{
    CHECK(table->place_count);
    size_t place = place_of(table, identity);
    if (table->places[place] == 0)
        put_at(table, place, identity_take(table), identity);
    return table->places[place] - 1;
}

/* Those behind the gap move up, as far as that brings them no nearer than their homes. */
void identity_forget(struct identity_table *table, uint32_t number)
{
    size_t mask = table->place_count - 1, gap = place_of(table, table->identities[number]);
    CHECK(table->places[gap] == number + 1);
    for (size_t at = (gap + 1) & mask; table->places[at]; at = (at + 1) & mask) {
        size_t home = home_of(table, table->identities[table->places[at] - 1]);
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        table->places[gap] = table->places[at];
        gap = at;
    }
    table->places[gap] = 0;
    table->used--;
}

void identity_release(struct identity_table *table, uint32_t number)
{
    size_t word = number / 64;
    CHECK(number < table->count && !(table->spare[word] >> (number % 64) & 1));
    table->spare[word] |= UINT64_C(1) << (number % 64);
    table->spare_from = table->n_spare == 0 || word < table->spare_from ? word : table->spare_from;
    table->n_spare++;
}
