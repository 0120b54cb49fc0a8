/* idset.c: sample id sets over CRoaring.
 *
 * Bitmaps are never made copy-on-write, so a copy shares nothing with its source. CRoaring (0.2) reports a failed
 * allocation when it makes a bitmap, and not reliably while it grows one; a set that is too large for memory is therefore
 * refused where sets are made. */
#include "sampler/idset.h"

#include <roaring/roaring.h>
#include <stdlib.h>

#include "common/check.h"

#define IDSET_MAGIC UINT32_C(0x1d5e7b17)

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

void idset_remove(struct idset *set, sample_id id)
{
    CHECK_MAGIC(set, IDSET_MAGIC);
    roaring_bitmap_remove(set->bitmap, id);
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
