#include "cache/memory/residency.h"

#include <stdlib.h>

#include "common/check.h"
#include "common/vast.h"

#define RESIDENCY_MAGIC 0x72657369u
#define WANTS (RESIDENCY_WANT_MAX + 1)
#define WANT_WORDS ((WANTS + 63) / 64)

struct resident {
    uint32_t prev, next;
    uint32_t pins;
    uint16_t want;
    bool present;
};

struct residency {
    uint32_t magic;
    struct resident *residents;
    size_t cap;
    uint32_t end; /* those from here on were never present, and are not set */
    uint32_t head[WANTS], tail[WANTS], count[WANTS];
    uint64_t filled[WANT_WORDS]; /* bit w: list w is not empty */
};

struct residency *residency_create(void)
{
    struct residency *residency = xcalloc(1, sizeof *residency);
    residency->magic = RESIDENCY_MAGIC;
    for (unsigned want = 0; want < WANTS; want++)
        residency->head[want] = residency->tail[want] = RESIDENT_NONE;
    return residency;
}

void residency_destroy(struct residency *residency)
{
    if (!residency)
        return;
    CHECK_MAGIC(residency, RESIDENCY_MAGIC);
    residency->magic = 0;
    vast_free(residency->residents, sizeof *residency->residents, residency->cap);
    free(residency);
}

static struct resident *present(const struct residency *residency, uint32_t resident)
{
    CHECK_MAGIC(residency, RESIDENCY_MAGIC);
    CHECK(resident < residency->end && residency->residents[resident].present);
    return &residency->residents[resident];
}

static void list_append(struct residency *residency, uint32_t resident)
{
    struct resident *entry = &residency->residents[resident];
    unsigned want = entry->want;
    entry->next = RESIDENT_NONE;
    entry->prev = residency->tail[want];
    if (entry->prev != RESIDENT_NONE)
        residency->residents[entry->prev].next = resident;
    else
        residency->head[want] = resident;
    residency->tail[want] = resident;
    residency->filled[want / 64] |= UINT64_C(1) << (want % 64);
    residency->count[want]++;
}

static void list_remove(struct residency *residency, uint32_t resident)
{
    struct resident *entry = &residency->residents[resident];
    unsigned want = entry->want;
    if (entry->prev != RESIDENT_NONE)
        residency->residents[entry->prev].next = entry->next;
    else
        residency->head[want] = entry->next;
    if (entry->next != RESIDENT_NONE)
        residency->residents[entry->next].prev = entry->prev;
    else
        residency->tail[want] = entry->prev;
    if (residency->head[want] == RESIDENT_NONE)
        residency->filled[want / 64] &= ~(UINT64_C(1) << (want % 64));
    residency->count[want]--;
}

void residency_add(struct residency *residency, uint32_t resident, uint32_t want)
{
    CHECK_MAGIC(residency, RESIDENCY_MAGIC);
    CHECK(want < WANTS);
    residency->residents = vast_grow(residency->residents, sizeof *residency->residents, &residency->cap,
                                     (size_t)resident + 1);
    for (; residency->end <= resident; residency->end++)
        residency->residents[residency->end].present = false;
    CHECK(!residency->residents[resident].present);
    residency->residents[resident] = (struct resident){.pins = 1, .want = (uint16_t)want, .present = true};
}

void residency_remove(struct residency *residency, uint32_t resident)
{
    struct resident *entry = present(residency, resident);
    if (!entry->pins)
        list_remove(residency, resident);
    entry->present = false;
}

void residency_pin(struct residency *residency, uint32_t resident)
{
    if (present(residency, resident)->pins++ == 0)
        list_remove(residency, resident);
}

void residency_unpin(struct residency *residency, uint32_t resident)
{
    struct resident *entry = present(residency, resident);
    CHECK(entry->pins > 0);
    if (--entry->pins == 0)
        list_append(residency, resident);
}

uint32_t residency_pins(const struct residency *residency, uint32_t resident)
{
    return present(residency, resident)->pins;
}

void residency_set_want(struct residency *residency, uint32_t resident, uint32_t want)
{
    struct resident *entry = present(residency, resident);
    CHECK(want < WANTS);
    if (entry->want == want)
        return;
    if (!entry->pins)
        list_remove(residency, resident);
    entry->want = (uint16_t)want;
    if (!entry->pins)
        list_append(residency, resident);
}

uint32_t residency_want(const struct residency *residency, uint32_t resident)
{
    return present(residency, resident)->want;
}

void residency_fetch(const struct residency *residency, uint32_t resident)
{
    __builtin_prefetch(&residency->residents[resident]);
}

uint32_t residency_count(const struct residency *residency, uint32_t want)
{
    CHECK_MAGIC(residency, RESIDENCY_MAGIC);
    CHECK(want < WANTS);
    return residency->count[want];
}

static uint32_t first_from(const struct residency *residency, unsigned want)
{
    for (unsigned word = want / 64; word < WANT_WORDS; word++) {
        uint64_t bits = residency->filled[word];
        if (word == want / 64)
            bits &= ~UINT64_C(0) << (want % 64);
        if (bits)
            return residency->head[word * 64 + (unsigned)__builtin_ctzll(bits)];
    }
    return RESIDENT_NONE;
}

uint32_t residency_victim(const struct residency *residency)
{
    CHECK_MAGIC(residency, RESIDENCY_MAGIC);
    return first_from(residency, 0);
}

uint32_t residency_victim_after(const struct residency *residency, uint32_t resident)
{
    const struct resident *entry = present(residency, resident);
    CHECK(!entry->pins);
    return entry->next != RESIDENT_NONE ? entry->next : first_from(residency, entry->want + 1u);
}
