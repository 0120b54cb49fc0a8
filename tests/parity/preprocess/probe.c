/* probe.c: preprocess/ for Python's ctypes. One thread. Functions give 0, or a negative larder_err and its text. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/blocks.h"
#include "preprocess/pipeline_priv.h"
#include "preprocess/prepare.h"
#include "preprocess/simd.h"
#include "server/registration/text_hash.h"

#define PUBLIC __attribute__((visibility("default")))

static struct prepare_scratch *scratch;

struct probe_plan {
    int32_t skip, in_width, in_height, out_width, out_height;
    int32_t x, y, width, height;
    int32_t choice[PLAN_CHOICES];
    double real[PLAN_REALS];
    uint64_t seed;
};

PUBLIC int probe_init(uint64_t pixels_max);
PUBLIC const char *probe_simd(int simd);
PUBLIC int probe_shape(const char *json, uint64_t shape[6], char *text);
PUBLIC int probe_prepare(const char *json, const void *bytes, size_t len_bytes, const uint64_t key[3], void *dst,
                         int *reason, char *text);
PUBLIC void probe_units(uint64_t seed, size_t count, double *out);
PUBLIC int probe_key(const char *json, uint64_t seed, const uint64_t dataset[2], uint32_t epoch, uint32_t index,
                     uint64_t key[3], char *text);
PUBLIC void probe_stream(const uint64_t key[3], uint64_t stream, uint64_t bound, uint64_t *below, double units[2]);
PUBLIC void probe_boxes(const float *boxes, uint32_t count);
PUBLIC int probe_plan(const char *json, const uint64_t key[3], uint32_t width, uint32_t height, uint32_t op,
                      struct probe_plan *out, char *text);

static int parse(const char *json, struct pipeline **out, char *text)
{
    struct error err = {0};
    int rc = pipeline_parse(json, strlen(json), out, &err);
    if (rc)
        snprintf(text, ERROR_TEXT_MAX, "%s", err.text);
    return rc;
}

int probe_init(uint64_t pixels_max)
{
    struct prepare_limits limits = {.pixels_max = pixels_max, .scans_max = 100};
    prepare_init();
    return prepare_scratch_create(&limits, &scratch);
}

const char *probe_simd(int simd)
{
    if (simd >= 0 && !simd_use((enum simd)simd))
        return NULL;
    return simd_name();
}

int probe_shape(const char *json, uint64_t shape[6], char *text)
{
    struct pipeline *pipeline = NULL;
    int rc = parse(json, &pipeline, text);
    if (rc)
        return rc;
    struct image_shape s = {0};
    sample_layout_image(pipeline_layout(pipeline), &s);
    const uint64_t values[6] = {s.height, s.width, s.channels, s.dtype, s.layout, pipeline_layout(pipeline)->bytes};
    memcpy(shape, values, sizeof values);
    pipeline_unref(&pipeline);
    return 0;
}

/* The uniform numbers that a seed begins with. */
void probe_units(uint64_t seed, size_t count, double *out)
{
    struct rng rng;
    random_seed(&rng, seed);
    for (size_t i = 0; i < count; i++)
        out[i] = random_unit(&rng);
}

/* The key of the draws of a daemon's strict job: as variant_of (server/driver/registered.c), variant_of_epoch
 * (server/engine/jobs_epochs.c) and worker_output (server/driver/actions.c) make it. */
int probe_key(const char *json, uint64_t seed, const uint64_t dataset[2], uint32_t epoch, uint32_t index,
              uint64_t key[3], char *text)
{
    struct pipeline *pipeline = NULL;
    struct rng rng;
    int rc = parse(json, &pipeline, text);
    if (rc)
        return rc;
    uint64_t variant = random_mix64(random_mix64(seed + 1) ^ dataset[0] ^ random_mix64(dataset[1])) | 1;
    random_seed_keys(&rng, variant, epoch, 0, 0);
    key[0] = text_hash(pipeline_canonical(pipeline)) ^ (random_u64(&rng) | 1);
    key[1] = index;
    key[2] = 0;
    pipeline_unref(&pipeline);
    return 0;
}

/* What an operator at this place draws first: a number below a bound, or two uniform ones. */
void probe_stream(const uint64_t key[3], uint64_t stream, uint64_t bound, uint64_t *below, double units[2])
{
    struct rng rng;
    random_seed_keys(&rng, key[0], key[1], key[2], stream);
    *below = random_below(&rng, bound);
    random_seed_keys(&rng, key[0], key[1], key[2], stream);
    units[0] = random_unit(&rng);
    units[1] = random_unit(&rng);
}

/* With LARDER_PROBE=decoded, pixels are made of the image's decoded form too: once while the form is made, and once of
 * the form alone. All three must agree, also about what cannot be made. */
static int prepare_decoded(const void *bytes, size_t len_bytes, struct prepare_output *output, enum bad_reason *why,
                           struct error *err)
{
    size_t made_bytes = pipeline_layout(output->pipeline)->bytes;
    struct prepare_keep keep = {.most_bytes = SIZE_MAX};
    struct prepare_source source = {.bytes = bytes, .len_bytes = len_bytes, .keep = &keep};
    struct prepare_output other = *output;
    void *form = NULL;
    int rc = prepare_sample(scratch, bytes, len_bytes, output, 1, why, err);
    other.dst = malloc(made_bytes + 1);
    for (int round = 0; round < 2 && !pipeline_needs_encoded(output->pipeline); round++) {
        enum bad_reason other_why = BAD_NONE;
        struct error other_err = {0};
        int other_rc = prepare_image(scratch, &source, &other, 1, &other_why, &other_err);
        form = form ? form : keep.form;
        if (other_rc != rc || (rc == 0 && (!form || memcmp(other.dst, output->dst, made_bytes) != 0)) ||
            (rc != 0 && other_why != *why)) {
            rc = error_set(err, LARDER_EIO, "of the decoded form, round %d: %d %s", round, other_rc, other_err.text);
            break;
        }
        if (!form)
            break;
        source = (struct prepare_source){.bytes = form, .decoded = true};
    }
    blocks_give(form);
    free(other.dst);
    return rc;
}

int probe_prepare(const char *json, const void *bytes, size_t len_bytes, const uint64_t key[3], void *dst, int *reason,
                  char *text)
{
    struct pipeline *pipeline = NULL;
    int rc = parse(json, &pipeline, text);
    if (rc)
        return rc;
    struct prepare_output output = {.pipeline = pipeline, .key = {key[0], key[1], key[2]}, .dst = dst};
    enum bad_reason why = BAD_NONE;
    struct error err = {0};
    const char *mode = getenv("LARDER_PROBE");
    if (mode && strcmp(mode, "decoded") == 0)
        rc = prepare_decoded(bytes, len_bytes, &output, &why, &err);
    else
        rc = prepare_sample(scratch, bytes, len_bytes, &output, 1, &why, &err);
    *reason = why;
    snprintf(text, ERROR_TEXT_MAX, "%s", err.text);
    pipeline_unref(&pipeline);
    return rc;
}

#define BOXES_MAX 64

/* The boxes of the images that probe_plan plans for, and copies that a plan moves. */
static float given[BOXES_MAX][4], moved[BOXES_MAX][4];
static uint32_t n_given, from[BOXES_MAX];

void probe_boxes(const float *boxes, uint32_t count)
{
    n_given = count < BOXES_MAX ? count : BOXES_MAX;
    memcpy(given, boxes, n_given * sizeof *given);
}

int probe_plan(const char *json, const uint64_t key[3], uint32_t width, uint32_t height, uint32_t op,
               struct probe_plan *out, char *text)
{
    struct rows rows = {.n_boxes = n_given, .boxes = moved, .from = from};
    struct pipeline *pipeline = NULL;
    struct op_plan plans[PIPELINE_OPS_MAX];
    struct error err = {0};
    int rc = parse(json, &pipeline, text);
    if (rc)
        return rc;
    memcpy(moved, given, sizeof moved);
    rc = pipeline_plan(pipeline->n_views ? pipeline->views[0] : pipeline, key, width, height, plans, &rows, &err);
    if (rc == 0) {
        const struct op_plan *p = &plans[op];
        *out = (struct probe_plan){p->skip,
                                   (int32_t)p->in_width,
                                   (int32_t)p->in_height,
                                   (int32_t)p->out_width,
                                   (int32_t)p->out_height,
                                   (int32_t)p->rect.x,
                                   (int32_t)p->rect.y,
                                   (int32_t)p->rect.width,
                                   (int32_t)p->rect.height,
                                   {0},
                                   {0},
                                   p->seed};
        memcpy(out->choice, p->choice, sizeof out->choice);
        memcpy(out->real, p->real, sizeof out->real);
    }
    snprintf(text, ERROR_TEXT_MAX, "%s", err.text);
    pipeline_unref(&pipeline);
    return rc;
}
