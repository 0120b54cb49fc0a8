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

/* Room for numbers below `want`. */
static int reserve_numbers(struct identity_table *table, size_t want)
{
    if (want <= table->cap)
        return 0;
    size_t cap = want > table->cap + table->cap / 2 ? want : table->cap + table->cap / 2;
    size_t words = (cap + 63) / 64, had = (table->cap + 63) / 64;
    struct identity *identities = realloc(table->identities, cap * sizeof *identities);
    if (identities)
        table->identities = identities;
    uint64_t *spare = identities ? realloc(table->spare, words * sizeof *spare) : NULL;
    if (!spare)
        return LARDER_ENOMEM;
    memset(spare + had, 0, (words - had) * sizeof *spare);
    table->spare = spare;
    table->cap = cap;
    return 0;
}

int identity_table_reserve(struct identity_table *table, size_t more)
{
    size_t fresh = more > table->n_spare ? more - table->n_spare : 0;
    if (fresh > SAMPLE_NONE - 1 - table->count)
        return LARDER_ELIMIT;
    int code = reserve_numbers(table, table->count + fresh);
    if (code)
        return code;
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

/* The lowest number that is free. */
static uint32_t take_number(struct identity_table *table)
{
    if (table->n_spare == 0) {
        CHECK(table->count < table->cap);
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

uint32_t identity_number(struct identity_table *table, struct identity identity)
{
    CHECK(table->place_count);
    size_t place = place_of(table, identity);
    if (table->places[place] == 0) {
        CHECK(table->used * 2 < table->place_count);
        uint32_t number = take_number(table);
        table->identities[number] = identity;
        table->places[place] = number + 1;
        table->used++;
    }
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
