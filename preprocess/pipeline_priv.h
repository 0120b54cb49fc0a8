/* pipeline_priv.h: a parsed pipeline, for those who run it. */
#ifndef LARDER_PREPROCESS_PIPELINE_PRIV_H
#define LARDER_PREPROCESS_PIPELINE_PRIV_H

#include <stdatomic.h>

#include "preprocess/op.h"
#include "preprocess/pipeline.h"

#define PIPELINE_MAGIC UINT32_C(0x70697065)

struct pipeline_op {
    const struct op_kind *kind;
    void *values;
    char *canonical; /* of this operator alone: two do the same exactly when these are equal */
};

struct pipeline {
    uint32_t magic;
    atomic_uint refs; /* last unref (release) frees after an acquire */
    struct sample_shape shape;
    char *canonical;
    uint32_t n_ops;
    struct pipeline_op ops[];
};

#endif
