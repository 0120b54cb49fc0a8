#include "server/sharing/sharing.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/larder_err.h"
#include "server/sharing/sharing_priv.h"

enum { PROBE_MS = 2000, GUESTS_AT_ONCE = 192 };
#define LEASE_NS (UINT64_C(30) * CLOCK_NS_PER_S) /* a guest's */
/* Transport of a byte, at both ends together: 147 KiB take .06 ms plain, and .13 ms with TLS
 * (docs/measured/cluster.md). */
#define PLAIN_BYTE_S (0.06e-3 / 150528)
#define TLS_BYTE_S (0.13e-3 / 150528)
_Static_assert(LEASE_NS < MEMBERS_FORGET_NS, "no node is waited for again when it is forgotten");
_Static_assert(MERGE_UNDER_WAY_MOST <= GUESTS_HOLD * GUESTS_BATCH, "a home keeps what is under way from it");

int sharing_create(const struct sharing_node *node, const struct sharing_host *host, struct sharing **out)
{
    struct sharing *sharing = xcalloc(1, sizeof *sharing);
    struct map_node self = {.weight = 1};
    struct guests_config guests = {
        .guests = GUESTS_AT_ONCE, .lease_ns = LEASE_NS, .boot = host->boot, .prep_id = node->prep_id};
    memcpy(self.id, node->id, sizeof self.id);
    sharing->host = *host;
    sharing->prep_id = node->prep_id;
    sharing->spread = node->spread;
    sharing->byte_s = node->secure ? TLS_BYTE_S : PLAIN_BYTE_S;
    members_init(&sharing->members, &self, node->leased, node->lease_ns, clock_now_ns());
    peers_init(&sharing->peers, &self);
    int code = home_begin(&guests, &sharing->home);
    if (code)
        free(sharing);
    else
        *out = sharing;
    return code;
}

void sharing_destroy(struct sharing *sharing)
{
    if (!sharing)
        return;
    for (uint32_t job = 0; job < JOBS_MAX; job++)
        anchor_destroy(sharing->anchors[job].anchor);
    for (size_t i = 0; i < sharing->n_ended; i++)
        anchor_destroy(sharing->ended[i].anchor);
    anchor_destroy(sharing->adding.anchor);
    free(sharing->ended);
    free(sharing->failed);
    home_end(&sharing->home);
    free(sharing->sent);
    free(sharing->offset_of);
    free(sharing->expected);
    free(sharing);
}

void sharing_begin(struct sharing *sharing, struct peering *peering, struct registrar *registrar)
{
    sharing->registrar = registrar;
    sharing->peering = peering;
}

static void send_probe(struct sharing *sharing, const uint8_t node[PEER_NODE_BYTES]);

/* ── members ── */

static void tell_members(struct sharing *sharing, struct members_event event);

static void carry_out(struct sharing *sharing, const struct members_action *action)
{
    switch (action->type) {
    case MEMBERS_PROBE: send_probe(sharing, action->id); break;
    case MEMBERS_REGISTER: peering_register(sharing->peering, sharing->members.members[0].leaving); break;
    case MEMBERS_KEEPALIVE: peering_keepalive(sharing->peering); break;
    case MEMBERS_REBOOTED: break; /* guests there answer GONE */
    case MEMBERS_FORGOTTEN:
        peers_forget(&sharing->peers, action->id);
        peering_forget(sharing->peering, action->id);
        break;
    case MEMBERS_CHANGED:
        peers_see(&sharing->peers, &sharing->members.view);
        log_info_limited("msg=\"the cluster has changed\" nodes=%u", sharing->members.view.n_nodes);
        break;
    }
}

static void tell_members(struct sharing *sharing, struct members_event event)
{
    struct members_action actions[MEMBERS_ACTIONS_MAX];
    event.now_ns = clock_now_ns();
    size_t count = members_step(&sharing->members, &event, actions);
    for (size_t i = 0; i < count && sharing->peering; i++)
        carry_out(sharing, &actions[i]);
}

/* heard notes whether a node answered a request or a probe. */
static void heard(struct sharing *sharing, const struct sharing_sent *sent, const struct peering_event *event)
{
    uint64_t now_ns = clock_now_ns();
    uint32_t number = peers_number(&sharing->peers, sent->node);
    bool answered = event && event->code == 0;
    bool probe = sent->type == PEER_PROBE;
    if (probe)
        peers_probed(&sharing->peers, number, now_ns, answered);
    else if (answered)
        peers_answered(&sharing->peers, number);
    else
        peers_failed(&sharing->peers, number, now_ns, event && event->code == LARDER_EGONE);
    struct members_event member = {.type = MEMBERS_DATA_ANSWERED};
    if (probe)
        member.type = answered ? MEMBERS_PROBE_ANSWERED : MEMBERS_PROBE_FAILED;
    if (!probe && !answered)
        return;
    memcpy(member.id, sent->node, sizeof member.id);
    member.boot = answered ? event->message.boot : 0;
    member.leaving = answered && probe && event->message.type == PEER_ALIVE && event->message.alive.leaving;
    tell_members(sharing, member);
}

static void send_probe(struct sharing *sharing, const uint8_t node[PEER_NODE_BYTES])
{
    struct sharing_sent sent = {.type = PEER_PROBE};
    memcpy(sent.node, node, sizeof sent.node);
    if (!sharing_send(sharing, &sent, &(struct peer_message){.type = PEER_PROBE}, true, PROBE_MS))
        heard(sharing, &sent, NULL);
}

static void answer_probe(struct sharing *sharing, const struct peering_event *event)
{
    struct peer_message message = {.type = PEER_ALIVE,
                                   .alive = {.version = {(const uint8_t *)LARDER_VERSION, sizeof LARDER_VERSION - 1},
                                             .prep_id = sharing->prep_id,
                                             .revision = sharing->members.view.revision,
                                             .leaving = sharing->members.members[0].leaving,
                                             .guests = guests_count(sharing->home.guests)}};
    memcpy(message.alive.node, sharing->peers.self, sizeof message.alive.node);
    peering_answer(sharing->peering, event->number, &message, NULL, 0);
}

/* ── what comes, and what is due ── */

void sharing_told(struct sharing *sharing, struct peering_event *event)
{
    struct sharing_sent sent;
    if (sharing && sharing->peering) {
        if (event->type == PEERING_MEMBERS) {
            tell_members(sharing, event->members);
        } else if (event->type == PEERING_ASKED && event->message.type == PEER_PROBE) {
            answer_probe(sharing, event);
        } else if (event->type == PEERING_ASKED) {
            sharing_guests_asked(sharing, event);
        } else if (sharing_sent_take(sharing, event->number, &sent)) {
            heard(sharing, &sent, event);
            if (sent.type == PEER_ATTACH || sent.type == PEER_NEXT)
                sharing_anchors_hear(sharing, &sent, event);
        }
    }
    peering_event_free(event);
}

static void probe_peers(struct sharing *sharing)
{
    for (uint32_t number; (number = peers_probe(&sharing->peers, clock_now_ns())) != PEER_UNKNOWN;)
        send_probe(sharing, sharing->peers.all[number].id);
}

void sharing_settle(struct sharing *sharing)
{
    if (!sharing || !sharing->peering || sharing->ticking)
        return;
    sharing->ticking = true;
    if (members_alarm(&sharing->members) <= clock_now_ns())
        tell_members(sharing, (struct members_event){.type = MEMBERS_TICK});
    probe_peers(sharing);
    sharing_wants_go_on(sharing);
    while (sharing_guests_go_on(sharing) || sharing_anchors_go_on(sharing))
        sharing->rests = false;
    if (!sharing->rests && guests_count(sharing->home.guests) == 0 && !sharing_has_anchors(sharing)) {
        peering_rest();
        sharing->rests = true;
    }
    sharing->ticking = false;
}

int64_t sharing_wait_ms(const struct sharing *sharing)
{
    if (!sharing || !sharing->peering)
        return -1;
    uint64_t alarms[] = {members_alarm(&sharing->members), peers_alarm(&sharing->peers),
                         guests_alarm(sharing->home.guests), sharing_anchors_alarm(sharing),
                         sharing_wants_alarm(sharing)};
    uint64_t at_ns = UINT64_MAX, now_ns = clock_now_ns();
    for (size_t i = 0; i < sizeof alarms / sizeof *alarms; i++)
        at_ns = alarms[i] < at_ns ? alarms[i] : at_ns;
    if (sharing->home.n_notes || sharing->n_failed)
        return 0;
    if (at_ns == UINT64_MAX)
        return -1;
    return at_ns > now_ns ? (int64_t)((at_ns - now_ns) / CLOCK_NS_PER_MS + 1) : 0;
}

void sharing_alone(struct sharing *sharing)
{
    if (!sharing || !sharing->peering)
        return;
    peering_leave(sharing->peering);
    sharing->peering = NULL;
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        const struct registration *reg = job_of(sharing, job).reg;
        if (reg && reg->guest.number)
            step(sharing, &(struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {.job = job}});
    }
}

int sharing_leave(struct sharing *sharing)
{
    if (!sharing || !sharing->peering)
        return LARDER_ENOENT;
    if (sharing->members.members[0].leaving)
        return 0;
    log_info("msg=\"leaving the cluster: nothing more is given to other nodes, but for the epochs that they are in\" "
             "guests=%u",
             guests_count(sharing->home.guests));
    tell_members(sharing, (struct members_event){.type = MEMBERS_LEAVE});
    sharing_guests_leave(sharing);
    return 0;
}

/* A node that leaves as well is not waited for: nodes that are stopped together would hold each other up. One that this
 * node has forgotten holds nobody up, because its guests' leases are over before that. */
bool sharing_gives(const struct sharing *sharing)
{
    const struct guests_key *key;
    int cursor = 0;
    if (!sharing || !sharing->peering)
        return false;
    while ((key = guests_wanted(sharing->home.guests, &cursor))) {
        if (!members_away(&sharing->members, key->anchor, key->boot))
            return true;
    }
    return false;
}

void sharing_has_left(const struct sharing *sharing)
{
    if (sharing && sharing->peering)
        log_info_limited("msg=\"has left the cluster\" left_behind=%u cut_short=%u",
                         guests_behind(sharing->home.guests), guests_cut(sharing->home.guests));
}
