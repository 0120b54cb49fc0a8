/* fork.c: a child must not keep its parent's connection open: the connection is the lease, and the daemon would hold
 * the parent's batches for as long as any child lives. So every connection is on a list, and its descriptor is closed
 * in the child at fork. The mutex guards the list and is held across the fork, so that the child sees it whole; sockets
 * are made and closed under it, so that no fork in another thread comes between the descriptor and its place on the
 * list. */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/connection_priv.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct connection *first;

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void after_fork_child(void)
{
    for (struct connection *at = first; at; at = at->next) {
        if (at->fd >= 0)
            close(at->fd);
        at->fd = -1;
    }
    pthread_mutex_unlock(&mutex);
}

static void install(void)
{
    /* Out of memory is the only failure; then a child keeps descriptors until it ends, as without this file. */
    (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

int fork_socket(struct connection *connection)
{
    pthread_once(&once, install);
    pthread_mutex_lock(&mutex);
    connection->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection->fd >= 0) {
        connection->previous = NULL;
        connection->next = first;
        if (first)
            first->previous = connection;
        first = connection;
    }
    pthread_mutex_unlock(&mutex);
    return connection->fd >= 0 ? 0 : LARDER_EIO;
}

void fork_close(struct connection *connection)
{
    pthread_mutex_lock(&mutex);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        first = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
    pthread_mutex_unlock(&mutex);
}
