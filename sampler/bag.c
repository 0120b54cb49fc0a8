/* bag.c: see bag.h. */
#include "sampler/bag.h"

#include <stdlib.h>

#include "common/check.h"
#include "common/larder_err.h"

struct bag {
    unsigned n;                           /* planes that exist, at least one */
    struct idset *planes[BAG_PLANES_MAX]; /* the ids whose number of times has bit i */
};

static int grow(struct bag *bag, unsigned n)
{
    int code = 0;
    while (!code && bag->n < n) {
        code = idset_create(&bag->planes[bag->n]);
        bag->n += !code;
    }
    return code;
}

/* made gives the bag to the caller, or frees it. */
static int made(struct bag *bag, int code, struct bag **out)
{
    if (code)
        bag_destroy(bag);
    else
        *out = bag;
    return code;
}

int bag_create(struct bag **out)
{
    struct bag *bag = calloc(1, sizeof *bag);
    return bag ? made(bag, grow(bag, 1), out) : LARDER_ENOMEM;
}

int bag_copy(const struct bag *from, struct bag **out)
{
    struct bag *bag = calloc(1, sizeof *bag);
    int code = bag ? 0 : LARDER_ENOMEM;
    for (unsigned i = 0; !code && i < from->n; i++) {
        code = idset_copy(from->planes[i], &bag->planes[i]);
        bag->n += !code;
    }
    return made(bag, code, out);
}

int bag_of_set(const struct idset *ids, struct bag **out)
{
    struct bag *bag = calloc(1, sizeof *bag);
    int code = bag ? idset_copy(ids, &bag->planes[0]) : LARDER_ENOMEM;
    if (!code)
        bag->n = 1;
    return made(bag, code, out);
}

void bag_destroy(struct bag *bag)
{
    for (unsigned i = 0; bag && i < bag->n; i++)
        idset_destroy(bag->planes[i]);
    free(bag);
}

uint64_t bag_count(const struct bag *bag)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < bag->n; i++)
        count += idset_count(bag->planes[i]) << i;
    return count;
}

uint32_t bag_times(const struct bag *bag, sample_id id)
{
    uint32_t times = 0;
    for (unsigned i = 0; i < bag->n; i++)
        times |= (uint32_t)idset_contains(bag->planes[i], id) << i;
    return times;
}

int bag_ids(const struct bag *bag, struct idset **out)
{
    int code = idset_copy(bag->planes[0], out);
    for (unsigned i = 1; !code && i < bag->n; i++)
        idset_add_all(*out, bag->planes[i]);
    return code;
}

int bag_put(struct bag *bag, sample_id id, uint32_t times)
{
    unsigned n = times ? 32 - (unsigned)__builtin_clz(times) : 0;
    int code = grow(bag, n);
    for (unsigned i = 0; !code && i < bag->n; i++) {
        if (times >> i & 1)
            idset_add(bag->planes[i], id);
        else
            idset_remove(bag->planes[i], id);
    }
    return code;
}

void bag_take(struct bag *bag, sample_id id)
{
    uint32_t times = bag_times(bag, id);
    CHECK(times > 0 && bag_put(bag, id, times - 1) == 0);
}

int bag_put_all(struct bag *bag, const struct bag *other)
{
    int code = grow(bag, other->n);
    for (unsigned i = 0; !code && i < other->n; i++)
        idset_add_all(bag->planes[i], other->planes[i]);
    return code;
}

int bag_renumber(const struct bag *from, bag_number *number, const void *context, struct bag **out)
{
    struct bag *bag = calloc(1, sizeof *bag);
    int code = bag ? grow(bag, from->n) : LARDER_ENOMEM;
    for (unsigned i = 0; !code && i < from->n; i++) {
        uint64_t count = idset_count(from->planes[i]);
        sample_id *ids = malloc((count + 1) * sizeof *ids);
        if (!ids) {
            code = LARDER_ENOMEM;
            break;
        }
        idset_to_array(from->planes[i], ids);
        for (uint64_t at = 0; at < count; at++)
            ids[at] = number(context, ids[at]);
        idset_add_many(bag->planes[i], ids, count);
        free(ids);
    }
    return made(bag, code, out);
}

/* A set that is being made of numbers moved by so much. */
struct moved {
    struct idset *set;
    uint64_t by;
    uint32_t stride;
};

static void move_page(void *context, uint32_t page, const uint64_t *words)
{
    const struct moved *moved = context;
    for (uint32_t word = 0; word < IDSET_PAGE_WORDS; word++) {
        for (uint64_t bits = words[word]; bits; bits &= bits - 1) {
            uint64_t number = ((uint64_t)page * IDSET_PAGE_WORDS + word) * 64 + (uint64_t)__builtin_ctzll(bits);
            CHECK(number < moved->stride);
            idset_add(moved->set, (sample_id)(number + moved->by));
        }
    }
}

int bag_flat(const struct bag *bag, uint32_t stride, struct idset **out)
{
    unsigned n = bag->n;
    while (n > 1 && idset_count(bag->planes[n - 1]) == 0)
        n--;
    if ((uint64_t)stride * n > UINT64_C(1) << 32)
        return LARDER_ELIMIT;
    struct idset *flat = NULL;
    int code = idset_create(&flat);
    for (unsigned i = 0; !code && i < n; i++)
        code = idset_each_page(bag->planes[i], move_page, &(struct moved){flat, (uint64_t)i * stride, stride});
    if (code)
        idset_destroy(flat);
    else
        *out = flat;
    return code;
}

int bag_of_flat(const struct idset *flat, uint32_t stride, struct bag **out)
{
    uint64_t count = idset_count(flat);
    sample_id *numbers = malloc((count + 1) * sizeof *numbers);
    struct bag *bag = NULL;
    int code = numbers ? bag_create(&bag) : LARDER_ENOMEM;
    if (!code && (stride == 0 || (idset_select(flat, count - 1, numbers) && *numbers / stride >= BAG_PLANES_MAX)))
        code = LARDER_EINVAL;
    if (!code)
        idset_to_array(flat, numbers);
    for (uint64_t i = 0; !code && i < count; i++) {
        unsigned plane = numbers[i] / stride;
        code = grow(bag, plane + 1);
        if (!code)
            idset_add(bag->planes[plane], numbers[i] % stride);
    }
    free(numbers);
    return made(bag, code, out);
}
