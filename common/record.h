/* record.h: the samples of an epoch that have been taken, as bytes. A checkpoint keeps them, and a client that connects
 * again presents them to the daemon.
 *
 * A batch is taken when the client's training loop has received it. In an epoch each sample of the view is due once;
 * this is its turn. A delivered sample normally counts as its own turn. A sample that replaces a bad one counts as the
 * bad one's turn. A repeat, which fills up a rank's share, counts as none. A record has two parts:
 *
 *   base      what all ranks together had taken when the job was started from a checkpoint: of a dependent job a set of
 *             turns, of a fixed order (strict, none) segments. Where the copies of a sample go to different ranks, it
 *             also says which ranks had those of samples of which some copies are still to come
 *   history   what one rank has taken since, batch by batch, in order
 *
 * A token, which a checkpoint keeps, is a record without history. Where a job has ranks at several nodes, a node tells
 * a part of a token in the middle of an epoch: its base has the former base, and what the ranks of this node took. A
 * client puts the parts of all nodes together. After its own history a record may have those of other ranks that have
 * received their whole share of the epoch: the others can go on without them.
 *
 * Samples are named by their index in the dataset's order, which is the same in each daemon. If W ranks share a fixed
 * order, position i of it belongs to the part of rank i mod W, at index i / W. `through` is the number of positions of
 * a part, from its beginning, that are over. Segments record a fixed order whose job went on with other numbers of
 * ranks. Sequence 0 is the epoch's whole order. Segment k, of W ranks, takes element j of sequence k if j / W <
 * through[j mod W]. The rest, in order, is sequence k + 1.
 *
 * Layout, little-endian, nothing padded:
 *
 *   u32 magic   u16 version   u16 kind (0 set: dependent; 1 order: strict, none)
 *   from version 2 on: u64 times[2]   u64 content[2]: the dataset's version (dataset_version.h)
 *   version 4, a part of a token: u32 first   u32 ranks   u32 of: the ranks it covers, and how many there are
 *   u64 dataset[2]   u64 view[2]   u64 seed   u32 shuffle   u32 epoch   u32 batches   u32 samples
 *   kind set:    u32 n_bytes, and a bit set: bit i % 8 of byte i / 8 is index i. Where an epoch has samples more than
 *                once, several: an index that is in set p has 2^p turns over, besides those of the other sets
 *   version 3:   u32 world_size   u32 n_copies   n_copies × (u32 index, u32 rank), ascending
 *   kind order:  u32 n_segments, and of each: u32 world_size, u32 n, n × u32 through
 *   u32 world_size   u32 rank   u32 n_batches
 *   n_batches × (u32 delivered, u32 through, u32 n_turns), then the turns of all batches, u32 each
 *   the last two lines again for each rank that is done
 *
 * A record is written as the oldest version that has all that it has: a part as version 4, one with copies, which only
 * kind set has, as version 3, any other as version 2, or, if its dataset's version is not known, as version 1, as
 * records were before there were versions.
 *
 * The codec is pure. It never trusts a length and allocates nothing. Any thread may call it. */
#ifndef LARDER_COMMON_RECORD_H
#define LARDER_COMMON_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "common/dataset_version.h"
#include "common/error.h"
#include "common/little_endian.h"
#include "common/types.h"

#define RECORD_MAGIC UINT32_C(0x5352444c) /* "LDRS" */
#define RECORD_VERSION 4                  /* a part of a token */
#define RECORD_VERSION_COPIES 3
#define RECORD_VERSION_KNOWN 2
#define RECORD_VERSION_OLDEST 1
#define RECORD_SEGMENTS_MAX 64
#define RECORD_RANKS_MAX 256         /* ranks of a segment */
#define RECORD_ALL_RANKS_MAX 65536   /* ranks of a history: the job may have ranks at other nodes */
#define RECORD_EPOCHS_MAX UINT32_MAX /* most epochs of a job: nothing can be taken of the epoch with this number */
#define RECORD_SETS_MAX 32
#define RECORD_HISTORY_BYTES 12 /* its own three numbers */
#define RECORD_BATCH_BYTES 12
#define RECORD_TURN_BYTES 4
#define RECORD_COPY_BYTES 8

/* The part of a sequence that the ranks of one world size took. */
struct record_segment {
    uint32_t world_size;    /* 1 … RECORD_RANKS_MAX */
    uint32_t n;             /* numbers in through: world_size, or 1 when that one is every rank's */
    const uint8_t *through; /* n × u32, little-endian; record_through reads one */
};

/* One batch of a history. */
struct record_batch {
    uint32_t delivered; /* its samples */
    uint32_t through;   /* fixed orders: positions of the rank's part that are over after it; otherwise 0 */
    uint32_t n_turns;   /* dependent: number of its samples that count as a turn; otherwise 0 */
};

/* A copy of a sample, of which some copies are still to come, that a rank had. */
struct record_copy {
    uint32_t index, rank;
};

struct record {
    struct dataset_version version; /* version of the dataset; all 0: not known */
    uint64_t dataset[2], view[2];   /* fingerprints */
    uint64_t seed;
    uint32_t shuffle; /* enum shuffle_mode */
    uint32_t epoch;
    uint32_t batches; /* batches of each rank in the base */
    uint32_t samples; /* samples of the dataset */

    /* A part of a token: it covers the `ranks` ranks from `first` on, of the job's `of`. of 0: it is whole. */
    struct record_part {
        uint32_t first, ranks, of;
    } part;

    /* The base of a dependent job: index i's turn is over if its bit is set. NULL and 0 bytes: nothing is. */
    const uint8_t *over;
    uint32_t over_bytes; /* 0, or record_set_bytes(samples) for each of at most RECORD_SETS_MAX sets */
    /* Ascending by index and rank. copy_ranks is the number of ranks then, 0 where there are none. A rank may have had
     * several copies of a sample, and no more are listed than its turns that are over. */
    uint32_t copy_ranks, n_copies;
    const uint8_t *copies; /* n_copies × RECORD_COPY_BYTES; record_copy_get reads one */
    /* The base of a fixed order. */
    uint32_t n_segments;
    struct record_segment segments[RECORD_SEGMENTS_MAX];

    /* The history. world_size 0: there is none, and the others are 0 too. */
    uint32_t world_size, rank;
    uint32_t n_batches;
    uint64_t n_turns;       /* turns of all batches */
    const uint8_t *history; /* n_batches × RECORD_BATCH_BYTES; record_batch_get reads one */
    const uint8_t *turns; /* n_turns × RECORD_TURN_BYTES: indices, in the order of the batches; record_turn reads one */

    /* The histories of ranks that are done, one after the other; record_done_next reads them. NULL and 0: none. */
    const uint8_t *done;
    size_t done_bytes;
};

/* record_bytes returns the length that the record has when it is encoded. */
size_t record_bytes(const struct record *rec);

/* record_encode writes rec into buf and its length into *len_bytes. LARDER_ELIMIT when cap does not suffice,
 * LARDER_EINVAL when something is out of its range. */
int record_encode(const struct record *rec, void *buf, size_t cap, size_t *len_bytes);

/* record_decode reads a record that takes len_bytes exactly. *out borrows from the bytes. It checks that the record is
 * whole and that each number is within what the record itself says. The caller checks whether it fits a dataset, and
 * whether an index has its turn twice. LARDER_EVERSION for another version, LARDER_EFORMAT for anything else wrong,
 * with a text. */
int record_decode(const void *bytes, size_t len_bytes, struct record *out, struct error *err);

/* record_done_next returns the next history of a rank that is done, as a record with the same base. *at begins at 0,
 * and goes on to the one behind. False: there is none, or what is there is no history of such a record. */
bool record_done_next(const struct record *rec, size_t *at, struct record *out);

/* record_add_segment notes what world_size ranks have taken of a fixed order: n numbers at `through`, as in struct
 * record_segment, borrowed. It replaces a last segment of the same world size: its ranks went on in it, and their
 * numbers count from its beginning. LARDER_ELIMIT: there is no place for one more segment. */
int record_add_segment(struct record *rec, uint32_t world_size, uint32_t n, const uint8_t *through);

/* record_begin_epoch makes the record's base that of an epoch of which nothing was taken. */
static inline void record_begin_epoch(struct record *rec, uint32_t epoch)
{
    rec->epoch = epoch;
    rec->batches = rec->over_bytes = rec->copy_ranks = rec->n_copies = rec->n_segments = 0;
    rec->over = rec->copies = NULL;
}

/* record_set_bytes returns the length of a bit set over `samples` indices. */
static inline uint32_t record_set_bytes(uint32_t samples)
{
    return samples / 8 + (samples % 8 != 0);
}

/* record_set_add puts an index into a bit set; record_set_has tells whether it is there. */
static inline void record_set_add(uint8_t *set, uint32_t index)
{
    set[index / 8] |= (uint8_t)(1u << index % 8);
}

static inline bool record_set_has(const uint8_t *set, uint32_t index)
{
    return set[index / 8] >> index % 8 & 1;
}

/* record_sets returns how many sets the base has. record_turns_over returns how many turns of an index below `samples`
 * are over with the base. */
static inline uint32_t record_sets(const struct record *rec)
{
    return rec->over_bytes ? rec->over_bytes / record_set_bytes(rec->samples) : 0;
}

static inline uint64_t record_turns_over(const struct record *rec, uint32_t index)
{
    uint64_t turns = 0;
    for (uint32_t set = 0; set < record_sets(rec); set++)
        turns |= (uint64_t)record_set_has(rec->over + (size_t)set * record_set_bytes(rec->samples), index) << set;
    return turns;
}

/* record_turn_over tells whether the base has the turn of an index below `samples`. */
static inline bool record_turn_over(const struct record *rec, uint32_t index)
{
    return rec->over_bytes != 0 && record_set_has(rec->over, index);
}

static inline uint32_t record_through(const struct record_segment *segment, uint32_t rank)
{
    return get_u32(segment->through + (segment->n == 1 ? 0 : (size_t)rank * 4));
}

static inline void record_batch_put(uint8_t *history, uint32_t at, const struct record_batch *batch)
{
    uint8_t *to = history + (size_t)at * RECORD_BATCH_BYTES;
    put_u32(put_u32(put_u32(to, batch->delivered), batch->through), batch->n_turns);
}

static inline struct record_batch record_batch_get(const struct record *rec, uint32_t at)
{
    const uint8_t *from = rec->history + (size_t)at * RECORD_BATCH_BYTES;
    return (struct record_batch){get_u32(from), get_u32(from + 4), get_u32(from + 8)};
}

static inline void record_copy_put(uint8_t *copies, uint32_t at, const struct record_copy *copy)
{
    put_u32(put_u32(copies + (size_t)at * RECORD_COPY_BYTES, copy->index), copy->rank);
}

static inline struct record_copy record_copy_get(const struct record *rec, uint32_t at)
{
    const uint8_t *from = rec->copies + (size_t)at * RECORD_COPY_BYTES;
    return (struct record_copy){get_u32(from), get_u32(from + 4)};
}

static inline uint32_t record_turn(const struct record *rec, uint64_t at)
{
    return get_u32(rec->turns + at * RECORD_TURN_BYTES);
}

#endif
