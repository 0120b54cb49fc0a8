/* fork.c: a child must not keep its parent's connection open: the connection is the lease, and the daemon would hold
 * the parent's batches for as long as any child lives. So every connection is on a list, and its descriptors are closed
 * in the child at fork. The mutex guards the list, and is held across the fork so that the child sees it whole.
 * Descriptors are made and closed under it, so a fork in another thread never finds a descriptor that is not on the
 * list. */
#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "client/connection_priv.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct connection *first;

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_all(struct connection *connection)
{
    close_one(&connection->fd);
    close_one(&connection->alarm_fd);
    close_one(&connection->set_fd);
}

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
    for (struct connection *at = first; at; at = at->next)
        close_all(at);
    pthread_mutex_unlock(&mutex);
}

static void install(void)
{
    /* Out of memory is the only failure; then a child keeps descriptors until it ends, as without this file. */
    (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static int watch(const struct connection *connection, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(connection->set_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : LARDER_EIO;
}

/* enlist closes what it made when it fails, and leaves errno as the failure set it. */
static int enlist(struct connection *connection)
{
    connection->fd = -1;
    connection->set_fd = epoll_create1(EPOLL_CLOEXEC);
    connection->alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (connection->set_fd < 0 || connection->alarm_fd < 0 || watch(connection, connection->alarm_fd) != 0) {
        int number = errno;
        close_all(connection);
        errno = number;
        return LARDER_EIO;
    }
    connection->previous = NULL;
    connection->next = first;
    if (first)
        first->previous = connection;
    first = connection;
    return 0;
}

int fork_enlist(struct connection *connection)
{
    pthread_once(&once, install);
    pthread_mutex_lock(&mutex);
    int rc = enlist(connection);
    pthread_mutex_unlock(&mutex);
    return rc;
}

void fork_delist(struct connection *connection)
{
    pthread_mutex_lock(&mutex);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        first = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    close_all(connection);
    pthread_mutex_unlock(&mutex);
}

/* hang_up takes the socket out of the set by name: closing alone would not, while a child that was made without fork's
 * handlers has a copy. */
static void hang_up(struct connection *connection)
{
    if (connection->fd >= 0 && connection->set_fd >= 0)
        epoll_ctl(connection->set_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    close_one(&connection->fd);
}

int fork_socket(struct connection *connection)
{
    int rc = 0;
    pthread_mutex_lock(&mutex);
    connection->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection->fd < 0)
        rc = LARDER_EIO;
    else
        rc = watch(connection, connection->fd);
    if (rc) {
        int number = errno;
        hang_up(connection);
        errno = number;
    }
    pthread_mutex_unlock(&mutex);
    return rc;
}

void fork_hang_up(struct connection *connection)
{
    pthread_mutex_lock(&mutex);
    hang_up(connection);
    pthread_mutex_unlock(&mutex);
}
