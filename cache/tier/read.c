/* read.c: samples out of a class. Samples that lie near each other come with one request, straight into the callers'
 * buffers; what lies between them is read and dropped. No lock is held while the disk works: a segment that is read
 * from has a reference. */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "cache/tier/tier_priv.h"
#include "common/check.h"

#define GAP_BYTES_MAX (64u << 10) /* reading past a gap of this size costs less than another request */
#define PARTS_MAX 512

/* One sample of a tier_read_many that the class has. */
struct found {
    struct tier_read *read;
    struct segment *segment;
    struct place place;
};

static struct place *find_locked(const struct tier *tier, struct tier_key key)
{
    struct place *place = tier->read_off ? NULL : place_find(&tier->table, key);
    return place && tier_segment_locked(tier, place->segment) ? place : NULL;
}

bool tier_find(struct tier *tier, struct tier_key key, uint64_t bytes)
{
    CHECK_MAGIC(tier, TIER_MAGIC);
    pthread_mutex_lock(&tier->lock);
    const struct place *place = find_locked(tier, key);
    bool found = place && (place->form == TIER_PLANES || place->len_bytes == bytes);
    pthread_mutex_unlock(&tier->lock);
    return found;
}

uint64_t tier_find_planes(struct tier *tier, struct tier_key key)
{
    CHECK_MAGIC(tier, TIER_MAGIC);
    pthread_mutex_lock(&tier->lock);
    const struct place *place = find_locked(tier, key);
    uint64_t len_bytes = place && place->form == TIER_PLANES ? place->len_bytes : 0;
    pthread_mutex_unlock(&tier->lock);
    return len_bytes;
}

static bool suits(const struct place *place, const struct tier_read *read)
{
    return place->form == TIER_PLANES ? place->len_bytes <= read->room : place->len_bytes == read->bytes;
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = &((const struct found *)a)->place, *y = &((const struct found *)b)->place;
    if (x->segment != y->segment)
        return x->segment > y->segment ? 1 : -1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* run_length returns how many of the samples from the first on one request brings. */
static uint32_t run_length(const struct found *first, uint32_t count)
{
    uint32_t n = 1;
    uint64_t end = first->place.offset + first->place.len_bytes;
    while (n < count && n * 2 + 1 < PARTS_MAX && first[n].segment == first->segment && first[n].place.offset >= end &&
           first[n].place.offset - end <= GAP_BYTES_MAX) {
        end = first[n].place.offset + first[n].place.len_bytes;
        n++;
    }
    return n;
}

/* read_run returns 0, or -1 with errno, which is 0 where the file ends early. */
static int read_run(const struct found *first, uint32_t count, char *dropped)
{
    struct iovec parts[PARTS_MAX];
    int n = 0;
    uint64_t end = first->place.offset;
    for (uint32_t i = 0; i < count; i++) {
        const struct place *place = &first[i].place;
        if (place->offset > end)
            parts[n++] = (struct iovec){dropped, place->offset - end};
        parts[n++] = (struct iovec){first[i].read->buf, place->len_bytes};
        end = place->offset + place->len_bytes;
    }
    return tier_move_parts(preadv, first->segment->fd, parts, n, first->place.offset);
}

/* drop makes the class forget a record whose bytes are wrong, unless another one has come to its place since. */
static void drop(struct tier *tier, const struct found *found)
{
    pthread_mutex_lock(&tier->lock);
    struct place *place = place_find(&tier->table, found->place.key);
    if (place && place->segment == found->place.segment && place->offset == found->place.offset) {
        tier_forget_locked(tier, place);
        tier->stats.corrupt++;
    }
    pthread_mutex_unlock(&tier->lock);
}

static uint32_t check_run(struct tier *tier, const struct found *first, uint32_t count)
{
    uint32_t good = 0;
    for (uint32_t i = 0; i < count; i++) {
        first[i].read->done = tier_hash(first[i].read->buf, first[i].place.len_bytes) == first[i].place.hash;
        if (first[i].read->done)
            good++;
        else
            drop(tier, &first[i]);
    }
    return good;
}

static uint32_t find_all(struct tier *tier, struct tier_read *reads, uint32_t count, struct found *found)
{
    uint32_t n = 0;
    pthread_mutex_lock(&tier->lock);
    for (uint32_t i = 0; i < count; i++) {
        const struct place *place = find_locked(tier, reads[i].key);
        reads[i].done = false;
        if (!place || !suits(place, &reads[i]))
            continue;
        reads[i].planes_bytes = place->form == TIER_PLANES ? place->len_bytes : 0;
        found[n] = (struct found){&reads[i], tier_segment_locked(tier, place->segment), *place};
        found[n++].segment->refs++;
    }
    pthread_mutex_unlock(&tier->lock);
    return n;
}

/* A file that ends early makes one request fail for all of its samples: then each is read by itself. */
static uint32_t read_and_check(struct tier *tier, const struct found *first, uint32_t count, char *dropped)
{
    if (read_run(first, count, dropped) == 0)
        return check_run(tier, first, count);
    if (errno) {
        tier_failed(tier, true, errno);
        return 0;
    }
    if (count == 1) {
        drop(tier, first);
        return 0;
    }
    uint32_t good = 0;
    for (uint32_t i = 0; i < count; i++)
        good += read_and_check(tier, first + i, 1, dropped);
    return good;
}

uint32_t tier_read_many(struct tier *tier, struct tier_read *reads, uint32_t count)
{
    CHECK_MAGIC(tier, TIER_MAGIC);
    CHECK(count <= TIER_READS_MAX);
    struct found *found = xcalloc(count ? count : 1, sizeof *found);
    char *dropped = xmalloc(GAP_BYTES_MAX);
    uint32_t n = find_all(tier, reads, count, found), good = 0;
    if (n > 1)
        qsort(found, n, sizeof *found, by_place);
    for (uint32_t at = 0, step; at < n; at += step) {
        step = run_length(&found[at], n - at);
        good += read_and_check(tier, &found[at], step, dropped);
    }
    for (uint32_t i = 0; i < n; i++)
        tier_release(tier, found[i].segment);
    free(dropped);
    free(found);
    return good;
}
