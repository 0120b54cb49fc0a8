/* record.c: encodes, decodes and checks records. */
#include "common/record.h"

#include "common/codec.h"

#define HEAD_BYTES 68    /* up to and with the length of the base */
#define VERSION_BYTES 32 /* bytes of the dataset's version, if it is known */
#define COPIES_BYTES 8   /* what stands before the copies, if there are any */
#define PART_BYTES 12    /* bytes of what ranks a part of a token covers */

enum { KIND_SET, KIND_ORDER };

static bool is_set(const struct record *rec)
{
    return rec->shuffle == SHUFFLE_DEPENDENT;
}

/* ── checks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static int check_copies(const struct record *rec, struct error *err)
{
    struct record_copy before = {0, 0};
    uint64_t same = 0; /* copies of the same sample, up to this one */
    if (rec->n_copies == 0 ? rec->copy_ranks > 0 : rec->copy_ranks < 1 || rec->copy_ranks > RECORD_RANKS_MAX)
        return error_set(err, LARDER_EINVAL, "it has %u copies of %u ranks", rec->n_copies, rec->copy_ranks);
    for (uint32_t i = 0; i < rec->n_copies; i++) {
        struct record_copy copy = record_copy_get(rec, i);
        bool again = i > 0 && copy.index == before.index;
        same = again ? same + 1 : 1;
        if (copy.index >= rec->samples || copy.rank >= rec->copy_ranks || copy.index < before.index ||
            (again && copy.rank < before.rank) || same > record_turns_over(rec, copy.index))
            return error_set(err, LARDER_EINVAL, "rank %u of %u cannot have had a copy of sample %u of %u", copy.rank,
                             rec->copy_ranks, copy.index, rec->samples);
        before = copy;
    }
    return 0;
}

static int check_set(const struct record *rec, struct error *err)
{
    uint32_t all = record_set_bytes(rec->samples);
    if (rec->n_segments)
        return error_set(err, LARDER_EINVAL, "it has segments, which a dependent job has none of");
    if (rec->over_bytes != 0 && (all == 0 || rec->over_bytes % all || rec->over_bytes / all > RECORD_SETS_MAX))
        return error_set(err, LARDER_EINVAL, "its set has %u bytes, not %u for %u samples", rec->over_bytes, all,
                         rec->samples);
    for (uint32_t set = 0; rec->samples % 8 && set < record_sets(rec); set++) {
        if (rec->over[(set + (size_t)1) * all - 1] >> rec->samples % 8)
            return error_set(err, LARDER_EINVAL, "its set has indices beyond its %u samples", rec->samples);
    }
    return check_copies(rec, err);
}

static int check_segment(const struct record_segment *segment, uint32_t samples, struct error *err)
{
    if (segment->world_size < 1 || segment->world_size > RECORD_RANKS_MAX)
        return error_set(err, LARDER_EINVAL, "a segment is of %u ranks, not 1 to %d", segment->world_size,
                         RECORD_RANKS_MAX);
    if (segment->n != 1 && segment->n != segment->world_size)
        return error_set(err, LARDER_EINVAL, "a segment of %u ranks has %u numbers", segment->world_size, segment->n);
    for (uint32_t rank = 0; rank < segment->n; rank++) {
        if (record_through(segment, rank) > samples)
            return error_set(err, LARDER_EINVAL, "a rank is through %u numbers of %u samples",
                             record_through(segment, rank), samples);
    }
    return 0;
}

static int check_order(const struct record *rec, struct error *err)
{
    if (rec->over_bytes || rec->n_copies || rec->copy_ranks)
        return error_set(err, LARDER_EINVAL, "it has a set, which a fixed order has none of");
    if (rec->n_segments > RECORD_SEGMENTS_MAX)
        return error_set(err, LARDER_EINVAL, "it has %u segments, more than %d", rec->n_segments, RECORD_SEGMENTS_MAX);
    for (uint32_t i = 0; i < rec->n_segments; i++) {
        int rc = check_segment(&rec->segments[i], rec->samples, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* check_batches also checks that the batches together have n_turns turns. */
static int check_batches(const struct record *rec, struct error *err)
{
    uint32_t through = 0;
    uint64_t n_turns = 0;
    for (uint32_t i = 0; i < rec->n_batches; i++) {
        struct record_batch batch = record_batch_get(rec, i);
        if (batch.n_turns > (is_set(rec) ? batch.delivered : 0))
            return error_set(err, LARDER_EINVAL, "batch %u of %u samples has %u turns", i, batch.delivered,
                             batch.n_turns);
        if (is_set(rec) ? batch.through != 0 : batch.through < through || batch.through > rec->samples)
            return error_set(err, LARDER_EINVAL, "batch %u is through %u numbers, after %u of %u samples", i,
                             batch.through, through, rec->samples);
        through = batch.through;
        n_turns += batch.n_turns;
    }
    if (n_turns != rec->n_turns)
        return error_set(err, LARDER_EINVAL, "its batches have not %llu turns", (unsigned long long)rec->n_turns);
    return 0;
}

static int check_history(const struct record *rec, struct error *err)
{
    if (rec->world_size > RECORD_ALL_RANKS_MAX)
        return error_set(err, LARDER_EINVAL, "its history is of %u ranks, more than %d", rec->world_size,
                         RECORD_ALL_RANKS_MAX);
    if (rec->world_size ? rec->rank >= rec->world_size : rec->rank || rec->n_batches)
        return error_set(err, LARDER_EINVAL, "its history is of rank %u of %u and has %u batches", rec->rank,
                         rec->world_size, rec->n_batches);
    int rc = check_batches(rec, err);
    for (uint64_t i = 0; !rc && i < rec->n_turns; i++) {
        if (record_turn(rec, i) >= rec->samples)
            rc = error_set(err, LARDER_EINVAL, "it has the turn of index %u of %u samples", record_turn(rec, i),
                           rec->samples);
    }
    return rc;
}

/* When decoding, the batches determine the number of turns. */
static void each_history(struct codec *codec, struct record *rec)
{
    codec_u32(codec, &rec->world_size);
    codec_u32(codec, &rec->rank);
    codec_u32(codec, &rec->n_batches);
    rec->history = codec_bytes(codec, rec->history, (size_t)rec->n_batches * RECORD_BATCH_BYTES);
    if (!codec->out && !codec->failed) {
        for (uint32_t i = 0; i < rec->n_batches; i++)
            rec->n_turns += record_batch_get(rec, i).n_turns;
    }
    rec->turns = codec_bytes(codec, rec->turns, (size_t)rec->n_turns * RECORD_TURN_BYTES);
}

bool record_done_next(const struct record *rec, size_t *at, struct record *out)
{
    struct codec codec = {.in = rec->done, .cap = rec->done_bytes, .pos = *at};
    struct record done = *rec;
    done.n_turns = 0;
    done.done = NULL;
    done.done_bytes = 0;
    if (*at >= rec->done_bytes)
        return false;
    each_history(&codec, &done);
    if (codec.failed || done.world_size == 0 || check_history(&done, NULL))
        return false;
    *at = codec.pos;
    *out = done;
    return true;
}

/* check_done checks that all of `done` are histories of ranks of the same job. */
static int check_done(const struct record *rec, struct error *err)
{
    struct record done;
    size_t at = 0;
    while (record_done_next(rec, &at, &done)) {
        if (done.world_size != rec->world_size || done.rank == rec->rank)
            return error_set(err, LARDER_EINVAL, "it has the history of rank %u of %u besides that of rank %u of %u",
                             done.rank, done.world_size, rec->rank, rec->world_size);
    }
    return at == rec->done_bytes
               ? 0
               : error_set(err, LARDER_EINVAL, "%zu bytes behind its history are none of another rank's",
                           rec->done_bytes - at);
}

/* check_part checks a part of a token: neither all of the job's ranks nor none, no history, no copies. */
static int check_part(const struct record *rec, struct error *err)
{
    const struct record_part *part = &rec->part;
    if (part->of == 0 && part->first == 0 && part->ranks == 0)
        return 0;
    if (part->ranks < 1 || part->ranks >= part->of || part->of > RECORD_ALL_RANKS_MAX ||
        part->first > part->of - part->ranks)
        return error_set(err, LARDER_EINVAL, "it is of %u ranks from %u on of %u", part->ranks, part->first, part->of);
    if (rec->world_size || rec->n_copies)
        return error_set(err, LARDER_EINVAL, "it is a part of a state and has a history, or copies");
    return 0;
}

static int check(const struct record *rec, struct error *err)
{
    if (rec->shuffle > SHUFFLE_NONE)
        return error_set(err, LARDER_EINVAL, "shuffle is %u, not 0 to %d", rec->shuffle, SHUFFLE_NONE);
    if (rec->epoch == RECORD_EPOCHS_MAX && (rec->batches || rec->over_bytes || rec->n_segments || rec->n_batches))
        return error_set(err, LARDER_EINVAL, "something was taken of epoch %u, which no job has", rec->epoch);
    int rc = is_set(rec) ? check_set(rec, err) : check_order(rec, err);
    rc = rc ? rc : check_part(rec, err);
    rc = rc ? rc : check_history(rec, err);
    return rc ? rc : check_done(rec, err);
}

/* ── layout ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void each_copy(struct codec *codec, struct record *rec)
{
    codec_u32(codec, &rec->copy_ranks);
    codec_u32(codec, &rec->n_copies);
    rec->copies = codec_bytes(codec, rec->copies, (size_t)rec->n_copies * RECORD_COPY_BYTES);
}

static void each_base(struct codec *codec, struct record *rec, uint16_t version)
{
    if (is_set(rec)) {
        codec_u32(codec, &rec->over_bytes);
        rec->over = codec_bytes(codec, rec->over, rec->over_bytes);
        if (version == RECORD_VERSION_COPIES)
            each_copy(codec, rec);
        return;
    }
    codec_u32(codec, &rec->n_segments);
    codec->failed |= rec->n_segments > RECORD_SEGMENTS_MAX;
    for (uint32_t i = 0; i < rec->n_segments && !codec->failed; i++) {
        struct record_segment *segment = &rec->segments[i];
        codec_u32(codec, &segment->world_size);
        codec_u32(codec, &segment->n);
        segment->through = codec_bytes(codec, segment->through, (size_t)segment->n * 4);
    }
}

static void each_field(struct codec *codec, struct record *rec, uint16_t version)
{
    for (int i = 0; version > 1 && i < 2; i++)
        codec_u64(codec, &rec->version.times[i]);
    for (int i = 0; version > 1 && i < 2; i++)
        codec_u64(codec, &rec->version.content[i]);
    if (version == RECORD_VERSION) {
        codec_u32(codec, &rec->part.first);
        codec_u32(codec, &rec->part.ranks);
        codec_u32(codec, &rec->part.of);
    }
    for (int i = 0; i < 2; i++)
        codec_u64(codec, &rec->dataset[i]);
    for (int i = 0; i < 2; i++)
        codec_u64(codec, &rec->view[i]);
    codec_u64(codec, &rec->seed);
    codec_u32(codec, &rec->shuffle);
    codec_u32(codec, &rec->epoch);
    codec_u32(codec, &rec->batches);
    codec_u32(codec, &rec->samples);
    each_base(codec, rec, version);
    each_history(codec, rec);
}

static void each_header(struct codec *codec, uint32_t *magic, uint16_t *version, uint16_t *kind)
{
    codec_u32(codec, magic);
    codec_u16(codec, version);
    codec_u16(codec, kind);
}

/* ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* version_of returns the oldest format version that has all that the record has. */
static uint16_t version_of(const struct record *rec)
{
    if (rec->part.of)
        return RECORD_VERSION;
    if (rec->n_copies)
        return RECORD_VERSION_COPIES;
    return dataset_version_is_known(&rec->version) ? RECORD_VERSION_KNOWN : RECORD_VERSION_OLDEST;
}

size_t record_bytes(const struct record *rec)
{
    uint16_t version = version_of(rec);
    size_t version_bytes = version > RECORD_VERSION_OLDEST ? VERSION_BYTES : 0;
    size_t part_bytes = version == RECORD_VERSION ? PART_BYTES : 0;
    size_t copies = version == RECORD_VERSION_COPIES ? COPIES_BYTES + (size_t)rec->n_copies * RECORD_COPY_BYTES : 0;
    size_t bytes = version_bytes + part_bytes + copies + HEAD_BYTES + RECORD_HISTORY_BYTES + rec->done_bytes +
                   rec->over_bytes + (size_t)rec->n_batches * RECORD_BATCH_BYTES +
                   (size_t)rec->n_turns * RECORD_TURN_BYTES;
    for (uint32_t i = 0; i < rec->n_segments && i < RECORD_SEGMENTS_MAX; i++)
        bytes += 8 + (size_t)rec->segments[i].n * 4;
    return bytes;
}

int record_encode(const struct record *rec, void *buf, size_t cap, size_t *len_bytes)
{
    int rc = check(rec, NULL);
    if (rc)
        return rc;
    if (cap < record_bytes(rec))
        return LARDER_ELIMIT;
    struct record copy = *rec; /* the layout takes fields it could also fill */
    struct codec codec = {.out = buf, .cap = cap};
    uint32_t magic = RECORD_MAGIC;
    uint16_t version = version_of(rec);
    uint16_t kind = is_set(rec) ? KIND_SET : KIND_ORDER;
    each_header(&codec, &magic, &version, &kind);
    each_field(&codec, &copy, version);
    codec_bytes(&codec, rec->done, rec->done_bytes);
    *len_bytes = codec.pos;
    return 0;
}

int record_decode(const void *bytes, size_t len_bytes, struct record *out, struct error *err)
{
    struct codec codec = {.in = bytes, .cap = len_bytes};
    struct record rec;
    memset(&rec, 0, sizeof rec);
    uint32_t magic = 0;
    uint16_t version = 0, kind = 0;
    each_header(&codec, &magic, &version, &kind);
    if (codec.failed || magic != RECORD_MAGIC)
        return error_set(err, LARDER_EFORMAT, "the state does not begin as a state of Larder does");
    if (version < RECORD_VERSION_OLDEST || version > RECORD_VERSION)
        return error_set(err, LARDER_EVERSION,
                         "the state has format version %u, and this release of Larder reads versions %d to %d: use the "
                         "release that wrote it, or a newer one",
                         version, RECORD_VERSION_OLDEST, RECORD_VERSION);
    each_field(&codec, &rec, version);
    if (!codec.failed && rec.world_size) {
        rec.done = codec.in + codec.pos;
        rec.done_bytes = len_bytes - codec.pos;
    }
    if (codec.failed || codec.pos + rec.done_bytes != len_bytes || version != version_of(&rec))
        return error_set(err, LARDER_EFORMAT, "the state is damaged: %zu bytes do not fit its fields", len_bytes);
    struct error why;
    if (kind != (is_set(&rec) ? KIND_SET : KIND_ORDER))
        return error_set(err, LARDER_EFORMAT, "the state is damaged: kind %u does not fit shuffle %u", kind,
                         rec.shuffle);
    if (check(&rec, &why))
        return error_set(err, LARDER_EFORMAT, "the state is damaged: %.*s", ERROR_TEXT_MAX - 32, why.text);
    *out = rec;
    return 0;
}

int record_add_segment(struct record *rec, uint32_t world_size, uint32_t n, const uint8_t *through)
{
    uint32_t at = rec->n_segments;
    if (at > 0 && rec->segments[at - 1].world_size == world_size)
        at--;
    if (at >= RECORD_SEGMENTS_MAX)
        return LARDER_ELIMIT;
    rec->segments[at] = (struct record_segment){.world_size = world_size, .n = n, .through = through};
    rec->n_segments = at + 1;
    return 0;
}
