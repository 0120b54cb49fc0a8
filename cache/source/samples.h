/* samples.h: what whoever opens a dataset sees of its source: how its samples were packed, where they lie, and how
 * several are read at once. */
#ifndef LARDER_CACHE_SOURCE_SAMPLES_H
#define LARDER_CACHE_SOURCE_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* How a dataset was packed, and what that did to its samples. All is 0 for a plain tree. */
struct packing {
    bool packed;
    uint32_t max_side, quality; /* images whose longer side was above max_side are JPEGs of this quality; 0: none are */
    bool restart_rows;          /* JPEGs were written again with restart markers, where they could be */
    bool planes;                /* JPEGs were stored as bit planes of their coefficients, where they could be */
    uint32_t samples_shrunk, samples_restart_rows, samples_planes;
    uint32_t samples_undecoded; /* they should have been shrunk, but cannot be decoded, and are as they were */
};

/* Where a sample lies: in which of the source's blobs, which are files, and from which byte on. */
struct sample_place {
    uint32_t blob;
    uint64_t offset;
};

/* One sample among several to be read. The caller sets index and buf, and room if it takes planes. The outcome is in
 * err; code 0 means that it was read. `left` says instead that the time was up before the sample was begun. */
struct sample_read {
    uint32_t index;
    void *buf;             /* room for dataset_size(index), or for `room` if that is more */
    uint64_t room;         /* the most bytes of its planes that are taken (cache/tier/tier.h); 0: none are */
    uint64_t planes_bytes; /* buf has so many bytes of its planes; 0: it has the sample's own bytes */
    bool left;
    struct sample_place place; /* the source's own while it reads */
    struct error err;
};

#endif
