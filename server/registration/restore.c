#include "server/registration/restore.h"
#include "server/registration/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/registration/registration.h"
#include "server/registration/restore_priv.h"

enum { READ_AT_ONCE = 1 << 20 }; /* bytes between two looks whether the registration is still wanted */
enum { VERSION_WAIT_MS = 30000 };

/* check_file returns the record's length. Only memory may be read: anything else may block for ever. */
static int check_file(const struct registration *reg, size_t *len, struct error *err)
{
    struct stat st;
    int fd = reg->asked.file_fd;
    uint32_t samples = dataset_count(reg->found.dataset);
    uint64_t most = RESTORE_FIXED_BYTES + (uint64_t)samples * RESTORE_SAMPLE_BYTES;
    if (reg->found.multiset)
        most += multiset_draws(reg->found.multiset) * RESTORE_DRAW_BYTES;
    if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) != 0)
        return error_set(err, LARDER_EINVAL, "the state came in a file that is no memfd: it must be one");
    if ((uint64_t)st.st_size <= reg->asked.record_at)
        return error_set(err, LARDER_EFORMAT, "the state is empty: begin without one, or from another checkpoint");
    *len = (size_t)((uint64_t)st.st_size - reg->asked.record_at);
    if (*len > most)
        return error_set(err, LARDER_ELIMIT, "the state has %llu bytes, and one of %u samples at most %llu",
                         (unsigned long long)*len, samples, (unsigned long long)most);
    return 0;
}

/* read_bytes reads the record into memory of the daemon's own, where the client cannot change it. */
static int read_bytes(struct restore *restore, const struct registration *reg, size_t len, struct error *err)
{
    restore->bytes = malloc(len);
    if (!restore->bytes)
        return restore_no_memory(err);
    for (size_t at = 0; at < len;) {
        size_t part = len - at < READ_AT_ONCE ? len - at : READ_AT_ONCE;
        ssize_t got = pread(reg->asked.file_fd, restore->bytes + at, part, (off_t)(reg->asked.record_at + at));
        if (got < 0 && errno != EINTR)
            return error_set(err, LARDER_EIO, "the state cannot be read: %s", strerror(errno));
        if (got == 0)
            return error_set(err, LARDER_EFORMAT,
                             "the state became shorter while it was read: it ends after %zu of %zu "
                             "bytes",
                             at, len);
        if (interrupt_is_set(&reg->unwanted))
            return error_set(err, LARDER_EGONE, "the registration is not wanted any more");
        at += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* is_version says whether the record is of the version that the dataset has. It waits for the content where the times
 * do not say it. */
static bool is_version(const struct record *record, const struct registration *reg, struct catalog *catalog)
{
    struct dataset_version here = reg->found.version;
    if (!dataset_version_agrees(&record->version, &here) && dataset_version_has_content(&record->version) &&
        !dataset_version_has_content(&here))
        catalog_version(catalog, reg->found.dataset, VERSION_WAIT_MS, &reg->unwanted, &here);
    return dataset_version_agrees(&record->version, &here);
}

static int check_dataset(const struct record *record, const struct registration *reg, struct catalog *catalog,
                         struct error *err)
{
    uint64_t fingerprint[2];
    const char *path = dataset_path(reg->found.dataset);
    uint32_t samples = dataset_count(reg->found.dataset);
    dataset_fingerprint(reg->found.dataset, fingerprint);
    if (memcmp(record->dataset, fingerprint, sizeof fingerprint) == 0 && record->samples == samples) {
        if (is_version(record, reg, catalog))
            return 0;
        return error_set(err, LARDER_ECHANGED,
                         "the state is of another version of %.200s than is there now: files of the same names and "
                         "sizes have been rewritten; begin without a state, or with the dataset as it was",
                         path);
    }
    return error_set(
        err, LARDER_ECHANGED,
        "the state is of another dataset than %.200s is now (it had %u samples, now there are %u): files came, "
        "went or changed, or the checkpoint is of another training; begin without a state, or with the "
        "dataset as it was",
        path, record->samples, samples);
}

static const char *shuffle_name(uint32_t shuffle)
{
    return shuffle == SHUFFLE_DEPENDENT ? "dependent" : shuffle == SHUFFLE_STRICT ? "strict" : "none";
}

/* check_job checks that the record is of such a job. */
static int check_job(const struct record *record, const struct registration *reg, struct catalog *catalog,
                     struct error *err)
{
    const struct registration_asked *asked = &reg->asked;
    int rc = check_dataset(record, reg, catalog, err);
    if (rc)
        return rc;
    if (memcmp(record->view, reg->found.view_fingerprint, sizeof record->view) != 0)
        return error_set(
            err, LARDER_EINVAL,
            "the state is of another part of %.200s than this job's: give the subset that it was made with, and the "
            "same repeat, or the same Weights or Balanced and seed",
            dataset_path(reg->found.dataset));
    if (record->shuffle != (uint32_t)asked->shuffle)
        return error_set(err, LARDER_EINVAL,
                         "the state is of a job with shuffle \"%s\", and this one has \"%s\": give the same",
                         shuffle_name(record->shuffle), shuffle_name(asked->shuffle));
    if (asked->shuffle == SHUFFLE_STRICT && record->seed != asked->seed)
        return error_set(err, LARDER_EINVAL,
                         "the state is of a job with seed %llu, and this one has %llu: give the same, or the order is "
                         "another",
                         (unsigned long long)record->seed, (unsigned long long)asked->seed);
    struct deal_ranks ranks = ranks_here(reg);
    if (record->part.of)
        return error_set(err, LARDER_EINVAL,
                         "the state is a part, of ranks %u to %u of %u: give the state of all parts together",
                         record->part.first, record->part.first + record->part.ranks - 1, record->part.of);
    if (asked->all_ranks && reg->found.multiset && (record->batches || record->over_bytes))
        return error_set(
            err, LARDER_EINVAL,
            "the state is from the middle of an epoch, and the job has a sampler and ranks at several nodes: such a "
            "job goes on from a state made between two epochs");
    if (record->world_size && (record->world_size != ranks.world_size || record->rank != ranks.first + asked->rank))
        return error_set(err, LARDER_EINVAL,
                         "the state has what rank %u of %u took, and this is rank %u of %u: each gives its own, or all "
                         "the same checkpoint",
                         record->rank, record->world_size, ranks.first + asked->rank, ranks.world_size);
    return 0;
}

/* check_done checks that the ranks that are done are others of this node, each once, and makes places for them. */
static int check_done(struct restore *restore, const struct registration *reg, struct error *err)
{
    struct deal_ranks ranks = ranks_here(reg);
    struct engine_done *done = restore->done = calloc(ranks.n_ranks, sizeof *done);
    struct record record;
    if (!done)
        return restore_no_memory(err);
    for (size_t at = 0; record_done_next(&restore->record, &at, &record);) {
        uint32_t rank = record.rank - ranks.first, i = 0;
        while (i < restore->engine.n_done && done[i].rank != rank)
            i++;
        if (record.rank < ranks.first || rank >= ranks.n_ranks || i < restore->engine.n_done)
            return error_set(err, LARDER_EFORMAT, "the state is damaged: it says of rank %u twice, or of another node",
                             record.rank);
        done[restore->engine.n_done++].rank = rank;
    }
    restore->engine.done = done;
    return 0;
}

static int fill(struct restore *restore, const struct registration *reg, struct error *err)
{
    const struct record *record = &restore->record;
    restore->engine = (struct engine_resume){.epoch = record->epoch,
                                             .key = restore_key(record),
                                             .base_batches = record->batches,
                                             .batches = record->n_batches,
                                             .presented = record->world_size > 0};
    int rc = check_done(restore, reg, err);
    if (!rc)
        rc = record->shuffle == SHUFFLE_DEPENDENT ? restore_take_set(restore, reg, err)
                                                  : restore_take_order(restore, reg, err);
    return rc ? rc : restore_take_batches(restore, reg, err);
}

int restore_read(const struct registration *reg, struct catalog *catalog, struct restore **out, struct error *err)
{
    size_t len = 0;
    int rc = check_file(reg, &len, err);
    if (rc)
        return rc;
    struct restore *restore = calloc(1, sizeof *restore);
    if (!restore)
        return restore_no_memory(err);
    rc = read_bytes(restore, reg, len, err);
    if (!rc)
        rc = record_decode(restore->bytes, len, &restore->record, err);
    if (!rc)
        rc = check_job(&restore->record, reg, catalog, err);
    if (!rc)
        rc = fill(restore, reg, err);
    if (rc) {
        restore_destroy(restore);
        return rc;
    }
    *out = restore;
    return 0;
}

void restore_destroy(struct restore *restore)
{
    if (!restore)
        return;
    idset_destroy(restore->base);
    idset_destroy(restore->turns);
    free(restore->base_again);
    free(restore->again);
    free(restore->copies);
    for (uint32_t i = 0; i < restore->engine.n_done; i++) {
        idset_destroy((struct idset *)restore->done[i].turns);
        free((sample_id *)restore->done[i].again.ids);
    }
    free(restore->done);
    free(restore->throughs);
    free(restore->bytes);
    free(restore);
}
