/* layout.h: where cells of several sizes can lie in an arena, around blocks that cannot be moved. Pure. */
#ifndef LARDER_CACHE_MEMORY_LAYOUT_H
#define LARDER_CACHE_MEMORY_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYOUT_NONE UINT32_MAX

/* A block in use. Both of the last may be false: it lies beside all cells, and is none. */
struct layout_block {
    uint64_t offset, bytes;
    uint32_t name; /* the caller's */
    uint32_t zone; /* the zone whose cells are as long as it; LAYOUT_NONE: no zone's */
    bool fixed;    /* stays where it is */
    bool is_cell;  /* found: one of its zone's cells */
    bool must_go;  /* found: a new cell covers part of it */
};

/* `cells` cells of one size. */
struct layout_zone {
    uint64_t bytes, cells;
};

/* A cell to be made. */
struct layout_place {
    uint64_t offset;
    uint32_t zone;
};

struct layout {
    uint64_t bytes;              /* the arena's size */
    struct layout_block *blocks; /* sorted by offset */
    size_t n_blocks;
    const struct layout_zone *zones; /* the largest cells first */
    uint32_t n_zones;
    struct layout_place *places; /* found, by offset: layout_find makes them, the caller frees */
    size_t n_places;
};

/* layout_find finds as many cells for each zone as it is to have. It takes blocks that stay where they are and fit,
 * then packs new cells into the room beside those. A zone's cells may lie apart. False: there was not enough room, and
 * nothing was found. With one zone it finds all that there is room for. Several zones are packed one after the other,
 * each cell at the first place where it fits. */
bool layout_find(struct layout *layout);

#endif
