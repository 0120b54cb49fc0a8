/* receive.c: handles the daemon's messages after registration: batches with their turns, errors, and answers to
 * questions. They are read only when the program asks for a batch or a state. Until then they wait in the socket, so
 * that larder_fd tells the truth. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/loader_priv.h"

/* ── one batch ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static int wrong_turns(struct larder_loader *loader, uint64_t batch)
{
    return error_set(&loader->error, LARDER_EFORMAT, "the daemon at %s sent turns that do not fit batch %llu",
                     loader->connection.path, (unsigned long long)batch);
}

/* take_turns notes the turn that each sample of the batch counts as: its own, unless TURNS said otherwise. */
static int take_turns(struct larder_loader *loader, struct larder_batch *batch)
{
    const struct loader_stream *stream = &loader->stream;
    uint32_t next = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t index = batch->entries[i].index;
        if (next < stream->n_turns && stream->turns[next].position == i)
            index = stream->turns[next++].index;
        if (index != WIRE_TURN_NONE)
            batch->turns[batch->n_turns++] = index;
    }
    return next == stream->n_turns ? 0 : wrong_turns(loader, batch->number);
}

static int check_batch(const struct larder_loader *loader, const struct wire_batch *msg, struct error *err)
{
    if (msg->count > loader->asked.batch_size)
        return error_set(err, LARDER_EFORMAT, "the daemon at %s sent a batch of %u samples where %u were asked for",
                         loader->connection.path, msg->count, loader->asked.batch_size);
    if (msg->count && msg->index != loader->stream.next_index)
        return error_set(err, LARDER_EFORMAT, "the daemon at %s sent batch %u of epoch %u where batch %u was due",
                         loader->connection.path, msg->index, msg->epoch, loader->stream.next_index);
    return 0;
}

static int fill(struct larder_loader *loader, const struct wire_batch *msg, struct larder_batch *batch)
{
    bool dependent = loader->asked.shuffle == LARDER_SHUFFLE_DEPENDENT;
    for (uint32_t i = 0; i < msg->count; i++) {
        batch->entries[i] = wire_entry_get(msg->entries, i);
        int rc = arena_check(loader, &batch->entries[i], &loader->error);
        if (rc)
            return rc;
        batch->bytes += batch->entries[i].len_bytes;
    }
    return dependent ? take_turns(loader, batch) : 0;
}

static int make_batch(struct larder_loader *loader, const struct wire_batch *msg, struct larder_batch **out)
{
    int rc = check_batch(loader, msg, &loader->error);
    if (rc)
        return rc;
    struct larder_batch *batch = calloc(1,
                                        sizeof *batch + msg->count * (sizeof *batch->entries + sizeof *batch->turns));
    if (!batch)
        return error_set(&loader->error, LARDER_ENOMEM, "no memory for a batch of %u samples", msg->count);
    batch->magic = BATCH_MAGIC;
    batch->loader = loader;
    batch->arena = arena_ref(loader->arena);
    batch->number = msg->batch;
    batch->epoch = msg->epoch;
    batch->index = msg->index;
    batch->count = msg->count;
    batch->lost = msg->lost;
    batch->through = msg->through;
    batch->last = msg->flags & WIRE_BATCH_LAST;
    batch->turns = (uint32_t *)(batch->entries + msg->count);
    rc = fill(loader, msg, batch);
    if (rc)
        waiting_free(batch);
    else
        *out = batch;
    return rc;
}

/* ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* on_batch looks at what arrived: a late batch of an earlier epoch goes straight back. The daemon answers in order, so
 * nothing of an earlier epoch comes after the first batch of this one. */
static int on_batch(struct larder_loader *loader, const struct wire_batch *msg)
{
    struct loader_stream *stream = &loader->stream;
    struct larder_batch *batch = NULL;
    bool late = msg->epoch < stream->epoch;
    if (!stream->started || msg->epoch > stream->epoch || (late ? stream->stale : stream->outstanding) == 0)
        return error_set(&loader->error, LARDER_EFORMAT,
                         "the daemon at %s sent a batch of epoch %u that nobody asked for", loader->connection.path,
                         msg->epoch);
    if (stream->n_turns && stream->turns_of != msg->batch)
        return wrong_turns(loader, msg->batch);
    if (late) {
        stream->n_turns = 0;
        stream->stale--;
        return loader_release(loader, msg->batch);
    }
    int rc = make_batch(loader, msg, &batch);
    stream->n_turns = 0;
    if (rc)
        return rc;
    stream->outstanding--;
    stream->standing = false;
    stream->stale = 0;
    stream->next_index += msg->count > 0;
    if (batch->last) {
        stream->last_came = true;
        stream->outstanding = 0;
    }
    waiting_add(stream, batch);
    return 0;
}

static int on_turns(struct larder_loader *loader, const struct wire_turns *msg)
{
    struct loader_stream *stream = &loader->stream;
    if (loader->asked.shuffle != LARDER_SHUFFLE_DEPENDENT || stream->n_turns || msg->count > loader->asked.batch_size)
        return wrong_turns(loader, msg->batch);
    if (!stream->turns)
        stream->turns = malloc(loader->asked.batch_size * sizeof *stream->turns);
    if (!stream->turns)
        return error_set(&loader->error, LARDER_ENOMEM, "no memory for the turns of a batch");
    for (uint32_t i = 0; i < msg->count; i++)
        stream->turns[i] = wire_turn_get(msg->turns, i);
    stream->n_turns = msg->count; /* ≥ 1, as wire_decode has checked */
    stream->turns_of = msg->batch;
    return 0;
}

/* on_error: the answer to a question, the daemon's leave, the job's cancellation, or a failure. */
static int on_error(struct larder_loader *loader, uint32_t seq, const struct wire_error *msg)
{
    struct loader_question *question = &loader->question;
    if (question->open && seq == question->seq && !msg->fatal) {
        connection_daemon_error(msg, &question->answer);
        question->answer.code = msg->code; /* what is gone is not the job */
        question->open = false;
        question->answered = true;
        return 0;
    }
    int rc = connection_daemon_error(msg, &loader->error);
    return rc == LARDER_EGONE && msg->fatal ? link_going(loader) : rc;
}

static int on_message(struct larder_loader *loader, const struct wire_message *msg, int fd)
{
    if (msg->type == WIRE_STATE && loader->question.open && msg->seq == loader->question.seq) {
        token_answer(loader, &msg->state, fd);
        return 0;
    }
    if (msg->type == WIRE_COLUMN && loader->question.open && msg->seq == loader->question.seq) {
        column_answer(loader, &msg->column, fd);
        return 0;
    }
    if (msg->type == WIRE_DONE && fd >= 0)
        return token_done(loader, &msg->done, fd);
    if (fd >= 0) {
        close(fd);
        return error_set(&loader->error, LARDER_EFORMAT,
                         "the daemon at %s sent a message with descriptors nobody asked for", loader->connection.path);
    }
    switch (msg->type) {
    case WIRE_BATCH: return on_batch(loader, &msg->batch);
    case WIRE_TURNS: return on_turns(loader, &msg->turns);
    case WIRE_ERROR: return on_error(loader, msg->seq, &msg->error);
    default:
        return error_set(&loader->error, LARDER_EFORMAT, "the daemon at %s sent a message of type %d between batches",
                         loader->connection.path, (int)msg->type);
    }
}

int receive_one(struct larder_loader *loader, uint64_t deadline_ns)
{
    struct wire_message msg;
    int fd = -1;
    int rc = connection_receive(&loader->connection, &msg, &fd, deadline_ns, &loader->error);
    if (rc == LARDER_ETIMEOUT)
        return rc;
    if (rc == LARDER_EGONE)
        return link_lost(loader);
    if (rc == 0)
        rc = on_message(loader, &msg, fd);
    return rc && !loader->broken ? loader_break(loader) : rc;
}
