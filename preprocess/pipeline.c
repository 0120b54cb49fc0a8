/* pipeline.c: what a pipeline is asked, and how long it lives. */
#include "preprocess/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/real.h"
#include "preprocess/pipeline_priv.h"

bool pipeline_is_open(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    return pipeline->open;
}

struct pipeline *pipeline_make(uint32_t n_ops)
{
    struct pipeline *pipeline = xcalloc(1, sizeof *pipeline + n_ops * sizeof *pipeline->ops);
    pipeline->magic = PIPELINE_MAGIC;
    atomic_init(&pipeline->refs, 1);
    return pipeline;
}

struct pipeline *pipeline_ref(struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    atomic_fetch_add_explicit(&pipeline->refs, 1, memory_order_relaxed);
    return pipeline;
}

void pipeline_unref(struct pipeline **place)
{
    struct pipeline *pipeline = *place;
    *place = NULL;
    if (!pipeline)
        return;
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    if (atomic_fetch_sub_explicit(&pipeline->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < pipeline->n_ops; i++)
        pipeline_op_clear(&pipeline->ops[i]);
    for (uint32_t i = 0; i < pipeline->n_views; i++)
        pipeline_unref(&pipeline->views[i]);
    free(pipeline->canonical);
    pipeline->magic = 0;
    free(pipeline);
}

const struct sample_layout *pipeline_layout(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    CHECK(!pipeline->open);
    return &pipeline->layout;
}

const char *pipeline_canonical(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    return pipeline->canonical;
}

char *pipeline_shown(const struct pipeline *pipeline)
{
    char *text = xstrdup(pipeline_canonical(pipeline));
    real_shorten(text);
    return text;
}

bool pipeline_is_of_sound(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    return pipeline->subject == OP_SOUND;
}

bool pipeline_is_random(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    bool random = false;
    for (uint32_t i = 0; i < pipeline->n_ops; i++)
        random = random || pipeline_op_is_random(&pipeline->ops[i]);
    for (uint32_t i = 0; i < pipeline->n_views; i++)
        random = random || pipeline_is_random(pipeline->views[i]);
    return random;
}

/* may_scale says whether an operator lets the decoder make the image smaller. */
static bool may_scale(const struct pipeline_op *op)
{
    for (const struct arg *arg = op->kind->args; arg && arg->name; arg++) {
        if (strcmp(arg->name, "dct_scaling") == 0)
            return *(const bool *)((const char *)op->values + arg->offset);
    }
    return false;
}

bool pipeline_needs_encoded(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    bool needs = (pipeline->n_views == 0 && pipeline->layout.n == 0) || pipeline->subject || pipeline->part[0] ||
                 pipeline->is_mask;
    for (uint32_t i = 0; i < pipeline->n_ops; i++)
        needs = needs || may_scale(&pipeline->ops[i]);
    for (uint32_t i = 0; i < pipeline->n_views; i++)
        needs = needs || pipeline_needs_encoded(pipeline->views[i]);
    return needs;
}
