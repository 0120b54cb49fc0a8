/* members.c: the nodes of a cluster. */
#include "server/cluster/members.h"

#include <string.h>

#include "common/check.h"

/* One call's actions. */
struct out {
    struct members_action *actions;
    size_t count;
};

static void act(struct out *out, enum members_action_type type, const struct member *member)
{
    CHECK(out->count < MEMBERS_ACTIONS_MAX);
    struct members_action *action = &out->actions[out->count++];
    *action = (struct members_action){.type = type};
    if (member)
        memcpy(action->id, member->node.id, sizeof action->id);
}

static struct member *find(const struct members *members, const uint8_t id[MAP_NODE_ID_BYTES])
{
    for (uint32_t i = 0; i < members->n_members; i++)
        if (memcmp(members->members[i].node.id, id, MAP_NODE_ID_BYTES) == 0)
            return (struct member *)&members->members[i];
    return NULL;
}

enum member_state members_state(const struct members *members, const uint8_t id[MAP_NODE_ID_BYTES])
{
    const struct member *member = find(members, id);
    return member ? member->state : MEMBER_UNKNOWN;
}

bool members_away(const struct members *members, const uint8_t id[MAP_NODE_ID_BYTES], uint64_t boot)
{
    const struct member *member = find(members, id);
    return member && (member->state != MEMBER_UP || (member->boot != boot && member->boot != 0));
}

static bool is_self(const struct members *members, const struct member *member)
{
    return member == &members->members[0];
}

/* Whether only probes say that the node is there. */
static bool is_probed(const struct members *members, const struct member *member)
{
    return !is_self(members, member) && !(members->leased && member->listed);
}

/* Gives the node the state that follows from what is known of it. */
static void settle(struct members *members, struct member *member, uint64_t now_ns)
{
    enum member_state was = member->state;
    if (is_probed(members, member) && member->unanswered >= MEMBERS_UNANSWERED)
        member->state = MEMBER_LOST;
    else
        member->state = member->leaving ? MEMBER_LEAVING : MEMBER_UP;
    if (member->state == MEMBER_LOST && was != MEMBER_LOST)
        member->lost_at = now_ns;
    if ((was == MEMBER_UP) != (member->state == MEMBER_UP))
        members->changed = true;
}

/* ── the view ── */

static void make_view(struct members *members, uint64_t now_ns)
{
    struct members_view *view = &members->view;
    *view = (struct members_view){.revision = members->revision};
    for (uint32_t i = 0; i < members->n_members; i++) {
        if (members->members[i].state != MEMBER_UP)
            continue;
        uint32_t at = view->n_nodes++;
        for (; at > 0 && memcmp(view->nodes[at - 1].id, members->members[i].node.id, MAP_NODE_ID_BYTES) > 0; at--)
            view->nodes[at] = view->nodes[at - 1];
        view->nodes[at] = members->members[i].node;
    }
    members->changed = false;
    members->changed_at = now_ns;
}

void members_init(struct members *members, const struct map_node *self, bool leased, uint64_t lease_ns, uint64_t now_ns)
{
    CHECK(self->weight >= 1 && self->weight <= MAP_WEIGHT_MAX);
    *members = (struct members){.leased = leased, .lease_ns = lease_ns, .lease_at = now_ns, .n_members = 1};
    members->members[0] = (struct member){.node = *self, .state = MEMBER_UP};
    make_view(members, now_ns);
}

/* ── events ── */

/* A list that does not know boots has 0, which says nothing. */
static void take_boot(struct member *member, uint64_t boot, struct out *out)
{
    if (boot == 0)
        return;
    if (member->boot && member->boot != boot)
        act(out, MEMBERS_REBOOTED, member);
    member->boot = boot;
}

static void take_listed(struct members *members, const struct members_event *event, struct out *out)
{
    CHECK(event->weight >= 1 && event->weight <= MAP_WEIGHT_MAX);
    struct member *member = find(members, event->id);
    if (member == NULL && members->n_members == MAP_NODES_MAX) {
        members->n_refused++;
        return;
    }
    if (member == NULL) {
        member = &members->members[members->n_members++];
        *member = (struct member){.probe_at = event->now_ns};
        memcpy(member->node.id, event->id, sizeof member->node.id);
    }
    if (is_self(members, member))
        return; /* this node knows better what it is */
    take_boot(member, event->boot, out);
    if (member->node.weight != event->weight && member->state == MEMBER_UP)
        members->changed = true;
    member->node.weight = event->weight;
    member->listed = true;
    member->leaving = event->leaving;
    settle(members, member, event->now_ns);
}

static void lose_lease(struct members *members, uint64_t now_ns)
{
    if (members->lease == MEMBERS_LEASE_HELD) {
        members->lease = MEMBERS_LEASE_NONE;
        members->lease_at = now_ns;
    }
}

static void take_vanished(struct members *members, struct member *member, uint64_t now_ns)
{
    if (is_self(members, member)) {
        lose_lease(members, now_ns);
        return;
    }
    /* Without leases the node was probed before, and what probes said of it stays. */
    if (members->leased && member->listed) {
        member->unanswered = 0;
        member->probe_at = now_ns;
    }
    if (member->listed && member->state == MEMBER_LOST)
        member->lost_at = now_ns;
    member->listed = false;
    settle(members, member, now_ns);
}

static void take_answer(struct members *members, struct member *member, const struct members_event *event,
                        struct out *out)
{
    if (is_self(members, member))
        return;
    bool probe = event->type != MEMBERS_DATA_ANSWERED;
    if (probe && !member->probing)
        return;
    if (probe)
        member->probing = false;
    if (event->type == MEMBERS_PROBE_FAILED) {
        member->unanswered += is_probed(members, member);
    } else {
        member->unanswered = 0;
        member->leaving = probe ? event->leaving : member->leaving; /* it gives data while it leaves */
        take_boot(member, event->boot, out);
    }
    settle(members, member, event->now_ns);
}

static void take_lease(struct members *members, const struct members_event *event)
{
    uint64_t part_ns = members->lease_ns / MEMBERS_KEEPALIVES;
    if (event->type == MEMBERS_LEASE_LOST) {
        lose_lease(members, event->now_ns);
    } else if (members->lease == MEMBERS_LEASE_ASKED) {
        bool granted = event->type == MEMBERS_LEASE_GRANTED, again = granted && members->asked_before;
        members->lease = granted && !again ? MEMBERS_LEASE_HELD : MEMBERS_LEASE_NONE;
        members->lease_at = event->now_ns + (again ? 0 : part_ns);
    }
}

static void take(struct members *members, const struct members_event *event, struct out *out)
{
    struct member *member = find(members, event->id);
    switch (event->type) {
    case MEMBERS_TICK: break;
    case MEMBERS_LISTED:
        members->revision = event->revision;
        take_listed(members, event, out);
        break;
    case MEMBERS_VANISHED:
        members->revision = event->revision;
        if (member)
            take_vanished(members, member, event->now_ns);
        break;
    case MEMBERS_PROBE_ANSWERED:
    case MEMBERS_PROBE_FAILED:
    case MEMBERS_DATA_ANSWERED:
        if (member)
            take_answer(members, member, event, out);
        break;
    case MEMBERS_LEASE_GRANTED:
    case MEMBERS_LEASE_LOST:
    case MEMBERS_LEASE_FAILED: take_lease(members, event); break;
    case MEMBERS_LEAVE:
        members->members[0].leaving = true;
        members->asked_before = members->lease == MEMBERS_LEASE_ASKED;
        settle(members, &members->members[0], event->now_ns);
        lose_lease(members, event->now_ns); /* the key is put again, with the new state */
        break;
    }
}

/* ── time ── */

static uint64_t forget_at(const struct member *member)
{
    return member->state == MEMBER_LOST && !member->listed ? member->lost_at + MEMBERS_FORGET_NS : UINT64_MAX;
}

static uint64_t probe_at(const struct members *members, const struct member *member)
{
    return is_probed(members, member) && !member->probing ? member->probe_at : UINT64_MAX;
}

static uint64_t lease_at(const struct members *members)
{
    return members->leased && members->lease != MEMBERS_LEASE_ASKED ? members->lease_at : UINT64_MAX;
}

static uint64_t view_at(const struct members *members)
{
    return members->changed ? members->changed_at + MEMBERS_VIEW_NS : UINT64_MAX;
}

uint64_t members_alarm(const struct members *members)
{
    uint64_t at = lease_at(members);
    at = view_at(members) < at ? view_at(members) : at;
    for (uint32_t i = 0; i < members->n_members; i++) {
        const struct member *member = &members->members[i];
        at = forget_at(member) < at ? forget_at(member) : at;
        at = probe_at(members, member) < at ? probe_at(members, member) : at;
    }
    return at;
}

/* Does what is due. */
static void run(struct members *members, uint64_t now_ns, struct out *out)
{
    if (lease_at(members) <= now_ns) {
        bool held = members->lease == MEMBERS_LEASE_HELD;
        act(out, held ? MEMBERS_KEEPALIVE : MEMBERS_REGISTER, NULL);
        members->lease = held ? MEMBERS_LEASE_HELD : MEMBERS_LEASE_ASKED;
        members->asked_before = false;
        members->lease_at = now_ns + members->lease_ns / MEMBERS_KEEPALIVES;
    }
    for (uint32_t i = 0; i < members->n_members;) {
        struct member *member = &members->members[i];
        if (forget_at(member) <= now_ns) {
            act(out, MEMBERS_FORGOTTEN, member);
            *member = members->members[--members->n_members];
            continue;
        }
        if (probe_at(members, member) <= now_ns) {
            act(out, MEMBERS_PROBE, member);
            member->probing = true;
            member->probe_at = now_ns + MEMBERS_PROBE_NS;
        }
        i++;
    }
    if (view_at(members) <= now_ns) {
        make_view(members, now_ns);
        act(out, MEMBERS_CHANGED, NULL);
    }
}

size_t members_step(struct members *members, const struct members_event *event, struct members_action *actions)
{
    struct out out = {.actions = actions};
    take(members, event, &out);
    run(members, event->now_ns, &out);
    return out.count;
}
