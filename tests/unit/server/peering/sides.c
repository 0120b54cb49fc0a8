#include "sides.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/check.h"

#define EVENTS_MAX 1024
#define PATIENCE_MS 60000
#define WHOLE_MS 60000

static void answer_probe(struct side *side, const struct peering_event *event)
{
    struct peer_message alive = {.type = PEER_ALIVE};
    memcpy(alive.alive.node, side->id, sizeof side->id);
    alive.alive.prep_id = 77;
    alive.alive.version = (struct peer_blob){(const uint8_t *)"1.2.3", 5};
    side->n_probes++;
    CHECK(side->peering); /* nothing is told before peering_start has given it */
    peering_answer(side->peering, event->number, &alive, NULL, 0);
}

static void tell(void *arg, struct peering_event *event)
{
    struct side *side = arg;
    if (event->type == PEERING_ASKED && event->message.type == PEER_PROBE) {
        answer_probe(side, event);
        peering_event_free(event);
        return;
    }
    struct mailbox *to = event->type == PEERING_ASKED      ? side->asked
                         : event->type == PEERING_ANSWERED ? side->answered
                                                           : side->members;
    CHECK(mailbox_try_push(to, &event) == 0);
}

struct side *side_begin(uint8_t number)
{
    struct side *side = xcalloc(1, sizeof *side);
    side->id[0] = number;
    side->boot = 100u + number;
    CHECK(mailbox_create(EVENTS_MAX, sizeof(struct peering_event *), &side->asked) == 0);
    CHECK(mailbox_create(EVENTS_MAX, sizeof(struct peering_event *), &side->answered) == 0);
    CHECK(mailbox_create(EVENTS_MAX, sizeof(struct peering_event *), &side->members) == 0);
    return side;
}

struct peering_config side_config(struct side *side)
{
    struct peering_config config = {.cluster = SIDES_CLUSTER,
                                    .name = "node",
                                    .boot = side->boot,
                                    .prep_id = 77,
                                    .listen = "127.0.0.1:0",
                                    .discovery = PEERING_LIST,
                                    .tell = tell,
                                    .arg = side};
    memcpy(config.self, side->id, sizeof side->id);
    return config;
}

void side_start(struct side *side, const struct peering_config *config)
{
    struct error err = {.text = ""};
    if (peering_start(config, &side->peering, &err))
        check_failed(__FILE__, __LINE__, err.text);
    snprintf(side->address, sizeof side->address, "127.0.0.1:%u", peering_port(side->peering));
}

static void empty(struct mailbox *mailbox)
{
    struct peering_event *event;
    while (mailbox_pop(mailbox, &event, 0) == 0)
        peering_event_free(event);
    mailbox_destroy(mailbox);
}

void side_end(struct side *side)
{
    peering_destroy(side->peering);
    empty(side->asked);
    empty(side->answered);
    empty(side->members);
    free(side);
}

void side_free_address(char *out, size_t cap)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    close(fd);
    snprintf(out, cap, "127.0.0.1:%u", ntohs(address.sin_port));
}

void sides_pair(struct side **one, struct side **two, const char *one_bundle, const char *two_bundle)
{
    char second[64];
    const char *nodes[2] = {second};
    side_free_address(second, sizeof second);
    *one = side_begin(1);
    *two = side_begin(2);
    struct peering_config config = side_config(*one);
    config.bundle = one_bundle;
    config.nodes = nodes;
    config.n_nodes = 1;
    side_start(*one, &config);
    config = side_config(*two);
    config.bundle = two_bundle;
    config.listen = second;
    config.nodes = nodes;
    nodes[1] = (*one)->address; /* its own address is in the list as well */
    config.n_nodes = 2;
    side_start(*two, &config);
    side_wait_listed(*two, *one);
    side_wait_listed(*one, *two);
}

struct peering_event *side_take(struct mailbox *mailbox)
{
    struct peering_event *event = NULL;
    CHECK(mailbox_pop(mailbox, &event, PATIENCE_MS) == 0);
    return event;
}

void side_wait_listed(struct side *side, const struct side *other)
{
    struct peering_event *event = side_take(side->members);
    CHECK(event->type == PEERING_MEMBERS && event->members.type == MEMBERS_LISTED);
    CHECK(memcmp(event->members.id, other->id, sizeof other->id) == 0);
    CHECK(event->members.boot == other->boot && event->members.weight == 1 && !event->members.leaving);
    peering_event_free(event);
}

struct peering_event *side_ask(struct side *from, struct side *to, const struct peer_message *message, uint64_t number,
                               uint64_t *ticket)
{
    CHECK(peering_ask(from->peering, to->id, message, number, false, WHOLE_MS, ticket) == 0);
    struct peering_event *event = side_take(to->asked);
    CHECK(event->type == PEERING_ASKED && event->message.type == message->type && event->number != 0);
    CHECK(memcmp(event->message.node, from->id, sizeof from->id) == 0 && event->message.boot == from->boot);
    return event;
}

int side_code(struct side *side, uint64_t number)
{
    struct peering_event *event = side_take(side->answered);
    int code = event->code;
    CHECK(event->type == PEERING_ANSWERED && event->number == number);
    CHECK(code == 0 || (!event->body && !event->payload));
    peering_event_free(event);
    return code;
}
