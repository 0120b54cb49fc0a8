#include "server/discovery/dns.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common/check.h"
#include "common/log.h"
#include "common/thread.h"
#include "server/discovery/hosts.h"

#define ADDRESS_MAX (NI_MAXHOST + NI_MAXSERV + 4)

struct dns {
    struct list *list; /* borrowed */
    char *host, *port;
    bool is_down; /* the thread's own */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool stopping; /* under the lock */
};

static char *text_of(const struct addrinfo *info)
{
    char host[NI_MAXHOST], port[NI_MAXSERV], text[ADDRESS_MAX];
    if (getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return NULL;
    snprintf(text, sizeof text, info->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return xstrdup(text);
}

static void set(struct dns *dns, const struct addrinfo *first)
{
    char *all[DISCOVERY_NODES_MAX] = {0};
    size_t count = 0;
    for (const struct addrinfo *info = first; info && count < DISCOVERY_NODES_MAX; info = info->ai_next) {
        char *text = text_of(info);
        if (text)
            all[count++] = text;
    }
    list_set(dns->list, (const char *const *)all, count); /* fails only when the client stops, or is full for now */
    for (size_t i = 0; i < count; i++)
        free(all[i]);
}

static void resolve(struct dns *dns)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(dns->host, dns->port, &hints, &found);
    if (rc == 0)
        set(dns, found);
    if (rc && !dns->is_down)
        log_warn("msg=\"the cluster's name cannot be resolved: the nodes that are known stay\" name=\"%s\" err=\"%s\"",
                 dns->host, gai_strerror(rc));
    if ((rc != 0) != dns->is_down)
        list_source(dns->list, rc == 0);
    dns->is_down = rc != 0;
    if (found)
        freeaddrinfo(found);
}

/* Waits for the next question; false: there is none. */
static bool wait_for_next(struct dns *dns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += DNS_EVERY_MS / 1000;
    pthread_mutex_lock(&dns->lock);
    while (!dns->stopping && pthread_cond_timedwait(&dns->change, &dns->lock, &until) == 0)
        ;
    bool stopping = dns->stopping;
    pthread_mutex_unlock(&dns->lock);
    return !stopping;
}

static void *run(void *arg)
{
    struct dns *dns = arg;
    do
        resolve(dns);
    while (wait_for_next(dns));
    return NULL;
}

static void destroy(struct dns *dns)
{
    pthread_cond_destroy(&dns->change);
    pthread_mutex_destroy(&dns->lock);
    free(dns->host);
    free(dns->port);
    free(dns);
}

int dns_start(const char *address, struct list *list, struct dns **out, struct error *err)
{
    int rc = hosts_check(address, err);
    if (rc)
        return rc;
    struct dns *dns = xcalloc(1, sizeof *dns);
    const char *colon = strrchr(address, ':');
    bool literal = *address == '['; /* the resolver wants it without its brackets */
    dns->list = list;
    dns->host = strndup(address + literal, (size_t)(colon - address) - 2 * literal);
    dns->port = xstrdup(colon + 1);
    CHECK(dns->host);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&dns->change, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&dns->lock, NULL);
    if (thread_start(&dns->thread, "dns", run, dns)) {
        destroy(dns);
        return error_set(err, LARDER_ELIMIT, "no thread for DNS: raise the limit of threads");
    }
    *out = dns;
    return 0;
}

void dns_stop(struct dns *dns)
{
    if (!dns)
        return;
    pthread_mutex_lock(&dns->lock);
    dns->stopping = true;
    pthread_cond_signal(&dns->change);
    pthread_mutex_unlock(&dns->lock);
    pthread_join(dns->thread, NULL);
    destroy(dns);
}
