/* cluster_status.c: what the status says of the cluster. It changes nothing. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/driver/cluster_priv.h"

_Static_assert(STATUS_NODE_ID_BYTES == PEER_NODE_BYTES, "the status names nodes by their ids");

static const enum status_node_state states[] = {[MEMBER_UNKNOWN] = STATUS_NODE_UNKNOWN,
                                                [MEMBER_UP] = STATUS_NODE_UP,
                                                [MEMBER_LEAVING] = STATUS_NODE_LEAVING,
                                                [MEMBER_LOST] = STATUS_NODE_LOST};

static struct status_node node_of(const struct driver_cluster *cluster, const struct member *member)
{
    const uint8_t *id = member->node.id;
    struct peering_named named;
    struct status_node node = {.state = status_node_states[states[member->state]],
                               .self = memcmp(id, cluster->peers.self, PEER_NODE_BYTES) == 0};
    memcpy(node.id, id, sizeof node.id);
    node.asked = !node.self && peers_asks(&cluster->peers, peers_number(&cluster->peers, id));
    if (peering_name(cluster->peering, id, &named)) {
        node.name = xstrdup(named.name);
        node.url = xstrdup(named.url);
    }
    return node;
}

static struct status_shared shared_of(const struct anchor *anchor)
{
    struct anchor_counts counts = anchor_counts(anchor);
    return (struct status_shared){counts.received, counts.refused, counts.moved, counts.back};
}

static void add(struct status_shared *sum, struct status_shared more)
{
    sum->received += more.received;
    sum->refused += more.refused;
    sum->moved += more.moved;
    sum->back += more.back;
}

void cluster_count_ended(struct driver_cluster *cluster, const struct anchor *anchor)
{
    add(&cluster->counts.ended, shared_of(anchor));
}

/* put_parts leaves out parts of which nothing is left. */
static void put_parts(const struct driver_cluster *cluster, const struct anchor *anchor, struct status_share *share)
{
    struct merge_status rows[MERGE_PARTS_MAX];
    size_t count = anchor_statuses(anchor, rows, MERGE_PARTS_MAX);
    share->parts = xcalloc(count + 1, sizeof *share->parts);
    for (size_t i = 0; i < count && i < MERGE_PARTS_MAX; i++) {
        if (rows[i].node >= MAP_NODES_MAX || (!rows[i].left && !rows[i].asked && !rows[i].waiting))
            continue;
        struct status_part *part = &share->parts[share->n_parts++];
        *part = (struct status_part){
            .left = rows[i].left, .asked = rows[i].asked, .waiting = rows[i].waiting, .open = rows[i].open};
        memcpy(part->node, cluster->peers.all[rows[i].node].id, sizeof part->node);
    }
}

static void put_jobs(const struct driver *driver, struct status_cluster *out)
{
    const struct driver_cluster *cluster = driver->cluster;
    out->jobs = xcalloc(JOBS_MAX, sizeof *out->jobs);
    out->samples = cluster->counts.ended;
    for (size_t i = 0; i < cluster->n_ended; i++)
        add(&out->samples, shared_of(cluster->ended[i].anchor));
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        const struct anchor *anchor = cluster->anchors[job].anchor;
        if (!anchor)
            continue;
        struct status_share *share = &out->jobs[out->n_jobs++];
        snprintf(share->name, sizeof share->name, "%s", driver->tables.jobs[job].reg->name);
        share->samples = shared_of(anchor);
        add(&out->samples, share->samples);
        put_parts(cluster, anchor, share);
    }
}

struct status_cluster *cluster_status(const struct driver *driver)
{
    const struct driver_cluster *cluster = driver->cluster;
    if (!cluster || !cluster->peering)
        return NULL;
    struct status_cluster *out = xcalloc(1, sizeof *out);
    out->name = xstrdup(peering_cluster(cluster->peering));
    out->guests = guests_count(cluster->home.guests);
    out->requests = cluster->counts.requests;
    out->probes = cluster->counts.probes;
    out->given = cluster->counts.given;
    out->nodes = xcalloc(MAP_NODES_MAX, sizeof *out->nodes);
    for (uint32_t i = 0; i < cluster->members.n_members; i++)
        out->nodes[out->n_nodes++] = node_of(cluster, &cluster->members.members[i]);
    put_jobs(driver, out);
    return out;
}
