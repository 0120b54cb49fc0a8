/* fleet_net.c: messages from node to node: how long they take, which are lost, and who waits for an answer. */
#include <stdlib.h>

#include "common/check.h"
#include "tests/bench/virtual/fleet_priv.h"

struct fleet_message *fleet_message(struct fleet_node *node, uint32_t to, enum fleet_kind kind)
{
    struct fleet_message *message = xcalloc(1, sizeof *message);
    message->from = node->no;
    message->to = to;
    message->from_boot = node->boot;
    message->to_boot = node->fleet->nodes[to].boot;
    message->kind = kind;
    return message;
}

void fleet_free(struct fleet_message *message)
{
    bag_destroy(message->ids);
    free(message);
}

static void put(struct fleet *fleet, uint64_t after_ns, struct fleet_message *message)
{
    agenda_put(&fleet->agenda, &(struct fleet_due){.due.at_ns = fleet->now_ns + after_ns, .message = message});
}

void fleet_send(struct fleet *fleet, struct fleet_message *message)
{
    const struct fleet_hooks *hooks = &fleet->config.hooks;
    fleet->counts.messages++;
    uint64_t takes = hooks->travel ? hooks->travel(hooks->ctx, message->from, message->to) : 0;
    if (takes == FLEET_LOST) {
        fleet_free(message);
        return;
    }
    uint64_t again = hooks->again ? hooks->again(hooks->ctx, message->from, message->to) : FLEET_LOST;
    if (again != FLEET_LOST) {
        struct fleet_message *copy = xcalloc(1, sizeof *copy);
        *copy = *message;
        if (message->ids)
            CHECK(bag_copy(message->ids, &copy->ids) == 0);
        put(fleet, takes + again, copy);
    }
    put(fleet, takes, message);
}

/* ── who waits ── */

struct fleet_sent *fleet_request(struct fleet_node *node, struct fleet_message *message, uint64_t wait_ms)
{
    struct fleet *fleet = node->fleet;
    uint64_t serial = ++node->serials, last = serial + FLEET_SENT_MAX;
    while (node->sent[serial % FLEET_SENT_MAX].serial && serial < last)
        serial = ++node->serials;
    struct fleet_sent *sent = &node->sent[serial % FLEET_SENT_MAX];
    CHECK(sent->serial == 0);
    *sent = (struct fleet_sent){.serial = serial, .kind = message->kind, .to = message->to};
    message->serial = serial;
    agenda_put(
        &fleet->agenda,
        &(struct fleet_due){.due.at_ns = fleet->now_ns + wait_ms * FLEET_MS, .node = node->no, .serial = serial});
    return sent;
}

struct fleet_sent *fleet_sent_at(struct fleet_node *node, uint64_t serial)
{
    struct fleet_sent *sent = &node->sent[serial % FLEET_SENT_MAX];
    return serial && sent->serial == serial ? sent : NULL;
}

void fleet_probe(struct fleet *fleet, uint32_t from, uint32_t to)
{
    struct fleet_message *probe = fleet_message(&fleet->nodes[from], to, FLEET_PROBE);
    fleet_request(&fleet->nodes[from], probe, FLEET_PROBE_MS);
    fleet_send(fleet, probe);
}
