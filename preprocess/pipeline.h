/* pipeline.h: what is done to a sample: a list of operators with torchvision's names and semantics.
 *
 * Written as JSON (YAML configurations and the Python package are turned into it):
 *   [{"random_resized_crop": {"size": 224}}, {"random_horizontal_flip": {"p": 0.5}}]
 * An operator without arguments may be a plain string. Immutable after parsing, reference-counted (atomic), any
 * thread. */
#ifndef LARDER_PREPROCESS_PIPELINE_H
#define LARDER_PREPROCESS_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/types.h"

#define PIPELINE_OPS_MAX 64

struct pipeline;

/* pipeline_parse refuses unknown operators and arguments, wrong types and ranges, a size that differs between samples
 * (unless the list is empty: encoded bytes as they are), with the position in the list: "pipeline[1]
 * random_horizontal_flip: p must be …". */
int pipeline_parse(const char *json, size_t len_bytes, struct pipeline **out, struct error *err);
struct pipeline *pipeline_ref(struct pipeline *pipeline);
void pipeline_unref(struct pipeline **pipeline);

/* The shape of what it makes. */
struct sample_shape pipeline_shape(const struct pipeline *pipeline);
/* The normal form: every argument with its value, one spelling. Two pipelines are the same exactly when these are
 * equal. Borrowed, lives with the pipeline. */
const char *pipeline_canonical(const struct pipeline *pipeline);

/* Has it an operator that draws random numbers? Without one, samples are the same whatever their key is. */
bool pipeline_is_random(const struct pipeline *pipeline);

#endif
