/* behind.h: writes samples to a storage class behind the reads, in a thread of the class's own. The waiting samples are
 * bounded in bytes; those that do not fit are not written. Reads of the class go first: while some are under way the
 * thread waits, unless half of the room is taken. */
#ifndef LARDER_SERVER_STORAGE_BEHIND_H
#define LARDER_SERVER_STORAGE_BEHIND_H

#include "cache/tier/tier.h"
#include "server/storage/convert.h"

struct behind;

/* behind_create starts the thread. The class is borrowed and outlives it, and so is and does what is to be told of
 * samples that were written; NULL: nothing is. LARDER_ELIMIT. */
int behind_create(struct tier *tier, uint64_t room_bytes, struct convert *told, struct behind **out, struct error *err);
/* behind_destroy writes the waiting samples, and ends the thread. Accepts NULL. */
void behind_destroy(struct behind *behind);

/* behind_put copies samples of one owner, in order and as far as there is room, to be written together. Any thread; it
 * never blocks on the disk. */
void behind_put(struct behind *behind, uint64_t owner, const struct tier_record *records, uint32_t count);
/* behind_reading says that a read of the class begins (1) or has ended (-1). Any thread. */
void behind_reading(struct behind *behind, int more);

struct behind_counts {
    uint64_t waiting_bytes;
    uint64_t skipped; /* samples that there was no room for */
};
void behind_counts(struct behind *behind, struct behind_counts *out);

#endif
