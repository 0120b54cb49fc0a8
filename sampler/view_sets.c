/* view_sets.c: sets of indices that a client names in its expression and brings in a file beside it.
 *
 * The file is whatever the client made, and stays the client's to change. Only its headers are kept. Each set is read
 * when the expression is evaluated, into memory of the daemon's own, and what was read is checked there. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/check.h"
#include "common/little_endian.h"
#include "sampler/view_priv.h"

#define SET_HEADER_BYTES (VIEW_SET_NAME_BYTES + 4u)
#define PIECE_INDICES ((uint32_t)1 << 18) /* read between two looks at the interrupt */

struct view_set {
    char name[VIEW_SET_NAME_BYTES];
    uint32_t count;
    uint64_t at; /* place of its first index in the file */
};

struct view_sets {
    int fd; /* borrowed */
    uint32_t n_sets;
    struct view_set sets[];
};

/* read_all reads `len` bytes from `at` on. */
static int read_all(int fd, uint8_t *to, size_t len, uint64_t at, struct error *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = pread(fd, to + done, len - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, LARDER_EIO, "subset: indices: cannot be read: %s", strerror(errno));
        if (got == 0)
            return error_set(err, LARDER_EFORMAT,
                             "subset: indices: the file that came with the registration is too "
                             "short for the sets that it says it has");
        done += (size_t)got;
    }
    return 0;
}

static int read_headers(struct view_sets *sets, uint64_t *end, struct error *err)
{
    uint64_t at = 4;
    for (uint32_t i = 0; i < sets->n_sets; i++) {
        uint8_t header[SET_HEADER_BYTES];
        int rc = read_all(sets->fd, header, sizeof header, at, err);
        if (rc)
            return rc;
        struct view_set *set = &sets->sets[i];
        memcpy(set->name, header, sizeof set->name);
        set->count = get_u32(header + VIEW_SET_NAME_BYTES);
        set->at = at + sizeof header;
        at = set->at + UINT64_C(4) * set->count;
    }
    *end = at;
    return 0;
}

int view_sets_open(int fd, struct view_sets **out, uint64_t *end, struct error *err)
{
    uint8_t head[4];
    struct stat status;
    uint64_t at = 0;
    if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &status) != 0) /* reading anything else may block for ever */
        return error_set(err, LARDER_EINVAL, "subset: indices: the file that came with the registration is no memfd");
    int rc = read_all(fd, head, sizeof head, 0, err);
    if (rc)
        return rc;
    uint32_t n_sets = get_u32(head);
    if (n_sets > VIEW_NODES_MAX)
        return error_set(err, LARDER_ELIMIT, "subset: indices: %u sets came with the registration, %d may", n_sets,
                         VIEW_NODES_MAX);
    struct view_sets *sets = malloc(sizeof *sets + n_sets * sizeof *sets->sets);
    if (sets == NULL)
        return error_set(err, LARDER_ENOMEM, "subset: indices: no memory for %u sets", n_sets);
    sets->fd = fd;
    sets->n_sets = n_sets;
    rc = read_headers(sets, &at, err);
    if (rc == 0 && at > (uint64_t)status.st_size)
        rc = error_set(err, LARDER_EFORMAT,
                       "subset: indices: the sets that came with the registration end at byte "
                       "%llu of %lld",
                       (unsigned long long)at, (long long)status.st_size);
    if (rc) {
        view_sets_close(sets);
        return rc;
    }
    *end = at;
    *out = sets;
    return 0;
}

void view_sets_close(struct view_sets *sets)
{
    free(sets);
}

static const struct view_set *find(const struct view_sets *sets, const char *name)
{
    for (uint32_t i = 0; sets && i < sets->n_sets; i++)
        if (memcmp(sets->sets[i].name, name, VIEW_SET_NAME_BYTES) == 0)
            return &sets->sets[i];
    return NULL;
}

/* take turns the bytes that were read into indices, in place, and checks them. */
static int take(const struct view_set *set, uint32_t *indices, uint32_t first, uint32_t end, uint32_t samples,
                struct error *err)
{
    for (uint32_t i = first; i < end; i++) {
        indices[i] = get_u32((const uint8_t *)&indices[i]);
        if (indices[i] >= samples)
            return error_set(err, LARDER_EINVAL,
                             "subset: indices: there is position %u, and the dataset has %u samples", indices[i],
                             samples);
        if (i > 0 && indices[i - 1] >= indices[i])
            return error_set(err, LARDER_EFORMAT, "subset: indices: the positions of set %.*s do not ascend",
                             VIEW_SET_NAME_BYTES, set->name);
    }
    return 0;
}

int view_sets_select(const char *name, const struct view_source *source, uint32_t *indices, uint32_t *count,
                     struct error *err)
{
    const struct view_set *set = find(source->sets, name);
    if (set == NULL)
        return error_set(err, LARDER_EINVAL,
                         "subset: indices: set %s did not come with the registration: give the "
                         "Python client its larder.Indices and not their JSON, or elsewhere ranges "
                         "or a list file",
                         name);
    for (uint32_t first = 0; first < set->count;) {
        uint32_t left = set->count - first, room = source->count - first;
        uint32_t n = left < PIECE_INDICES ? left : PIECE_INDICES;
        n = n < room ? n : room;
        if (n == 0)
            return error_set(err, LARDER_EINVAL, "subset: indices: %u positions, and the dataset has %u samples",
                             set->count, source->count);
        int rc = view_interrupted(source, err);
        if (rc == 0)
            rc = read_all(source->sets->fd, (uint8_t *)(indices + first), n * sizeof *indices,
                          set->at + first * UINT64_C(4), err);
        if (rc == 0)
            rc = take(set, indices, first, first + n, source->count, err);
        if (rc)
            return rc;
        first += n;
    }
    *count = set->count;
    return 0;
}
