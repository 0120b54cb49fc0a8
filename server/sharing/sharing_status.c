/* sharing_status.c: what the status says of the cluster. It changes nothing. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/sharing/sharing_priv.h"

_Static_assert(STATUS_NODE_ID_BYTES == PEER_NODE_BYTES, "the status names nodes by their ids");

static const enum status_node_state states[] = {[MEMBER_UNKNOWN] = STATUS_NODE_UNKNOWN,
                                                [MEMBER_UP] = STATUS_NODE_UP,
                                                [MEMBER_LEAVING] = STATUS_NODE_LEAVING,
                                                [MEMBER_LOST] = STATUS_NODE_LOST};

static struct status_node node_of(const struct sharing *sharing, const struct member *member)
{
    const uint8_t *id = member->node.id;
    struct peering_named named;
    struct status_node node = {.state = status_node_states[states[member->state]],
                               .self = memcmp(id, sharing->peers.self, PEER_NODE_BYTES) == 0};
    memcpy(node.id, id, sizeof node.id);
    node.asked = !node.self && peers_asks(&sharing->peers, peers_number(&sharing->peers, id));
    if (peering_name(sharing->peering, id, &named)) {
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

void sharing_count_ended(struct sharing *sharing, const struct anchor *anchor)
{
    add(&sharing->counts.ended, shared_of(anchor));
}

/* put_parts leaves out parts of which nothing is left. */
static void put_parts(const struct sharing *sharing, const struct anchor *anchor, struct status_share *share)
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
        memcpy(part->node, sharing->peers.all[rows[i].node].id, sizeof part->node);
    }
}

static const char *const spread_names[] = {
    [SHARING_SPREAD_AUTO] = "auto", [SHARING_SPREAD_ALWAYS] = "always", [SHARING_SPREAD_NEVER] = "never"};

static void put_jobs(const struct sharing *sharing, struct status_cluster *out)
{
    out->jobs = xcalloc(JOBS_MAX, sizeof *out->jobs);
    out->samples = sharing->counts.ended;
    for (size_t i = 0; i < sharing->n_ended; i++)
        add(&out->samples, shared_of(sharing->ended[i].anchor));
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        const struct anchor *anchor = sharing->anchors[job].anchor;
        if (!anchor)
            continue;
        struct status_share *share = &out->jobs[out->n_jobs++];
        snprintf(share->name, sizeof share->name, "%s", job_of(sharing, job).reg->name);
        share->samples = shared_of(anchor);
        share->homes = !anchor_is_lone(anchor);
        share->trainings = wants_count(&sharing->wants, sharing->anchors[job].training,
                                       sharing->anchors[job].preparation, clock_now_ns());
        share->spread = sharing->anchors[job].nodes ? spread_names[sharing->spread] : NULL;
        add(&out->samples, share->samples);
        put_parts(sharing, anchor, share);
    }
}

struct status_cluster *sharing_status(const struct sharing *sharing)
{
    if (!sharing || !sharing->peering)
        return NULL;
    struct status_cluster *out = xcalloc(1, sizeof *out);
    out->name = xstrdup(peering_cluster(sharing->peering));
    out->guests = guests_count(sharing->home.guests);
    out->requests = sharing->counts.requests;
    out->probes = sharing->counts.probes;
    out->given = sharing->counts.given;
    out->nodes = xcalloc(MAP_NODES_MAX, sizeof *out->nodes);
    for (uint32_t i = 0; i < sharing->members.n_members; i++)
        out->nodes[out->n_nodes++] = node_of(sharing, &sharing->members.members[i]);
    put_jobs(sharing, out);
    return out;
}
