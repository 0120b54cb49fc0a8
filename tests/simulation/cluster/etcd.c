/* etcd.c: each node's membership, and a store of keys with leases as etcd is: what stands still for longer than a lease
 * finds all leases dead. */
#include <string.h>

#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

enum { ANSWER_MS = 30, UNANSWERED_MS = 2000 };

enum etcd_what { ETCD_TELLS, ETCD_ANSWERS };

/* What comes to a node: the list, or the result of a REGISTER or KEEPALIVE. */
struct etcd_due {
    struct due due;
    enum etcd_what what;
    uint32_t node;
    uint64_t boot;
    enum members_event_type result;
};

static void put(struct cluster *cluster, uint64_t after_ns, struct etcd_due due)
{
    cluster->agenda.row_bytes = sizeof due;
    due.due.at_ns = fleet_now(cluster->fleet) + after_ns;
    due.boot = fleet_boot(cluster->fleet, due.node);
    agenda_put(&cluster->agenda, &due);
}

static void tell_all(struct cluster *cluster)
{
    cluster->etcd.revision++;
    for (uint32_t node = 0; node < cluster->n_nodes; node++)
        put(cluster, (1 + random_below(&cluster->rng, ANSWER_MS)) * CLUSTER_MS,
            (struct etcd_due){.what = ETCD_TELLS, .node = node});
}

static void act(struct cluster *cluster, uint32_t node, const struct members_action *actions, size_t count);

static void tell(struct cluster *cluster, uint32_t node, struct members_event event)
{
    struct members_action actions[MEMBERS_ACTIONS_MAX];
    event.now_ns = fleet_now(cluster->fleet);
    size_t count = members_step(&cluster->members[node], &event, actions);
    act(cluster, node, actions, count);
}

/* ask asks for a lease, or for a longer one. */
static void ask(struct cluster *cluster, uint32_t node, bool keeps)
{
    struct etcd *etcd = &cluster->etcd;
    uint64_t now_ns = fleet_now(cluster->fleet);
    if (etcd->stands) {
        put(cluster, UNANSWERED_MS * CLUSTER_MS,
            (struct etcd_due){.what = ETCD_ANSWERS, .node = node, .result = MEMBERS_LEASE_FAILED});
        return;
    }
    bool granted = !keeps || (etcd->keys[node].there && etcd->keys[node].boot == fleet_boot(cluster->fleet, node));
    if (granted)
        etcd->keys[node].lease_until_ns = now_ns + CLUSTER_LEASE_NS;
    if (granted && !keeps) {
        etcd->keys[node].there = true;
        etcd->keys[node].leaving = cluster->members[node].members[0].leaving;
        etcd->keys[node].boot = fleet_boot(cluster->fleet, node);
        tell_all(cluster);
    }
    put(cluster, ANSWER_MS * CLUSTER_MS,
        (struct etcd_due){
            .what = ETCD_ANSWERS, .node = node, .result = granted ? MEMBERS_LEASE_GRANTED : MEMBERS_LEASE_LOST});
}

/* ── what a node sees ── */

bool etcd_sees(const struct cluster *cluster, uint32_t node, uint32_t of)
{
    const struct members_view *view = &fleet_peers(cluster->fleet, node)->view;
    for (uint32_t i = 0; i < view->n_nodes; i++) {
        if (fleet_node(view->nodes[i].id) == of)
            return true;
    }
    return false;
}

/* Whether the node has left at some time. Then it may go out of views, though it answers. */
static bool leaves(const struct cluster *cluster, uint32_t node)
{
    return cluster->leaves && !cluster->leave_ns && node == cluster->leaver;
}

/* see gives the node another view. Who is no longer in it either leaves, or has answered none of the last probes,
 * whatever has become of its key. */
static void see(struct cluster *cluster, uint32_t node, const struct members_view *view)
{
    bool before[CLUSTER_NODES_MAX];
    for (uint32_t of = 0; of < cluster->n_nodes; of++)
        before[of] = etcd_sees(cluster, node, of);
    fleet_see(cluster->fleet, node, view);
    for (uint32_t of = 0; of < cluster->n_nodes; of++) {
        const struct asked *asked = &cluster->asked[node][of];
        if (before[of] && !leaves(cluster, of) && asked->unanswered < MEMBERS_UNANSWERED &&
            !etcd_sees(cluster, node, of))
            cluster_break(cluster, RULE_ETCD, "node %u no longer sees node %u, which left %u probes unanswered", node,
                          of, asked->unanswered);
    }
}

static void probe(struct cluster *cluster, uint32_t node, uint32_t of)
{
    cluster->asked[node][of].probing = true;
    fleet_probe(cluster->fleet, node, of);
}

static void forget(struct cluster *cluster, uint32_t node, const struct members_action *action)
{
    cluster->asked[node][fleet_node(action->id)] = (struct asked){0};
    fleet_forget(cluster->fleet, node, action->id);
}

static void act(struct cluster *cluster, uint32_t node, const struct members_action *actions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        switch (actions[i].type) {
        case MEMBERS_PROBE: probe(cluster, node, fleet_node(actions[i].id)); break;
        case MEMBERS_REGISTER: ask(cluster, node, false); break;
        case MEMBERS_KEEPALIVE: ask(cluster, node, true); break;
        case MEMBERS_FORGOTTEN: forget(cluster, node, &actions[i]); break;
        case MEMBERS_CHANGED: see(cluster, node, &cluster->members[node].view); break;
        case MEMBERS_REBOOTED: break;
        }
    }
}

void etcd_begin_node(struct cluster *cluster, uint32_t node)
{
    struct map_node self = {.weight = 1};
    fleet_id(node, self.id);
    memset(cluster->asked[node], 0, sizeof cluster->asked[node]);
    members_init(&cluster->members[node], &self, true, CLUSTER_LEASE_NS, fleet_now(cluster->fleet));
    tell(cluster, node, (struct members_event){.type = MEMBERS_TICK});
    put(cluster, ANSWER_MS * CLUSTER_MS, (struct etcd_due){.what = ETCD_TELLS, .node = node});
}

/* spoil_keys believes that a node whose key is gone is gone. */
static void spoil_keys(struct cluster *cluster, uint32_t node, uint32_t of)
{
    struct members_view view = cluster->members[node].view;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < view.n_nodes; i++) {
        if (fleet_node(view.nodes[i].id) != of)
            view.nodes[kept++] = view.nodes[i];
    }
    cluster->spoiled = cluster->spoiled || (kept < view.n_nodes && !leaves(cluster, of));
    view.n_nodes = kept;
    see(cluster, node, &view);
}

static void tell_list(struct cluster *cluster, uint32_t node)
{
    const struct etcd *etcd = &cluster->etcd;
    if (etcd->stands) {
        put(cluster, UNANSWERED_MS * CLUSTER_MS, (struct etcd_due){.what = ETCD_TELLS, .node = node});
        return;
    }
    for (uint32_t of = 0; of < cluster->n_nodes; of++) {
        struct members_event event = {.type = etcd->keys[of].there ? MEMBERS_LISTED : MEMBERS_VANISHED,
                                      .boot = etcd->keys[of].boot,
                                      .weight = 1,
                                      .leaving = etcd->keys[of].leaving,
                                      .revision = etcd->revision};
        fleet_id(of, event.id);
        if (of == node)
            continue;
        tell(cluster, node, event);
        if (cluster->spoil == SPOIL_KEYS && event.type == MEMBERS_VANISHED)
            spoil_keys(cluster, node, of);
    }
}

/* count_answer counts as a membership does: only what came after one of its own probes. */
static void count_answer(struct asked *asked, bool probe, bool answered)
{
    if (probe && !asked->probing)
        return;
    asked->probing = asked->probing && !probe;
    if (answered)
        asked->unanswered = 0;
    else if (probe)
        asked->unanswered++;
}

void etcd_heard(void *ctx, uint32_t node, uint32_t of, bool probe, bool answered)
{
    struct cluster *cluster = ctx;
    struct members_event event = {.type = !probe     ? MEMBERS_DATA_ANSWERED
                                          : answered ? MEMBERS_PROBE_ANSWERED
                                                     : MEMBERS_PROBE_FAILED,
                                  .boot = fleet_boot(cluster->fleet, of),
                                  .leaving = probe && cluster->members[of].members[0].leaving};
    fleet_id(of, event.id);
    count_answer(&cluster->asked[node][of], probe, answered);
    if (answered || probe)
        tell(cluster, node, event);
}

static void expire(struct cluster *cluster)
{
    bool any = false;
    for (uint32_t i = 0; !cluster->etcd.stands && i < cluster->n_nodes; i++) {
        if (cluster->etcd.keys[i].there && cluster->etcd.keys[i].lease_until_ns <= fleet_now(cluster->fleet)) {
            cluster->etcd.keys[i].there = false;
            any = true;
        }
    }
    if (any)
        tell_all(cluster);
}

void etcd_wipe(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->n_nodes; i++)
        cluster->etcd.keys[i].there = false;
    tell_all(cluster);
}

void etcd_leave(struct cluster *cluster, uint32_t node)
{
    tell(cluster, node, (struct members_event){.type = MEMBERS_LEAVE});
}

static bool runs(const struct cluster *cluster, uint32_t node)
{
    return fleet_lives(cluster->fleet, node) && !cluster->stands_until_ns[node];
}

void etcd_happens(struct cluster *cluster)
{
    expire(cluster);
    while (agenda_next_ns(&cluster->agenda) <= fleet_now(cluster->fleet)) {
        struct etcd_due due;
        agenda_take(&cluster->agenda, &due);
        if (!fleet_lives(cluster->fleet, due.node) || due.boot != fleet_boot(cluster->fleet, due.node))
            continue;
        if (!runs(cluster, due.node))
            put(cluster, 100 * CLUSTER_MS, due);
        else if (due.what == ETCD_TELLS)
            tell_list(cluster, due.node);
        else
            tell(cluster, due.node, (struct members_event){.type = due.result});
    }
    for (uint32_t i = 0; i < cluster->n_nodes; i++) {
        if (runs(cluster, i) && members_alarm(&cluster->members[i]) <= fleet_now(cluster->fleet))
            tell(cluster, i, (struct members_event){.type = MEMBERS_TICK});
    }
}

uint64_t etcd_alarm(const struct cluster *cluster)
{
    uint64_t alarm = agenda_next_ns(&cluster->agenda);
    for (uint32_t i = 0; i < cluster->n_nodes; i++) {
        uint64_t members = runs(cluster, i) ? members_alarm(&cluster->members[i]) : UINT64_MAX;
        uint64_t lease = cluster->etcd.keys[i].there && !cluster->etcd.stands ? cluster->etcd.keys[i].lease_until_ns
                                                                              : UINT64_MAX;
        alarm = members < alarm ? members : alarm;
        alarm = lease < alarm ? lease : alarm;
    }
    return alarm;
}
