#include "server/driver/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/larder_err.h"
#include "server/driver/cluster_priv.h"

enum { PROBE_MS = 2000, GUESTS_AT_ONCE = 128 };
#define LEASE_NS (UINT64_C(30) * CLOCK_NS_PER_S) /* of a guest */
_Static_assert(LEASE_NS < MEMBERS_FORGET_NS, "no node is waited for again when it is forgotten");
_Static_assert(MERGE_UNDER_WAY_MOST <= GUESTS_HOLD * GUESTS_BATCH, "a home keeps what is under way from it");

int cluster_create(const struct driver_node *node, uint64_t boot, struct driver_cluster **out)
{
    struct driver_cluster *cluster = xcalloc(1, sizeof *cluster);
    struct map_node self = {.weight = 1};
    struct guests_config guests = {
        .guests = GUESTS_AT_ONCE, .lease_ns = LEASE_NS, .boot = boot, .prep_id = node->prep_id};
    memcpy(self.id, node->id, sizeof self.id);
    cluster->boot = boot;
    cluster->prep_id = node->prep_id;
    members_init(&cluster->members, &self, node->leased, node->lease_ns, clock_now_ns());
    peers_init(&cluster->peers, &self);
    int code = home_begin(&guests, &cluster->home);
    if (code)
        free(cluster);
    else
        *out = cluster;
    return code;
}

void cluster_destroy(struct driver_cluster *cluster)
{
    if (!cluster)
        return;
    for (uint32_t job = 0; job < JOBS_MAX; job++)
        anchor_destroy(cluster->anchors[job].anchor);
    for (size_t i = 0; i < cluster->n_ended; i++)
        anchor_destroy(cluster->ended[i].anchor);
    anchor_destroy(cluster->adding);
    free(cluster->ended);
    free(cluster->failed);
    home_end(&cluster->home);
    free(cluster->sent);
    free(cluster->offset_of);
    free(cluster->expected);
    free(cluster);
}

void cluster_peering(struct driver_cluster *cluster, struct peering *peering)
{
    cluster->peering = peering;
}

static void send_probe(struct driver_cluster *cluster, const uint8_t node[PEER_NODE_BYTES]);

/* ── members ── */

static void tell_members(struct driver_cluster *cluster, struct members_event event);

static void carry_out(struct driver_cluster *cluster, const struct members_action *action)
{
    switch (action->type) {
    case MEMBERS_PROBE: send_probe(cluster, action->id); break;
    case MEMBERS_REGISTER: peering_register(cluster->peering, cluster->members.members[0].leaving); break;
    case MEMBERS_KEEPALIVE: peering_keepalive(cluster->peering); break;
    case MEMBERS_REBOOTED: break; /* guests there answer GONE */
    case MEMBERS_FORGOTTEN:
        peers_forget(&cluster->peers, action->id);
        peering_forget(cluster->peering, action->id);
        break;
    case MEMBERS_CHANGED:
        peers_see(&cluster->peers, &cluster->members.view);
        log_info_limited("msg=\"the cluster has changed\" nodes=%u", cluster->members.view.n_nodes);
        break;
    }
}

static void tell_members(struct driver_cluster *cluster, struct members_event event)
{
    struct members_action actions[MEMBERS_ACTIONS_MAX];
    event.now_ns = clock_now_ns();
    size_t count = members_step(&cluster->members, &event, actions);
    for (size_t i = 0; i < count && cluster->peering; i++)
        carry_out(cluster, &actions[i]);
}

/* heard tells of a node that it answered, or did not. */
static void heard(struct driver_cluster *cluster, const struct cluster_sent *sent, const struct peering_event *event)
{
    uint64_t now_ns = clock_now_ns();
    uint32_t number = peers_number(&cluster->peers, sent->node);
    bool answered = event && event->code == 0;
    bool probe = sent->type == PEER_PROBE;
    if (probe)
        peers_probed(&cluster->peers, number, now_ns, answered);
    else if (answered)
        peers_answered(&cluster->peers, number);
    else
        peers_failed(&cluster->peers, number, now_ns, event && event->code == LARDER_EGONE);
    struct members_event member = {.type = MEMBERS_DATA_ANSWERED};
    if (probe)
        member.type = answered ? MEMBERS_PROBE_ANSWERED : MEMBERS_PROBE_FAILED;
    if (!probe && !answered)
        return;
    memcpy(member.id, sent->node, sizeof member.id);
    member.boot = answered ? event->message.boot : 0;
    member.leaving = answered && probe && event->message.type == PEER_ALIVE && event->message.alive.leaving;
    tell_members(cluster, member);
}

static void send_probe(struct driver_cluster *cluster, const uint8_t node[PEER_NODE_BYTES])
{
    struct cluster_sent sent = {.type = PEER_PROBE};
    memcpy(sent.node, node, sizeof sent.node);
    if (!cluster_send(cluster, &sent, &(struct peer_message){.type = PEER_PROBE}, true, PROBE_MS))
        heard(cluster, &sent, NULL);
}

static void answer_probe(struct driver_cluster *cluster, const struct peering_event *event)
{
    struct peer_message message = {.type = PEER_ALIVE,
                                   .alive = {.version = {(const uint8_t *)LARDER_VERSION, sizeof LARDER_VERSION - 1},
                                             .prep_id = cluster->prep_id,
                                             .revision = cluster->members.view.revision,
                                             .leaving = cluster->members.members[0].leaving,
                                             .guests = guests_count(cluster->home.guests)}};
    memcpy(message.alive.node, cluster->peers.self, sizeof message.alive.node);
    peering_answer(cluster->peering, event->number, &message, NULL, 0);
}

/* ── what comes, and what is due ── */

void cluster_told(struct driver *driver, struct peering_event *event)
{
    struct driver_cluster *cluster = driver->cluster;
    struct cluster_sent sent;
    if (cluster && cluster->peering) {
        if (event->type == PEERING_MEMBERS) {
            tell_members(cluster, event->members);
        } else if (event->type == PEERING_ASKED && event->message.type == PEER_PROBE) {
            answer_probe(cluster, event);
        } else if (event->type == PEERING_ASKED) {
            cluster_guests_asked(driver, event);
        } else if (cluster_sent_take(cluster, event->number, &sent)) {
            heard(cluster, &sent, event);
            if (sent.type == PEER_ATTACH || sent.type == PEER_NEXT)
                cluster_anchors_hear(driver, &sent, event);
        }
    }
    peering_event_free(event);
}

static void probe_peers(struct driver_cluster *cluster)
{
    for (uint32_t number; (number = peers_probe(&cluster->peers, clock_now_ns())) != PEER_UNKNOWN;)
        send_probe(cluster, cluster->peers.all[number].id);
}

void cluster_settle(struct driver *driver)
{
    struct driver_cluster *cluster = driver->cluster;
    if (!cluster || !cluster->peering || cluster->ticking)
        return;
    cluster->ticking = true;
    if (members_alarm(&cluster->members) <= clock_now_ns())
        tell_members(cluster, (struct members_event){.type = MEMBERS_TICK});
    probe_peers(cluster);
    while (cluster_guests_go_on(driver) || cluster_anchors_go_on(driver))
        cluster->rests = false;
    if (!cluster->rests && guests_count(cluster->home.guests) == 0 && !cluster_has_anchors(cluster)) {
        peering_rest();
        cluster->rests = true;
    }
    cluster->ticking = false;
}

int64_t cluster_wait_ms(const struct driver *driver)
{
    const struct driver_cluster *cluster = driver->cluster;
    if (!cluster || !cluster->peering)
        return -1;
    uint64_t alarms[] = {members_alarm(&cluster->members), peers_alarm(&cluster->peers),
                         guests_alarm(cluster->home.guests), cluster_anchors_alarm(cluster)};
    uint64_t at_ns = UINT64_MAX, now_ns = clock_now_ns();
    for (size_t i = 0; i < sizeof alarms / sizeof *alarms; i++)
        at_ns = alarms[i] < at_ns ? alarms[i] : at_ns;
    if (cluster->home.n_notes || cluster->n_failed)
        return 0;
    if (at_ns == UINT64_MAX)
        return -1;
    return at_ns > now_ns ? (int64_t)((at_ns - now_ns) / CLOCK_NS_PER_MS + 1) : 0;
}

void cluster_alone(struct driver *driver)
{
    struct driver_cluster *cluster = driver->cluster;
    if (!cluster || !cluster->peering)
        return;
    peering_leave(cluster->peering);
    cluster->peering = NULL;
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        const struct registration *reg = driver->tables.jobs[job].reg;
        if (reg && reg->guest.number)
            driver_step(driver, &(struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {.job = job}}, 1);
    }
}

int cluster_leave(struct driver *driver)
{
    struct driver_cluster *cluster = driver->cluster;
    if (!cluster || !cluster->peering)
        return LARDER_ENOENT;
    if (cluster->members.members[0].leaving)
        return 0;
    log_info("msg=\"leaving the cluster: nothing more is given to other nodes, but for the epochs that they are in\" "
             "guests=%u",
             guests_count(cluster->home.guests));
    tell_members(cluster, (struct members_event){.type = MEMBERS_LEAVE});
    cluster_guests_leave(driver);
    return 0;
}

/* A node that leaves as well is not waited for: nodes that are stopped together would hold each other up. One that this
 * node has forgotten holds nobody up, because its guests' leases are over before that. */
bool cluster_gives(const struct driver *driver)
{
    const struct driver_cluster *cluster = driver->cluster;
    const struct guests_key *key;
    int cursor = 0;
    if (!cluster || !cluster->peering)
        return false;
    while ((key = guests_wanted(cluster->home.guests, &cursor))) {
        if (!members_away(&cluster->members, key->anchor, key->boot))
            return true;
    }
    return false;
}

void cluster_has_left(const struct driver *driver)
{
    const struct driver_cluster *cluster = driver->cluster;
    if (cluster && cluster->peering)
        log_info_limited("msg=\"has left the cluster\" left_behind=%u cut_short=%u",
                         guests_behind(cluster->home.guests), guests_cut(cluster->home.guests));
}
