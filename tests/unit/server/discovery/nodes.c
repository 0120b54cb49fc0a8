#include "nodes.h"

#include <stdio.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/mailbox.h"

#define PATIENCE_NS (60 * CLOCK_NS_PER_S)

struct letter {
    uint32_t number;
    struct discovery_event event;
    bool right_url;
};

static void url_of(uint32_t number, char *out, size_t cap)
{
    snprintf(out, cap, "https://node-%u:9451", number);
}

static void tell(void *arg, const struct discovery_event *event)
{
    struct node *node = arg;
    struct letter letter = {.number = node->number, .event = *event};
    if (event->node) {
        char url[64];
        url_of(event->node->id[0], url, sizeof url);
        letter.right_url = strcmp(url, event->node->url) == 0 &&
                           memcmp(event->node->id, event->members.id, sizeof event->node->id) == 0;
    }
    letter.event.node = NULL;
    CHECK(mailbox_push(node->nodes->inbox, &letter) == 0);
}

void nodes_init(struct nodes *nodes, const char *const *endpoints, size_t n_endpoints)
{
    *nodes = (struct nodes){.endpoints = endpoints, .n_endpoints = n_endpoints, .cluster = "test", .lease_s = 2};
    CHECK(mailbox_create(4096, sizeof(struct letter), &nodes->inbox) == 0);
}

struct node *nodes_start(struct nodes *nodes, uint32_t number)
{
    struct node *node = &nodes->all[number];
    struct error err = {.text = ""};
    *node = (struct node){.nodes = nodes, .number = number, .answers = true, .least_view = UINT32_MAX};
    node->self = (struct discovery_node){
        .id = {(uint8_t)number, 0xab}, .boot = 100 + number, .prep_id = UINT64_MAX, .weight = 1 + number};
    snprintf(node->self.name, sizeof node->self.name, "node-%u", number);
    snprintf(node->self.version, sizeof node->self.version, "1.2.3");
    url_of(number, node->self.url, sizeof node->self.url);
    node->self.n_roots = 2;
    memcpy(node->self.roots, "/data\0/more", sizeof "/data\0/more");
    struct map_node self = {.weight = node->self.weight};
    memcpy(self.id, node->self.id, sizeof self.id);
    members_init(&node->members, &self, true, nodes->lease_s * CLOCK_NS_PER_S, clock_now_ns());
    struct etcd_config config = {.endpoints = nodes->endpoints,
                                 .n_endpoints = nodes->n_endpoints,
                                 .tls = nodes->tls,
                                 .user = nodes->user,
                                 .password = nodes->password,
                                 .cluster = nodes->cluster,
                                 .lease_s = nodes->lease_s,
                                 .bound = MAP_BOUND,
                                 .tell = tell,
                                 .arg = node};
    CHECK(net_client_start(4, &node->client, &err) == 0);
    if (etcd_start(&config, node->client, &node->etcd, &err))
        check_failed(__FILE__, __LINE__, err.text);
    return node;
}

void nodes_stop(struct nodes *nodes, uint32_t number)
{
    struct node *node = &nodes->all[number];
    net_client_stop(node->client);
    etcd_destroy(node->etcd);
    node->client = NULL;
    node->etcd = NULL;
}

void nodes_free(struct nodes *nodes)
{
    for (uint32_t i = 0; i < NODES_MAX; i++)
        nodes_stop(nodes, i);
    mailbox_destroy(nodes->inbox);
}

/* ── what a daemon does with events ── */

static void step(struct node *node, const struct members_event *event);

static void act(struct node *node, const struct members_action *action)
{
    struct error err;
    if (action->type == MEMBERS_REGISTER) {
        node->self.leaving = node->members.members[0].leaving;
        CHECK(etcd_register(node->etcd, &node->self, &err) == 0);
    } else if (action->type == MEMBERS_KEEPALIVE) {
        CHECK(etcd_keepalive(node->etcd) == 0);
    } else if (action->type == MEMBERS_PROBE) {
        const struct node *other = &node->nodes->all[action->id[0]];
        struct members_event event = {.type = other->answers ? MEMBERS_PROBE_ANSWERED : MEMBERS_PROBE_FAILED,
                                      .boot = other->self.boot};
        node->n_probes++;
        memcpy(event.id, action->id, sizeof event.id);
        step(node, &event);
    }
}

static void step(struct node *node, const struct members_event *event)
{
    struct members_event now = *event;
    struct members_action actions[MEMBERS_ACTIONS_MAX];
    now.now_ns = clock_now_ns();
    size_t n = members_step(&node->members, &now, actions);
    for (size_t i = 0; i < n; i++)
        act(node, &actions[i]);
    if (node->members.view.n_nodes < node->least_view)
        node->least_view = node->members.view.n_nodes;
}

static void count(struct node *node, const struct letter *letter)
{
    node->n_listed += letter->event.members.type == MEMBERS_LISTED;
    node->n_vanished += letter->event.members.type == MEMBERS_VANISHED;
    node->n_granted += letter->event.members.type == MEMBERS_LEASE_GRANTED;
    node->n_lost += letter->event.members.type == MEMBERS_LEASE_LOST;
    node->n_failed += letter->event.members.type == MEMBERS_LEASE_FAILED;
    if (letter->event.members.type == MEMBERS_LISTED)
        node->at_url[letter->event.members.id[0]] += letter->right_url;
}

static void take(struct nodes *nodes, const struct letter *letter)
{
    struct node *node = &nodes->all[letter->number];
    if (!node->etcd)
        return;
    switch (letter->event.type) {
    case DISCOVERY_MEMBERS:
        count(node, letter);
        step(node, &letter->event.members);
        break;
    case DISCOVERY_CONFIG: node->bound = letter->event.bound; break;
    case DISCOVERY_UP:
    case DISCOVERY_DOWN:
        node->is_up = letter->event.type == DISCOVERY_UP;
        node->is_down = !node->is_up;
        node->n_up += node->is_up;
        node->n_down += node->is_down;
        break;
    case DISCOVERY_LEFT: node->has_left = true; break;
    }
}

/* Carries out what is due, and gives the milliseconds until something will be. */
static int64_t tick(struct nodes *nodes)
{
    uint64_t now_ns = clock_now_ns(), next_ns = now_ns + CLOCK_NS_PER_S;
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        struct node *node = &nodes->all[i];
        if (!node->etcd || node->has_left)
            continue;
        if (members_alarm(&node->members) <= now_ns)
            step(node, &(struct members_event){.type = MEMBERS_TICK});
        uint64_t at_ns = members_alarm(&node->members);
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns > now_ns ? (int64_t)((next_ns - now_ns) / CLOCK_NS_PER_MS) + 1 : 0;
}

static bool run(struct nodes *nodes, bool (*holds)(const struct nodes *nodes, uint32_t value), uint32_t value,
                uint64_t for_ns)
{
    struct letter letter;
    uint64_t end_ns = clock_now_ns() + for_ns;
    while (!holds || !holds(nodes, value)) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= end_ns)
            return false;
        int64_t ms = tick(nodes), left_ms = (int64_t)((end_ns - now_ns) / CLOCK_NS_PER_MS) + 1;
        if (mailbox_pop(nodes->inbox, &letter, ms < left_ms ? ms : left_ms) == 0)
            take(nodes, &letter);
    }
    return true;
}

bool nodes_until(struct nodes *nodes, bool (*holds)(const struct nodes *nodes, uint32_t value), uint32_t value)
{
    return run(nodes, holds, value, PATIENCE_NS);
}

void nodes_for(struct nodes *nodes, uint64_t ms)
{
    run(nodes, NULL, 0, ms * CLOCK_NS_PER_MS);
}

/* ── conditions ── */

bool nodes_see(const struct nodes *nodes, uint32_t value)
{
    for (uint32_t i = 0; i < NODES_MAX; i++)
        if (nodes->all[i].etcd && !nodes->all[i].has_left && nodes->all[i].members.view.n_nodes != value)
            return false;
    return true;
}

bool nodes_are_up(const struct nodes *nodes, uint32_t value)
{
    (void)value;
    for (uint32_t i = 0; i < NODES_MAX; i++)
        if (nodes->all[i].etcd && !nodes->all[i].is_up)
            return false;
    return true;
}

bool nodes_are_down(const struct nodes *nodes, uint32_t value)
{
    (void)value;
    for (uint32_t i = 0; i < NODES_MAX; i++)
        if (nodes->all[i].etcd && !nodes->all[i].is_down)
            return false;
    return true;
}
