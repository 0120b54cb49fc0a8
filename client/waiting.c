/* waiting.c: the batches that are here and not yet handed out, first come first. */
#include <stdlib.h>

#include "client/loader_priv.h"

void waiting_free(struct larder_batch *batch)
{
    arena_unref(&batch->arena);
    batch->magic = 0;
    free(batch);
}

void waiting_add(struct loader_stream *stream, struct larder_batch *batch)
{
    if (stream->last_waiting)
        stream->last_waiting->next = batch;
    else
        stream->first_waiting = batch;
    stream->last_waiting = batch;
    stream->waiting++;
}

struct larder_batch *waiting_take(struct larder_loader *loader)
{
    struct loader_stream *stream = &loader->stream;
    struct larder_batch *batch = stream->first_waiting;
    if (!batch)
        return NULL;
    stream->first_waiting = batch->next;
    if (!batch->next)
        stream->last_waiting = NULL;
    batch->next = NULL;
    if (--stream->waiting == 0 && loader->link.state == LINK_UP)
        connection_alarm(&loader->connection, ALARM_OFF);
    return batch;
}

void waiting_drop(struct larder_loader *loader)
{
    struct larder_batch *batch;
    loader->stream.n_turns = 0;
    while ((batch = waiting_take(loader)))
        waiting_free(batch);
}
