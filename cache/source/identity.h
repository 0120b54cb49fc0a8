/* identity.h: identities of samples, and a table that numbers 128-bit identities from 0. A number that was forgotten
 * belongs to no identity until it is released. Then it is given anew, the lowest first. The table has one owner
 * thread. */
#ifndef LARDER_CACHE_SOURCE_IDENTITY_H
#define LARDER_CACHE_SOURCE_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

struct identity {
    uint64_t low, high;
};

struct identity_table {
    struct identity *identities; /* indexed by number */
    size_t count, cap;           /* numbers ever given, and identities that there is room for */
    size_t used;                 /* identities that have a number */
    uint64_t *spare;             /* a bit for each number that was released */
    size_t spare_cap;            /* bits that it has */
    size_t n_spare, spare_from;  /* bits that are set in spare; no word before spare_from has one */
    uint32_t *places;            /* a hash table with open addressing, a power of two long: number + 1, or 0 */
    size_t place_count;
};

void identity_table_free(struct identity_table *table);
/* identity_table_reserve makes room for `more` further identities, so that as many identity_number calls cannot
 * fail. */
int identity_table_reserve(struct identity_table *table, size_t more);
/* identity_number returns the number of an identity; a new identity gets a number. */
uint32_t identity_number(struct identity_table *table, struct identity identity);
/* identity_expect says that identity_number will be called with this identity soon, so that it need not wait for
 * memory. IDENTITY_AHEAD calls before is soon enough. */
void identity_expect(const struct identity_table *table, struct identity identity);
#define IDENTITY_AHEAD 16
/* identity_take returns a number for an identity that is not in the table: identity_put puts it there later. As many
 * calls of the one cannot fail after identity_numbers_reserve, and of the other after identity_table_expand. */
int identity_numbers_reserve(struct identity_table *table, size_t more);
uint32_t identity_take(struct identity_table *table);
int identity_table_expand(struct identity_table *table, size_t more);
void identity_put(struct identity_table *table, uint32_t number, struct identity identity);
/* identity_table_empty gives back the memory of a table without identities. What numbers were given stays known. */
void identity_table_empty(struct identity_table *table);
void identity_forget(struct identity_table *table, uint32_t number);
void identity_release(struct identity_table *table, uint32_t number);

#endif
