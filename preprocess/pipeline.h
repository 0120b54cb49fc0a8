/* pipeline.h: a pipeline says what is done to a sample. It is a list of operators with torchvision's names and
 * semantics.
 *
 * It is written as JSON; YAML configurations and the Python package are turned into it:
 *   [{"random_resized_crop": {"size": 224}}, {"random_horizontal_flip": {"p": 0.5}}]
 * An operator without arguments may be a plain string. A parsed pipeline is immutable and reference-counted
 * (atomic); any thread may use it. */
#ifndef LARDER_PREPROCESS_PIPELINE_H
#define LARDER_PREPROCESS_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/layout.h"
#include "common/types.h"

#define PIPELINE_OPS_MAX 64

struct pipeline;

/* pipeline_parse returns a pipeline with one reference. It refuses unknown operators and arguments, and wrong types
 * and ranges. It refuses a size that differs between samples, unless the list is empty: then samples are encoded bytes
 * as they are. The text names the position in the list: "pipeline[1] random_horizontal_flip: p must be …".
 * LARDER_EINVAL, LARDER_ENOMEM. */
int pipeline_parse(const char *json, size_t len_bytes, struct pipeline **out, struct error *err);

/* pipeline_parse_open also takes a pipeline whose samples have one size only where the images have one: it is open.
 * Before it is closed it has a normal form, and nothing else may be asked of it. */
int pipeline_parse_open(const char *json, size_t len_bytes, struct pipeline **out, struct error *err);
bool pipeline_is_open(const struct pipeline *pipeline);
/* pipeline_close puts exact_size in front of an open pipeline: *pipeline becomes one for images of this size alone.
 * LARDER_EINVAL, LARDER_ENOMEM: it stays as it was. */
int pipeline_close(struct pipeline **pipeline, struct image_size size, struct error *err);

struct pipeline *pipeline_ref(struct pipeline *pipeline);
void pipeline_unref(struct pipeline **pipeline); /* sets *pipeline to NULL */

/* pipeline_layout returns the layout of what the pipeline makes. It is borrowed and lives with the pipeline. */
const struct sample_layout *pipeline_layout(const struct pipeline *pipeline);
/* pipeline_canonical returns the normal form: every argument with its value, in one spelling. Two pipelines are the
 * same exactly when their normal forms are equal. The text is borrowed and lives with the pipeline. */
const char *pipeline_canonical(const struct pipeline *pipeline);

/* pipeline_is_random says whether an operator draws random numbers. Without one, samples do not depend on their key. */
bool pipeline_is_random(const struct pipeline *pipeline);

#endif
