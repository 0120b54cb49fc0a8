#include "server/discovery/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/cluster/peer_wire.h"
#include "server/discovery/addresses.h"

#define LIST_MAGIC 0x6c697374u
#define PROBE_MS 2000
#define ANSWER_MAX 4096

struct list {
    uint32_t magic;
    struct net_client *client; /* borrowed */
    struct list_config config;
    struct addresses addresses;
    uint64_t alarm_at; /* time of the alarm that is set; UINT64_MAX: none */
    uint8_t probe[256];
    size_t probe_bytes;
};

/* One question to an address. */
struct question {
    struct list *list;
    uint32_t number;
    char url[DISCOVERY_URL_MAX];
    uint8_t answer[ANSWER_MAX];
};

static void go_on(struct list *list);

static void tell(struct list *list, const struct discovery_event *event)
{
    list->config.tell(list->config.arg, event);
}

static void tell_members(struct list *list, const struct members_event *events, size_t count,
                         const struct discovery_node *node)
{
    for (size_t i = 0; i < count; i++)
        tell(list, &(struct discovery_event){.type = DISCOVERY_MEMBERS,
                                             .members = events[i],
                                             .node = events[i].type == MEMBERS_LISTED ? node : NULL});
}

/* ── questions ── */

static void copy_text(char *out, size_t cap, const struct peer_blob *text)
{
    snprintf(out, cap, "%.*s", (int)text->len_bytes, (const char *)text->data);
}

/* Whether the answer is a node's, and which. */
static bool read_node(const struct question *question, const struct net_result *result, struct discovery_node *out)
{
    struct peer_message message;
    if (result->code || result->status != 200 || peer_decode(question->answer, result->len_bytes, &message, NULL) ||
        message.type != PEER_ALIVE)
        return false;
    *out = (struct discovery_node){
        .boot = message.boot, .prep_id = message.alive.prep_id, .weight = 1, .leaving = message.alive.leaving != 0};
    memcpy(out->id, message.alive.node, sizeof out->id);
    snprintf(out->url, sizeof out->url, "%s", question->url);
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, strstr(question->url, "//") + 2);
    copy_text(out->version, sizeof out->version, &message.alive.version);
    return true;
}

static void asked(void *arg, const struct net_result *result)
{
    struct question *question = arg;
    struct list *list = question->list;
    struct discovery_node node;
    struct members_event events[ADDRESSES_EVENTS_MAX];
    uint64_t now_ns = clock_now_ns();
    if (result->code == LARDER_EEND) {
        free(question);
        return;
    }
    const struct address *address = addresses_find(&list->addresses, question->number);
    bool was_silent = address && address->silent;
    if (read_node(question, result, &node)) {
        if (was_silent)
            log_info("msg=\"a node of the list answers\" url=\"%s\"", question->url);
        size_t count = addresses_answered(&list->addresses, question->number, &node, now_ns, events);
        tell_members(list, events, count, &node);
    } else {
        if (address && !was_silent)
            log_warn("msg=\"nobody of this cluster answers at an address of the list\" url=\"%s\" status=%d err=\"%s\"",
                     question->url, result->status, result->code ? result->text : "what answers is no node of it");
        addresses_failed(&list->addresses, question->number, now_ns);
    }
    free(question);
    go_on(list);
}

static void ask(struct list *list, const struct address *address)
{
    struct question *question = xcalloc(1, sizeof *question);
    char url[DISCOVERY_URL_MAX + sizeof "/1/probe"];
    struct error err = {.text = ""};
    question->list = list;
    question->number = address->number;
    memcpy(question->url, address->url, sizeof question->url);
    snprintf(url, sizeof url, "%s/1/probe", address->url);
    struct net_request request = {.url = url,
                                  .tls = list->config.tls,
                                  .headers = {"Content-Type: application/x-larder"},
                                  .body = list->probe,
                                  .body_bytes = list->probe_bytes,
                                  .connect_ms = PROBE_MS,
                                  .whole_ms = PROBE_MS,
                                  .answer = question->answer,
                                  .answer_max = sizeof question->answer,
                                  .done = asked,
                                  .arg = question};
    if (net_submit(list->client, &request, NULL, &err)) {
        log_warn_limited("msg=\"a node of the list cannot be asked\" err=\"%s\"", err.text);
        addresses_failed(&list->addresses, question->number, clock_now_ns());
        free(question);
    }
}

static void woken(void *arg, const struct net_result *result)
{
    struct list *list = arg;
    if (result->code || clock_now_ns() < list->alarm_at)
        return; /* an earlier alarm has done this one's work */
    list->alarm_at = UINT64_MAX;
    go_on(list);
}

/* Asks who is due, and sets the alarm for the next. */
static void go_on(struct list *list)
{
    const struct address *address;
    uint64_t now_ns = clock_now_ns();
    while ((address = addresses_due(&list->addresses, now_ns)))
        ask(list, address);
    uint64_t at_ns = addresses_alarm(&list->addresses);
    if (at_ns >= list->alarm_at)
        return;
    list->alarm_at = at_ns;
    uint64_t ms = at_ns > now_ns ? (at_ns - now_ns) / CLOCK_NS_PER_MS + 1 : 1;
    int rc = net_after(list->client, ms, woken, list, NULL);
    CHECK(rc == 0 || rc == LARDER_EGONE); /* the daemon sets few alarms */
}

/* ── orders ── */

struct order {
    struct list *list;
    enum { ORDER_SET, ORDER_UP, ORDER_DOWN } what;
    size_t count;
    char **urls;
};

static void free_order(struct order *order)
{
    for (size_t i = 0; i < order->count; i++)
        free(order->urls[i]);
    free(order->urls);
    free(order);
}

static void carry_out(void *arg, const struct net_result *result)
{
    struct order *order = arg;
    struct list *list = order->list;
    struct members_event events[ADDRESSES_EVENTS_MAX];
    if (result->code == 0 && order->what == ORDER_SET) {
        size_t count = addresses_set(&list->addresses, (const char *const *)order->urls, order->count, clock_now_ns(),
                                     events);
        tell_members(list, events, count, NULL);
        if (order->count > DISCOVERY_NODES_MAX)
            log_warn_limited("msg=\"the list has more addresses than a cluster can have: the rest is left out\" "
                             "count=%zu most=%d",
                             order->count, DISCOVERY_NODES_MAX);
        go_on(list);
    } else if (result->code == 0) {
        bool is_up = order->what == ORDER_UP;
        tell(list, &(struct discovery_event){.type = is_up ? DISCOVERY_UP : DISCOVERY_DOWN});
    }
    free_order(order);
}

static int give_order(struct list *list, struct order *order)
{
    CHECK_MAGIC(list, LIST_MAGIC);
    order->list = list;
    int rc = net_after(list->client, 0, carry_out, order, NULL);
    if (rc)
        free_order(order);
    return rc;
}

int list_set(struct list *list, const char *const *addresses, size_t count)
{
    struct order *order = xcalloc(1, sizeof *order);
    order->what = ORDER_SET;
    order->urls = xcalloc(count + 1, sizeof *order->urls);
    for (; order->count < count; order->count++) {
        size_t cap = sizeof "https://" + strlen(addresses[order->count]);
        order->urls[order->count] = xmalloc(cap);
        snprintf(order->urls[order->count], cap, "%s://%s", list->config.tls ? "https" : "http",
                 addresses[order->count]);
    }
    return give_order(list, order);
}

int list_source(struct list *list, bool is_up)
{
    struct order *order = xcalloc(1, sizeof *order);
    order->what = is_up ? ORDER_UP : ORDER_DOWN;
    return give_order(list, order);
}

int list_start(const struct list_config *config, struct net_client *client, struct list **out, struct error *err)
{
    struct list *list = xcalloc(1, sizeof *list);
    struct peer_message probe = {.type = PEER_PROBE, .cluster = config->cluster, .boot = config->boot};
    *list = (struct list){.magic = LIST_MAGIC, .client = client, .config = *config, .alarm_at = UINT64_MAX};
    addresses_init(&list->addresses, config->self);
    memcpy(probe.node, config->self, sizeof probe.node);
    CHECK(peer_encode(&probe, list->probe, sizeof list->probe, &list->probe_bytes) == 0);
    int rc = list_source(list, true);
    if (rc) {
        list_destroy(list);
        return error_set(err, rc, "the network's client cannot begin to ask the cluster's nodes");
    }
    *out = list;
    return 0;
}

void list_destroy(struct list *list)
{
    if (!list)
        return;
    CHECK_MAGIC(list, LIST_MAGIC);
    list->magic = 0;
    free(list);
}
