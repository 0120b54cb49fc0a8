/* rows_parts.h: the parts of a sample that are rows of numbers, boxes, points and labels, and the fields that they
 * become. */
#ifndef LARDER_PREPROCESS_ROWS_PARTS_H
#define LARDER_PREPROCESS_ROWS_PARTS_H

#include "common/sample_parts.h"
#include "preprocess/decode/fault.h"
#include "preprocess/pipeline_priv.h"
#include "preprocess/prepare.h"
#include "preprocess/scratch.h"

/* A sample's bytes, with the parts that it has. Borrowed. */
struct rows_sample {
    const void *bytes;
    const struct sample_parts *parts;
};

/* rows_open reads the boxes and points that a pipeline of parts has of a sample, which has all its parts. It takes
 * memory of the scratch. It returns 0, or the fault's code. */
int rows_open(const struct pipeline *pipeline, const struct rows_sample *sample, struct scratch *memory,
              struct rows *out, struct decode_fault *fault);
/* rows_make makes the fields of these parts, and that of their counts, of a sample whose image has this size. It is
 * otherwise like rows_open. */
int rows_make(struct prepare_output *output, const struct rows_sample *sample, struct scratch *memory,
              struct decode_fault *fault);

#endif
