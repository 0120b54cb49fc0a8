/* tier.c: a class's life: its segments as they are found, sealed and given up, and what it says of itself. */
#include "cache/tier/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file.h"
#include "cache/tier/tier_priv.h"
#include "common/check.h"
#include "common/log.h"

/* How large segments become: a class has some dozens, and even a small one has segments that hold photographs. */
enum { SEGMENTS = 64, SEGMENTS_LEAST = 4 };
#define SEGMENT_BYTES_LEAST (UINT64_C(8) << 20)

static const char *const state_names[TIER_STATES + 1] = {"filling", "full", "read_only", "off", NULL};

const char *tier_state_name(enum tier_state state)
{
    return state_names[state];
}

const char *const *tier_state_names(void)
{
    return state_names;
}

/* ── places and segments ── */

struct segment *tier_segment_locked(const struct tier *tier, uint32_t number)
{
    size_t low = 0, high = tier->n_segments;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct segment *segment = tier->segments[middle];
        if (segment->number == number)
            return segment;
        if (segment->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* release_locked drops a reference. It returns the descriptor that the caller closes without the lock; -1: none. */
static int release_locked(struct segment *segment)
{
    CHECK(segment->refs > 0);
    if (--segment->refs > 0)
        return -1;
    int fd = segment->fd;
    free(segment);
    return fd;
}

void tier_release(struct tier *tier, struct segment *segment)
{
    pthread_mutex_lock(&tier->lock);
    int fd = release_locked(segment);
    pthread_mutex_unlock(&tier->lock);
    if (fd >= 0)
        close(fd);
}

static bool is_alive(void *ctx, uint32_t segment)
{
    return tier_segment_locked(ctx, segment) != NULL;
}

void tier_forget_locked(struct tier *tier, struct place *place)
{
    struct segment *segment = tier_segment_locked(tier, place->segment);
    place->segment = SEGMENT_NONE;
    if (!segment)
        return;
    segment->samples--;
    segment->planes -= place->form == TIER_PLANES;
    tier->stats.samples--;
    tier->stats.planes -= place->form == TIER_PLANES;
    tier->stats.unmoved -= !segment->moved;
}

int tier_place_locked(struct tier *tier, const struct place *place)
{
    struct place old;
    int code = place_put(&tier->table, place, is_alive, tier, &old);
    if (code)
        return code;
    tier_forget_locked(tier, &old);
    struct segment *segment = tier_segment_locked(tier, place->segment);
    segment->samples++;
    segment->planes += place->form == TIER_PLANES;
    tier->stats.samples++;
    tier->stats.planes += place->form == TIER_PLANES;
    tier->stats.unmoved += !segment->moved;
    return 0;
}

struct segment *tier_add_segment(struct tier *tier, uint32_t number, int fd)
{
    struct segment *segment = xcalloc(1, sizeof *segment);
    *segment = (struct segment){.number = number, .refs = 1, .fd = fd};
    pthread_mutex_lock(&tier->lock);
    tier->segments = xgrow(tier->segments, sizeof(struct segment *), &tier->cap_segments, tier->n_segments + 1);
    tier->segments[tier->n_segments++] = segment;
    tier->next_number = number + 1;
    pthread_mutex_unlock(&tier->lock);
    return segment;
}

void tier_give_up(struct tier *tier, size_t at)
{
    struct segment *segment = tier->segments[at];
    (void)segment_remove(tier->folder.dir_fd, segment->number); /* one that stays is found at the next start */
    pthread_mutex_lock(&tier->lock);
    tier->stats.used_bytes -= segment->len_bytes;
    tier->stats.samples -= segment->samples;
    tier->stats.planes -= segment->planes;
    tier->stats.unmoved -= segment->moved ? 0 : segment->samples;
    tier->stats.given_up += segment->samples > 0;
    tier->full = false;
    memmove(&tier->segments[at], &tier->segments[at + 1], (tier->n_segments - at - 1) * sizeof(struct segment *));
    tier->n_segments--;
    if (tier->open[segment->moved] == segment)
        tier->open[segment->moved] = NULL;
    int fd = release_locked(segment);
    pthread_mutex_unlock(&tier->lock);
    if (fd >= 0)
        close(fd); /* without the lock: the file system removes the file's bytes now */
}

static bool collect(struct tier *tier, const struct segment *segment, struct segment_index *index)
{
    pthread_mutex_lock(&tier->lock);
    index->places = malloc((segment->samples ? segment->samples : 1) * sizeof *index->places);
    for (size_t i = 0; index->places && i < tier->table.cap; i++) {
        const struct place *place = &tier->table.places[i];
        if (place->len_bytes && place->segment == segment->number)
            index->places[index->count++] = *place;
    }
    pthread_mutex_unlock(&tier->lock);
    return index->places != NULL;
}

int tier_seal(struct tier *tier, struct segment *segment)
{
    char path[PATH_MAX], name[SEGMENT_NAME_BYTES];
    struct segment_index index = {
        .segment = segment->number, .n_owners = segment->n_owners, .sealed_bytes = segment->len_bytes};
    memcpy(index.owners, segment->owners, sizeof index.owners);
    if (segment->sealed_bytes == segment->len_bytes)
        return 0;
    if (fdatasync(segment->fd))
        return -1;
    segment_name("index", segment->number, name);
    errno = ENOMEM;
    if (snprintf(path, sizeof path, "%s/%s", tier->path, name) >= (int)sizeof path || !collect(tier, segment, &index))
        return -1;
    size_t len;
    uint8_t *bytes = index_encode(&index, &len);
    int rc = bytes && file_replace(path, 0600, bytes, len, NULL) == 0 ? 0 : -1;
    int number = bytes ? errno : ENOMEM;
    free(bytes);
    free(index.places);
    if (rc == 0)
        segment->sealed_bytes = segment->len_bytes;
    errno = number;
    return rc;
}

/* ── opening ── */

struct opening {
    struct tier *tier;
    struct segment *segment;
};

static void add_owner(struct segment *segment, uint64_t owner)
{
    uint32_t i = 0;
    while (i < segment->n_owners && segment->owners[i] != owner)
        i++;
    if (i == segment->n_owners && i < SEGMENT_OWNERS_MAX)
        segment->owners[segment->n_owners++] = owner;
}

/* place_found adds a place that was found in a file. A sample may have been found in the form that it stays in, and be
 * found as it was read in a segment that it was moved from. Then it stays where it is. */
static int place_found(struct tier *tier, struct segment *segment, const struct place *place)
{
    const struct place *known = place_find(&tier->table, place->key);
    segment->moved = segment->moved || place->form != TIER_AS_READ;
    if (known && known->form != TIER_AS_READ && place->form == TIER_AS_READ &&
        tier_segment_locked(tier, known->segment))
        return 0;
    return tier_place_locked(tier, place);
}

static int found_record(void *ctx, const struct record *record, uint64_t offset)
{
    struct opening *opening = ctx;
    struct place place = {.key = record->key,
                          .hash = record->hash,
                          .offset = offset,
                          .form = record->form,
                          .len_bytes = record->len_bytes,
                          .segment = opening->segment->number};
    add_owner(opening->segment, record->owner);
    return place_found(opening->tier, opening->segment, &place);
}

static int take_index(struct tier *tier, struct segment *segment, uint64_t file_bytes)
{
    struct segment_index index;
    if (!segment_index_load(tier->folder.dir_fd, segment->number, file_bytes, &index))
        return 0;
    int code = 0;
    for (size_t i = 0; !code && i < index.count; i++)
        code = place_found(tier, segment, &index.places[i]);
    memcpy(segment->owners, index.owners, sizeof segment->owners);
    segment->n_owners = index.n_owners;
    segment->sealed_bytes = segment->len_bytes = index.sealed_bytes;
    free(index.places);
    return code;
}

/* go_through finds a segment's records, and drops an unfinished write at its end. LARDER_EIO, LARDER_ENOMEM. */
static int go_through(struct tier *tier, struct segment *segment, uint64_t file_bytes)
{
    struct opening opening = {tier, segment};
    int code = take_index(tier, segment, file_bytes);
    if (!code)
        code = segment_scan(segment->fd, segment->len_bytes, file_bytes, found_record, &opening, &segment->len_bytes);
    tier->stats.used_bytes += segment->len_bytes;
    if (!code && segment->len_bytes < file_bytes && ftruncate(segment->fd, (off_t)segment->len_bytes))
        code = LARDER_EIO;
    return code;
}

/* load_segment opens a segment. A segment that cannot be read, or holds nothing, is given up. Anything that is no
 * regular file is left as it is. The class goes on with the other segments; *lost counts those that were not read. */
static int load_segment(struct tier *tier, uint32_t number, uint32_t *lost, struct error *err)
{
    char name[SEGMENT_NAME_BYTES];
    struct stat st;
    segment_name("segment", number, name);
    tier->next_number = number + 1;
    int fd = openat(tier->folder.dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno_code(errno) == LARDER_ELIMIT)
        return file_error(err, tier->path, "open one of its segments");
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        ++*lost;
        if (fd >= 0)
            close(fd);
        return 0;
    }
    struct segment *segment = tier_add_segment(tier, number, fd);
    int code = go_through(tier, segment, (uint64_t)st.st_size);
    if (code == LARDER_ENOMEM)
        return error_set(err, code, "%s: no memory for its table", tier->path);
    if (code || (st.st_size > 0 && segment->len_bytes == 0))
        ++*lost;
    if (code || segment->len_bytes == 0)
        tier_give_up(tier, tier->n_segments - 1);
    return 0;
}

static int load_segments(struct tier *tier, struct error *err)
{
    uint32_t *numbers = NULL;
    uint32_t lost = 0;
    size_t count = 0;
    if (segment_numbers(tier->folder.dir_fd, false, &numbers, &count))
        return file_error(err, tier->path, "list its files");
    size_t first = count > SEGMENTS_MAX ? count - SEGMENTS_MAX : 0;
    int code = 0;
    for (size_t i = 0; i < first; i++)
        (void)segment_remove(tier->folder.dir_fd, numbers[i]); /* one that stays is never opened */
    for (size_t i = first; !code && i < count; i++)
        code = load_segment(tier, numbers[i], &lost, err);
    free(numbers);
    if (lost)
        log_error("msg=\"segments of a storage class are damaged, and what they had is read from the source again\" "
                  "path=\"%s\" segments=%u",
                  tier->path, lost);
    while (!code && tier->n_segments && tier->stats.used_bytes > tier->size_bytes)
        tier_give_up(tier, 0);
    tier->stats.given_up = 0;
    for (size_t i = 0; i < tier->n_segments; i++)
        tier->open[tier->segments[i]->moved] = tier->segments[i];
    return code;
}

static void destroy(struct tier *tier)
{
    while (tier->n_segments)
        tier_release(tier, tier->segments[--tier->n_segments]);
    free(tier->segments);
    place_table_free(&tier->table);
    folder_close(&tier->folder);
    pthread_mutex_destroy(&tier->lock);
    pthread_mutex_destroy(&tier->writing);
    free(tier->wanted);
    free(tier->path);
    tier->magic = 0;
    free(tier);
}

static uint64_t segment_bytes_of(uint64_t size_bytes)
{
    uint64_t least = size_bytes / SEGMENTS_LEAST < SEGMENT_BYTES_LEAST ? size_bytes / SEGMENTS_LEAST
                                                                       : SEGMENT_BYTES_LEAST;
    return size_bytes / SEGMENTS > least ? size_bytes / SEGMENTS : least;
}

int tier_open(const char *path, uint64_t size_bytes, struct tier **out, struct error *err)
{
    CHECK(size_bytes >= TIER_SIZE_MIN && size_bytes <= TIER_SIZE_MAX);
    struct tier *tier = xcalloc(1, sizeof *tier);
    tier->magic = TIER_MAGIC;
    tier->folder = (struct folder){.dir_fd = -1, .lock_fd = -1};
    tier->path = xstrdup(path);
    tier->size_bytes = size_bytes;
    tier->segment_bytes = segment_bytes_of(size_bytes);
    CHECK(pthread_mutex_init(&tier->lock, NULL) == 0 && pthread_mutex_init(&tier->writing, NULL) == 0);
    int code = folder_open_class(path, size_bytes, &tier->folder, err);
    if (!code)
        code = load_segments(tier, err);
    if (code) {
        destroy(tier);
        return code;
    }
    *out = tier;
    return 0;
}

void tier_close(struct tier *tier)
{
    if (!tier)
        return;
    CHECK_MAGIC(tier, TIER_MAGIC);
    for (int moved = 0; moved <= 1; moved++) {
        if (tier->open[moved] && !tier->write_off && !tier->read_off && tier_seal(tier, tier->open[moved]))
            tier_failed(tier, false, errno);
    }
    destroy(tier);
}

/* ── what it says ── */

void tier_failed(struct tier *tier, bool reading, int number)
{
    pthread_mutex_lock(&tier->lock);
    bool known = reading ? tier->read_off : tier->write_off;
    *(reading ? &tier->read_off : &tier->write_off) = true;
    pthread_mutex_unlock(&tier->lock);
    if (!known)
        log_warn("msg=\"storage class %s: jobs go on without; the next start tries it again\" path=\"%s\" err=\"%s\"",
                 reading ? "switched off" : "switched off for writing", tier->path, strerror(number));
}

const char *tier_path(const struct tier *tier)
{
    return tier->path;
}

uint64_t tier_seed(const struct tier *tier)
{
    return tier->folder.seed;
}

bool tier_writable(struct tier *tier)
{
    pthread_mutex_lock(&tier->lock);
    bool writable = !tier->full && !tier->write_off && !tier->read_off;
    pthread_mutex_unlock(&tier->lock);
    return writable;
}

void tier_stats(struct tier *tier, struct tier_stats *out)
{
    CHECK_MAGIC(tier, TIER_MAGIC);
    pthread_mutex_lock(&tier->lock);
    *out = tier->stats;
    out->segments = (uint32_t)tier->n_segments;
    out->state = tier->read_off ? TIER_OFF : tier->write_off ? TIER_READ_ONLY : tier->full ? TIER_FULL : TIER_FILLING;
    pthread_mutex_unlock(&tier->lock);
    out->size_bytes = tier->size_bytes;
}
