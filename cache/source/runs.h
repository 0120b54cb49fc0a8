/* runs.h: chunks of runs: samples that lie behind each other in a blob and come with one read. Pure. */
#ifndef LARDER_CACHE_SOURCE_RUNS_H
#define LARDER_CACHE_SOURCE_RUNS_H

#include "cache/source/chunking.h"
#include "cache/source/index.h"

/* runs_suit says whether a source's chunks are to be runs: it has blobs, and its samples are mixed, and not said to be
 * otherwise (tar_text_unmixed). */
bool runs_suit(const struct index *index, uint32_t run);
/* runs_shuffle cuts each blob's samples into runs of chunk_size, and shuffles the runs with the seed. Each makes a
 * chunk; the last ones of the blobs, which are shorter, make chunks together, behind the others. The caller frees what
 * *out holds by chunking_free. LARDER_ENOMEM. */
int runs_shuffle(const struct index *index, uint32_t chunk_size, uint64_t seed, struct chunking *out);

#endif
