/* wire.h: the session protocol: one message a datagram on a unix SOCK_SEQPACKET socket.
 *
 * Messages are little-endian, with fixed layouts and bounds. The codec is pure: it turns structs into bytes and
 * foreign bytes into structs. It never trusts a length and allocates nothing: decoded texts point into the message.
 * A connection is one rank's queue of one job. It is also the lease: when it closes, all that the client held is
 * returned.
 *
 *   client                                   daemon
 *   HELLO ────────────────────────────────▶
 *         ◀──────────────────────────────── WELCOME (+ the arena's memfd, SCM_RIGHTS)
 *   REGISTER (job, dataset, pipeline, …) ──▶                        + a file's, with WITH_INDICES or WITH_STATE
 *         ◀──────────────────────────────── REGISTERED, or ERROR
 *   CLASSES_GET ──────────────────────────▶
 *         ◀──────────────────────────────── CLASSES (a page; ask again from where it ended)
 *   COLUMN_GET (name) ─────────────────────▶
 *         ◀──────────────────────────────── COLUMN (+ its memfd), or ERROR
 *   NEXT (epoch, credits, awaited) ────────▶                        one credit = one more batch of that epoch
 *         ◀──────────────────────────────── BATCH … BATCH(flags LAST)   TURNS before a BATCH that it belongs to
 *   RELEASE (batch) ───────────────────────▶                        slots back, batch acknowledged
 *   STATE_GET (epoch, batches) ────────────▶
 *         ◀──────────────────────────────── STATE (+ a token's memfd), or ERROR
 *         ◀──────────────────────────────── DONE (+ a memfd), with flag HEARS_DONE: another rank has had its share
 *   BYE ──────────────────────────────────▶ (or just close)
 *
 * Each rank of a job has a connection of its own. All REGISTER with the same name, world_size and all the rest, and
 * each with its own rank. The first makes the job, and the others attach to it. If the ranks of a job are at several
 * nodes, those of one node are consecutive: local_world_size of them, from local_first on. Each node deals out its
 * ranks' share of an epoch.
 *
 * NEXT for a later epoch than the running one ends the running one. Batches of it that were not sent are dropped, but
 * those under way must still be released. A batch with flag LAST ends its epoch; it may be empty.
 *
 * A fatal ERROR with LARDER_EGONE on a registered connection says that the daemon is going. The client may come back,
 * to this daemon or the next, and present a record of what it has taken (record.h). An ERROR that ends only the job is
 * not fatal.
 *
 * Each message has its version in its header. A daemon also speaks the versions before its own, from the oldest on:
 * that of the HELLO is the connection's. Version 12 has no `deal` and `mix`. Version 11 has samples of one size alone:
 * its layouts are not ragged (layout.h). Version 9 has no COLUMN_GET and COLUMN. Version 8 also has no `sampler`,
 * `copies` and `draws`, and no flag WITH_WEIGHTS. Version 7 has no fields in REGISTERED, but the numbers of one image.
 * Version 6 also has no `version`, and version 5 no `awaited`. Version 4 also has no STATE_GET, STATE and TURNS, no
 * flag WITH_STATE, and no `view`, `dataset_samples`, `through`, `local_world_size` and `local_first`. A daemon that
 * does not know yet which version its client speaks sends an ERROR of the oldest version; its layout is the same in
 * all. */
#ifndef LARDER_COMMON_WIRE_H
#define LARDER_COMMON_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "common/dataset_version.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/types.h"

#define WIRE_MAGIC UINT32_C(0x3152444c) /* "LDR1" */
#define WIRE_VERSION 13                 /* goes up with every change: layouts leave no room */
#define WIRE_VERSION_OLDEST 4           /* the oldest that is still understood */
#define WIRE_HEADER_BYTES 16
#define WIRE_REQUEST_MAX 65536     /* a client's message, header included */
#define WIRE_REPLY_MAX 200704      /* the daemon's message: fits a default socket buffer */
#define WIRE_BATCH_MAX 8192        /* samples in a batch */
#define WIRE_EPOCHS_MAX UINT32_MAX /* most epochs of a job; the epoch after the last one still has a number */
#define WIRE_CREDITS_MAX 64        /* batches a client may have asked for and not yet got */
#define WIRE_NAME_MAX 128          /* bytes of a job's name */
#define WIRE_PATH_MAX 4096         /* bytes of a dataset's name or path */
#define WIRE_SPEC_MAX 24576        /* bytes of a pipeline or a subset, as JSON */
#define WIRE_CLIENT_MAX 32         /* bytes of the client's own name ("python/0.1") */
#define WIRE_COLUMN_MAX 1024       /* bytes of a column's name */
#define WIRE_WIDTH_MAX 65536       /* numbers that a column has for one sample */

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_WELCOME = 2,
    WIRE_REGISTER = 3,
    WIRE_REGISTERED = 4,
    WIRE_CLASSES_GET = 5,
    WIRE_CLASSES = 6,
    WIRE_NEXT = 7,
    WIRE_BATCH = 8,
    WIRE_RELEASE = 9,
    WIRE_ERROR = 10,
    WIRE_BYE = 11,
    WIRE_TURNS = 12,
    WIRE_STATE_GET = 13,
    WIRE_STATE = 14,
    WIRE_DONE = 15,
    WIRE_COLUMN_GET = 16,
    WIRE_COLUMN = 17,
};

/* A text inside a message. It is borrowed from the message's buffer and not NUL-terminated; decoding has checked
 * that it has no NUL byte. */
struct wire_text {
    const char *data;
    uint32_t len_bytes;
};

struct wire_hello {
    uint32_t pid;
    struct wire_text client;
};

struct wire_welcome {
    uint64_t arena_bytes;
    uint32_t daemon_pid;
    uint32_t batch_max;
};

enum wire_register_flags {
    WIRE_DROP_LAST = 1,
    WIRE_RELABEL = 2,
    WIRE_PRIVATE_AUGMENT = 4,
    WIRE_ORDERED = 8,
    WIRE_ALL_FILES = 16, /* samples are files of any kind, not images alone */
    WIRE_HOLD = 32,      /* the client may hold prefetch + 1 batches at a time; without it two */
    /* One descriptor comes with the message, of a file that has what these two say, in this order. */
    WIRE_WITH_INDICES = 128, /* the sets of indices that `subset` names (sampler/view.h) */
    WIRE_WITH_STATE = 64,    /* a record of what was taken (record.h) */
    WIRE_OWN_LABELS = 256,   /* the program has labels of its own, and takes no class of the dataset for one */
    WIRE_HEARS_DONE = 512,   /* DONE is to be sent to it */
    /* In the file, behind the sets: u32 how many weights there are, and a weight for each sample of the dataset, as
     * IEEE 754 has it in 64 bits. Goes with WIRE_WEIGHTS, and with nothing else. */
    WIRE_WITH_WEIGHTS = 1024,
};
#define WIRE_WITH_FILE (WIRE_WITH_STATE | WIRE_WITH_INDICES | WIRE_WITH_WEIGHTS)
#define WIRE_REGISTER_FLAGS_ALL 2047u
#define WIRE_REGISTER_FLAGS_ALL_8 1023u /* the flags of versions 5 to 8 */
#define WIRE_REGISTER_FLAGS_ALL_4 63u   /* the flags of version 4 */

/* What an epoch is: the view with each sample once; each `copies` times; so many draws by weights, or so many that have
 * all classes alike. */
enum wire_sampler { WIRE_ONCE, WIRE_REPEAT, WIRE_WEIGHTS, WIRE_BALANCED };
#define WIRE_COPIES_MAX 64
#define WIRE_DRAWS_MAX UINT32_MAX

/* How an epoch is dealt to ranks at several nodes (server/cluster/deal.h): by seed and epoch; or each chunk to its
 * home, but for `mix` of WIRE_MIX_ALL. */
enum wire_deal { WIRE_DEAL_EPOCH, WIRE_DEAL_HOME };
#define WIRE_MIX_ALL 1000000

struct wire_register {
    uint32_t batch_size; /* 1 … WIRE_BATCH_MAX */
    uint32_t prefetch;   /* batches requested ahead, 1 … WIRE_CREDITS_MAX */
    uint32_t world_size; /* ranks of the job, ≥ 1 */
    uint32_t rank;       /* this connection's, < world_size */
    uint32_t epochs;     /* 0: until the client stops asking, WIRE_EPOCHS_MAX at the most */
    uint32_t shuffle;    /* enum shuffle_mode */
    uint32_t bad_policy; /* enum bad_policy */
    uint32_t flags;      /* enum wire_register_flags */
    uint64_t seed;
    double weight; /* JOB_WEIGHT_MIN … JOB_WEIGHT_MAX; its bits on the wire, as IEEE 754 has them */
    /* Ranks of the job that are at this node, and the first of them; local_world_size 0: all of them. */
    uint32_t local_world_size, local_first;
    uint32_t sampler;          /* enum wire_sampler */
    uint32_t copies;           /* WIRE_REPEAT: 2 … WIRE_COPIES_MAX; otherwise 0 */
    uint64_t draws;            /* WIRE_WEIGHTS, WIRE_BALANCED: of an epoch; 0: the view's samples. Otherwise 0. */
    uint32_t deal;             /* enum wire_deal; WIRE_DEAL_HOME goes with SHUFFLE_DEPENDENT */
    uint32_t mix;              /* WIRE_DEAL_HOME: 0 … WIRE_MIX_ALL; otherwise 0 */
    struct wire_text name;     /* name of the job; empty: the daemon makes one */
    struct wire_text dataset;  /* a folder, or a name from the configuration */
    struct wire_text pipeline; /* JSON */
    struct wire_text subset;   /* JSON; empty: all of the dataset */
};

struct wire_registered {
    uint32_t job;       /* the daemon's number for it */
    uint32_t n_samples; /* samples of the view */
    uint32_t n_batches; /* per epoch for this rank */
    uint32_t n_classes;
    uint32_t held_max; /* batches the client may hold (delivered and not released), for good */
    /* epoch and batch at which the rank goes on; 0 and 0 in a new job without a record */
    uint32_t epoch, batch;
    uint64_t sample_bytes;   /* size of a sample: layout.bytes; of encoded bytes, the longest sample's */
    uint64_t fingerprint[2]; /* of the dataset */
    uint64_t view[2]; /* fingerprint of the view: XXH3-128 over the dataset's and the view's indices, ascending */
    uint32_t dataset_samples;
    struct dataset_version version; /* version of the dataset; its content may not be known */
    struct sample_layout layout;    /* of a prepared sample; each field takes WIRE_FIELD_BYTES */
    struct wire_text name;          /* the job's */
};
#define WIRE_FIELD_BYTES 56

struct wire_classes_get {
    uint32_t first;
};

/* `names` has the class names first … first + count - 1 of total, each as a u16 length and its bytes. wire_class_next
 * walks them. */
struct wire_classes {
    uint32_t first, count, total;
    struct wire_text names;
};

/* A client whose program stands still says so with the credits that it gives then. If it has none to give and no batch
 * is there, it sends a NEXT without credits. The daemon compares `awaited` with the batches that it owes. If it owes
 * fewer, one is on its way, and the program does not stand still. */
struct wire_next {
    uint32_t epoch;   /* epochs count from 0, below WIRE_EPOCHS_MAX */
    uint32_t credits; /* outstanding ones never exceed WIRE_CREDITS_MAX; 0 only with batches that are awaited */
    /* Batches of the epoch that were asked for, these included, and have not come, while the program stands still.
     * WIRE_AHEAD: it goes on meanwhile. 0: it is not said, and the daemon has to guess. */
    uint32_t awaited;
};
#define WIRE_AHEAD UINT32_C(0xffffffff)

enum wire_batch_flags { WIRE_BATCH_LAST = 1 };

/* One sample of a batch, 24 bytes on the wire in this order. */
struct wire_entry {
    uint64_t offset; /* offset of the instance in the arena */
    uint32_t len_bytes;
    uint32_t id;    /* sample id */
    uint32_t index; /* position in the dataset's order (as torchvision's ImageFolder numbers it) */
    int32_t label;
};
#define WIRE_ENTRY_BYTES 24

struct wire_batch {
    uint64_t batch; /* the number by which the client releases it */
    uint32_t epoch;
    uint32_t index; /* index in the epoch, from 0 */
    uint32_t flags;
    uint32_t count;
    uint32_t lost; /* samples of this rank's epoch that were bad so far, and were left out or replaced */
    /* fixed orders: positions of the rank's part that are over after this batch; otherwise 0 */
    uint32_t through;
    double weight;          /* the job's, which `larder weight` may have changed; 0: not said */
    const uint8_t *entries; /* count × WIRE_ENTRY_BYTES; wire_entry_get reads one */
};

struct wire_release {
    uint64_t batch;
};

/* A sample of a batch that does not count as its own turn (record.h); 8 bytes on the wire in this order. */
struct wire_turn {
    uint32_t position; /* position in the batch */
    uint32_t index;    /* index of the sample that it counts as; WIRE_TURN_NONE: a repeat, which counts as none */
};
#define WIRE_TURN_BYTES 8
#define WIRE_TURN_NONE UINT32_MAX

/* TURNS comes before its BATCH, only for dependent jobs, and only if some sample does not count as its own turn. */
struct wire_turns {
    uint64_t batch;
    uint32_t count;       /* 1 … WIRE_BATCH_MAX */
    const uint8_t *turns; /* count × WIRE_TURN_BYTES, by ascending positions; wire_turn_get reads one */
};

/* STATE_GET asks for a token: what all ranks have taken when each has taken `batches` batches of the epoch since the
 * job's base. The client has received that many, and has not released more. The daemon waits at most timeout_ms for the
 * slowest rank. A client has one such question open at a time; its seq is not 0, and not that of an open
 * CLASSES_GET. */
struct wire_state_get {
    uint32_t epoch, batches;
    uint32_t timeout_ms;
};

struct wire_state {
    uint32_t n_bytes; /* length of the token, in the descriptor that comes with the message */
};

/* Another rank has received its whole share of the epoch, and keeps it. If the client comes back in that epoch, it
 * presents these bytes after its own history (record.h): the other rank may have ended, and then nobody else knows what
 * it received. */
struct wire_done {
    uint32_t epoch, rank; /* rank among all ranks of the job */
    uint32_t n_bytes;     /* length of its history, in the descriptor that comes with the message */
};

/* COLUMN_GET asks for a column of the job's dataset: a value for each of its samples, in the dataset's order. Names
 * that every dataset has are in column.h; others are its container's. A client has one such question open at a time;
 * its seq is not 0, and not that of another open question. An error in its place is not fatal. */
struct wire_column_get {
    struct wire_text name;
};

enum wire_column_kind { WIRE_COLUMN_INT64, WIRE_COLUMN_FLOAT64, WIRE_COLUMN_TEXT };

/* The descriptor that comes with the message is a memfd of n_bytes, sealed against writing and other lengths. It has
 * count × width numbers of 64 bits, little-endian; or count + 1 offsets of 64 bits, ascending from 0, and behind them
 * the texts, each from its offset to the next. Jobs of one dataset are sent the same one. */
struct wire_column {
    uint32_t kind;  /* enum wire_column_kind */
    uint32_t width; /* 1 … WIRE_WIDTH_MAX; of texts 1 */
    uint64_t count; /* the dataset's samples; its classes, or its columns, where these were asked for */
    uint64_t n_bytes;
};

struct wire_error {
    int32_t code;   /* enum larder_err */
    uint32_t fatal; /* 1: the daemon closes the connection after this */
    struct wire_text text;
};

struct wire_message {
    enum wire_type type;
    uint16_t version; /* 0 stands for WIRE_VERSION; decoding says which one it was */
    uint32_t seq;     /* chosen by the asker, echoed in the answer; 0 in messages that answer nothing */
    union {
        struct wire_hello hello;
        struct wire_welcome welcome;
        struct wire_register reg;
        struct wire_registered registered;
        struct wire_classes_get classes_get;
        struct wire_classes classes;
        struct wire_next next;
        struct wire_batch batch;
        struct wire_release release;
        struct wire_error error;
        struct wire_turns turns;
        struct wire_state_get state_get;
        struct wire_state state;
        struct wire_done done;
        struct wire_column_get column_get;
        struct wire_column column;
    };
};

/* wire_encode writes msg into buf, in the layout of its version, and its length into *len_bytes. LARDER_ELIMIT when cap
 * or a bound above does not suffice, LARDER_EINVAL when a field is out of its range or the version has no such message.
 * Pure; any thread. */
int wire_encode(const struct wire_message *msg, void *buf, size_t cap, size_t *len_bytes);

/* wire_decode reads one datagram, of WIRE_VERSION or an older version that is still understood. Every field is checked
 * against its bounds, and the length must fit exactly. Texts, entries and turns of *out borrow from buf; members that
 * its version does not have are 0. LARDER_EVERSION for another version, LARDER_EFORMAT for anything else wrong, with a
 * text. */
int wire_decode(const void *buf, size_t len_bytes, struct wire_message *out, struct error *err);

/* wire_entry_put writes entry `index` into a buffer of WIRE_ENTRY_BYTES an entry; wire_entry_get reads it. */
void wire_entry_put(uint8_t *entries, uint32_t index, const struct wire_entry *entry);
struct wire_entry wire_entry_get(const uint8_t *entries, uint32_t index);

/* wire_turn_put and wire_turn_get do the same for turns. */
void wire_turn_put(uint8_t *turns, uint32_t at, const struct wire_turn *turn);
struct wire_turn wire_turn_get(const uint8_t *turns, uint32_t at);

/* wire_class_next returns the name at *cursor, which counts bytes and starts at 0, and moves the cursor on.
 * LARDER_EEND after the last name, LARDER_EFORMAT when the bytes do not hold a whole name. wire_class_put appends a
 * name and adds to *used. LARDER_ELIMIT when it does not fit. */
int wire_class_next(const struct wire_text *names, uint32_t *cursor, struct wire_text *out);
int wire_class_put(char *names, uint32_t cap, uint32_t *used, const char *name, size_t len_bytes);

#endif
