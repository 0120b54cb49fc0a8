/* peering_find.c: discovery, and where the nodes live.
 *
 * A node that vanishes from the list keeps its address, since it is probed until it is forgotten. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/log.h"
#include "server/discovery/hosts.h"
#include "server/peering/peering_priv.h"

/* ── addresses ── */

static struct peering_address *find(const struct peering *peering, const uint8_t node[PEER_NODE_BYTES])
{
    for (size_t i = 0; i < peering->n_addresses; i++)
        if (memcmp(peering->addresses[i].node, node, PEER_NODE_BYTES) == 0)
            return (struct peering_address *)&peering->addresses[i];
    return NULL;
}

static void drop(struct peering *peering, struct peering_address *address)
{
    free(address->name);
    free(address->url);
    *address = peering->addresses[--peering->n_addresses];
}

/* Room for one more; without any, that of a node which has vanished. NULL: all are listed. */
static struct peering_address *add(struct peering *peering, const uint8_t node[PEER_NODE_BYTES])
{
    for (size_t i = 0; peering->n_addresses == PEERING_ADDRESSES_MAX && i < peering->n_addresses; i++)
        if (!peering->addresses[i].listed)
            drop(peering, &peering->addresses[i]);
    if (peering->n_addresses == PEERING_ADDRESSES_MAX)
        return NULL;
    struct peering_address *address = &peering->addresses[peering->n_addresses++];
    *address = (struct peering_address){0};
    memcpy(address->node, node, PEER_NODE_BYTES);
    return address;
}

const char *peering_url_locked(const struct peering *peering, const uint8_t node[PEER_NODE_BYTES])
{
    const struct peering_address *address = find(peering, node);
    return address ? address->url : NULL;
}

bool peering_name(struct peering *peering, const uint8_t node[PEER_NODE_BYTES], struct peering_named *out)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    bool self = memcmp(node, peering->self, PEER_NODE_BYTES) == 0;
    pthread_mutex_lock(&peering->lock);
    const struct peering_address *address = self ? NULL : find(peering, node);
    if (self || address) {
        snprintf(out->name, sizeof out->name, "%s", self ? peering->node.name : address->name);
        snprintf(out->url, sizeof out->url, "%s", self ? peering->node.url : address->url);
    }
    pthread_mutex_unlock(&peering->lock);
    return self || address;
}

const char *peering_cluster(const struct peering *peering)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    return peering->name;
}

void peering_forget(struct peering *peering, const uint8_t node[PEER_NODE_BYTES])
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    pthread_mutex_lock(&peering->lock);
    struct peering_address *address = find(peering, node);
    if (address)
        drop(peering, address);
    pthread_mutex_unlock(&peering->lock);
}

void peering_forget_all(struct peering *peering)
{
    while (peering->n_addresses > 0)
        drop(peering, &peering->addresses[0]);
}

/* ── what discovery tells ── */

/* Whether the node can be asked at its address: one with certificates never talks to one without. */
static bool is_ours(const struct peering *peering, const struct discovery_node *node)
{
    const char *scheme = peering->bundle ? "https://" : "http://";
    if (strncmp(node->url, scheme, strlen(scheme)) == 0)
        return true;
    log_warn_limited("msg=\"a listed node is left out: either all nodes of a cluster have certificates, or none\" "
                     "name=\"%s\" url=\"%s\"",
                     node->name, node->url);
    return false;
}

static bool note_listed(struct peering *peering, const struct discovery_node *node)
{
    if (!is_ours(peering, node))
        return false;
    pthread_mutex_lock(&peering->lock);
    struct peering_address *address = find(peering, node->id);
    address = address ? address : add(peering, node->id);
    if (address) {
        free(address->name);
        free(address->url);
        address->name = xstrdup(node->name);
        address->url = xstrdup(node->url);
        address->listed = true;
    }
    pthread_mutex_unlock(&peering->lock);
    if (!address)
        log_warn_limited("msg=\"a listed node is left out: there are too many\" name=\"%s\" most=%zu", node->name,
                         PEERING_ADDRESSES_MAX);
    return address != NULL;
}

static void note_vanished(struct peering *peering, const uint8_t node[PEER_NODE_BYTES])
{
    pthread_mutex_lock(&peering->lock);
    struct peering_address *address = find(peering, node);
    if (address)
        address->listed = false;
    pthread_mutex_unlock(&peering->lock);
}

static void take_members(struct peering *peering, const struct discovery_event *event)
{
    if (event->members.type == MEMBERS_LISTED && !note_listed(peering, event->node))
        return;
    if (event->members.type == MEMBERS_VANISHED)
        note_vanished(peering, event->members.id);
    struct peering_event *told = xcalloc(1, sizeof *told);
    told->type = PEERING_MEMBERS;
    told->members = event->members;
    peering_tell(peering, told);
}

static void found(void *arg, const struct discovery_event *event)
{
    struct peering *peering = arg;
    switch (event->type) {
    case DISCOVERY_MEMBERS: take_members(peering, event); break;
    case DISCOVERY_CONFIG:
        if (event->bound != MAP_BOUND)
            log_warn("msg=\"the cluster's config in etcd has another bound than this daemon, whose maps will be "
                     "others\" bound=%u ours=%d",
                     event->bound, MAP_BOUND);
        break;
    case DISCOVERY_LEFT:
        pthread_mutex_lock(&peering->lock);
        peering->left = true;
        pthread_cond_broadcast(&peering->change);
        pthread_mutex_unlock(&peering->lock);
        break;
    case DISCOVERY_UP:
    case DISCOVERY_DOWN: break; /* whoever tells it has logged it */
    }
}

/* ── beginning ── */

static int find_by_list(struct peering *peering, const char *const *entries, size_t count, struct error *err)
{
    struct slurm_hosts hosts;
    int rc = hosts_list(entries, count, getenv("SLURM_JOB_NODELIST"), peering->node_port, &hosts, err);
    if (rc)
        return rc;
    rc = list_set(peering->list, (const char *const *)hosts.names, hosts.count);
    slurm_free(&hosts);
    return rc ? error_set(err, rc, "the network's client cannot take the list of nodes") : 0;
}

/* begin_list begins a list of nodes without an address. */
static int begin_list(struct peering *peering, struct error *err)
{
    struct list_config list = {.tls = peering->bundle ? &peering->tls : NULL,
                               .cluster = peering->cluster,
                               .boot = peering->boot,
                               .tell = found,
                               .arg = peering};
    memcpy(list.self, peering->self, sizeof list.self);
    return list_start(&list, peering->client, &peering->list, err);
}

static int start_list(struct peering *peering, const struct peering_config *config, struct error *err)
{
    int rc = begin_list(peering, err);
    return rc ? rc : find_by_list(peering, config->nodes, config->n_nodes, err);
}

static int start_slurm(struct peering *peering, const struct peering_config *config, struct error *err)
{
    (void)config;
    int rc = begin_list(peering, err);
    return rc ? rc : find_by_list(peering, &(const char *){"slurm"}, 1, err);
}

static int start_dns(struct peering *peering, const struct peering_config *config, struct error *err)
{
    int rc = begin_list(peering, err);
    if (!rc && config->n_nodes != 1)
        rc = error_set(err, LARDER_EINVAL, "cluster.nodes: name one NAME:PORT to look up in DNS, not %zu",
                       config->n_nodes);
    return rc ? rc : dns_start(config->nodes[0], peering->list, &peering->dns, err);
}

static int start_etcd(struct peering *peering, const struct peering_config *config, struct error *err)
{
    struct etcd_config etcd = {.endpoints = config->nodes,
                               .n_endpoints = config->n_nodes,
                               .tls = peering->bundle ? &peering->etcd_tls : NULL,
                               .cluster = config->cluster,
                               .lease_s = config->lease_s,
                               .bound = MAP_BOUND,
                               .tell = found,
                               .arg = peering};
    return etcd_start(&etcd, peering->client, &peering->etcd, err);
}

const struct discovery_kind peering_kinds[] = {[PEERING_LIST] = {start_list, false},
                                               [PEERING_SLURM] = {start_slurm, false},
                                               [PEERING_DNS] = {start_dns, false},
                                               [PEERING_ETCD] = {start_etcd, true}};

int peering_find(struct peering *peering, const struct peering_config *config, struct error *err)
{
    if (config->n_nodes > PEERING_NODES_MAX)
        return error_set(err, LARDER_ELIMIT, "cluster.nodes has %zu entries, and may have %d", config->n_nodes,
                         PEERING_NODES_MAX);
    return peering_kinds[config->discovery].start(peering, config, err);
}

/* ── this node's key ── */

static void check_order(int rc)
{
    CHECK(rc == 0 || rc == LARDER_EGONE); /* the daemon gives few orders, and peering_start has tried the value */
}

void peering_register(struct peering *peering, bool leaving)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    pthread_mutex_lock(&peering->lock);
    peering->node.leaving = leaving;
    if (peering->etcd && !peering->stopping)
        check_order(etcd_register(peering->etcd, &peering->node, NULL));
    pthread_mutex_unlock(&peering->lock);
}

void peering_keepalive(struct peering *peering)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    pthread_mutex_lock(&peering->lock);
    if (peering->etcd && !peering->stopping)
        check_order(etcd_keepalive(peering->etcd));
    pthread_mutex_unlock(&peering->lock);
}

void peering_leave(struct peering *peering)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    pthread_mutex_lock(&peering->lock);
    if (peering->etcd && !peering->stopping) {
        check_order(etcd_leave(peering->etcd));
        peering->leaves = true;
    }
    pthread_mutex_unlock(&peering->lock);
}
