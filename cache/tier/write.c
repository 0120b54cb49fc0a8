/* write.c: the writers of a class, one at a time. Records are readable only once all of their write is in the file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cache/tier/tier_priv.h"
#include "common/check.h"

/* a segment filled to less than this part takes owners past SEGMENT_OWNERS_MAX, and does not list them */
#define CROWDED_PART 4
#define PIECE_RECORDS 256 /* records in one write: two parts each, fewer than IOV_MAX */

/* Records that are written together. */
struct piece {
    struct tier *tier;
    uint64_t owner;
    enum tier_form form;
    uint32_t count;
    uint64_t len_bytes; /* headers included */
    struct tier_record records[PIECE_RECORDS];
    uint64_t hashes[PIECE_RECORDS];
    uint8_t headers[PIECE_RECORDS][RECORD_HEADER_BYTES];
};

static uint64_t stored_bytes(const struct tier_record *record)
{
    return RECORD_HEADER_BYTES + record->len_bytes;
}

static bool has_owner(const struct segment *segment, uint64_t owner)
{
    for (uint32_t i = 0; i < segment->n_owners; i++) {
        if (segment->owners[i] == owner)
            return true;
    }
    return false;
}

/* ── giving place ── */

static bool is_wanted_locked(const struct tier *tier, const struct segment *segment)
{
    for (uint32_t i = 0; i < tier->n_wanted; i++) {
        if (has_owner(segment, tier->wanted[i]))
            return true;
    }
    return false;
}

/* find_unwanted_locked returns the oldest segment that may be evicted. SIZE_MAX: there is none. */
static size_t find_unwanted_locked(const struct tier *tier)
{
    for (size_t i = 0; i < tier->n_segments; i++) {
        const struct segment *segment = tier->segments[i];
        if (segment != tier->open[segment->moved] && !is_wanted_locked(tier, segment))
            return i;
    }
    return SIZE_MAX;
}

void tier_want(struct tier *tier, const uint64_t *owners, uint32_t count)
{
    CHECK_MAGIC(tier, TIER_MAGIC);
    CHECK(count <= TIER_OWNERS_MAX);
    uint64_t *copy = xcalloc(count ? count : 1, sizeof *copy);
    if (count)
        memcpy(copy, owners, count * sizeof *copy);
    pthread_mutex_lock(&tier->lock);
    free(tier->wanted);
    tier->wanted = copy;
    tier->n_wanted = count;
    tier->full &= find_unwanted_locked(tier) == SIZE_MAX;
    pthread_mutex_unlock(&tier->lock);
}

/* has_room makes room for `bytes` more, if need be by giving segments up. */
static bool has_room(struct tier *tier, uint64_t bytes, bool moved)
{
    uint64_t kept_bytes = tier->moves && !moved ? tier->segment_bytes : 0;
    while (tier->stats.used_bytes + bytes > tier->size_bytes - kept_bytes) {
        pthread_mutex_lock(&tier->lock);
        size_t at = find_unwanted_locked(tier);
        tier->full |= at == SIZE_MAX && !moved;
        pthread_mutex_unlock(&tier->lock);
        if (at == SIZE_MAX)
            return false;
        tier_give_up(tier, at);
    }
    return true;
}

/* ── segments ── */

static int begin_segment(struct tier *tier, bool moved)
{
    char name[SEGMENT_NAME_BYTES];
    if (tier->next_number == SEGMENT_NONE) {
        errno = EOVERFLOW;
        return -1;
    }
    segment_name("segment", tier->next_number, name);
    int fd = openat(tier->folder.dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    struct segment *segment = tier_add_segment(tier, tier->next_number, fd);
    pthread_mutex_lock(&tier->lock);
    segment->moved = moved;
    tier->open[moved] = segment;
    pthread_mutex_unlock(&tier->lock);
    return 0;
}

/* segment_for returns the segment for a record of this length; NULL with errno. */
static struct segment *segment_for(struct tier *tier, uint64_t owner, uint64_t bytes, bool moved)
{
    struct segment *last = tier->open[moved];
    /* Many owners that alternate must not make many segments, each with a descriptor. */
    bool takes = last && (has_owner(last, owner) || last->n_owners < SEGMENT_OWNERS_MAX ||
                          last->len_bytes < tier->segment_bytes / CROWDED_PART);
    bool fits = takes && last->len_bytes + bytes <= tier->segment_bytes;
    if (fits)
        return last;
    if ((last && tier_seal(tier, last)) || begin_segment(tier, moved))
        return NULL;
    return tier->open[moved];
}

/* ── writing ── */

static uint32_t publish(struct piece *piece, struct segment *segment)
{
    struct tier *tier = piece->tier;
    uint64_t offset = segment->len_bytes;
    uint32_t placed = 0;
    pthread_mutex_lock(&tier->lock);
    for (uint32_t i = 0; i < piece->count; i++) {
        const struct tier_record *record = &piece->records[i];
        struct place place = {.key = record->key,
                              .hash = piece->hashes[i],
                              .offset = offset + RECORD_HEADER_BYTES,
                              .form = piece->form,
                              .len_bytes = (uint32_t)record->len_bytes,
                              .segment = segment->number};
        if (tier_place_locked(tier, &place) == 0) {
            placed++;
            tier->stats.written_bytes += record->len_bytes;
        }
        offset += stored_bytes(record);
    }
    if (!has_owner(segment, piece->owner) && segment->n_owners < SEGMENT_OWNERS_MAX)
        segment->owners[segment->n_owners++] = piece->owner;
    segment->len_bytes += piece->len_bytes;
    tier->stats.used_bytes += piece->len_bytes;
    tier->stats.written_samples += placed;
    pthread_mutex_unlock(&tier->lock);
    return placed;
}

/* flush writes the piece. 0: the disk did not take it. */
static uint32_t flush(struct piece *piece)
{
    struct iovec parts[2 * PIECE_RECORDS];
    struct tier *tier = piece->tier;
    struct segment *segment = tier->open[piece->form != TIER_AS_READ];
    for (uint32_t i = 0; i < piece->count; i++) {
        const struct tier_record *record = &piece->records[i];
        piece->hashes[i] = tier_hash(record->bytes, record->len_bytes);
        tier_header_encode(&(struct record){.key = record->key,
                                            .owner = piece->owner,
                                            .hash = piece->hashes[i],
                                            .len_bytes = (uint32_t)record->len_bytes,
                                            .form = piece->form},
                           piece->headers[i]);
        parts[2 * i] = (struct iovec){piece->headers[i], RECORD_HEADER_BYTES};
        parts[2 * i + 1] = (struct iovec){(void *)record->bytes, record->len_bytes};
    }
    uint32_t placed = 0;
    if (piece->count && tier_move_parts(pwritev, segment->fd, parts, (int)(2 * piece->count), segment->len_bytes))
        tier_failed(tier, false, errno ? errno : EIO);
    else if (piece->count)
        placed = publish(piece, segment);
    piece->count = 0;
    piece->len_bytes = 0;
    return placed;
}

/* add puts a record into the piece, after writing the piece where the record does not fit beside it. False: the class
 * takes no more. */
static bool add(struct piece *piece, const struct tier_record *record, uint32_t *written)
{
    struct tier *tier = piece->tier;
    uint64_t bytes = stored_bytes(record);
    bool moved = piece->form != TIER_AS_READ;
    struct segment *last = tier->open[moved];
    if (piece->count &&
        (piece->count == PIECE_RECORDS || last->len_bytes + piece->len_bytes + bytes > tier->segment_bytes))
        *written += flush(piece);
    if (tier->write_off || !has_room(tier, piece->len_bytes + bytes, moved))
        return false;
    if (piece->count == 0 && !segment_for(tier, piece->owner, bytes, moved)) {
        tier_failed(tier, false, errno);
        return false;
    }
    piece->records[piece->count++] = *record;
    piece->len_bytes += bytes;
    return true;
}

static bool is_possible(const struct tier *tier, uint64_t len_bytes)
{
    return len_bytes > 0 && len_bytes <= RECORD_BYTES_MAX && RECORD_HEADER_BYTES + len_bytes <= tier->segment_bytes;
}

uint32_t tier_write(struct tier *tier, uint64_t owner, const struct tier_record *records, uint32_t count)
{
    CHECK_MAGIC(tier, TIER_MAGIC);
    if (!tier_writable(tier))
        return 0;
    struct piece *piece = xcalloc(1, sizeof *piece);
    piece->tier = tier;
    piece->owner = owner;
    uint32_t written = 0;
    pthread_mutex_lock(&tier->writing);
    for (uint32_t i = 0; i < count; i++) {
        const struct tier_record *record = &records[i];
        if (is_possible(tier, record->len_bytes) && !tier_find(tier, record->key, record->len_bytes) &&
            !add(piece, record, &written))
            break;
    }
    written += flush(piece);
    pthread_mutex_unlock(&tier->writing);
    free(piece);
    return written;
}

/* may_grow tells whether the class has room for a form that is longer than the sample, and for all that the sample's
 * segment has behind it, so that the whole segment can be moved, and the next one too. */
static bool may_grow(const struct tier *tier, const struct tier_sample *sample, uint64_t len_bytes)
{
    const struct segment *segment = tier_segment_locked(tier, sample->segment);
    uint64_t end = sample->offset + sample->len_bytes;
    uint64_t behind = segment->len_bytes - end, spare = tier->segment_bytes - segment->len_bytes;
    return tier->stats.used_bytes + RECORD_HEADER_BYTES + len_bytes + behind + spare <= tier->size_bytes;
}

bool tier_move(struct tier *tier, const struct tier_sample *sample, const void *planes, uint64_t len_bytes)
{
    CHECK_MAGIC(tier, TIER_MAGIC);
    struct tier_record record = {sample->key, sample->bytes, sample->len_bytes};
    struct piece *piece = xcalloc(1, sizeof *piece);
    *piece = (struct piece){.tier = tier, .owner = sample->owner, .form = TIER_STAYS};
    uint32_t written = 0;
    pthread_mutex_lock(&tier->writing);
    pthread_mutex_lock(&tier->lock);
    bool there = tier_is_at_locked(tier, sample), off = tier->write_off || tier->read_off;
    if (there && planes && is_possible(tier, len_bytes) &&
        (len_bytes <= sample->len_bytes || may_grow(tier, sample, len_bytes))) {
        record = (struct tier_record){sample->key, planes, len_bytes};
        piece->form = TIER_PLANES;
    }
    pthread_mutex_unlock(&tier->lock);
    bool taken = !off && (!there || (add(piece, &record, &written) && flush(piece) > 0));
    pthread_mutex_unlock(&tier->writing);
    free(piece);
    return taken;
}
