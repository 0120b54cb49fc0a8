/* stream.c: epochs and batches. The only messages that arrive are BATCH and ERROR, and they are read when the program
 * asks for a batch: what waits in between waits in the socket, so that larder_fd tells the truth. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/loader_priv.h"

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

int loader_ask(struct larder_loader *loader, uint64_t deadline_ns)
{
    struct loader_stream *stream = &loader->stream;
    uint32_t busy = stream->outstanding + loader->held;
    uint32_t room = busy < loader->job.held_max ? loader->job.held_max - busy : 0;
    uint32_t ahead = stream->outstanding < loader->asked.prefetch ? loader->asked.prefetch - stream->outstanding : 0;
    uint32_t credits = min_u32(room, ahead);
    if (!stream->started || stream->ended || credits == 0)
        return 0;
    struct wire_message msg = {.type = WIRE_NEXT, .next = {.epoch = stream->epoch, .credits = credits}};
    int rc = connection_send(&loader->connection, &msg, deadline_ns, &loader->error);
    if (rc == 0)
        stream->outstanding += credits;
    else if (rc == LARDER_EGONE)
        rc = loader_lost(loader);
    else if (rc != LARDER_ETIMEOUT)
        rc = loader_break(loader);
    return rc;
}

/* ask_ahead is loader_ask where a daemon too busy to take the request now can have it with a later call. */
static int ask_ahead(struct larder_loader *loader)
{
    int rc = loader_ask(loader, 0);
    return rc == LARDER_ETIMEOUT ? 0 : rc;
}

int loader_release(struct larder_loader *loader, uint64_t number)
{
    struct wire_message msg = {.type = WIRE_RELEASE, .release = {.batch = number}};
    int rc = connection_send(&loader->connection, &msg, deadline_after(SEND_TIMEOUT_MS), &loader->error);
    if (rc == LARDER_EGONE)
        return loader_lost(loader);
    return rc ? loader_break(loader) : 0;
}

int larder_start_epoch(struct larder_loader *loader, uint32_t epoch)
{
    int rc = loader_enter(loader);
    if (rc)
        return rc;
    struct loader_stream *stream = &loader->stream;
    if (stream->started && epoch <= stream->epoch)
        return error_set(&loader->error, LARDER_EINVAL,
                         "epoch %u cannot be started after epoch %u: epochs only go forward", epoch, stream->epoch);
    if (loader->asked.epochs && epoch >= loader->asked.epochs)
        return error_set(&loader->error, LARDER_EEND, "the job's %u epochs are over", loader->asked.epochs);
    *stream = (struct loader_stream){.started = true, .epoch = epoch, .stale = stream->stale + stream->outstanding};
    return ask_ahead(loader);
}

/* ── one batch ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static int make_batch(struct larder_loader *loader, const struct wire_batch *msg, struct larder_batch **out)
{
    if (msg->count > loader->asked.batch_size)
        return error_set(&loader->error, LARDER_EFORMAT,
                         "the daemon at %s sent a batch of %u samples where %u were asked for", loader->connection.path,
                         msg->count, loader->asked.batch_size);
    struct larder_batch *batch = malloc(sizeof *batch + msg->count * sizeof *batch->entries);
    if (!batch)
        return error_set(&loader->error, LARDER_ENOMEM, "no memory for a batch of %u samples", msg->count);
    *batch = (struct larder_batch){.magic = BATCH_MAGIC,
                                   .loader = loader,
                                   .number = msg->batch,
                                   .epoch = msg->epoch,
                                   .index = msg->index,
                                   .count = msg->count};
    for (uint32_t i = 0; i < msg->count; i++) {
        batch->entries[i] = wire_entry_get(msg->entries, i);
        int rc = arena_check(loader, &batch->entries[i], &loader->error);
        if (rc) {
            free(batch);
            return rc;
        }
        batch->bytes += batch->entries[i].len_bytes;
    }
    *out = batch;
    return 0;
}

static void hold(struct larder_loader *loader, struct larder_batch *batch)
{
    batch->next = loader->batches;
    if (batch->next)
        batch->next->previous = batch;
    loader->batches = batch;
    loader->held++;
}

static void let_go(struct larder_batch *batch)
{
    struct larder_loader *loader = batch->loader;
    if (batch->previous)
        batch->previous->next = batch->next;
    else
        loader->batches = batch->next;
    if (batch->next)
        batch->next->previous = batch->previous;
    loader->held--;
    batch->magic = 0;
    free(batch);
}

/* take_batch looks at what arrived: a late batch of an earlier epoch, or an empty one, goes straight back and *out
 * stays NULL. The daemon answers in order, so nothing of an earlier epoch comes after the first batch of this one. */
static int take_batch(struct larder_loader *loader, const struct wire_batch *msg, struct larder_batch **out)
{
    struct loader_stream *stream = &loader->stream;
    bool late = msg->epoch < stream->epoch;
    if (msg->epoch > stream->epoch || (late ? stream->stale : stream->outstanding) == 0) {
        error_set(&loader->error, LARDER_EFORMAT, "the daemon at %s sent a batch of epoch %u that nobody asked for",
                  loader->connection.path, msg->epoch);
        return loader_break(loader);
    }
    if (late) {
        stream->stale--;
        return loader_release(loader, msg->batch);
    }
    stream->outstanding--;
    stream->stale = 0;
    stream->lost = msg->lost;
    if (msg->flags & WIRE_BATCH_LAST) {
        stream->ended = true;
        stream->outstanding = 0;
    }
    if (msg->count == 0)
        return loader_release(loader, msg->batch);
    if (make_batch(loader, msg, out))
        return loader_break(loader);
    return 0;
}

static int receive_batch(struct larder_loader *loader, uint64_t deadline_ns, struct larder_batch **out)
{
    struct wire_message msg;
    int rc = connection_receive(&loader->connection, &msg, NULL, deadline_ns, &loader->error);
    if (rc == LARDER_ETIMEOUT)
        return rc;
    if (rc)
        return loader_break(loader);
    if (msg.type == WIRE_BATCH)
        return take_batch(loader, &msg.batch, out);
    if (msg.type == WIRE_TURNS) /* decoding has checked it, and this loader keeps no record of turns */
        return 0;
    if (msg.type == WIRE_ERROR)
        loader_daemon_error(&msg.error, &loader->error);
    else
        error_set(&loader->error, LARDER_EFORMAT, "the daemon at %s sent a message of type %d between batches",
                  loader->connection.path, (int)msg.type);
    return loader_break(loader);
}

int larder_next(struct larder_loader *loader, int64_t timeout_ms, struct larder_batch **out)
{
    int rc = loader_enter(loader);
    if (rc)
        return rc;
    if (!out || !loader->stream.started)
        return error_set(&loader->error, LARDER_EINVAL, "larder_next was called %s",
                         out ? "before larder_start_epoch" : "without a place for the batch");
    uint64_t deadline_ns = deadline_after(timeout_ms);
    struct larder_batch *batch = NULL;
    while (!batch) {
        if (loader->stream.ended)
            return error_set(&loader->error, LARDER_EEND, "epoch %u is over", loader->stream.epoch);
        rc = loader->stream.outstanding ? ask_ahead(loader) : loader_ask(loader, deadline_ns);
        if (rc)
            return rc;
        if (loader->stream.outstanding == 0)
            return error_set(&loader->error, LARDER_EQUOTA,
                             "%u batches are held, as many as job %s may: release one (larder_batch_release) before "
                             "asking for the next, or set options.hold and prefetch for more",
                             loader->held, loader->job_name);
        rc = receive_batch(loader, deadline_ns, &batch);
        if (rc)
            return rc;
    }
    hold(loader, batch);
    *out = batch;
    ask_ahead(loader); /* a failure shows with the next call; this batch has come */
    return 0;
}

/* ── what the program does with a batch ──────────────────────────────────────────────────────────────────────────── */

static bool valid(const struct larder_batch *batch)
{
    return batch && batch->magic == BATCH_MAGIC;
}

uint32_t larder_loader_lost(const struct larder_loader *loader)
{
    return loader ? loader->stream.lost : 0;
}

uint32_t larder_batch_count(const struct larder_batch *batch)
{
    return valid(batch) ? batch->count : 0;
}

uint32_t larder_batch_epoch(const struct larder_batch *batch)
{
    return valid(batch) ? batch->epoch : 0;
}

uint32_t larder_batch_index(const struct larder_batch *batch)
{
    return valid(batch) ? batch->index : 0;
}

size_t larder_batch_bytes(const struct larder_batch *batch)
{
    return valid(batch) ? batch->bytes : 0;
}

/* enter_held is loader_enter for a batch that is held: after a failure it is leased while the connection is open. */
static int enter_held(struct larder_loader *loader)
{
    int rc = loader_enter(loader);
    return rc && rc == loader->broken && loader->connection.fd >= 0 ? 0 : rc;
}

/* The daemon has ended the leases: what it said is the failure, unless there was one before. */
static int leases_lost(struct larder_loader *loader)
{
    if (!loader->broken)
        return loader_lost(loader);
    connection_close(&loader->connection);
    return loader->broken;
}

int larder_batch_sample(const struct larder_batch *batch, uint32_t position, struct larder_sample *out)
{
    if (!valid(batch) || !out)
        return LARDER_EINVAL;
    int rc = enter_held(batch->loader);
    if (rc)
        return rc;
    if (position >= batch->count)
        return error_set(&batch->loader->error, LARDER_EINVAL, "position %u is not in a batch of %u samples", position,
                         batch->count);
    const struct wire_entry *entry = &batch->entries[position];
    *out = (struct larder_sample){.data = batch->loader->arena.data + entry->offset,
                                  .len_bytes = entry->len_bytes,
                                  .id = entry->id,
                                  .index = entry->index,
                                  .label = entry->label};
    return 0;
}

int larder_batch_copy(const struct larder_batch *batch, void *dst, size_t cap_bytes)
{
    if (!valid(batch) || (!dst && batch->bytes))
        return LARDER_EINVAL;
    struct larder_loader *loader = batch->loader;
    int rc = enter_held(loader);
    if (rc)
        return rc;
    if (batch->bytes > cap_bytes)
        return error_set(&loader->error, LARDER_ELIMIT, "a batch of %zu bytes does not fit in %zu", batch->bytes,
                         cap_bytes);
    uint8_t *at = dst;
    for (uint32_t i = 0; i < batch->count; i++) {
        memcpy(at, loader->arena.data + batch->entries[i].offset, batch->entries[i].len_bytes);
        at += batch->entries[i].len_bytes;
    }
    /* A daemon that has closed the connection may have put other samples there while they were copied. */
    return connection_lost(&loader->connection) ? leases_lost(loader) : 0;
}

/* release_broken gives a batch back after a failure; the connection goes with the last one. */
static int release_broken(struct larder_loader *loader, uint64_t number)
{
    struct wire_message msg = {.type = WIRE_RELEASE, .release = {.batch = number}};
    if (connection_lost(&loader->connection))
        return leases_lost(loader);
    if (loader->batches)
        connection_send(&loader->connection, &msg, 0, NULL); /* else closing the connection gives it back */
    else
        connection_close(&loader->connection);
    return 0;
}

int larder_batch_release(struct larder_batch **batch)
{
    if (!batch || !*batch)
        return 0;
    struct larder_batch *held = *batch;
    if (!valid(held))
        return LARDER_EINVAL;
    *batch = NULL;
    struct larder_loader *loader = held->loader;
    uint64_t number = held->number;
    let_go(held);
    int rc = enter_held(loader);
    if (rc == 0 && loader->broken)
        return release_broken(loader, number);
    if (rc == 0)
        rc = loader_release(loader, number);
    return rc ? rc : ask_ahead(loader);
}
