/* view.h: the part of a dataset that a job trains on, as an expression.
 *
 * Written as JSON, one object an expression:
 *
 *   {"classes": ["n015*", "n01622779"]}    the classes of these names, or that match: * ? [a-z] [!a] and \ to escape
 *   {"range": [first, end]}                first ≤ index < end, in the dataset's order
 *   {"fraction": 0.1, "seed": 3}           round(0.1 × n) of the dataset's n samples; which ones depends on seed (0 when
 *                                          left out) and index alone; a smaller fraction is part of a larger one
 *   {"list": "/absolute/path"}             the samples that a text file names, one a line: key, path or index
 *   {"union": [e, …]}  {"intersection": [e, …]}  {"difference": [e, less, …]}
 *
 * Immutable once parsed; any thread. */
#ifndef LARDER_SAMPLER_VIEW_H
#define LARDER_SAMPLER_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/interrupt.h"
#include "common/types.h"
#include "sampler/idset.h"

#define VIEW_TEXT_MAX 65536                   /* bytes of an expression */
#define VIEW_DEPTH_MAX 32                     /* expressions inside each other */
#define VIEW_NODES_MAX 1024                   /* expressions in all */
#define VIEW_PATTERN_MAX 255                  /* bytes of a class pattern */
#define VIEW_LIST_BYTES_MAX (UINT32_C(1) << 28) /* of a list file */
#define VIEW_LIST_LINE_MAX 16384u             /* bytes of one of its lines */

struct view;

/* view_parse refuses whatever is not exactly one of the forms above, with its place: "subset.union[1].range: …".
 * LARDER_EINVAL. */
int view_parse(const char *json, size_t len_bytes, struct view **out, struct error *err);
void view_destroy(struct view *view); /* accepts NULL */

/* view_intersect gives what both select; takes both. Either may be NULL: all of the dataset. */
struct view *view_intersect(struct view *a, struct view *b);

/* view_canonical gives the normal form: one spelling, commutative parts sorted. Two views with equal ones select the
 * same samples of a dataset (while a list file stays as it is). Borrowed, lives with the view. */
const char *view_canonical(const struct view *view);

/* A dataset as far as views look at it; functions are called with an index < count, or a label < n_classes. */
struct view_source {
    const void *dataset;
    const char *path;       /* the source's absolute path: a list may name samples by path. Borrowed; may be NULL */
    const char *given_path; /* the same as the job named it, through links perhaps; may be NULL */
    uint32_t count;
    uint32_t n_classes;
    sample_id (*id)(const void *dataset, uint32_t index);
    int32_t (*label)(const void *dataset, uint32_t index);
    const char *(*key)(const void *dataset, uint32_t index);
    const char *(*class_name)(const void *dataset, uint32_t label);
    const struct interrupt *interrupt; /* may be NULL */
};

struct view_result {
    uint32_t count;          /* > 0 */
    uint32_t *indices;       /* ascending */
    sample_id *order;        /* their ids, in the same order: what `shuffle: none` delivers */
    struct idset *ids;       /* the same ids as a set */
    uint64_t fingerprint[2]; /* of the indices: with the dataset's own fingerprint it says what the job trains on */
};

/* view_eval selects. NULL for view: all of the dataset. Reads list files: may block on the disk. LARDER_EINVAL (a
 * pattern that matches no class, a range beyond the end, a line that names no sample, nothing selected), LARDER_ENOENT,
 * LARDER_EGONE (soon after the source's interrupt was set),
 * LARDER_EPERM, LARDER_EIO, LARDER_ELIMIT (a list), LARDER_ENOMEM. The result is the caller's: view_result_clear. */
int view_eval(const struct view *view, const struct view_source *source, struct view_result *out, struct error *err);
void view_result_clear(struct view_result *result); /* frees what it holds and zeroes it */

#endif
