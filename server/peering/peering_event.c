/* peering_event.c: events on their way to the receiver. */
#include <stdlib.h>

#include "common/net/blocks.h"
#include "server/peering/peering_priv.h"

void peering_tell(struct peering *peering, struct peering_event *event)
{
    pthread_mutex_lock(&peering->lock);
    bool open = peering->open;
    pthread_mutex_unlock(&peering->lock);
    if (open)
        peering->tell(peering->arg, event);
    else
        peering_event_free(event); /* peering_start has failed, and nobody knows this peering */
}

void peering_event_free(struct peering_event *event)
{
    if (!event)
        return;
    if (event->body)
        event->free_body(event->body);
    free(event);
}

void *peering_block(size_t bytes)
{
    return net_block(bytes);
}

void peering_block_free(void *block)
{
    net_block_free(block);
}

void peering_rest(void)
{
    net_blocks_clear();
}
