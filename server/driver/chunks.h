/* chunks.h: the numbers that datasets' chunks have for the engine.
 *
 * Each dataset gets a range of its own, the same when it comes again; a copy of a dataset has other ids, and so another
 * range. A folder that changes is another dataset each time, whose samples have mostly kept their places in that of an
 * earlier one: so of many datasets those are forgotten of whose ranges running jobs have the smallest part.
 *
 * Zeroed to begin with. The engine's thread, between steps. */
#ifndef LARDER_SERVER_DRIVER_CHUNKS_H
#define LARDER_SERVER_DRIVER_CHUNKS_H

#include "cache/catalog/catalog.h"
#include "server/engine/engine.h"

#define CHUNK_RANGES_SPARE 16 /* ranges beyond two for each dataset in use */

struct chunk_range {
    uint64_t fingerprint[2], layout;
    sample_id first_id;
    uint32_t count, chunks, base;
    uint64_t used;  /* when it was asked for last */
    uint64_t wants; /* samples in it that datasets in use have; while ranges are compared */
};

struct chunk_numbers {
    struct chunk_range *ranges; /* by base */
    size_t n_ranges, cap;
    uint64_t uses;
};

/* chunk_numbers_base gives the number of a dataset's first chunk. in_use: the datasets of running jobs, each once,
 * and this one. What of ranges is forgotten the engine forgets too. */
uint32_t chunk_numbers_base(struct chunk_numbers *numbers, struct engine *engine, const struct dataset *dataset,
                            const struct dataset *const *in_use, size_t n_in_use);
void chunk_numbers_clear(struct chunk_numbers *numbers);

#endif
