/* finish.h: makes 8-bit pixels the sample that the job gets: floating point, normalised, erased, laid out. */
#ifndef LARDER_PREPROCESS_FINISH_H
#define LARDER_PREPROCESS_FINISH_H

#include "preprocess/pipeline_priv.h"

/* finish runs the operators from pipeline->n_pixel_ops on over `image`, and writes the result to dst, which has room
 * for pipeline_layout()->bytes. It fails with LARDER_ENOMEM alone. */
int finish(const struct pipeline *pipeline, const struct op_plan *plans, const struct image *image, void *dst,
           struct scratch *scratch);

#endif
