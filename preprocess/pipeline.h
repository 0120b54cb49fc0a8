/* pipeline.h: a pipeline says what is done to a sample. It is a list of operators with torchvision's names and
 * semantics, or several such lists: views of one image, which are made together.
 *
 * It is written as JSON; YAML configurations and the Python package are turned into it:
 *   [{"random_resized_crop": {"size": 224}}, {"random_horizontal_flip": {"p": 0.5}}]
 *   {"steps": […], "views": [{"name": "large", "count": 2, "steps": […]}, {"name": "small", "steps": […]}]}
 * An operator without arguments may be a plain string. A view does `steps`, which may be left out, and then its own; of
 * `count` views with one list each draws for itself. A sample has a field for each view: large_0, large_1, small. A
 * view without a name is called view_ and its number among all.
 *
 * The draws of a view are those of its key and of streams that its number among all chooses. So a view makes what its
 * list, `steps` in front, makes alone with the same key and these streams; the first view's are those of a list.
 *
 * An object with parts is done to several parts of a sample alike (sample_parts.h): an image, and its masks.
 *   {"parts": {"image": {"kind": "image"}, "mask": {"kind": "mask", "dtype": "int64", "fill": 255}}, "steps": […]}
 * A sample has a field for each part, of its name. Everything random is drawn once for all of them. A mask's numbers
 * are moved as torchvision.transforms.v2 moves them: resized by nearest, and no operator of colors changes them.
 *
 * Other parts are rows of numbers: boxes and points in the image, and labels, of which each box has a row.
 *   {"parts": {"image": {}, "boxes": {"format": "XYWH", "most": 93}, "labels": {"dtype": "int64", "most": 93}}, …}
 * Their fields have room for `most` rows. Behind all fields stands another one, "counts", which has the number of rows
 * of each such part, in their order. "instances" are masks, of which each box has one (sample_masks.h): a field of
 * `most` × height × width.
 *
 * With "ragged": true in an object, samples may differ in size, and the layout is ragged (layout.h). Images have the
 * sizes that the operators make, which may be none; parts that are rows have as many as there are. An object with
 * `ragged` may have `steps` alone. In the place of true stands the most pixels that an image may have in the end.
 *   {"steps": [{"random_shortest_size": {"min_size": 800, "max_size": 1333}}], "ragged": true}
 *
 * A parsed pipeline is immutable and reference-counted
 * (atomic); any thread may use it. */
#ifndef LARDER_PREPROCESS_PIPELINE_H
#define LARDER_PREPROCESS_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/layout.h"
#include "common/sample_rows.h"
#include "common/types.h"

#define PIPELINE_OPS_MAX 64                  /* operators of a list, and of a view */
#define PIPELINE_VIEWS_MAX SAMPLE_FIELDS_MAX /* views of a sample, each counted */
#define PIPELINE_TEXT_MAX 24576              /* bytes of the normal form of a pipeline with views */

struct pipeline;

/* pipeline_parse returns a pipeline with one reference. It refuses unknown operators and arguments, and wrong types
 * and ranges. It refuses a size that differs between samples, unless the list is empty: then samples are encoded bytes
 * as they are. The text names the position in the list: "pipeline[1] random_horizontal_flip: p must be …",
 * behind the view's name where there are views. LARDER_EINVAL, LARDER_ENOMEM. */
int pipeline_parse(const char *json, size_t len_bytes, struct pipeline **out, struct error *err);

/* pipeline_parse_open also takes a pipeline whose samples have one size only where the images have one: it is open.
 * Before it is closed it has a normal form, and nothing else may be asked of it. */
int pipeline_parse_open(const char *json, size_t len_bytes, struct pipeline **out, struct error *err);
bool pipeline_is_open(const struct pipeline *pipeline);
/* pipeline_bound gives each part of rows of which nothing says how many a sample has the most that one of the dataset
 * has, which `known` returns as dataset_part_rows does, and refuses what does not fit. *pipeline becomes one that may
 * still be open for its size. LARDER_EINVAL, LARDER_ENOMEM: it stays as it was. */
typedef bool pipeline_known(const void *context, const char *part, struct part_rows *out);
int pipeline_bound(struct pipeline **pipeline, pipeline_known *known, const void *context, struct error *err);
/* pipeline_close puts exact_size in front of an open pipeline that is not ragged: *pipeline becomes one for images of
 * this size alone. LARDER_EINVAL, LARDER_ENOMEM: it stays as it was. */
int pipeline_close(struct pipeline **pipeline, struct image_size size, struct error *err);

/* pipeline_is_ragged says whether samples differ in size. Such a pipeline may be open because it is not known how large
 * they are. pipeline_try returns the most pixels that images of a size have in the end, in some draws. With the most
 * that samples of a dataset may have pipeline_close_ragged makes *pipeline one that is not open. LARDER_EINVAL,
 * LARDER_ENOMEM: it stays as it was. */
bool pipeline_is_ragged(const struct pipeline *pipeline);
/* pipeline_sample_bytes returns the most that an instance of a sample takes, up to pipeline_layout()->bytes, of a
 * ragged pipeline that is not open. `count` returns how many rows the sample has in a part, UINT32_MAX if that is not
 * known. */
typedef uint32_t pipeline_count(const void *context, const char *part);
uint64_t pipeline_sample_bytes(const struct pipeline *pipeline, pipeline_count *count, const void *context);
uint64_t pipeline_try(const struct pipeline *pipeline, struct image_size size);
int pipeline_close_ragged(struct pipeline **pipeline, uint64_t most_pixels, struct error *err);

struct pipeline *pipeline_ref(struct pipeline *pipeline);
void pipeline_unref(struct pipeline **pipeline); /* sets *pipeline to NULL */

/* pipeline_layout returns the layout of what the pipeline makes. It is borrowed and lives with the pipeline. */
const struct sample_layout *pipeline_layout(const struct pipeline *pipeline);
/* pipeline_canonical returns the normal form: every argument with its value, in one spelling. Two pipelines are the
 * same exactly when their normal forms are equal. The text is borrowed and lives with the pipeline. */
const char *pipeline_canonical(const struct pipeline *pipeline);
/* pipeline_shown returns the normal form for people to read, with short numbers. The caller frees it. */
char *pipeline_shown(const struct pipeline *pipeline);

/* pipeline_is_of_sound says whether samples are made of sounds, and not of images. */
bool pipeline_is_of_sound(const struct pipeline *pipeline);

/* pipeline_is_random says whether an operator draws random numbers. Without one, samples do not depend on their key. */
bool pipeline_is_random(const struct pipeline *pipeline);

/* pipeline_needs_encoded says whether samples are made of encoded bytes alone, and not of a decoded form too: they are
 * these bytes, sounds, arrays or parts, or a decoder may make the image smaller (dct_scaling). */
bool pipeline_needs_encoded(const struct pipeline *pipeline);

#endif
