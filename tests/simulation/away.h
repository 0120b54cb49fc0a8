/* away.h: the parts of the model's arena that there is no memory for: ranges of bytes in order, none of which touch. */
#ifndef LARDER_TESTS_SIMULATION_AWAY_H
#define LARDER_TESTS_SIMULATION_AWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct away_range {
    uint64_t from, to;
};

struct away {
    struct away_range *ranges;
    size_t count, cap;
};

void away_add(struct away *away, uint64_t from, uint64_t to);
void away_remove(struct away *away, uint64_t from, uint64_t to);
bool away_overlaps(const struct away *away, uint64_t from, uint64_t to);
uint64_t away_bytes(const struct away *away);
uint64_t away_bytes_from(const struct away *away, uint64_t from); /* the bytes from `from` on */
void away_free(struct away *away);

#endif
