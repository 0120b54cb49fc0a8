/* peering_event.c: events on their way to the receiver. */
#include <stdlib.h>

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
    free(event->body);
    free(event);
}
