/* plan.c: what is decided about an instance before anything is decoded. */
#include "preprocess/pipeline_priv.h"

/* Whether chance has chosen the operator's alternative of its group. All of a group draw the same number. */
static bool is_chosen(const struct pipeline *pipeline, const struct pipeline_op *op, const uint64_t key[3])
{
    if (!op->group)
        return true;
    struct rng rng;
    random_seed_keys(&rng, key[0], key[1], key[2], pipeline->stream + PIPELINE_OPS_MAX + op->group);
    double draw = random_unit(&rng);
    return draw >= op->from && draw < op->to;
}

int pipeline_plan(const struct pipeline *pipeline, const uint64_t key[3], uint32_t width, uint32_t height,
                  struct op_plan *plans, struct rows *rows, struct error *err)
{
    for (uint32_t i = 0; i < pipeline->n_ops; i++) {
        const struct pipeline_op *op = &pipeline->ops[i];
        plans[i] = (struct op_plan){
            .in_width = width, .in_height = height, .out_width = width, .out_height = height, .rows = rows};
        if (op->idle || !is_chosen(pipeline, op, key)) {
            plans[i].skip = true;
            continue;
        }
        if (op->kind->plan) {
            struct rng rng;
            random_seed_keys(&rng, key[0], key[1], key[2], pipeline->stream + i);
            int rc = op->kind->plan(op->values, &rng, &plans[i], err);
            if (rc)
                return error_prefix(err, rc, "pipeline[%u] %s", i, op->kind->name);
        }
        plans[i].rows = NULL; /* they may be gone before the plan is */
        if (rows && op->kind->rows && !plans[i].skip)
            op->kind->rows(op->values, &plans[i], rows);
        if (i < pipeline->n_pixel_ops && !op->kind->join && !op->kind->apply)
            plans[i].skip = true; /* says something about the result, does nothing on the way */
        if (!plans[i].skip) {
            width = plans[i].out_width;
            height = plans[i].out_height;
        }
    }
    return 0;
}

struct image_size pipeline_size(const struct pipeline *pipeline, const struct op_plan *plans, struct image_size size)
{
    for (uint32_t i = 0; i < pipeline->n_ops; i++) {
        if (!plans[i].skip)
            size = (struct image_size){plans[i].out_width, plans[i].out_height};
    }
    return size;
}

uint32_t pipeline_gather(const struct pipeline *pipeline, const struct op_plan *plans, uint32_t op, uint32_t end,
                         struct geometry *geometry)
{
    for (; op < end; op++) {
        const struct pipeline_op *item = &pipeline->ops[op];
        if (!plans[op].skip && !(item->kind->join && item->kind->join(item->values, &plans[op], geometry)))
            break;
    }
    return op;
}
