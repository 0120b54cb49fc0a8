/* peering.c: beginning and end.
 *
 * peering_start holds the lock until all is there. Both network threads need it before they tell anything, so the
 * receiver hears of nothing before the peering is its own. */
#include "server/peering/peering.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/log.h"
#include "common/net/blocks.h"
#include "server/discovery/hosts.h"
#include "server/discovery/node_value.h"
#include "server/peering/peering_priv.h"

#define PAIR_CONNECTIONS 16 /* most connections from one node to another */
#define SERVE_CONNECTIONS (2 * MAP_NODES_MAX * PAIR_CONNECTIONS)
#define ADDRESS_CONNECTIONS (16 * PAIR_CONNECTIONS) /* several nodes may share an address */
#define LEAVE_S 3                                   /* longest wait of peering_stop for etcd */

/* ── settings ── */

/* Cuts "host:port" in two. The host keeps no brackets. */
static int split(const char *address, char **host, uint16_t *port, struct error *err)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : 0, digits = colon ? strspn(colon + 1, "0123456789") : 0;
    unsigned long number = digits >= 1 && digits <= 5 ? strtoul(colon + 1, NULL, 10) : UINT16_MAX + 1ul;
    bool literal = *address == '[' && len > 2 && colon[-1] == ']';
    if (len == 0 || colon[1 + digits] || number > UINT16_MAX || (!literal && memchr(address, ':', len)))
        return error_set(err, LARDER_EINVAL, "cluster.listen: '%.128s' is no address: write HOST:PORT", address);
    *port = (uint16_t)number;
    *host = strndup(address + literal, len - 2 * literal);
    CHECK(*host);
    return 0;
}

static int load_bundle(struct peering *peering, const struct peering_config *config, struct error *err)
{
    if (!config->bundle)
        return 0;
    int rc = net_identity_load(config->bundle, &peering->identity, err);
    if (rc)
        return rc;
    if (strcmp(peering->identity.cluster, config->cluster) != 0)
        return error_set(err, LARDER_EINVAL,
                         "%s: the certificate is of the cluster '%s', and cluster.name is '%.128s': issue one for this "
                         "cluster",
                         config->bundle, peering->identity.cluster, config->cluster);
    peering->bundle = xstrdup(config->bundle);
    peering->tls = (struct net_tls){peering->bundle, peering->bundle, peering->bundle, false};
    peering->etcd_tls = peering->tls;
    peering->etcd_tls.check_names = true;
    return 0;
}

static int copy_roots(struct discovery_node *node, const struct peering_config *config, struct error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < config->n_roots; i++) {
        size_t bytes = strlen(config->roots[i]) + 1;
        if (bytes > sizeof node->roots - at)
            return error_set(err, LARDER_ELIMIT, "the paths of all roots together are longer than %d bytes",
                             DISCOVERY_ROOTS_MAX);
        memcpy(node->roots + at, config->roots[i], bytes);
        at += bytes;
    }
    node->n_roots = (uint32_t)config->n_roots;
    return 0;
}

/* Sets the address at which others find this node. The server already listens, so its port is known. */
static int set_url(struct peering *peering, const struct peering_config *config, struct error *err)
{
    struct discovery_node *node = &peering->node;
    const char *from = config->advertise ? config->advertise : config->listen, *colon = strrchr(from, ':');
    peering->node_port = peering->port;
    if (config->advertise) {
        int rc = hosts_check(config->advertise, err);
        if (rc)
            return error_prefix(err, rc, "cluster.advertise");
        peering->node_port = (uint16_t)strtoul(colon + 1, NULL, 10);
    } else if (peering_kinds[config->discovery].has_keys &&
               (strcmp(peering->host, "0.0.0.0") == 0 || strcmp(peering->host, "::") == 0)) {
        return error_set(err, LARDER_EINVAL, "cluster.advertise: others cannot ask %s: write the address of this node",
                         config->listen);
    }
    int len = snprintf(node->url, sizeof node->url, "%s://%.*s:%u", peering->bundle ? "https" : "http",
                       (int)(colon - from), from, peering->node_port);
    return (size_t)len < sizeof node->url ? 0 : error_set(err, LARDER_ELIMIT, "cluster.advertise is too long");
}

/* Makes this node's value for etcd once, so that peering_register cannot fail. */
static int set_node(struct peering *peering, const struct peering_config *config, struct error *err)
{
    struct discovery_node *node = &peering->node;
    char *value;
    memcpy(node->id, config->self, sizeof node->id);
    node->boot = config->boot;
    node->prep_id = config->prep_id;
    node->weight = 1;
    node->leaving = true; /* the longer of its two words */
    snprintf(node->name, sizeof node->name, "%s", config->name);
    snprintf(node->version, sizeof node->version, "%s", LARDER_VERSION);
    int rc = set_url(peering, config, err);
    if (rc == 0)
        rc = copy_roots(node, config, err);
    if (rc == 0 && peering_kinds[config->discovery].has_keys && (rc = node_value_write(node, &value, err)) == 0)
        free(value);
    return rc;
}

/* ── beginning ── */

static int serve(struct peering *peering, uint16_t port, struct error *err)
{
    bool secure = peering->bundle != NULL;
    struct net_serve_options options = {.host = peering->host,
                                        .port = port,
                                        .cert = secure ? peering->identity.text : NULL,
                                        .key = secure ? peering->identity.text : NULL,
                                        .ca = secure ? peering->identity.ca : NULL,
                                        .cluster = secure ? peering->name : NULL,
                                        .connections = SERVE_CONNECTIONS,
                                        .address_connections = ADDRESS_CONNECTIONS,
                                        .body_max = PEER_REQUEST_MAX,
                                        .on_request = peering_requested,
                                        .user = peering};
    int rc = net_serve_start(&options, &peering->serve, err);
    if (rc == 0)
        peering->port = net_serve_port(peering->serve);
    return rc;
}

static int begin_locked(struct peering *peering, const struct peering_config *config, struct error *err)
{
    uint16_t port = 0;
    int rc = split(config->listen, &peering->host, &port, err);
    if (rc == 0)
        rc = load_bundle(peering, config, err);
    if (rc == 0)
        rc = serve(peering, port, err);
    if (rc == 0)
        rc = set_node(peering, config, err);
    if (rc == 0)
        rc = net_client_start(PAIR_CONNECTIONS, &peering->client, err);
    return rc ? rc : peering_find(peering, config, err);
}

static struct peering *create(const struct peering_config *config)
{
    struct peering *peering = xcalloc(1, sizeof *peering);
    pthread_condattr_t attr;
    peering->magic = PEERING_MAGIC;
    peering->name = xstrdup(config->cluster);
    peering->cluster = XXH3_64bits(config->cluster, strlen(config->cluster));
    peering->boot = config->boot;
    peering->tell = config->tell;
    peering->arg = config->arg;
    memcpy(peering->self, config->self, sizeof peering->self);
    pthread_mutex_init(&peering->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&peering->change, &attr);
    pthread_condattr_destroy(&attr);
    return peering;
}

int peering_start(const struct peering_config *config, struct peering **out, struct error *err)
{
    CHECK(config->tell);
    if (!*config->cluster)
        return error_set(err, LARDER_EINVAL, "cluster.name: a cluster needs a name");
    struct peering *peering = create(config);
    pthread_mutex_lock(&peering->lock);
    int rc = begin_locked(peering, config, err);
    if (rc == 0) {
        *out = peering;
        peering->open = true;
    }
    pthread_mutex_unlock(&peering->lock);
    if (rc)
        peering_destroy(peering);
    return rc;
}

uint16_t peering_port(const struct peering *peering)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    return peering->port;
}

/* ── end ── */

static void wait_for_leave_locked(struct peering *peering)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LEAVE_S;
    while (peering->leaves && !peering->left && pthread_cond_timedwait(&peering->change, &peering->lock, &until) == 0)
        ;
}

/* The threads' last events need the lock. From `stopping` on no other thread looks at what ends here. */
void peering_stop(struct peering *peering)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    pthread_mutex_lock(&peering->lock);
    bool stopped = peering->stopping;
    if (!stopped)
        wait_for_leave_locked(peering);
    peering->stopping = true;
    pthread_mutex_unlock(&peering->lock);
    if (stopped)
        return;
    dns_stop(peering->dns);
    net_client_stop(peering->client);
    list_destroy(peering->list);
    etcd_destroy(peering->etcd);
    net_serve_stop(peering->serve);
    net_identity_clear(&peering->identity);
}

void peering_destroy(struct peering *peering)
{
    if (!peering)
        return;
    peering_stop(peering);
    peering_forget_all(peering);
    net_blocks_clear();
    pthread_cond_destroy(&peering->change);
    pthread_mutex_destroy(&peering->lock);
    free(peering->name);
    free(peering->host);
    free(peering->bundle);
    peering->magic = 0;
    free(peering);
}
