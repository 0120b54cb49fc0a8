#include "cache/memory/layout.h"

#include <stdlib.h>

#include "common/check.h"

/* Between blocks that stay. */
struct gap {
    uint64_t offset, bytes;
};

static size_t find_gaps(const struct layout *layout, struct gap *gaps)
{
    size_t count = 0;
    uint64_t end = 0;
    for (size_t i = 0; i <= layout->n_blocks; i++) {
        const struct layout_block *block = &layout->blocks[i];
        if (i < layout->n_blocks && !block->fixed)
            continue;
        uint64_t offset = i < layout->n_blocks ? block->offset : layout->bytes;
        if (offset > end)
            gaps[count++] = (struct gap){.offset = end, .bytes = offset - end};
        end = i < layout->n_blocks ? offset + block->bytes : offset;
    }
    return count;
}

/* How many cells each zone lacks when the blocks that stay are counted as theirs; how many in all. */
static uint64_t count_lacking(const struct layout *layout, uint64_t *lacking)
{
    uint64_t sum = 0;
    for (uint32_t zone = 0; zone < layout->n_zones; zone++) {
        lacking[zone] = layout->zones[zone].cells;
        sum += lacking[zone];
    }
    for (size_t i = 0; i < layout->n_blocks; i++) {
        struct layout_block *block = &layout->blocks[i];
        block->is_cell = block->fixed && block->zone != LAYOUT_NONE && lacking[block->zone] > 0;
        block->must_go = false;
        if (block->is_cell) {
            lacking[block->zone]--;
            sum--;
        }
    }
    return sum;
}

/* Packs the zone's cells into the gaps, from the first on. */
static bool pack(struct layout *layout, uint32_t zone, uint64_t lacking, struct gap *gaps, size_t n_gaps)
{
    uint64_t bytes = layout->zones[zone].bytes;
    for (size_t i = 0; i < n_gaps; i++) {
        for (; lacking > 0 && gaps[i].bytes >= bytes; lacking--) {
            layout->places[layout->n_places++] = (struct layout_place){.offset = gaps[i].offset, .zone = zone};
            gaps[i].offset += bytes;
            gaps[i].bytes -= bytes;
        }
    }
    return lacking == 0;
}

static int compare_places(const void *a, const void *b)
{
    uint64_t x = ((const struct layout_place *)a)->offset, y = ((const struct layout_place *)b)->offset;
    return (x > y) - (x < y);
}

/* Tells the blocks that lie where cells are to be: one that lies exactly there becomes the cell, the others must go. */
static void cover_blocks(struct layout *layout)
{
    size_t at = 0, kept = 0;
    for (size_t i = 0; i < layout->n_places; i++) {
        struct layout_place place = layout->places[i];
        uint64_t end = place.offset + layout->zones[place.zone].bytes;
        while (at < layout->n_blocks && layout->blocks[at].offset + layout->blocks[at].bytes <= place.offset)
            at++;
        if (at < layout->n_blocks && layout->blocks[at].offset == place.offset &&
            layout->blocks[at].zone == place.zone) {
            layout->blocks[at].is_cell = true;
            continue;
        }
        for (size_t k = at; k < layout->n_blocks && layout->blocks[k].offset < end; k++)
            layout->blocks[k].must_go = true;
        layout->places[kept++] = place;
    }
    layout->n_places = kept;
}

bool layout_find(struct layout *layout)
{
    uint64_t *lacking = xcalloc(layout->n_zones + 1, sizeof *lacking);
    struct gap *gaps = xcalloc(layout->n_blocks + 1, sizeof *gaps);
    uint64_t sum = count_lacking(layout, lacking);
    size_t n_gaps = find_gaps(layout, gaps);
    bool found = true;
    layout->places = xcalloc(sum + 1, sizeof *layout->places);
    layout->n_places = 0;
    for (uint32_t zone = 0; zone < layout->n_zones && found; zone++)
        found = pack(layout, zone, lacking[zone], gaps, n_gaps);
    if (found) {
        qsort(layout->places, layout->n_places, sizeof *layout->places, compare_places);
        cover_blocks(layout);
    } else {
        free(layout->places);
        layout->places = NULL;
    }
    free(lacking);
    free(gaps);
    return found;
}
