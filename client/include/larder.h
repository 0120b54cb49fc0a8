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
 * Checkpoints: larder_state returns the bytes to save, options.state takes them.
 *
 * Threads: a loader and its batches belong to one thread at a time. Different loaders are independent.
 *
 * Fork: a child cannot use the loaders that its parent opened. Every call returns LARDER_EPERM there. The child's copy
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

/* The policy for a sample that cannot be read or prepared. */
enum larder_bad {
    LARDER_BAD_SKIP = 0,    /* left out: its batch is smaller */
    LARDER_BAD_REPLACE = 1, /* another sample takes its place */
    LARDER_BAD_ERROR = 2    /* larder_next returns LARDER_ESAMPLE */
};

/* Images have the first three. */
enum larder_dtype {
    LARDER_UINT8 = 0,
    LARDER_FLOAT16 = 1,
    LARDER_FLOAT32 = 2,
    LARDER_INT16 = 3,
    LARDER_UINT16 = 4,
    LARDER_INT32 = 5,
    LARDER_INT64 = 6,
    LARDER_FLOAT64 = 7
};
enum larder_layout { LARDER_HWC = 0, LARDER_CHW = 1 };

/* docs/reference/ranks.md */
enum larder_deal {
    LARDER_DEAL_EPOCH = 0, /* each epoch deals all samples anew */
    LARDER_DEAL_HOME = 1   /* nodes keep their parts of the dataset, but for a part; with LARDER_SHUFFLE_DEPENDENT */
};

/* larder_options_init fills the options, and the program changes them. Texts are borrowed until larder_open returns. */
struct larder_options {
    size_t size_bytes; /* set by larder_options_init; it tells which fields the program was compiled with */
    /* the daemon's; NULL: $LARDER_SOCKET, where it is set, else larder/larder.sock in $XDG_RUNTIME_DIR or in /run, else
     * larder.sock in /tmp/larder-UID, the first that this user can use */
    const char *socket;
    /* must be set: a folder, tar shards (docs/reference/data.md), or a name from the daemon's configuration. A text
     * with a '/' is a path; a relative one is taken from the current folder */
    const char *dataset;
    /* a JSON list of operators, or an object with views (docs/reference/pipelines.md); NULL: none, samples are encoded
     * bytes as they are stored */
    const char *pipeline;
    const char *subset; /* JSON (docs/reference/views.md); NULL: all of the dataset */
    const char *job;    /* the job's name; NULL: the daemon makes one. Ranks of one job give the same name */
    uint64_t seed;      /* default 0 */
    /* larder_open gives up after this; default 300,000 (a new dataset is indexed first); negative: never */
    int64_t open_timeout_ms;
    uint32_t batch_size; /* default 32; up to 8,192 */
    uint32_t prefetch;   /* batches asked for ahead, 1 … 64; default 2 */
    uint32_t epochs;     /* 0 (default): until the program stops, 4294967295 at the most */
    uint32_t rank;       /* below world_size, another one for each process; default 0 */
    /* processes that share the job (data-parallel training); default 1. With more, `job` must be set, and all give the
     * same options: each rank gets its own equal part of every epoch */
    uint32_t world_size;
    uint32_t shuffle;         /* enum larder_shuffle */
    uint32_t bad;             /* enum larder_bad */
    uint32_t drop_last;       /* not 0: a last batch that is not full is left out */
    uint32_t relabel;         /* not 0: labels are numbered anew from 0 over the classes of the subset */
    uint32_t private_augment; /* not 0: no augmented sample is shared with other jobs */
    /* not 0: batches come in planned order; else a slow sample may come later, by at most the queue's look-ahead */
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
    /* the bytes that larder_state returned: the job goes on from there. NULL: from the beginning. Borrowed until
     * larder_open returns */
    const void *state;
    size_t state_bytes;
    /* time that the loader waits for another daemon when its own has gone (see larder_next); default 60,000. 0: it does
     * not wait, and the loss of the daemon is a permanent failure. Negative: for ever */
    int64_t reconnect_ms;
    /* for a job whose ranks are at several nodes, with a daemon each: the number of its ranks at this node, which are
     * consecutive, and the first of them. Default 0 and 0: all ranks are at this node */
    uint32_t local_world_size, local_first;
    /* enum larder_deal: how such a job's epochs are dealt to its nodes. All its ranks give the same */
    uint32_t deal;
    uint32_t mix; /* of LARDER_DEAL_HOME: the part that is dealt anew each epoch, in millionths; default 100,000 */
};

struct larder_info {
    uint32_t n_samples; /* samples of the dataset or its subset */
    uint32_t n_batches; /* batches of an epoch, for this rank */
    uint32_t n_classes;
    /* batches that may be held unreleased at a time. It never grows. It may only shrink when another daemon takes over,
     * which may have promised memory to others first */
    uint32_t held_max;
    /* shape of a prepared sample; 0: encoded bytes of any length, or several views (larder_field_get) */
    uint32_t height, width, channels;
    uint32_t dtype;          /* enum larder_dtype */
    uint32_t layout;         /* enum larder_layout */
    uint32_t epoch;          /* the epoch to start with; not 0 with a state, or when a rank comes back */
    uint64_t sample_bytes;   /* size of a prepared sample; for encoded bytes the largest possible */
    uint64_t fingerprint[2]; /* fingerprint of the dataset: equal when names, sizes, labels and order are */
    const char *job;         /* the job's name; valid until larder_close */
    uint32_t batch;          /* index, within that epoch, of the next batch */
    uint32_t reconnects;     /* number of times that the loader has gone on with another daemon */
    uint64_t view[2];        /* fingerprint of the dataset's subset */
};

/* A field of a prepared sample: its image, or one of its views. */
struct larder_field {
    const char *name;                 /* a view's name, "image", "sound" or "array"; valid until larder_close */
    uint32_t height, width, channels; /* 0: it is no image */
    uint32_t dtype;                   /* enum larder_dtype */
    uint32_t layout;                  /* enum larder_layout */
    uint64_t offset;                  /* byte of the sample at which it begins; the same in all samples */
    uint64_t bytes;                   /* 0: it differs from sample to sample (larder_batch_array) */
};

/* One sample of a batch, in the read-only mapping of the daemon's memory. The struct's layout is part of the ABI. */
struct larder_sample {
    const void *data; /* valid until the batch is released (see larder_batch_release) */
    size_t len_bytes;
    uint32_t id;    /* the same for the same content, whatever the dataset, while the daemon lives */
    uint32_t index; /* position in the dataset's order, as torchvision's ImageFolder numbers it */
    int32_t label;
};

/* A field of one sample, in the same mapping. */
struct larder_array {
    const void *data; /* valid as larder_sample.data is */
    uint32_t dtype;   /* enum larder_dtype */
    uint32_t rank;    /* dims that it has */
    uint32_t dims[4]; /* those beyond rank are 0 */
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

/* larder_open connects to the daemon and registers the job. It blocks up to open_timeout_ms. The caller owns *out. On
 * failure larder_last_error(NULL) returns the text; if the daemon refused, it is the daemon's. LARDER_EGONE: no daemon
 * answers. LARDER_ENOENT: no such dataset. LARDER_EQUOTA: the daemon has no room for such batches. LARDER_EINVAL,
 * LARDER_ELIMIT: an option is wrong. LARDER_EPERM, LARDER_EBUSY, LARDER_EVERSION, LARDER_ETIMEOUT. For options.state:
 * LARDER_EFORMAT: it is damaged. LARDER_EVERSION: another release made it. LARDER_ECHANGED: the daemon has another
 * dataset or subset now. LARDER_EINVAL: it has another shuffle, or under LARDER_SHUFFLE_STRICT another seed. */
LARDER_API int larder_open(const struct larder_options *options, struct larder_loader **out);

/* larder_close ends this rank's part of the job. It frees the loader and all its batches, and sets *loader to NULL. It
 * accepts NULL. */
LARDER_API void larder_close(struct larder_loader **loader);

/* larder_last_error returns the text of the last failed call on this loader; with NULL, of the last failed larder_open
 * in this thread. The text is never NULL. It is valid until the next call on the loader, or larder_open in the
 * thread. */
LARDER_API const char *larder_last_error(const struct larder_loader *loader);

/* larder_info_sized does the work of larder_info_get. Programs call the latter. */
LARDER_API int larder_info_sized(const struct larder_loader *loader, struct larder_info *out, size_t size_bytes);

/* larder_info_get fills in the daemon's description of job and dataset. */
static inline int larder_info_get(const struct larder_loader *loader, struct larder_info *out)
{
    return larder_info_sized(loader, out, sizeof *out);
}

/* larder_field_count returns the number of fields of a sample: of views, how many there are; 1 for one image, 0 for
 * encoded bytes and for NULL. */
LARDER_API uint32_t larder_field_count(const struct larder_loader *loader);

/* larder_field_sized does the work of larder_field_get. Programs call the latter. */
LARDER_API int larder_field_sized(const struct larder_loader *loader, uint32_t number, struct larder_field *out,
                                  size_t size_bytes);

/* larder_field_get describes field `number` (< larder_field_count) of the job's samples. Views are in the pipeline's
 * order. In a sample of larder_batch_sample it begins at data + offset. */
static inline int larder_field_get(const struct larder_loader *loader, uint32_t number, struct larder_field *out)
{
    return larder_field_sized(loader, number, out, sizeof *out);
}

/* larder_class_name returns a class's name by its label; NULL when there is none. It is valid until larder_close. */
LARDER_API const char *larder_class_name(const struct larder_loader *loader, int32_t label);

/* larder_start_epoch begins an epoch (from 0, only forward) and asks for its first batches. It does not wait for
 * samples. The rest of the epoch before is dropped; batches of it that the program holds stay valid until released.
 * With options.state the first epoch to start is larder_info.epoch, of which only the rest comes; a later one begins
 * whole. LARDER_EEND: options.epochs are over, or the most epochs that a job may have. */
LARDER_API int larder_start_epoch(struct larder_loader *loader, uint32_t epoch);

/* larder_next waits up to timeout_ms (negative: for ever; 0: not at all) for the epoch's next batch. LARDER_EEND: the
 * epoch is over. LARDER_ETIMEOUT: none yet; ask again. LARDER_EQUOTA: held_max batches are held, release one first. Any
 * other failure is permanent: close the loader. LARDER_ECANCELLED: somebody has ended the job, with `larder cancel`.
 * Batches that the program holds stay valid until they are released, even then.
 *
 * The end of a daemon (it was killed, or stopped for a new one) is a pause and no failure. The loader connects again to
 * the same socket, in this call or later ones, presents what the program has taken of the epoch, and goes on with
 * exactly the rest of it. It starts no daemon. While there is none, larder_next waits as for a batch, and returns
 * LARDER_ETIMEOUT as for one. Batches that the program holds stay valid. larder_info.reconnects counts reconnects. In a
 * job of several ranks, the new daemon gives no rank a batch before all ranks have connected to it, each in a call of
 * its own.
 *
 * It is a permanent failure in three cases. No daemon has taken the job over for options.reconnect_ms: LARDER_EGONE, or
 * the last daemon's error. The new daemon has another dataset, subset or sample shape: LARDER_ECHANGED. It refuses the
 * job: its own code and text. A rank that joined, without a state, an epoch that it had begun before in another process
 * cannot say what was taken of it: until its next epoch the loss of the daemon is LARDER_EGONE. */
LARDER_API int larder_next(struct larder_loader *loader, int64_t timeout_ms, struct larder_batch **out);

/* larder_fd returns a descriptor that poll finds readable when larder_next has something to do. Then call larder_next
 * with timeout 0 until it returns LARDER_ETIMEOUT, or LARDER_EQUOTA: while held_max batches are held nothing comes. The
 * loader owns the descriptor. It stays the same, for poll and for epoll, even if the daemon goes. While there is no
 * daemon it becomes readable a few times a second, when the next attempt to connect is due. It is -1 after a permanent
 * failure. */
LARDER_API int larder_fd(const struct larder_loader *loader);

/* larder_loader_lost returns the number of samples that were bad so far (gone, damaged, too large) in the epoch of the
 * last batch. They were left out; under LARDER_BAD_REPLACE, others took their place. After larder_next has returned
 * LARDER_EEND it is the number for the whole epoch. The daemon's log names them. It returns 0 for NULL. */
LARDER_API uint32_t larder_loader_lost(const struct larder_loader *loader);

/* larder_loader_missed returns the number of batches that this rank of several misses of larder_info.epoch: another
 * process of the rank had the first ones, no options.state says what was taken, and they do not come again. For whole
 * epochs end the programs of all ranks, and then the job (larder cancel JOB); then start them again, all from one
 * checkpoint or all without. It returns 0 where none is missed, and for NULL. */
LARDER_API uint32_t larder_loader_missed(const struct larder_loader *loader);

LARDER_API uint32_t larder_batch_count(const struct larder_batch *batch); /* samples in it; ≥ 1 */
LARDER_API uint32_t larder_batch_epoch(const struct larder_batch *batch);
LARDER_API uint32_t larder_batch_index(const struct larder_batch *batch); /* index in the epoch, from 0 */
LARDER_API size_t larder_batch_bytes(const struct larder_batch *batch);   /* bytes that larder_batch_copy writes */

/* larder_batch_sample returns sample `position` (< larder_batch_count) without copying it. */
LARDER_API int larder_batch_sample(const struct larder_batch *batch, uint32_t position, struct larder_sample *out);

/* larder_state returns the bytes that the program needs to go on from here in another process: the epoch, and the
 * samples of it that were taken. A batch is taken when larder_next has returned it, whether or not it was released.
 * Write the bytes into the checkpoint, after the training step on the last batch. Give them to larder_open in
 * options.state. It may be another daemon, on another machine with the same dataset, and another world_size. *state is
 * the loader's; it is valid until the next larder_state or larder_close on the loader.
 *
 * It may be called at any time between larder_open and larder_close, and disturbs nothing. After the last batch of an
 * epoch, it is the state of an epoch with nothing left; after LARDER_EEND, of the next epoch's beginning.
 *
 * In a job of one rank it needs no daemon, does not wait, and works after a failure too. In a job of several ranks, any
 * rank's state after its batch b has what all ranks took up to batch b, so one of them may save it for all. The daemon
 * makes it; larder_state waits up to timeout_ms (negative: for ever) for ranks that have not reached batch b.
 *
 * LARDER_ETIMEOUT: a rank has not reached it; the text names the rank. LARDER_EINVAL: this rank joined, without a
 * state, an epoch that it had begun before in another process. LARDER_ELIMIT: within one epoch the job changed
 * world_size more than 64 times. LARDER_ENOMEM. */
LARDER_API int larder_state(struct larder_loader *loader, int64_t timeout_ms, const void **state, size_t *state_bytes);

/* A column of the dataset: what it has for each sample besides its image, in the dataset's order (larder_sample.index).
 * All memory is read-only, shared with the other programs of the dataset, and valid until larder_column_free. */
enum larder_column_kind { LARDER_COLUMN_INT64 = 0, LARDER_COLUMN_FLOAT64 = 1, LARDER_COLUMN_TEXT = 2 };

struct larder_column {
    uint32_t kind;  /* enum larder_column_kind */
    uint32_t width; /* numbers a sample: more than 1 of vectors; 1 of texts */
    uint64_t count; /* samples of the dataset */
    /* Of the column's kind, the others are NULL. Numbers of sample i begin at [i × width]; a number that is missing is
     * NaN. The text of sample i is the bytes from text + offsets[i] to text + offsets[i + 1], UTF-8 as a rule, and no
     * NUL behind them; offsets has count + 1 elements. */
    const int64_t *int64;
    const double *float64;
    const uint64_t *offsets;
    const char *text;
};

/* larder_column_open returns a column by its name: "__label__", "__key__" and "__path__" of every dataset; columns of a
 * list by their names; of tar shards "txt" and other parts, and "json:KEY". The daemon makes it when it is first asked
 * for, which may take as long as indexing; this waits up to timeout_ms (negative: for ever). It may be called at any
 * time between larder_open and larder_close. The program frees *out by larder_column_free, before or after
 * larder_close.
 *
 * LARDER_ENOENT: the dataset has no such column. LARDER_ECHANGED: the list or the shards changed since they were
 * indexed. LARDER_ELIMIT: it is larger than the daemon's limits.columns. LARDER_ETIMEOUT: ask again. LARDER_EINVAL,
 * LARDER_EFORMAT, LARDER_ENOMEM, LARDER_EIO, LARDER_EGONE. */
LARDER_API int larder_column_open(struct larder_loader *loader, const char *name, int64_t timeout_ms,
                                  struct larder_column **out);
LARDER_API void larder_column_free(struct larder_column **column); /* accepts a pointer to NULL; sets it to NULL */

/* larder_batch_copy writes all samples one after the other to dst, of several views with what lies between them.
 * LARDER_ELIMIT when cap_bytes does not suffice.
 * Another failure says that a living daemon has closed the connection. Then the program must not use the contents of
 * dst. With options.reconnect_ms 0 it also comes when the daemon is gone (LARDER_EGONE). */
LARDER_API int larder_batch_copy(const struct larder_batch *batch, void *dst, size_t cap_bytes);

/* larder_batch_copy_field writes one field of all samples, such as a view, one after the other to dst. It fails as
 * larder_batch_copy does. */
LARDER_API int larder_batch_copy_field(const struct larder_batch *batch, uint32_t number, void *dst, size_t cap_bytes);

/* larder_batch_array_sized does the work of larder_batch_array. Programs call the latter. */
LARDER_API int larder_batch_array_sized(const struct larder_batch *batch, uint32_t position, uint32_t number,
                                        struct larder_array *out, size_t size_bytes);

/* larder_batch_array finds field `number` of the sample at `position`, with its own dims where samples differ in size
 * (a pipeline with "ragged"). It fails as larder_batch_sample does. LARDER_EINVAL: there is no such field. */
static inline int larder_batch_array(const struct larder_batch *batch, uint32_t position, uint32_t number,
                                     struct larder_array *out)
{
    return larder_batch_array_sized(batch, position, number, out, sizeof *out);
}

/* larder_batch_release gives the batch back to the daemon and frees it. It always sets *batch to NULL, and accepts
 * NULL. A program that read samples in place must check the result. A failure says that a living daemon has closed the
 * connection meanwhile; it may have put other samples there. With options.reconnect_ms 0 it also comes when the daemon
 * is gone (LARDER_EGONE). */
LARDER_API int larder_batch_release(struct larder_batch **batch);

/* ── Writing: samples that a program makes, for a store that `larder pack DESTINATION` makes of them ──
 *
 *     struct larder_writer_options options;
 *     struct larder_writer *writer;
 *
 *     larder_writer_options_init(&options);
 *     options.destination = "/data/mine.store";
 *     if (larder_writer_open(&options, &writer) != 0)
 *         … larder_writer_last_error(NULL) …
 *     for (uint64_t i = larder_writer_done(writer); i < n; i++)
 *         if (larder_writer_add(writer, NULL, image, image_bytes, label) != 0)
 *             … larder_writer_last_error(writer) …
 *     larder_writer_close(&writer);
 *
 * The samples lie in tar shards in the folder DESTINATION.log, the same as those of the Python package's Writer, and
 * either goes on with what the other began. A loader takes that folder as its dataset, with the shards that are whole.
 * A process that is killed loses what the last second brought, 256 KiB at most; when the machine goes down it is what
 * the last five seconds or 64 MiB brought. The next writer goes on behind what is left.
 *
 * Writing needs no daemon. A writer belongs to one thread at a time, and to the process that opened it. */

#define LARDER_NO_LABEL INT64_C(-1)

/* larder_writer_options_init fills the options, and the program changes them. All is borrowed until larder_writer_open
 * returns. */
struct larder_writer_options {
    size_t size_bytes;          /* set by larder_writer_options_init */
    const char *destination;    /* must be set: the store's folder, which is not there yet */
    const char *const *classes; /* names of the classes, by their labels; NULL (default): labels are numbers */
    uint32_t n_classes;         /* default 0 */
    /* number of this writer, 0 … 999,999. Several that write for one destination at a time, on one machine or on
     * several with one file system, have each their own; default 0. The store has their samples in the order of these
     * numbers */
    uint32_t writer;
    uint64_t shard_bytes; /* a shard is ended when it has this many bytes; default 256 MiB */
};

struct larder_writer; /* one writer's log, open */

/* larder_writer_options_init_sized does the work of larder_writer_options_init. Programs call the latter. */
LARDER_API void larder_writer_options_init_sized(struct larder_writer_options *options, size_t size_bytes);

/* larder_writer_options_init sets every option to its default. */
static inline void larder_writer_options_init(struct larder_writer_options *options)
{
    larder_writer_options_init_sized(options, sizeof *options);
}

/* larder_writer_open begins a log, or goes on with one. The caller owns *out. On failure larder_writer_last_error(NULL)
 * returns the text. LARDER_EINVAL: an option is wrong, a store is there already, or the log has other classes.
 * LARDER_EBUSY: another process has the number. LARDER_EIO, LARDER_ELIMIT, LARDER_EVERSION, LARDER_ENOMEM. */
LARDER_API int larder_writer_open(const struct larder_writer_options *options, struct larder_writer **out);

/* larder_writer_last_error returns the text of the last failed call on this writer; with NULL, of the last failed
 * larder_writer_open in this thread. It is never NULL, and valid until the next such call. */
LARDER_API const char *larder_writer_last_error(const struct larder_writer *writer);

/* larder_writer_done returns the number of samples that this writer has, with those of earlier processes: the index of
 * the one to add next. It returns 0 for NULL. */
LARDER_API uint64_t larder_writer_done(const struct larder_writer *writer);

/* larder_writer_add adds a sample; data is copied. key: a path as of a file below a folder, "cat/0001.jpg" or
 * "cat/0001", or NULL: its number. data: an encoded image. label: below n_classes, without classes below 1,048,576, or
 * LARDER_NO_LABEL; all samples have one, or none. Now and then it writes, and blocks on the disk.
 *
 * LARDER_EINVAL: the sample is refused, and costs no other one. LARDER_ENOMEM; LARDER_ELIMIT: it has 8 GiB or more.
 * LARDER_EIO: a write failed, such as for want of room. All samples are kept but perhaps this one, of which
 * larder_writer_done tells: mend it and go on with the same writer. LARDER_EPERM: in a child of the process. */
LARDER_API int larder_writer_add(struct larder_writer *writer, const char *key, const void *data, size_t len_bytes,
                                 int64_t label);

/* larder_writer_flush returns 0 when all samples are on the disk, so that nothing costs them. It fails as
 * larder_writer_add does. */
LARDER_API int larder_writer_flush(struct larder_writer *writer);

/* larder_writer_close ends this writer's log, frees the writer and sets *writer to NULL. When all writers have ended,
 * `larder pack DESTINATION` packs. On failure nothing is freed: call it again when that is mended, or
 * larder_writer_leave. */
LARDER_API int larder_writer_close(struct larder_writer **writer);

/* larder_writer_leave frees the writer without ending its log, as a kill would: a later one goes on. What was not
 * flushed may be lost. It sets *writer to NULL, and accepts NULL. */
LARDER_API void larder_writer_leave(struct larder_writer **writer);

#ifdef __cplusplus
}
#endif
#endif
