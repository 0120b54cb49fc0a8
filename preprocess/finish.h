/* finish.h: from 8-bit pixels to the sample as the job gets it: floating point, normalised, erased, laid out. */
#ifndef LARDER_PREPROCESS_FINISH_H
#define LARDER_PREPROCESS_FINISH_H

#include "preprocess/pipeline_priv.h"

/* finish runs the operators from pipeline->n_pixel_ops on, on `image`, into dst. LARDER_ENOMEM only. */
int finish(const struct pipeline *pipeline, const struct op_plan *plans, const struct image *image, void *dst,
           struct scratch *scratch);

#endif
