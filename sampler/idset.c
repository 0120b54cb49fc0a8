/* idset.c: sample id sets over CRoaring.
 *
 * Bitmaps are never made copy-on-write, so a copy shares nothing with its source. CRoaring (0.2) reports a failed
 * allocation when it makes a bitmap, and not reliably while it grows one; a set that is too large for memory is
 * therefore refused where sets are made. */
#include "sampler/idset.h"

#include <roaring/roaring.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

#define IDSET_MAGIC UINT32_C(0x1d5e7b17)
#define CONTAINER_OVERHEAD 27 /* a container's struct (16 bytes); its pointer, key and type in the bitmap */

struct idset {
    uint32_t magic;
    roaring_bitmap_t *bitmap;
};

/* Takes the bitmap, also on failure. */
static int wrap(roaring_bitmap_t *bitmap, struct idset **out)
{
    if (bitmap == NULL)
        return LARDER_ENOMEM;
    struct idset *set = xmalloc(sizeof *set);
    set->magic = IDSET_MAGIC;
    set->bitmap = bitmap;
    *out = set;
    return 0;
}

int idset_create(struct idset **out)
{
    return wrap(roaring_bitmap_create(), out);
}

int idset_from_sorted(const sample_id *ids, size_t count, struct idset **out)
{
    roaring_bitmap_t *bitmap = roaring_bitmap_create();
    if (bitmap == NULL)
        return LARDER_ENOMEM;
    for (size_t i = 1; i < count; i++)
        CHECK(ids[i - 1] < ids[i]);
    roaring_bitmap_add_many(bitmap, count, ids);
    roaring_bitmap_run_optimize(bitmap);
    return wrap(bitmap, out);
}

int idset_from_range(sample_id first, uint64_t end, struct idset **out)
{
    CHECK(end <= UINT64_C(1) << 32);
    if (first >= end)
        return idset_create(out);
    return wrap(roaring_bitmap_from_range(first, end, 1), out);
}

int idset_copy(const struct idset *set, struct idset **out)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    return wrap(roaring_bitmap_copy(set->bitmap), out);
}

void idset_destroy(struct idset *set)
{
    if (set == NULL)
        return;
    CHECK_MAGIC(set, IDSET_MAGIC);
    roaring_bitmap_free(set->bitmap);
    set->magic = 0;
    free(set);
}

uint64_t idset_count(const struct idset *set)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    return roaring_bitmap_get_cardinality(set->bitmap);
}

uint64_t idset_bytes(const struct idset *set)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    roaring_statistics_t numbers;
    roaring_bitmap_statistics(set->bitmap, &numbers);
    return sizeof *set + sizeof *set->bitmap + numbers.n_containers * (uint64_t)CONTAINER_OVERHEAD +
           numbers.n_bytes_array_containers + numbers.n_bytes_run_containers + numbers.n_bytes_bitset_containers;
}

bool idset_contains(const struct idset *set, sample_id id)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    return roaring_bitmap_contains(set->bitmap, id);
}

void idset_add(struct idset *set, sample_id id)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    roaring_bitmap_add(set->bitmap, id);
}

void idset_add_many(struct idset *set, const sample_id *ids, size_t count)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    roaring_bitmap_add_many(set->bitmap, count, ids);
}

void idset_remove(struct idset *set, sample_id id)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    roaring_bitmap_remove(set->bitmap, id);
}

void idset_add_all(struct idset *set, const struct idset *other)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    CHECK_MAGIC(other, IDSET_MAGIC);
    CHECK(set != other);
    roaring_bitmap_or_inplace(set->bitmap, other->bitmap);
}

void idset_remove_all(struct idset *set, const struct idset *other)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    CHECK_MAGIC(other, IDSET_MAGIC);
    CHECK(set != other);
    roaring_bitmap_andnot_inplace(set->bitmap, other->bitmap);
}

bool idset_equal(const struct idset *a, const struct idset *b)
{
    CHECK_MAGIC(a, IDSET_MAGIC);
    CHECK_MAGIC(b, IDSET_MAGIC);
    return roaring_bitmap_equals(a->bitmap, b->bitmap);
}

uint64_t idset_intersection_count(const struct idset *a, const struct idset *b)
{
    CHECK_MAGIC(a, IDSET_MAGIC);
    CHECK_MAGIC(b, IDSET_MAGIC);
    return roaring_bitmap_and_cardinality(a->bitmap, b->bitmap);
}

bool idset_select(const struct idset *set, uint64_t rank, sample_id *out)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    return rank <= UINT32_MAX && roaring_bitmap_select(set->bitmap, (uint32_t)rank, out);
}

void idset_to_array(const struct idset *set, sample_id *ids)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    roaring_bitmap_to_uint32_array(set->bitmap, ids);
}

int idset_union(const struct idset *a, const struct idset *b, struct idset **out)
{
    CHECK_MAGIC(a, IDSET_MAGIC);
    CHECK_MAGIC(b, IDSET_MAGIC);
    return wrap(roaring_bitmap_or(a->bitmap, b->bitmap), out);
}

int idset_intersection(const struct idset *a, const struct idset *b, struct idset **out)
{
    CHECK_MAGIC(a, IDSET_MAGIC);
    CHECK_MAGIC(b, IDSET_MAGIC);
    return wrap(roaring_bitmap_and(a->bitmap, b->bitmap), out);
}

int idset_difference(const struct idset *a, const struct idset *b, struct idset **out)
{
    CHECK_MAGIC(a, IDSET_MAGIC);
    CHECK_MAGIC(b, IDSET_MAGIC);
    return wrap(roaring_bitmap_andnot(a->bitmap, b->bitmap), out);
}

/* ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────
 * CRoaring gives ids one by one or in arrays, a nanosecond or more each. Its portable form holds dense pages as the
 * words that are wanted here, is specified, and is made by memcpy, so the pages are read from that. It is read as
 * trusted: it was made two lines earlier. */

#define PORTABLE_COOKIE_RUNS 12347u
#define PORTABLE_COOKIE_PLAIN 12346u
#define PORTABLE_OFFSETS_MIN 4u /* a form with runs has offsets from this many pages on */
#define PORTABLE_ARRAY_MAX 4096u

static uint32_t read_u32(const char **at)
{
    uint32_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

static uint32_t read_u16(const char **at)
{
    uint16_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

static void set_range(uint64_t words[IDSET_PAGE_WORDS], uint32_t first, uint32_t last)
{
    uint32_t low = first / 64, high = last / 64;
    uint64_t head = ~UINT64_C(0) << (first % 64), tail = ~UINT64_C(0) >> (63 - last % 64);
    if (low == high) {
        words[low] |= head & tail;
        return;
    }
    words[low] |= head;
    for (uint32_t i = low + 1; i < high; i++)
        words[i] = ~UINT64_C(0);
    words[high] |= tail;
}

static void expand_page(const char **at, bool runs, uint32_t count, uint64_t words[IDSET_PAGE_WORDS])
{
    if (!runs && count > PORTABLE_ARRAY_MAX) {
        memcpy(words, *at, IDSET_PAGE_WORDS * sizeof *words);
        *at += IDSET_PAGE_WORDS * sizeof *words;
        return;
    }
    memset(words, 0, IDSET_PAGE_WORDS * sizeof *words);
    if (runs) {
        for (uint32_t left = read_u16(at); left; left--) {
            uint32_t first = read_u16(at);
            set_range(words, first, first + read_u16(at));
        }
        return;
    }
    for (; count; count--) {
        uint32_t bit = read_u16(at);
        words[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
}

int idset_each_page(const struct idset *set, idset_page_visit *visit, void *context)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    char *form = malloc(roaring_bitmap_portable_size_in_bytes(set->bitmap));
    if (form == NULL)
        return LARDER_ENOMEM;
    roaring_bitmap_portable_serialize(set->bitmap, form);

    const char *at = form;
    uint32_t cookie = read_u32(&at);
    bool has_runs = (cookie & 0xffff) == PORTABLE_COOKIE_RUNS;
    CHECK(has_runs || cookie == PORTABLE_COOKIE_PLAIN);
    uint32_t n_pages = has_runs ? (cookie >> 16) + 1 : read_u32(&at);
    const char *run_flags = at;
    if (has_runs)
        at += (n_pages + 7) / 8;
    const char *heads = at;
    at += n_pages * 4;
    if (!has_runs || n_pages >= PORTABLE_OFFSETS_MIN)
        at += n_pages * 4;
    for (uint32_t i = 0; i < n_pages; i++) {
        uint64_t words[IDSET_PAGE_WORDS];
        uint32_t page = read_u16(&heads);
        uint32_t count = read_u16(&heads) + 1;
        expand_page(&at, has_runs && (run_flags[i / 8] >> (i % 8) & 1), count, words);
        visit(context, page, words);
    }
    free(form);
    return 0;
}
