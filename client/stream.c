/* stream.c: epochs, and the batches that are asked for and handed out. */
#include <stdlib.h>
#include <string.h>

#include "client/loader_priv.h"

/* ── epochs ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static int check_epoch(struct larder_loader *loader, uint32_t epoch)
{
    const struct loader_stream *stream = &loader->stream;
    if (stream->started && epoch <= stream->epoch)
        return error_set(&loader->error, LARDER_EINVAL,
                         "epoch %u cannot be started after epoch %u: epochs only go forward", epoch, stream->epoch);
    if (loader->taken.state && epoch < loader->taken.base.epoch)
        return error_set(&loader->error, LARDER_EINVAL,
                         "epoch %u is over in the state that the job goes on from: start with epoch %u (larder_info)",
                         epoch, loader->taken.base.epoch);
    uint32_t epochs = loader->asked.epochs ? loader->asked.epochs : WIRE_EPOCHS_MAX;
    if (epoch >= epochs)
        return error_set(&loader->error, LARDER_EEND, "the job's %u epochs are over", epochs);
    return 0;
}

/* give_back gives the batches back that are here and were not handed out. */
static int give_back(struct larder_loader *loader)
{
    struct larder_batch *batch;
    int rc = 0;
    while (rc == 0 && (batch = waiting_take(loader))) { /* none is left when the link went down */
        uint64_t number = batch->number;
        waiting_free(batch);
        rc = loader_release(loader, number);
    }
    return rc;
}

int larder_start_epoch(struct larder_loader *loader, uint32_t epoch)
{
    int rc = loader_enter(loader);
    if (rc == 0)
        rc = check_epoch(loader, epoch);
    if (rc)
        return rc;
    struct loader_stream *stream = &loader->stream;
    rc = give_back(loader);
    if (rc)
        return rc;
    stream->started = true;
    stream->last_came = stream->ended = stream->told = stream->standing = false;
    stream->epoch = epoch;
    stream->stale += stream->outstanding;
    stream->outstanding = 0;
    stream->next_index = taken_next(&loader->taken, epoch);
    stream->lost = 0;
    return loader_ask_ahead(loader);
}

/* ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* hand_out removes the next waiting batch: from here on it is the program's. An empty one is given back, and *out stays
 * NULL. */
static int hand_out(struct larder_loader *loader, struct larder_batch **out)
{
    struct loader_stream *stream = &loader->stream;
    struct larder_batch *batch = waiting_take(loader);
    struct taken_batch noted = {.epoch = batch->epoch,
                                .delivered = batch->count,
                                .through = batch->through,
                                .turns = batch->turns,
                                .n_turns = batch->n_turns};
    uint64_t number = batch->number;
    int rc = batch->count ? taken_add(&loader->taken, &noted, &loader->error) : 0;
    stream->lost = batch->lost;
    stream->ended = batch->last;
    if (rc == 0 && batch->count) {
        loader->link.comebacks = 0;
        loader->link.pause_ns = 0;
        *out = batch;
        return 0;
    }
    waiting_free(batch);
    if (rc == 0)
        return loader_release(loader, number);
    if (rc == LARDER_EFORMAT)
        error_prefix(&loader->error, rc, "the daemon at %s", loader->connection.path);
    return loader_break(loader);
}

static void hold(struct larder_loader *loader, struct larder_batch *batch)
{
    batch->next = loader->batches;
    if (batch->next)
        batch->next->previous = batch;
    loader->batches = batch;
    loader->held++;
}

/* overtaken tells whether the daemon went while a batch waited. The batch is then left to the next daemon, because
 * ranks train in step. That daemon gives no batch before all ranks have connected. A rank that took another training
 * step first could wait in it for a rank that waits for the daemon. */
static bool overtaken(const struct larder_loader *loader)
{
    return loader->asked.reconnect_ms && loader->link.state == LINK_UP && connection_lost(&loader->connection);
}

/* await waits for a message. Whether the program stands still shows when none is there. */
static int await(struct larder_loader *loader, uint64_t deadline_ns)
{
    int rc = receive_one(loader, loader->stream.standing ? deadline_ns : 0);
    if (rc != LARDER_ETIMEOUT || loader->stream.standing)
        return rc;
    loader_stand(loader);
    return receive_one(loader, deadline_ns);
}

/* fetch waits for one step towards the next batch: a working link, room to ask, or a message. */
static int fetch(struct larder_loader *loader, uint64_t deadline_ns)
{
    struct loader_stream *stream = &loader->stream;
    int rc = link_mend(loader, deadline_ns);
    if (rc == 0)
        rc = stream->outstanding ? loader_ask_ahead(loader) : loader_ask(loader, deadline_ns);
    if (rc || loader->link.state != LINK_UP)
        return rc;
    if (stream->outstanding)
        return await(loader, deadline_ns);
    if (connection_lost(&loader->connection)) /* its end is not the program's fault */
        return link_lost(loader);
    return error_set(&loader->error, LARDER_EQUOTA,
                     "%u batches are held, as many as job %s may: release one (larder_batch_release) before asking for "
                     "the next, or set options.hold and prefetch for more",
                     loader->held, loader->job_name);
}

int larder_next(struct larder_loader *loader, int64_t timeout_ms, struct larder_batch **out)
{
    int rc = loader_enter(loader);
    if (rc)
        return rc;
    struct loader_stream *stream = &loader->stream;
    if (!out || !stream->started)
        return error_set(&loader->error, LARDER_EINVAL, "larder_next was called %s",
                         out ? "before larder_start_epoch" : "without a place for the batch");
    uint64_t deadline_ns = deadline_after(timeout_ms);
    struct larder_batch *batch = NULL;
    while (rc == 0 && !batch) {
        if (stream->waiting) {
            rc = overtaken(loader) ? link_lost(loader) : hand_out(loader, &batch);
        } else if (stream->ended) {
            stream->told = true;
            rc = error_set(&loader->error, LARDER_EEND, "epoch %u is over", stream->epoch);
        } else {
            rc = fetch(loader, deadline_ns);
        }
    }
    if (rc)
        return rc;
    hold(loader, batch);
    *out = batch;
    loader_ask_ahead(loader); /* a failure shows with the next call; this batch has come */
    return 0;
}
