/* ask.c: what the loader tells the daemon while it streams: how many batches it may send, and which it has back. */
#include "client/loader_priv.h"

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

int loader_ask(struct larder_loader *loader, uint64_t deadline_ns)
{
    struct loader_stream *stream = &loader->stream;
    uint32_t coming = stream->outstanding + stream->waiting, busy = coming + loader->held;
    uint32_t room = busy < loader->job.held_max ? loader->job.held_max - busy : 0;
    uint32_t ahead = coming < loader->asked.prefetch ? loader->asked.prefetch - coming : 0;
    uint32_t credits = min_u32(room, ahead);
    if (!stream->started || stream->last_came || credits == 0)
        return 0;
    struct wire_message msg = {.type = WIRE_NEXT, .next = {stream->epoch, credits, WIRE_AHEAD}};
    int rc = connection_send(&loader->connection, &msg, -1, deadline_ns, &loader->error);
    if (rc == 0)
        stream->outstanding += credits;
    else if (rc == LARDER_EGONE)
        rc = link_lost(loader);
    else if (rc != LARDER_ETIMEOUT)
        rc = loader_break(loader);
    return rc;
}

int loader_ask_ahead(struct larder_loader *loader)
{
    int rc = link_mend(loader, 0);
    if (rc == 0)
        rc = loader_ask(loader, 0);
    return rc == LARDER_ETIMEOUT ? 0 : rc;
}

void loader_stand(struct larder_loader *loader)
{
    struct loader_stream *stream = &loader->stream;
    struct wire_message msg = {.type = WIRE_NEXT, .next = {stream->epoch, 0, stream->outstanding}};
    if (!stream->standing)
        connection_send(&loader->connection, &msg, -1, 0, NULL);
    stream->standing = true;
}

int loader_release(struct larder_loader *loader, uint64_t number)
{
    struct wire_message msg = {.type = WIRE_RELEASE, .release = {.batch = number}};
    int rc = connection_send(&loader->connection, &msg, -1, deadline_after(SEND_TIMEOUT_MS), &loader->error);
    if (rc == LARDER_EGONE)
        return link_lost(loader);
    return rc ? loader_break(loader) : 0;
}
