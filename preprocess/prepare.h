/* prepare.h: makes pixels from encoded bytes. Pure apart from its scratch memory: the result depends on the bytes, the
 * pipeline and the key alone. */
#ifndef LARDER_PREPROCESS_PREPARE_H
#define LARDER_PREPROCESS_PREPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/types.h"
#include "preprocess/limits.h"
#include "preprocess/pipeline.h"

/* bad_reason_name: the `reason` label of larder_bad_samples_total. */
const char *bad_reason_name(enum bad_reason reason);

/* prepare_init chooses the versions of inner loops that suit the processor. Call it once, before there are threads. */
void prepare_init(void);

/* prepare_memory returns the most scratch memory that one image may take by these limits. Pure. */
size_t prepare_memory(const struct prepare_limits *limits);

/* A worker thread's scratch memory. One thread uses it. */
struct prepare_scratch;
int prepare_scratch_create(const struct prepare_limits *limits, struct prepare_scratch **out);
void prepare_scratch_destroy(struct prepare_scratch *scratch); /* accepts NULL */

/* Decodes and outputs made with a scratch since it was created. One decode can make many outputs. */
struct prepare_counts {
    uint64_t decodes, outputs;
};
struct prepare_counts prepare_scratch_counts(const struct prepare_scratch *scratch);

/* prepare_scratch_time lets every later call add the time that its thread has a core to *times, which is borrowed. NULL
 * ends that. */
struct prepare_times {
    uint64_t open_ns, plan_ns, decode_ns, transform_ns;
};
void prepare_scratch_time(struct prepare_scratch *scratch, struct prepare_times *times);

/* prepare_size returns an image's size from its header and decodes nothing: what follows may be damaged all the same.
 * LARDER_EFORMAT, LARDER_ELIMIT, LARDER_ENOMEM. */
int prepare_size(struct prepare_scratch *scratch, const void *encoded, size_t len_bytes, struct image_size *out,
                 struct error *err);

/* One instance to make. Its views are made of one decode, too. */
struct prepare_output {
    const struct pipeline *pipeline; /* borrowed */
    uint64_t key[3];                 /* key of the random suffix: (pipeline seed, sample, instance) */
    void *dst;      /* has room for pipeline_layout()->bytes; for the empty pipeline, for the encoded bytes */
    uint64_t room;  /* of a ragged pipeline: how many bytes are at dst; 0: as many as the layout's */
    uint64_t bytes; /* of a ragged pipeline: set to how many of these the sample takes */
    /* The outcome. BAD_NONE: it was made. Otherwise this is why not, err says more (the caller adds the file's
     * name), and the bytes at dst are undefined. */
    enum bad_reason reason;
    struct error err;
    /* Time of the thread on a core for this output alone: without the decode and the operators that it shares. It is 0
     * if it is the only output. */
    uint64_t own_ns;
    struct image_size size; /* the maker's own: of its parts so far, in pixels */
};

/* A form of the image that is to stay in memory, which prepare_image makes on the way. */
struct prepare_keep {
    size_t most_bytes; /* no form that takes more is made */
    /* The outcome. bytes: what the form takes; 0: it is not known, because the image cannot be decoded, or was not
     * opened. form: NULL if it is larger, or could not be made; the caller gives it back with
     * blocks_give. */
    size_t bytes;
    void *form;
};

/* What outputs are made of: encoded bytes, or a form that prepare_image has made of them. Outputs have the same bytes
 * either way. But a form has no encoded bytes, which an output of the empty pipeline needs, and is at full scale, so no
 * pipeline may be in need of it (pipeline_needs_encoded). Borrowed. */
struct prepare_source {
    const void *bytes;
    size_t len_bytes;
    bool decoded;              /* bytes are a form */
    struct prepare_keep *keep; /* NULL: no form is wanted */
};

/* prepare_image is prepare_sample, of either kind of source, and makes a form on the way. */
int prepare_image(struct prepare_scratch *scratch, const struct prepare_source *source, struct prepare_output *outputs,
                  size_t n_outputs, enum bad_reason *reason, struct error *err);

/* prepare_sample makes every output that can be made, with one decode if nothing fails, or one for each 64 images where
 * outputs have more than that, views counted. An output fails for reasons
 * of its own only, and would fail without the others. It returns 0 when all were made; else *reason and err are those
 * of the first that was not. LARDER_EFORMAT, LARDER_ELIMIT, LARDER_ENOMEM. With a budget it blocks while the other
 * threads' images leave no room for this one. */
int prepare_sample(struct prepare_scratch *scratch, const void *encoded, size_t len_bytes,
                   struct prepare_output *outputs, size_t n_outputs, enum bad_reason *reason, struct error *err);

#endif
