/* view.h: a view is an expression that selects the part of a dataset that a job trains on.
 *
 * It is written as JSON, one object an expression:
 *
 *   {"classes": ["n015*", "n01622779"]}    the classes of these names, or that match: * ? [a-z] [!a] and \ to escape
 *   {"range": [first, end]}                first ≤ index < end, in the dataset's order
 *   {"fraction": 0.1, "seed": 3}           round(0.1 × n) of the dataset's n samples; which ones depends on seed
 *                                          (0 when left out) and index alone; a smaller fraction is part of a
 *                                          larger one
 *   {"list": "/absolute/path"}             the samples that a text file names, one a line: key, path or index
 *   {"indices": "0123…"}                   the set of this name, of those that the client brings beside the text
 *   {"union": [e, …]}  {"intersection": [e, …]}  {"difference": [e, less, …]}
 *
 * A parsed view is immutable, and any thread may use it. */
#ifndef LARDER_SAMPLER_VIEW_H
#define LARDER_SAMPLER_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/interrupt.h"
#include "common/types.h"
#include "sampler/idset.h"

#define VIEW_TEXT_MAX 65536                     /* bytes of an expression */
#define VIEW_DEPTH_MAX 32                       /* expressions inside each other */
#define VIEW_NODES_MAX 1024                     /* expressions in all */
#define VIEW_PATTERN_MAX 255                    /* bytes of a class pattern */
#define VIEW_LIST_BYTES_MAX (UINT32_C(1) << 28) /* largest list file */
#define VIEW_LIST_LINE_MAX 16384u               /* bytes of one of its lines */
#define VIEW_SET_NAME_BYTES 32                  /* length of a set's name, in lower-case hexadecimal digits */

struct view;

/* view_parse refuses whatever is not exactly one of the forms above, and names its place: "subset.union[1].range: …".
 * LARDER_EINVAL. The caller destroys *out. */
int view_parse(const char *json, size_t len_bytes, struct view **out, struct error *err);
void view_destroy(struct view *view); /* accepts NULL */

/* view_intersect returns the view of what both select. It takes both over. Either may be NULL: all of the dataset. */
struct view *view_intersect(struct view *a, struct view *b);

/* The sets that a client brings: a memfd with a u32, how many they are, and then for each its name, a u32, how many
 * indices it has, and those as ascending u32. All is little-endian. A client names a set by a hash of its indices. */
struct view_sets;

/* view_sets_open reads what sets are in fd, which is borrowed and must stay open as long as they are used. *end gets
 * where they end: what lies behind is not looked at. It is the client's file, which may change it at any time.
 * LARDER_EINVAL (no memfd), LARDER_EFORMAT, LARDER_ELIMIT, LARDER_EIO, LARDER_ENOMEM. The caller closes *out. */
int view_sets_open(int fd, struct view_sets **out, uint64_t *end, struct error *err);
void view_sets_close(struct view_sets *sets); /* accepts NULL; fd stays open */

/* A dataset as views see it. The functions are called with an index < count, or a label < n_classes. */
struct view_source {
    const void *dataset;
    const char *path;       /* the source's absolute path, by which a list may name samples; borrowed, may be NULL */
    const char *given_path; /* the path as the job named it, perhaps through links; borrowed, may be NULL */
    uint32_t count;
    uint32_t n_classes;
    sample_id (*id)(const void *dataset, uint32_t index);
    int32_t (*label)(const void *dataset, uint32_t index);
    const char *(*key)(const void *dataset, uint32_t index);
    const char *(*class_name)(const void *dataset, uint32_t label);
    const struct view_sets *sets;      /* borrowed; NULL: none came */
    const struct interrupt *interrupt; /* borrowed; may be NULL */
};

struct view_result {
    uint32_t count;    /* > 0 */
    uint32_t *indices; /* ascending */
    sample_id *order;  /* their ids, in the same order: what `shuffle: none` delivers */
    struct idset *ids; /* the same ids as a set */
    /* fingerprint of the indices; with the dataset's own it identifies the data that the job trains on */
    uint64_t fingerprint[2];
};

/* view_eval finds the samples that the view selects; a view of NULL selects all. It reads list files, so it may block
 * on the disk. The caller clears *out with view_result_clear. LARDER_EINVAL: a pattern matches no class, a range lies
 * beyond the end, a line names no sample, a set did not come, or nothing is selected. LARDER_EGONE: soon after the
 * source's interrupt was set. LARDER_ENOENT, LARDER_EPERM, LARDER_EIO, LARDER_ELIMIT: the list file. LARDER_EFORMAT: a
 * set. LARDER_ENOMEM. */
int view_eval(const struct view *view, const struct view_source *source, struct view_result *out, struct error *err);
void view_result_clear(struct view_result *result); /* frees what it holds and zeroes it */

#endif
