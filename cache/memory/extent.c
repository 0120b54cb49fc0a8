#include "cache/memory/extent.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/vast.h"

#define EXTENTS_MAGIC 0x65787473u
#define SUB_BITS 3 /* each power of two is divided into 8 lists */
#define SUBS (1u << SUB_BITS)
#define CLASSES 64
#define GOOD_FIT_TRIES 32 /* pieces of a list looked at before a longer one is cut instead */

struct block {
    uint64_t offset, bytes;
    uint32_t prev, next;           /* neighbours in address order; `next` also chains unused records */
    uint32_t free_prev, free_next; /* neighbours in its free list */
    uint32_t owner;
    bool used;
};

struct extents {
    uint32_t magic;
    uint64_t bytes, used_bytes;
    struct block *blocks;
    uint32_t blocks_size;
    size_t blocks_cap;
    uint32_t spare; /* head of unused records */
    uint32_t first;
    uint64_t class_map;       /* bit c: some list of class c is not empty */
    uint8_t sub_map[CLASSES]; /* bit s: list (c, s) is not empty */
    uint32_t lists[CLASSES][SUBS];
};

/* Finds the list of free pieces of this length: (floor log2, next SUB_BITS bits). */
static void list_of(uint64_t units, unsigned *class, unsigned *sub)
{
    unsigned log = 63u - (unsigned)__builtin_clzll(units);
    *class = log;
    uint64_t leading = log >= SUB_BITS ? units >> (log - SUB_BITS) : units << (SUB_BITS - log);
    *sub = (unsigned)leading & (SUBS - 1);
}

static uint32_t record_new(struct extents *extents)
{
    if (extents->spare != EXTENT_NONE) {
        uint32_t index = extents->spare;
        extents->spare = extents->blocks[index].next;
        return index;
    }
    extents->blocks = vast_grow(extents->blocks, sizeof *extents->blocks, &extents->blocks_cap,
                                (size_t)extents->blocks_size + 1);
    return extents->blocks_size++;
}

static void record_drop(struct extents *extents, uint32_t index)
{
    extents->blocks[index] = (struct block){.next = extents->spare};
    extents->spare = index;
}

static void list_push(struct extents *extents, uint32_t index)
{
    unsigned class, sub;
    struct block *block = &extents->blocks[index];
    list_of(block->bytes / EXTENT_ALIGN, &class, &sub);
    block->used = false;
    block->free_prev = EXTENT_NONE;
    block->free_next = extents->lists[class][sub];
    if (block->free_next != EXTENT_NONE)
        extents->blocks[block->free_next].free_prev = index;
    extents->lists[class][sub] = index;
    extents->sub_map[class] |= (uint8_t)(1u << sub);
    extents->class_map |= UINT64_C(1) << class;
}

static void list_remove(struct extents *extents, uint32_t index)
{
    unsigned class, sub;
    struct block *block = &extents->blocks[index];
    list_of(block->bytes / EXTENT_ALIGN, &class, &sub);
    if (block->free_next != EXTENT_NONE)
        extents->blocks[block->free_next].free_prev = block->free_prev;
    if (block->free_prev != EXTENT_NONE) {
        extents->blocks[block->free_prev].free_next = block->free_next;
        return;
    }
    extents->lists[class][sub] = block->free_next;
    if (block->free_next == EXTENT_NONE) {
        extents->sub_map[class] &= (uint8_t) ~(1u << sub);
        if (!extents->sub_map[class])
            extents->class_map &= ~(UINT64_C(1) << class);
    }
}

/* The first piece in the piece's own list that is long enough, among the first `tries`: pieces there may be shorter. */
static uint32_t fit_in_list(const struct extents *extents, uint64_t bytes, uint32_t tries)
{
    unsigned class, sub;
    list_of(bytes / EXTENT_ALIGN, &class, &sub);
    uint32_t index = extents->lists[class][sub];
    for (; index != EXTENT_NONE && tries > 0; tries--) {
        if (extents->blocks[index].bytes >= bytes)
            return index;
        index = extents->blocks[index].free_next;
    }
    return EXTENT_NONE;
}

/* The head of the next list whose every piece is long enough. */
static uint32_t fit_above(const struct extents *extents, uint64_t bytes)
{
    unsigned class, sub;
    list_of(bytes / EXTENT_ALIGN, &class, &sub);
    unsigned subs = sub + 1 < SUBS ? extents->sub_map[class] & (~0u << (sub + 1)) : 0;
    if (!subs) {
        uint64_t classes = class + 1 < CLASSES ? extents->class_map & (~UINT64_C(0) << (class + 1)) : 0;
        if (!classes)
            return EXTENT_NONE;
        class = (unsigned)__builtin_ctzll(classes);
        subs = extents->sub_map[class];
    }
    return extents->lists[class][__builtin_ctz(subs)];
}

int extents_create(uint64_t bytes, struct extents **out)
{
    bytes = bytes / EXTENT_ALIGN * EXTENT_ALIGN;
    if (!bytes)
        return LARDER_EINVAL;
    struct extents *extents = xcalloc(1, sizeof *extents);
    extents->magic = EXTENTS_MAGIC;
    extents->bytes = bytes;
    extents->spare = EXTENT_NONE;
    for (unsigned class = 0; class < CLASSES; ++class) {
        for (unsigned sub = 0; sub < SUBS; sub++)
            extents->lists[class][sub] = EXTENT_NONE;
    }
    uint32_t index = record_new(extents);
    extents->blocks[index] = (struct block){.bytes = bytes, .prev = EXTENT_NONE, .next = EXTENT_NONE};
    extents->first = index;
    list_push(extents, index);
    *out = extents;
    return 0;
}

void extents_destroy(struct extents *extents)
{
    if (!extents)
        return;
    CHECK_MAGIC(extents, EXTENTS_MAGIC);
    extents->magic = 0;
    vast_free(extents->blocks, sizeof *extents->blocks, extents->blocks_cap);
    free(extents);
}

/* Cuts a block that is in no list after `bytes`. Returns the rest, which is put into its list. */
static uint32_t split(struct extents *extents, uint32_t index, uint64_t bytes)
{
    uint32_t rest = record_new(extents); /* may move the records */
    struct block *block = &extents->blocks[index];
    extents->blocks[rest] = (struct block){
        .offset = block->offset + bytes, .bytes = block->bytes - bytes, .prev = index, .next = block->next};
    if (block->next != EXTENT_NONE)
        extents->blocks[block->next].prev = rest;
    block->next = rest;
    block->bytes = bytes;
    list_push(extents, rest);
    return rest;
}

/* Takes the front of a free block. */
static uint32_t cut(struct extents *extents, uint32_t index, uint64_t bytes, uint32_t owner)
{
    list_remove(extents, index);
    if (extents->blocks[index].bytes > bytes)
        split(extents, index, bytes);
    extents->blocks[index].used = true;
    extents->blocks[index].owner = owner;
    extents->used_bytes += bytes;
    return index;
}

uint32_t extent_alloc(struct extents *extents, uint64_t bytes, uint32_t owner)
{
    CHECK_MAGIC(extents, EXTENTS_MAGIC);
    CHECK(bytes > 0);
    if (bytes > extents->bytes)
        return EXTENT_NONE;
    bytes = extent_round(bytes);
    uint32_t index = fit_in_list(extents, bytes, GOOD_FIT_TRIES);
    if (index == EXTENT_NONE)
        index = fit_above(extents, bytes);
    if (index == EXTENT_NONE) /* the last place where one can be: who clears a window relies on its being found */
        index = fit_in_list(extents, bytes, UINT32_MAX);
    if (index == EXTENT_NONE)
        return EXTENT_NONE;
    return cut(extents, index, bytes, owner);
}

uint32_t extent_alloc_at(struct extents *extents, uint32_t index, uint64_t offset, uint64_t bytes, uint32_t owner)
{
    CHECK_MAGIC(extents, EXTENTS_MAGIC);
    CHECK(index < extents->blocks_size && !extents->blocks[index].used && extents->blocks[index].offset <= offset);
    uint64_t before = offset - extents->blocks[index].offset;
    CHECK(bytes > 0 && (before | bytes) % EXTENT_ALIGN == 0 && extents->blocks[index].bytes >= before + bytes);
    if (before > 0) {
        list_remove(extents, index);
        uint32_t rest = split(extents, index, before);
        list_push(extents, index);
        index = rest;
    }
    return cut(extents, index, bytes, owner);
}

/* Joins `right`, which follows `left` and is in no list, to left. */
static void merge(struct extents *extents, uint32_t left, uint32_t right)
{
    struct block *a = &extents->blocks[left], *b = &extents->blocks[right];
    a->bytes += b->bytes;
    a->next = b->next;
    if (b->next != EXTENT_NONE)
        extents->blocks[b->next].prev = left;
    record_drop(extents, right);
}

static struct block *used_block(const struct extents *extents, uint32_t block)
{
    CHECK_MAGIC(extents, EXTENTS_MAGIC);
    CHECK(block < extents->blocks_size && extents->blocks[block].used);
    return &extents->blocks[block];
}

void extent_free(struct extents *extents, uint32_t block)
{
    extents->used_bytes -= used_block(extents, block)->bytes;
    extents->blocks[block].used = false;
    uint32_t next = extents->blocks[block].next, prev = extents->blocks[block].prev;
    if (next != EXTENT_NONE && !extents->blocks[next].used) {
        list_remove(extents, next);
        merge(extents, block, next);
    }
    if (prev != EXTENT_NONE && !extents->blocks[prev].used) {
        list_remove(extents, prev);
        merge(extents, prev, block);
        block = prev;
    }
    list_push(extents, block);
}

uint32_t extent_split(struct extents *extents, uint32_t block, uint64_t bytes)
{
    CHECK(bytes > 0 && bytes % EXTENT_ALIGN == 0 && bytes < used_block(extents, block)->bytes);
    uint32_t rest = split(extents, block, bytes), owner = extents->blocks[block].owner;
    list_remove(extents, rest);
    extents->blocks[rest].used = true;
    extents->blocks[rest].owner = owner;
    return rest;
}

void extent_set_owner(struct extents *extents, uint32_t block, uint32_t owner)
{
    used_block(extents, block)->owner = owner;
}

uint64_t extent_offset(const struct extents *extents, uint32_t block)
{
    CHECK(block < extents->blocks_size);
    return extents->blocks[block].offset;
}

uint64_t extent_bytes(const struct extents *extents, uint32_t block)
{
    CHECK(block < extents->blocks_size);
    return extents->blocks[block].bytes;
}

uint64_t extents_used_bytes(const struct extents *extents)
{
    return extents->used_bytes;
}

uint32_t extent_first(const struct extents *extents)
{
    return extents->first;
}

uint32_t extent_next(const struct extents *extents, uint32_t block)
{
    CHECK(block < extents->blocks_size);
    return extents->blocks[block].next;
}

uint32_t extent_prev(const struct extents *extents, uint32_t block)
{
    CHECK(block < extents->blocks_size);
    return extents->blocks[block].prev;
}

bool extent_owner(const struct extents *extents, uint32_t block, uint32_t *owner)
{
    CHECK(block < extents->blocks_size);
    if (extents->blocks[block].used)
        *owner = extents->blocks[block].owner;
    return extents->blocks[block].used;
}

void extents_check(const struct extents *extents)
{
    uint64_t offset = 0, used = 0;
    uint32_t prev = EXTENT_NONE, free_count = 0, listed = 0;
    bool prev_free = false;
    for (uint32_t index = extents->first; index != EXTENT_NONE; index = extents->blocks[index].next) {
        const struct block *block = &extents->blocks[index];
        CHECK(block->offset == offset && block->prev == prev && block->bytes > 0);
        CHECK(!(prev_free && !block->used)); /* neighbours are merged */
        offset += block->bytes;
        used += block->used ? block->bytes : 0;
        free_count += !block->used;
        prev_free = !block->used;
        prev = index;
    }
    CHECK(offset == extents->bytes && used == extents->used_bytes);
    uint32_t none[SUBS];
    memset(none, 0xff, sizeof none); /* EXTENT_NONE */
    for (unsigned class = 0; class < CLASSES; ++class) {
        bool empty = memcmp(extents->lists[class], none, sizeof none) == 0;
        CHECK(!empty || extents->sub_map[class] == 0);
        for (unsigned sub = 0; sub < SUBS && !empty; sub++) {
            uint32_t head = extents->lists[class][sub];
            CHECK((head != EXTENT_NONE) == ((extents->sub_map[class] >> sub & 1) != 0));
            for (uint32_t index = head; index != EXTENT_NONE; index = extents->blocks[index].free_next) {
                unsigned c, s;
                list_of(extents->blocks[index].bytes / EXTENT_ALIGN, &c, &s);
                CHECK(!extents->blocks[index].used && c == class && s == sub);
                listed++;
            }
        }
        CHECK((extents->class_map >> class & 1) == (extents->sub_map[class] != 0));
    }
    CHECK(listed == free_count);
}
