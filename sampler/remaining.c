/* remaining.c: see remaining_priv.h. Invariants: counts[slot] is the number of bits of the slot, groups[g] the sum of
 * its slots' counts, count the sum of all; the slot after the last is empty for ever; a bit is set only where the
 * view's is. */
#include "sampler/remaining_priv.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"

#define PAGE_BLOCKS (IDSET_PAGE_WORDS / BLOCK_WORDS)

_Static_assert(IDSET_PAGE_WORDS % BLOCK_WORDS == 0, "a page is whole blocks");

/* The first walk over the view finds the blocks that have ids. The second one sets their bits. */
struct layout {
    uint32_t first_page, end_page, n_slots;
};

static void measure_page(void *context, uint32_t page, const uint64_t *words)
{
    struct layout *layout = context;
    if (layout->n_slots == 0)
        layout->first_page = page;
    layout->end_page = page + 1;
    for (unsigned i = 0; i < PAGE_BLOCKS; i++)
        layout->n_slots += !block_empty(words + i * BLOCK_WORDS);
}

static void fill_page(void *context, uint32_t page, const uint64_t *words)
{
    struct remaining *set = context;
    for (unsigned i = 0; i < PAGE_BLOCKS; i++) {
        const uint64_t *block = words + i * BLOCK_WORDS;
        if (block_empty(block))
            continue;
        uint32_t slot = set->n_slots++;
        uint32_t number = page * PAGE_BLOCKS + i;
        set->slot_of[number - set->first_block] = slot;
        set->block_of[slot] = number;
        memcpy(set->view_words + (size_t)slot * BLOCK_WORDS, block, BLOCK_WORDS * sizeof *block);
        set->view_counts[slot] = (uint16_t)block_count(block);
        set->view_groups[slot / GROUP_SLOTS] += set->view_counts[slot];
        set->view_count += set->view_counts[slot];
    }
}

static int allocate(struct remaining *set, const struct layout *layout)
{
    size_t slots = (size_t)layout->n_slots + 1;
    size_t bits = slots * BLOCK_WORDS * sizeof(uint64_t);
    set->n_groups = (layout->n_slots + GROUP_SLOTS - 1) / GROUP_SLOTS;
    set->first_block = layout->first_page * PAGE_BLOCKS;
    set->n_blocks = (layout->end_page - layout->first_page) * PAGE_BLOCKS;
    set->slot_of = malloc((set->n_blocks + 1) * sizeof *set->slot_of);
    set->block_of = malloc(slots * sizeof *set->block_of);
    set->words = aligned_alloc(64, bits);
    set->view_words = aligned_alloc(64, bits);
    set->counts = calloc(slots, sizeof *set->counts);
    set->view_counts = calloc(slots, sizeof *set->view_counts);
    set->common = calloc(slots, sizeof *set->common);
    set->groups = calloc(set->n_groups + 1, sizeof *set->groups);
    set->view_groups = calloc(set->n_groups + 1, sizeof *set->view_groups);
    if (!set->slot_of || !set->block_of || !set->words || !set->view_words || !set->counts || !set->view_counts ||
        !set->common || !set->groups || !set->view_groups)
        return LARDER_ENOMEM;
    for (uint32_t i = 0; i < set->n_blocks; i++)
        set->slot_of[i] = layout->n_slots;
    memset(set->words, 0, bits);
    memset(set->view_words + (size_t)layout->n_slots * BLOCK_WORDS, 0, BLOCK_WORDS * sizeof *set->view_words);
    return 0;
}

int remaining_create(const struct idset *view, struct remaining **out)
{
    struct layout layout = {0};
    struct remaining *set = calloc(1, sizeof *set);
    if (set == NULL)
        return LARDER_ENOMEM;
    if (idset_each_page(view, measure_page, &layout) || allocate(set, &layout) ||
        idset_each_page(view, fill_page, set)) {
        remaining_destroy(set);
        return LARDER_ENOMEM;
    }
    CHECK(set->n_slots == layout.n_slots);
    *out = set;
    return 0;
}

void remaining_destroy(struct remaining *set)
{
    if (set == NULL)
        return;
    free(set->slot_of);
    free(set->block_of);
    free(set->words);
    free(set->view_words);
    free(set->counts);
    free(set->view_counts);
    free(set->common);
    free(set->groups);
    free(set->view_groups);
    free(set);
}

void remaining_refill(struct remaining *set)
{
    memcpy(set->words, set->view_words, (size_t)set->n_slots * BLOCK_WORDS * sizeof *set->words);
    memcpy(set->counts, set->view_counts, set->n_slots * sizeof *set->counts);
    memcpy(set->groups, set->view_groups, set->n_groups * sizeof *set->groups);
    set->count = set->view_count;
}

void remaining_clear(struct remaining *set)
{
    memset(set->words, 0, (size_t)set->n_slots * BLOCK_WORDS * sizeof *set->words);
    memset(set->counts, 0, set->n_slots * sizeof *set->counts);
    memset(set->groups, 0, set->n_groups * sizeof *set->groups);
    set->count = 0;
}

uint64_t remaining_bytes(const struct remaining *set)
{
    uint64_t slots = (uint64_t)set->n_slots + 1;
    return sizeof *set + (set->n_blocks + UINT64_C(1)) * sizeof *set->slot_of +
           slots * (2 * BLOCK_WORDS * sizeof *set->words + 3 * sizeof *set->counts + sizeof *set->block_of) +
           (set->n_groups + UINT64_C(1)) * 2 * sizeof *set->groups;
}

void remaining_view_ids(const struct remaining *set, sample_id *ids)
{
    size_t n_ids = 0;
    for (uint32_t slot = 0; slot < set->n_slots; slot++) {
        const uint64_t *words = set->view_words + (size_t)slot * BLOCK_WORDS;
        sample_id first = set->block_of[slot] << BLOCK_BITS;
        for (unsigned i = 0; i < BLOCK_WORDS; i++)
            for (uint64_t word = words[i]; word; word &= word - 1)
                ids[n_ids++] = first + i * 64 + (unsigned)__builtin_ctzll(word);
    }
    CHECK(n_ids == set->view_count);
}

void remaining_each(const struct remaining *set, bool all, sampler_visit *visit, void *context)
{
    for (uint32_t slot = 0; slot < set->n_slots; slot++) {
        const uint64_t *words = (all ? set->view_words : set->words) + (size_t)slot * BLOCK_WORDS;
        sample_id first = set->block_of[slot] << BLOCK_BITS;
        if ((all ? set->view_counts : set->counts)[slot] == 0)
            continue;
        for (unsigned i = 0; i < BLOCK_WORDS; i++)
            for (uint64_t word = words[i]; word; word &= word - 1)
                visit(context, first + i * 64 + (unsigned)__builtin_ctzll(word));
    }
}

sample_id remaining_select(const struct remaining *set, uint64_t rank)
{
    CHECK(rank < set->count);
    uint32_t group = 0;
    while (rank >= set->groups[group])
        rank -= set->groups[group++];
    uint32_t slot = group * GROUP_SLOTS;
    while (rank >= set->counts[slot])
        rank -= set->counts[slot++];
    return (set->block_of[slot] << BLOCK_BITS) + block_select(remaining_words(set, slot), (uint32_t)rank);
}

sample_id remaining_draw(const struct remaining *set, struct rng *rng)
{
    return remaining_select(set, random_below(rng, set->count));
}

void remaining_remove(struct remaining *set, sample_id id)
{
    uint32_t slot = remaining_slot(set, id >> BLOCK_BITS);
    uint64_t *word = &set->words[(size_t)slot * BLOCK_WORDS + id / 64 % BLOCK_WORDS];
    uint64_t bit = UINT64_C(1) << (id % 64);
    CHECK(*word & bit);
    *word &= ~bit;
    set->counts[slot]--;
    set->groups[slot / GROUP_SLOTS]--;
    set->count--;
}

void remaining_add(struct remaining *set, sample_id id)
{
    uint32_t slot = remaining_slot(set, id >> BLOCK_BITS);
    size_t at = (size_t)slot * BLOCK_WORDS + id / 64 % BLOCK_WORDS;
    uint64_t bit = UINT64_C(1) << (id % 64);
    CHECK((set->view_words[at] & bit) && !(set->words[at] & bit));
    set->words[at] |= bit;
    set->counts[slot]++;
    set->groups[slot / GROUP_SLOTS]++;
    set->count++;
}

static void remove_page(void *context, uint32_t page, const uint64_t *words)
{
    struct remaining *set = context;
    for (unsigned i = 0; i < PAGE_BLOCKS; i++) {
        const uint64_t *block = words + i * BLOCK_WORDS;
        uint32_t slot = remaining_slot(set, page * PAGE_BLOCKS + i), count = block_count(block);
        uint64_t *left = set->words + (size_t)slot * BLOCK_WORDS;
        for (unsigned at = 0; count > 0 && at < BLOCK_WORDS; at++) {
            CHECK((block[at] & ~left[at]) == 0);
            left[at] &= ~block[at];
        }
        if (count == 0)
            continue;
        set->counts[slot] = (uint16_t)(set->counts[slot] - count);
        set->groups[slot / GROUP_SLOTS] -= count;
        set->count -= count;
    }
}

int remaining_remove_all(struct remaining *set, const struct idset *ids)
{
    return idset_each_page(ids, remove_page, set);
}
