#include "preprocess/decode/jpeg_marks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/check.h"
#include "common/larder_err.h"
#include "common/random.h"

#define MARKS_MAGIC UINT32_C(0x6a6d726b)
#define SLOT_PART 16 /* a slot for each so many times its own bytes */
#define SLOTS_MIN 64
#define SLOTS_A_KEY 8 /* neighbouring slots that a key may stand in */
#define ADMITTED_ONE_IN 8

struct slot {
    struct jpeg_marks_key key;
    struct huffman_mark *marks; /* owned; NULL: the slot is free */
    uint32_t count, room;
};

struct jpeg_marks {
    uint32_t magic;
    uint64_t bytes;   /* immutable */
    uint64_t n_slots; /* immutable */
    uint64_t seed;    /* immutable */

    pthread_mutex_t lock; /* guards all below */
    struct slot *slots;
    uint64_t used_bytes;
    struct rng rng;
};

static uint64_t slot_bytes(uint64_t n_slots)
{
    return n_slots * sizeof(struct slot);
}

int jpeg_marks_create(uint64_t bytes, uint64_t seed, struct jpeg_marks **out)
{
    struct jpeg_marks *marks = calloc(1, sizeof *marks);
    uint64_t n_slots = bytes / (SLOT_PART * sizeof(struct slot));
    n_slots = n_slots > SLOTS_MIN ? n_slots : SLOTS_MIN;
    struct slot *slots = n_slots < SIZE_MAX / sizeof *slots ? calloc((size_t)n_slots, sizeof *slots) : NULL;
    if (!marks || !slots) {
        free(marks);
        free(slots);
        return LARDER_ENOMEM;
    }
    marks->magic = MARKS_MAGIC;
    marks->bytes = bytes;
    marks->n_slots = n_slots;
    marks->seed = seed;
    marks->slots = slots;
    marks->used_bytes = slot_bytes(n_slots);
    random_seed(&marks->rng, 1);
    CHECK(pthread_mutex_init(&marks->lock, NULL) == 0);
    *out = marks;
    return 0;
}

static uint64_t marks_bytes(uint32_t room)
{
    return (uint64_t)room * sizeof(struct huffman_mark);
}

static void clear_slot(struct jpeg_marks *marks, struct slot *slot)
{
    if (!slot->marks)
        return;
    marks->used_bytes -= marks_bytes(slot->room);
    free(slot->marks);
    slot->marks = NULL;
}

void jpeg_marks_destroy(struct jpeg_marks *marks)
{
    if (!marks)
        return;
    CHECK_MAGIC(marks, MARKS_MAGIC);
    for (uint64_t i = 0; i < marks->n_slots; i++)
        clear_slot(marks, &marks->slots[i]);
    CHECK(marks->used_bytes == slot_bytes(marks->n_slots));
    pthread_mutex_destroy(&marks->lock);
    marks->magic = 0;
    free(marks->slots);
    free(marks);
}

static void lock(struct jpeg_marks *marks)
{
    CHECK_MAGIC(marks, MARKS_MAGIC);
    CHECK(pthread_mutex_lock(&marks->lock) == 0);
}

static void unlock(struct jpeg_marks *marks)
{
    CHECK(pthread_mutex_unlock(&marks->lock) == 0);
}

uint64_t jpeg_marks_bytes(struct jpeg_marks *marks)
{
    lock(marks);
    uint64_t bytes = marks->used_bytes;
    unlock(marks);
    return bytes;
}

struct jpeg_marks_key jpeg_marks_key(const struct jpeg_marks *marks, const uint8_t *bytes, size_t len_bytes)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, len_bytes, marks->seed);
    return (struct jpeg_marks_key){.low = hash.low64, .high = hash.high64};
}

static struct slot *nth_slot(struct jpeg_marks *marks, struct jpeg_marks_key key, uint64_t i)
{
    return &marks->slots[(key.high % marks->n_slots + i) % marks->n_slots];
}

/* The key's slot; NULL: it has none. */
static struct slot *find_locked(struct jpeg_marks *marks, struct jpeg_marks_key key)
{
    for (uint64_t i = 0; i < SLOTS_A_KEY; i++) {
        struct slot *slot = nth_slot(marks, key, i);
        if (slot->marks && slot->key.low == key.low && slot->key.high == key.high)
            return slot;
    }
    return NULL;
}

uint32_t jpeg_marks_find(struct jpeg_marks *marks, struct jpeg_marks_key key, struct huffman_mark *to, uint32_t room)
{
    lock(marks);
    const struct slot *slot = find_locked(marks, key);
    uint32_t count = slot && slot->room == room ? slot->count : 0;
    if (count)
        memcpy(to, slot->marks, count * sizeof *to);
    unlock(marks);
    return count;
}

/* A slot for a new key: a free one, or else one of those that it may stand in, at random. */
static struct slot *choose_locked(struct jpeg_marks *marks, struct jpeg_marks_key key)
{
    for (uint64_t i = 0; i < SLOTS_A_KEY; i++) {
        struct slot *slot = nth_slot(marks, key, i);
        if (!slot->marks)
            return slot;
    }
    return nth_slot(marks, key, random_below(&marks->rng, SLOTS_A_KEY));
}

/* Makes room for bytes, which fit into what the slots leave. */
static void evict_locked(struct jpeg_marks *marks, uint64_t bytes)
{
    uint64_t at = marks->used_bytes + bytes > marks->bytes ? random_below(&marks->rng, marks->n_slots) : 0;
    for (; marks->used_bytes + bytes > marks->bytes; at = (at + 1) % marks->n_slots)
        clear_slot(marks, &marks->slots[at]);
}

/* Gives a new key a slot, without marks yet. NULL: it gets none. */
static struct slot *add_locked(struct jpeg_marks *marks, struct jpeg_marks_key key, uint32_t room)
{
    uint64_t bytes = marks_bytes(room);
    struct slot *slot = choose_locked(marks, key);
    bool full = slot->marks || marks->used_bytes + bytes > marks->bytes;
    if (slot_bytes(marks->n_slots) + bytes > marks->bytes || (full && random_below(&marks->rng, ADMITTED_ONE_IN)))
        return NULL;
    clear_slot(marks, slot);
    evict_locked(marks, bytes);
    slot->marks = malloc((size_t)bytes);
    if (!slot->marks)
        return NULL;
    marks->used_bytes += bytes;
    slot->key = key;
    slot->room = room;
    slot->count = 0;
    return slot;
}

void jpeg_marks_keep(struct jpeg_marks *marks, struct jpeg_marks_key key, const struct huffman_mark *from,
                     uint32_t count, uint32_t room)
{
    lock(marks);
    struct slot *slot = find_locked(marks, key);
    if (!slot)
        slot = add_locked(marks, key, room);
    if (slot && slot->room == room && slot->count < count) {
        memcpy(slot->marks + slot->count, from + slot->count, (count - slot->count) * sizeof *from);
        slot->count = count;
    }
    unlock(marks);
}
