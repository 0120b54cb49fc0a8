/* larder.h: the C library of Larder. A training program opens a loader for its dataset and pipeline. The daemon
 * (larderd) prepares the samples, shared with other programs that want them. The library hands them out batch by
 * batch.
 *
 *     struct larder_options options;
 *     struct larder_loader *loader;
 *     struct larder_batch *batch;
 *
 *     larder_options_init(&options);
 *     options.dataset = "/data/imagenet/train";
 *     options.pipeline = "[{\"random_resized_crop\": {\"size\": 224}}, \"random_horizontal_flip\"]";
 *     if (larder_open(&options, &loader) != 0)
 *         … larder_last_error(NULL) …
 *     for (uint32_t epoch = 0; epoch < 90; epoch++) {
 *         larder_start_epoch(loader, epoch);
 *         while ((rc = larder_next(loader, -1, &batch)) == 0) {
 *             larder_batch_copy(batch, images, sizeof images);
 *             larder_batch_release(&batch);
 *             … train …
 *         }
 *         if (rc != LARDER_EEND)
 *             … larder_last_error(loader) …
 *     }
 *     larder_close(&loader);
 *
 * Functions return 0 or a negative enum larder_err; larder_last_error has the text that says what to do. Results go
 * through out-pointers, which stay untouched on failure. The library never ends the process, raises no SIGPIPE, goes
 * on after EINTR, and starts no thread.
 *
 * Threads: a loader and its batches belong to one thread at a time. Different loaders are independent.
 *
 * Fork: a child cannot use the loaders that its parent opened. Every call gives LARDER_EPERM there. The child's copy
 * of the connection is closed at fork, so that the parent's batches go back when the parent ends. larder_close frees
 * the child's copy of the loader. A program started by exec inherits nothing. */
#ifndef LARDER_LARDER_H
#define LARDER_LARDER_H

#include <stddef.h>
#include <stdint.h>

#include "larder_err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum larder_shuffle {
    LARDER_SHUFFLE_DEPENDENT = 0, /* uniform draws, shared with other jobs where possible */
    LARDER_SHUFFLE_STRICT = 1,    /* a permutation that depends on seed and epoch alone */
    LARDER_SHUFFLE_NONE = 2       /* in the dataset's order */
};

/* What happens with a sample that cannot be read or prepared. */
enum larder_bad {
    LARDER_BAD_SKIP = 0,    /* left out: its batch is smaller */
    LARDER_BAD_REPLACE = 1, /* another sample takes its place */
    LARDER_BAD_ERROR = 2    /* larder_next gives LARDER_ESAMPLE */
};

enum larder_dtype { LARDER_UINT8 = 0, LARDER_FLOAT16 = 1, LARDER_FLOAT32 = 2 };
enum larder_layout { LARDER_HWC = 0, LARDER_CHW = 1 };

/* larder_options_init fills the options, and the program changes them. Texts are borrowed until larder_open returns. */
struct larder_options {
    size_t size_bytes; /* set by larder_options_init; it tells which fields the program was compiled with */
    /* the daemon's; NULL: $LARDER_SOCKET, $XDG_RUNTIME_DIR/larder/larder.sock, or
     * /run/larder/larder.sock, the first that is set */
    const char *socket;
    /* must be set: a folder, or a name from the daemon's configuration. A text with a '/' is a folder; a relative one
     * is taken from the current folder */
    const char *dataset;
    const char *pipeline; /* a JSON list of operators; NULL: none, samples are encoded bytes as they are stored */
    const char *subset;   /* JSON (docs/views.md); NULL: all of the dataset */
    const char *job;      /* the job's name; NULL: the daemon makes one. Ranks of one job give the same name */
    uint64_t seed;        /* default 0 */
    /* larder_open gives up after this; default 300,000 (a new dataset is indexed first); negative: never */
    int64_t open_timeout_ms;
    uint32_t batch_size; /* default 32; up to 8,192 */
    uint32_t prefetch;   /* batches asked for ahead, 1 … 64; default 2 */
    uint32_t epochs;     /* 0 (default): until the program stops */
    uint32_t rank;       /* below world_size, another one for each process; default 0 */
    /* processes that share the job (data-parallel training); default 1. With more, `job` must be set, and all give the
     * same options: each rank gets its own equal part of every epoch */
    uint32_t world_size;
    uint32_t shuffle;         /* enum larder_shuffle */
    uint32_t bad;             /* enum larder_bad */
    uint32_t drop_last;       /* not 0: a last batch that is not full is left out */
    uint32_t relabel;         /* not 0: labels are numbered anew from 0 over the classes of the subset */
    uint32_t private_augment; /* not 0: no augmented sample is shared with other jobs */
    /* not 0: batches come in planned order; else a slow sample may come later, by at most what the queue looks ahead */
    uint32_t ordered;
    uint32_t all_files; /* not 0: samples are files of any kind, not images alone; goes with no pipeline */
    /* not 0: the program keeps several batches at a time, and the daemon promises it room for prefetch + 1; else for
     * two, and the job gives look-ahead back to jobs that come */
    uint32_t hold;
    uint32_t reserved; /* 0 */
    /* 0.01 … 100, default 1. While jobs want more than the daemon's workers can do, each gets work in proportion to its
     * weight, and at least a tenth of an equal share. Otherwise weights change nothing. The ranks of a job have its
     * weight together */
    double weight;
};

struct larder_info {
    uint32_t n_samples; /* of the dataset or its subset */
    uint32_t n_batches; /* an epoch, for this rank */
    uint32_t n_classes;
    uint32_t held_max;                /* batches that may be held unreleased at a time; it never changes */
    uint32_t height, width, channels; /* of a prepared sample; 0: encoded bytes of any length */
    uint32_t dtype;                   /* enum larder_dtype */
    uint32_t layout;                  /* enum larder_layout */
    uint32_t epoch;                   /* the epoch to start with; not 0 when a rank comes back to its job */
    uint64_t sample_bytes;            /* size of a prepared sample; of encoded bytes, the longest that there can be */
    uint64_t fingerprint[2];          /* of the dataset: equal exactly when content and order are */
    const char *job;                  /* the job's name; valid until larder_close */
};

/* One sample of a batch, in the read-only mapping of the daemon's memory. The struct's layout is part of the ABI. */
struct larder_sample {
    const void *data; /* valid until the batch is released, or the connection is lost (see larder_batch_release) */
    size_t len_bytes;
    uint32_t id;    /* the same for the same content, whatever the dataset, while the daemon lives */
    uint32_t index; /* position in the dataset's order, as torchvision's ImageFolder numbers it */
    int32_t label;
};

struct larder_loader; /* one connection: one rank's queue of one job */
struct larder_batch;  /* a lease on one batch's samples; belongs to its loader */

/* larder_options_init_sized does the work of larder_options_init. Programs call the latter. */
LARDER_API void larder_options_init_sized(struct larder_options *options, size_t size_bytes);

/* larder_options_init sets every option to its default. */
static inline void larder_options_init(struct larder_options *options)
{
    larder_options_init_sized(options, sizeof *options);
}

/* larder_open connects to the daemon and registers the job. It blocks up to open_timeout_ms. The caller owns *out.
 * On failure larder_last_error(NULL) has the text; it is the daemon's own where the daemon refused. LARDER_EGONE: no
 * daemon answers; LARDER_ENOENT: no such dataset; LARDER_EQUOTA: the batch does not fit what the daemon can give;
 * LARDER_EINVAL, LARDER_ELIMIT: an option is wrong; LARDER_EPERM, LARDER_EBUSY, LARDER_EVERSION, LARDER_ETIMEOUT. */
LARDER_API int larder_open(const struct larder_options *options, struct larder_loader **out);

/* larder_close ends this rank's part of the job. It frees the loader and all its batches, and sets *loader to NULL. It
 * accepts NULL. */
LARDER_API void larder_close(struct larder_loader **loader);

/* larder_last_error gives the text of the last failed call on this loader; with NULL, of the last failed larder_open in
 * this thread. The text is never NULL. It is valid until the next call on the loader, or larder_open in the thread. */
LARDER_API const char *larder_last_error(const struct larder_loader *loader);

/* larder_info_sized does the work of larder_info_get. Programs call the latter. */
LARDER_API int larder_info_sized(const struct larder_loader *loader, struct larder_info *out, size_t size_bytes);

/* larder_info_get tells what the daemon said about job and dataset. */
static inline int larder_info_get(const struct larder_loader *loader, struct larder_info *out)
{
    return larder_info_sized(loader, out, sizeof *out);
}

/* larder_class_name gives a class's name by its label; NULL when there is none. It is valid until larder_close. */
LARDER_API const char *larder_class_name(const struct larder_loader *loader, int32_t label);

/* larder_start_epoch begins an epoch (from 0, only forward) and asks for its first batches. It does not wait for
 * samples. What was still to come of the epoch before is dropped; batches of it in the program's hands stay valid
 * until released. LARDER_EEND when options.epochs are over. */
LARDER_API int larder_start_epoch(struct larder_loader *loader, uint32_t epoch);

/* larder_next waits up to timeout_ms (negative: for ever; 0: not at all) for the epoch's next batch. LARDER_EEND: the
 * epoch is over. LARDER_ETIMEOUT: none yet; ask again. LARDER_EQUOTA: held_max batches are held, release one first. Any
 * other failure is for good: close the loader. Batches in the program's hands stay valid until they are released, or
 * the connection is lost: a cancelled job's too. */
LARDER_API int larder_next(struct larder_loader *loader, int64_t timeout_ms, struct larder_batch **out);

/* larder_fd gives a descriptor that poll finds readable when larder_next has something to read. Then call
 * larder_next with timeout 0 until it gives LARDER_ETIMEOUT, or LARDER_EQUOTA: while held_max batches are held
 * nothing comes. The loader owns the descriptor. It is -1 after a failure that is for good. */
LARDER_API int larder_fd(const struct larder_loader *loader);

/* larder_loader_lost gives the number of samples that were bad so far (gone, damaged, too large) in the epoch of the
 * last batch. They were left out; under LARDER_BAD_REPLACE, others took their place. When larder_next has given
 * LARDER_EEND it is the whole epoch's number. The daemon's log names them. It gives 0 for NULL. */
LARDER_API uint32_t larder_loader_lost(const struct larder_loader *loader);

LARDER_API uint32_t larder_batch_count(const struct larder_batch *batch); /* samples in it; ≥ 1 */
LARDER_API uint32_t larder_batch_epoch(const struct larder_batch *batch);
LARDER_API uint32_t larder_batch_index(const struct larder_batch *batch); /* in the epoch, from 0 */
LARDER_API size_t larder_batch_bytes(const struct larder_batch *batch);   /* what larder_batch_copy writes */

/* larder_batch_sample gives sample `position` (< larder_batch_count) without copying it. */
LARDER_API int larder_batch_sample(const struct larder_batch *batch, uint32_t position, struct larder_sample *out);

/* larder_batch_copy writes all samples one behind the other to dst. LARDER_ELIMIT when cap_bytes does not suffice.
 * Another failure, mostly LARDER_EGONE, says that the connection was lost. Then the program must not use what is in
 * dst. */
LARDER_API int larder_batch_copy(const struct larder_batch *batch, void *dst, size_t cap_bytes);

/* larder_batch_release gives the batch back to the daemon and frees it. It sets *batch to NULL whatever it returns, and
 * accepts NULL. A program that read samples in place looks at the result. A failure, mostly LARDER_EGONE, says that the
 * connection was lost meanwhile; the daemon may have put other samples there. */
LARDER_API int larder_batch_release(struct larder_batch **batch);

#ifdef __cplusplus
}
#endif
#endif
