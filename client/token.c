/* token.c: the bytes of a state: a token (common/record.h) and behind it the XXH64 of its bytes, little-endian. They
 * are read when the program opens a loader with them. They are made from what this loader took, or by the daemon. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL /* the library needs no other one */
#include <xxhash.h>

#include "client/loader_priv.h"

#define CHECK_BYTES 8
#define SEGMENTS_BYTES_MAX (RECORD_SEGMENTS_MAX * (RECORD_RANKS_MAX + 2) * 4)

/* ── a state that is given ───────────────────────────────────────────────────────────────────────────────────────── */

static int check_token(const struct record *token, const char *whose, struct error *err)
{
    if (token->world_size)
        return error_set(err, LARDER_EFORMAT, "%s is damaged: it has a rank's history, which is in no checkpoint",
                         whose);
    if (token->part.of)
        return error_set(err, LARDER_EINVAL,
                         "%s is of ranks %u to %u of %u, for the others are at other nodes, and this library puts no "
                         "states together: save it between two epochs",
                         whose, token->part.first, token->part.first + token->part.ranks - 1, token->part.of);
    return 0;
}

int token_read(struct larder_loader *loader, const void *state, size_t state_bytes)
{
    const uint8_t *bytes = state;
    struct taken *taken = &loader->taken;
    struct error *err = &loader->error;
    if (state_bytes < CHECK_BYTES ||
        XXH64(bytes, state_bytes - CHECK_BYTES, 0) != get_u64(bytes + state_bytes - CHECK_BYTES))
        return error_set(err, LARDER_EFORMAT,
                         "the state of %zu bytes is damaged, or was not made by larder_state: take another checkpoint",
                         state_bytes);
    size_t token_bytes = state_bytes - CHECK_BYTES;
    taken->state = malloc(token_bytes);
    if (!taken->state)
        return error_set(err, LARDER_ENOMEM, "no memory for a state of %zu bytes", state_bytes);
    memcpy(taken->state, bytes, token_bytes);
    int rc = record_decode(taken->state, token_bytes, &taken->base, err);
    if (rc == 0)
        rc = check_token(&taken->base, "the state", err);
    if (rc)
        return rc;
    const struct larder_options *o = &loader->asked;
    if (taken->base.shuffle != o->shuffle)
        return error_set(err, LARDER_EINVAL,
                         "the state is of shuffle %u (enum larder_shuffle), and options.shuffle is %u",
                         taken->base.shuffle, o->shuffle);
    if (o->shuffle == LARDER_SHUFFLE_STRICT && taken->base.seed != o->seed)
        return error_set(err, LARDER_EINVAL, "the state is of seed %llu, and options.seed is %llu",
                         (unsigned long long)taken->base.seed, (unsigned long long)o->seed);
    return 0;
}

static int check_given(const struct larder_loader *loader, struct error *err)
{
    const struct wire_registered *job = &loader->job;
    const struct record *base = &loader->taken.base;
    const char *what = NULL;
    if (memcmp(base->dataset, job->fingerprint, sizeof base->dataset) != 0 || base->samples != job->dataset_samples)
        what = "dataset";
    else if (memcmp(base->view, job->view, sizeof base->view) != 0)
        what = "subset";
    else if (!dataset_version_agrees(&base->version, &job->version))
        what = "version of the dataset";
    if (what)
        return error_set(err, LARDER_ECHANGED, "the state is of another %s than %s is now at %s", what,
                         loader->asked.dataset, loader->connection.path);
    if (base->epoch != job->epoch || base->batches != job->batch)
        return error_set(err, LARDER_EFORMAT,
                         "the daemon at %s goes on at batch %u of epoch %u, and the state at batch %u of epoch %u",
                         loader->connection.path, job->batch, job->epoch, base->batches, base->epoch);
    return 0;
}

int token_identify(struct larder_loader *loader)
{
    struct taken *taken = &loader->taken;
    struct record *base = &taken->base;
    const struct wire_registered *job = &loader->job;
    taken->world_size = loader->asked.world_size;
    taken->rank = loader->asked.rank;
    taken->known = true;
    if (taken->state) {
        int rc = check_given(loader, &loader->error);
        base->version = job->version; /* from now on samples of this version are taken */
        return rc;
    }
    *base = (struct record){.seed = loader->asked.seed,
                            .shuffle = loader->asked.shuffle,
                            .version = job->version,
                            .epoch = job->epoch,
                            .batches = job->batch,
                            .samples = job->dataset_samples};
    memcpy(base->dataset, job->fingerprint, sizeof base->dataset);
    memcpy(base->view, job->view, sizeof base->view);
    taken->known = job->batch == 0;
    return 0;
}

/* ── a state that is asked for ───────────────────────────────────────────────────────────────────────────────────── */

/* keep makes a token, and its check behind it, what larder_state returns. */
static int keep(struct larder_loader *loader, const struct record *token, struct error *err)
{
    size_t bytes = record_bytes(token), len;
    uint8_t *at = malloc(bytes + CHECK_BYTES);
    if (!at)
        return error_set(err, LARDER_ENOMEM, "no memory for the state");
    int rc = record_encode(token, at, bytes, &len);
    if (rc) {
        free(at);
        return error_set(err, rc, "what was taken cannot be put into a state (%s)", larder_err_name(rc));
    }
    put_u64(at + len, XXH64(at, len, 0));
    free(loader->token);
    loader->token = at;
    loader->token_bytes = len + CHECK_BYTES;
    return 0;
}

int token_keep(struct larder_loader *loader, const struct record *record)
{
    return keep(loader, record, &loader->error);
}

int token_keep_start(struct larder_loader *loader, uint32_t epoch)
{
    struct record record = loader->taken.base;
    record_begin_epoch(&record, epoch);
    return token_keep(loader, &record);
}

/* is_ours tells whether a token that the daemon made is of this job and of the batch that was asked for. */
static bool is_ours(const struct larder_loader *loader, const struct record *token)
{
    const struct taken *taken = &loader->taken;
    const struct record *base = &taken->base;
    return memcmp(token->dataset, base->dataset, sizeof base->dataset) == 0 &&
           memcmp(token->view, base->view, sizeof base->view) == 0 && token->shuffle == base->shuffle &&
           (token->shuffle != SHUFFLE_STRICT || token->seed == base->seed) && token->samples == base->samples &&
           token->epoch == base->epoch && token->batches == taken_next(taken, base->epoch);
}

static int read_whole(int fd, uint8_t *to, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t got = pread(fd, to + at, bytes - at, (off_t)at);
        if (got <= 0)
            return LARDER_EFORMAT;
        at += (size_t)got;
    }
    return 0;
}

int token_done(struct larder_loader *loader, const struct wire_done *done, int fd)
{
    struct error *err = &loader->error;
    size_t most = RECORD_HISTORY_BYTES + (size_t)loader->taken.base.samples * (RECORD_BATCH_BYTES + RECORD_TURN_BYTES);
    uint8_t *bytes = done->n_bytes <= most ? malloc(done->n_bytes + 1) : NULL;
    int rc = !bytes ? LARDER_ENOMEM : fd < 0 ? LARDER_EFORMAT : read_whole(fd, bytes, done->n_bytes);
    if (rc == 0)
        rc = taken_done(&loader->taken, done->epoch, bytes, done->n_bytes);
    free(bytes);
    if (fd >= 0)
        close(fd);
    return rc == 0 ? 0
                   : error_set(err, rc, "what rank %u has had, as the daemon at %s says, cannot be kept (%u bytes)",
                               done->rank, loader->connection.path, done->n_bytes);
}

static int take_token(struct larder_loader *loader, uint32_t token_bytes, int fd, struct error *err)
{
    struct record token;
    const struct record *base = &loader->taken.base;
    size_t most = record_bytes(&(struct record){0}) + record_set_bytes(base->samples) + SEGMENTS_BYTES_MAX;
    uint8_t *bytes = token_bytes <= most ? malloc(token_bytes) : NULL;
    if (!bytes)
        return error_set(err, LARDER_ENOMEM, "no memory for a state of %u bytes", token_bytes);
    int rc = fd < 0 || read_whole(fd, bytes, token_bytes) != 0
                 ? error_set(err, LARDER_EFORMAT, "the descriptor that came with it does not hold %u bytes",
                             token_bytes)
                 : record_decode(bytes, token_bytes, &token, err);
    if (rc == 0)
        rc = check_token(&token, "it", err);
    if (rc == 0 && !is_ours(loader, &token))
        rc = error_set(err, LARDER_EFORMAT, "it is not of this job's batch %u of epoch %u",
                       taken_next(&loader->taken, base->epoch), base->epoch);
    if (rc) {
        free(bytes);
        return error_prefix(err, rc, "the daemon at %s sent a state that cannot be", loader->connection.path);
    }
    token.version = base->version; /* the daemon told it already */
    rc = keep(loader, &token, err);
    free(bytes);
    return rc;
}

void token_answer(struct larder_loader *loader, const struct wire_state *state, int fd)
{
    struct loader_question *question = &loader->question;
    question->open = false;
    question->answered = true;
    question->answer.code = 0;
    if (!question->given_up)
        take_token(loader, state->n_bytes, fd, &question->answer);
    if (fd >= 0)
        close(fd);
}
