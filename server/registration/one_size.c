#include "server/registration/one_size.h"

#include <stdlib.h>

#include "common/check.h"
#include "server/workers/watch.h"

/* An image that was looked at. */
struct looked {
    uint32_t index;
    struct image_size size;
};

struct looks {
    struct looked seen[ONE_SIZE_LOOKS];
    uint32_t count, failed;
    struct error failure; /* failure of the first image that could not be looked at */
};

static bool same_size(struct image_size a, struct image_size b)
{
    return a.width == b.width && a.height == b.height;
}

/* read_size reads the header of an image whose bytes are in memory. */
static int read_size(const struct one_size_wish *wish, uint32_t index, struct prepare_scratch *scratch,
                     const void *encoded, struct image_size *out, struct error *err)
{
    if (!watch_begin(wish->watched, wish->dataset, dataset_id(wish->dataset, index)))
        return error_set(err, LARDER_EFORMAT, "daemons have died while they prepared it");
    int code = prepare_size(scratch, encoded, dataset_size(wish->dataset, index), out, err);
    watch_end(wish->watched);
    return code;
}

static int look(const struct one_size_wish *wish, uint32_t index, struct prepare_scratch *scratch,
                struct image_size *out, struct error *err)
{
    const struct dataset *dataset = wish->dataset;
    uint64_t bytes = dataset_size(dataset, index);
    if (bytes > ONE_SIZE_BYTES_MAX)
        return error_set(err, LARDER_ELIMIT, "%s: it is longer than %llu MiB", dataset_key(dataset, index),
                         (unsigned long long)(ONE_SIZE_BYTES_MAX >> 20));
    void *encoded = malloc(bytes ? bytes : 1);
    if (!encoded)
        return error_set(err, LARDER_ENOMEM, "%s: no memory to read it", dataset_key(dataset, index));
    int code = dataset_read(dataset, index, encoded, err);
    if (!code) {
        code = read_size(wish, index, scratch, encoded, out, err);
        if (code)
            error_prefix(err, code, "%s/%s", dataset_path(dataset), dataset_key(dataset, index));
    }
    free(encoded);
    return code;
}

static int look_around(const struct one_size_wish *wish, struct looks *looks, struct error *err)
{
    uint32_t wanted = wish->count < ONE_SIZE_LOOKS ? wish->count : ONE_SIZE_LOOKS;
    struct prepare_limits limits = wish->limits;
    struct prepare_scratch *scratch;
    limits.memory_max = ONE_SIZE_SCRATCH_BYTES;
    limits.budget = NULL;
    if (prepare_scratch_create(&limits, &scratch))
        return error_set(err, LARDER_ENOMEM, "no memory to look at the images' sizes");
    for (uint32_t i = 0; i < wanted && !interrupt_is_set(wish->interrupt); i++) {
        uint32_t at = (uint32_t)((uint64_t)i * wish->count / wanted), index = wish->indices ? wish->indices[at] : at;
        struct looked *next = &looks->seen[looks->count];
        struct error failure;
        next->index = index;
        if (!look(wish, index, scratch, &next->size, &failure))
            looks->count++;
        else if (!looks->failed++)
            looks->failure = failure;
    }
    prepare_scratch_destroy(scratch);
    return interrupt_is_set(wish->interrupt) ? error_set(err, LARDER_EGONE, "the job is not wanted any more") : 0;
}

static uint32_t count_same(const struct looks *looks, struct image_size size)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < looks->count; i++)
        count += same_size(looks->seen[i].size, size);
    return count;
}

/* choose returns the size that most have, and of several such sizes the first. */
static int choose(const struct one_size_wish *wish, const struct looks *looks, struct image_size *out,
                  struct error *err)
{
    const struct looked *most = &looks->seen[0], *other = NULL;
    for (uint32_t i = 1; i < looks->count; i++) {
        if (count_same(looks, looks->seen[i].size) > count_same(looks, most->size))
            most = &looks->seen[i];
    }
    for (uint32_t i = 0; i < looks->count && !other; i++)
        other = same_size(looks->seen[i].size, most->size) ? NULL : &looks->seen[i];
    if (other && (looks->count - count_same(looks, most->size)) * 4 > looks->count)
        return error_set(err, LARDER_EINVAL,
                         "the pipeline makes samples of different sizes, because it leaves images the size they have: "
                         "of %u that were looked at, %.100s has %u × %u pixels and %.100s has %u × %u; end it with a "
                         "crop, such as {\"center_crop\": {\"size\": 224}}, or resize to [height, width], or take "
                         "lists of them, with "
                         "ragged=True",
                         looks->count, dataset_key(wish->dataset, most->index), most->size.width, most->size.height,
                         dataset_key(wish->dataset, other->index), other->size.width, other->size.height);
    *out = most->size;
    return 0;
}

/* Images that were not looked at may have this many times the pixels of the largest one that was. */
#define RAGGED_SPARE 4

/* close_ragged gives an open pipeline of samples that differ in size the most pixels that one has, as those that were
 * looked at say. It is rounded up, so that jobs with other parts of the dataset mostly have the same. */
static int close_ragged(struct pipeline **pipeline, const struct looks *looks, struct error *err)
{
    uint64_t most = 1, unit = 1;
    for (uint32_t i = 0; i < looks->count; i++) {
        uint64_t tried = pipeline_try(*pipeline, looks->seen[i].size);
        most = tried > most ? tried : most;
    }
    most *= RAGGED_SPARE;
    while (unit * 8 < most)
        unit *= 2;
    most = (most + unit - 1) / unit * unit;
    return pipeline_close_ragged(pipeline, most < UINT32_MAX ? most : UINT32_MAX, err);
}

static bool known_rows(const void *dataset, const char *part, struct part_rows *out)
{
    return dataset_part_rows(dataset, part, out);
}

int one_size_close(struct pipeline **pipeline, const struct one_size_wish *wish, struct error *err)
{
    struct looks looks = {.count = 0};
    struct image_size size;
    int code = pipeline_bound(pipeline, known_rows, wish->dataset, err);
    if (code || !pipeline_is_open(*pipeline))
        return code;
    CHECK(wish->count > 0);
    code = look_around(wish, &looks, err);
    if (!code && looks.count == 0)
        return error_set(err, looks.failure.code,
                         "the pipeline leaves images the size they have, and of %u that were looked at none could be "
                         "read: crop or resize to a size, or repair them; %s",
                         looks.failed, looks.failure.text);
    if (!code && pipeline_is_ragged(*pipeline))
        return close_ragged(pipeline, &looks, err);
    if (!code)
        code = choose(wish, &looks, &size, err);
    return code ? code : pipeline_close(pipeline, size, err);
}
