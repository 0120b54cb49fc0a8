/* pipeline_priv.h: a parsed pipeline, for the files that run it. */
#ifndef LARDER_PREPROCESS_PIPELINE_PRIV_H
#define LARDER_PREPROCESS_PIPELINE_PRIV_H

#include <stdatomic.h>

#include "preprocess/ops/op.h"
#include "preprocess/pipeline.h"

#define PIPELINE_MAGIC UINT32_C(0x70697065)

struct pipeline_op {
    const struct op_kind *kind;
    void *values;    /* the struct of its arguments */
    char *canonical; /* its normal form; two operators do the same exactly when these are equal */
};

struct pipeline {
    uint32_t magic;
    atomic_uint refs; /* unref releases; the last one acquires, then frees */
    struct sample_shape shape;
    char *canonical;
    uint32_t n_ops;
    uint32_t n_pixel_ops; /* the first so many work on 8-bit pixels; finish runs the others */
    bool plain;           /* the result is 8-bit RGB, channels last: the last operator can write to the destination */
    struct pipeline_op ops[];
};

/* pipeline_plan draws everything random of one instance, for an image of this size. plans has room for n_ops. Each
 * operator has its own stream of numbers, keyed by its place. LARDER_ELIMIT when an operator can do nothing with
 * this size. */
int pipeline_plan(const struct pipeline *pipeline, const uint64_t key[3], uint32_t width, uint32_t height,
                  struct op_plan *plans, struct error *err);
/* pipeline_gather joins operators from `op` on, and before `end`, into one geometry. It gives the number of the first
 * operator that is not part of it. */
uint32_t pipeline_gather(const struct pipeline *pipeline, const struct op_plan *plans, uint32_t op, uint32_t end,
                         struct geometry *geometry);

#endif
