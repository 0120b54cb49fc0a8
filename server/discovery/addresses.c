#include "server/discovery/addresses.h"

#include <string.h>

#include "common/check.h"

/* One call's events. */
struct out {
    struct members_event *events;
    size_t count;
};

static struct members_event *tell(struct addresses *addresses, struct out *out, enum members_event_type type,
                                  const uint8_t id[MAP_NODE_ID_BYTES], uint64_t now_ns)
{
    CHECK(out->count < ADDRESSES_EVENTS_MAX);
    struct members_event *event = &out->events[out->count++];
    *event = (struct members_event){.type = type, .now_ns = now_ns, .revision = ++addresses->revision};
    memcpy(event->id, id, sizeof event->id);
    return event;
}

void addresses_init(struct addresses *addresses, const uint8_t self[MAP_NODE_ID_BYTES])
{
    *addresses = (struct addresses){0};
    memcpy(addresses->self, self, sizeof addresses->self);
}

const struct address *addresses_find(const struct addresses *addresses, uint32_t number)
{
    for (uint32_t i = 0; i < addresses->count; i++)
        if (addresses->all[i].number == number)
            return &addresses->all[i];
    return NULL;
}

static bool lives_somewhere(const struct addresses *addresses, const uint8_t id[MAP_NODE_ID_BYTES])
{
    for (uint32_t i = 0; i < addresses->count; i++)
        if (addresses->all[i].known && memcmp(addresses->all[i].id, id, MAP_NODE_ID_BYTES) == 0)
            return true;
    return false;
}

/* Nobody is known to live there any more. */
static void move_out(struct addresses *addresses, struct address *address, uint64_t now_ns, struct out *out)
{
    if (!address->known)
        return;
    address->known = false;
    if (!lives_somewhere(addresses, address->id) && memcmp(address->id, addresses->self, sizeof address->id) != 0)
        tell(addresses, out, MEMBERS_VANISHED, address->id, now_ns);
}

static bool has(const char *const *urls, size_t count, const char *url)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(urls[i], url) == 0)
            return true;
    return false;
}

static bool is_listed(const struct addresses *addresses, const char *url)
{
    for (uint32_t i = 0; i < addresses->count; i++)
        if (strcmp(addresses->all[i].url, url) == 0)
            return true;
    return false;
}

size_t addresses_set(struct addresses *addresses, const char *const *urls, size_t count, uint64_t now_ns,
                     struct members_event *events)
{
    struct out out = {.events = events};
    for (uint32_t i = 0; i < addresses->count;) {
        struct address *address = &addresses->all[i];
        if (has(urls, count, address->url)) {
            i++;
            continue;
        }
        move_out(addresses, address, now_ns, &out);
        *address = addresses->all[--addresses->count];
    }
    for (size_t i = 0; i < count && addresses->count < DISCOVERY_NODES_MAX; i++) {
        if (is_listed(addresses, urls[i]) || strlen(urls[i]) >= DISCOVERY_URL_MAX)
            continue;
        struct address *address = &addresses->all[addresses->count++];
        *address = (struct address){
            .ask_at = now_ns, .wait_ns = ADDRESSES_FIRST_NS, .number = ++addresses->last_number};
        memcpy(address->url, urls[i], strlen(urls[i]) + 1);
    }
    return out.count;
}

const struct address *addresses_due(struct addresses *addresses, uint64_t now_ns)
{
    for (uint32_t i = 0; i < addresses->count; i++) {
        struct address *address = &addresses->all[i];
        if (!address->asking && address->ask_at <= now_ns) {
            address->asking = true;
            return address;
        }
    }
    return NULL;
}

uint64_t addresses_alarm(const struct addresses *addresses)
{
    uint64_t at = UINT64_MAX;
    for (uint32_t i = 0; i < addresses->count; i++)
        if (!addresses->all[i].asking && addresses->all[i].ask_at < at)
            at = addresses->all[i].ask_at;
    return at;
}

size_t addresses_answered(struct addresses *addresses, uint32_t number, const struct discovery_node *node,
                          uint64_t now_ns, struct members_event *events)
{
    struct out out = {.events = events};
    struct address *address = (struct address *)addresses_find(addresses, number);
    if (!address)
        return 0;
    address->asking = false;
    address->silent = false;
    address->ask_at = now_ns + ADDRESSES_AGAIN_NS;
    if (memcmp(address->id, node->id, sizeof address->id) != 0)
        move_out(addresses, address, now_ns, &out);
    address->known = true;
    memcpy(address->id, node->id, sizeof address->id);
    if (memcmp(node->id, addresses->self, sizeof node->id) == 0)
        return out.count;
    struct members_event *event = tell(addresses, &out, MEMBERS_LISTED, node->id, now_ns);
    event->boot = node->boot;
    event->weight = node->weight;
    event->leaving = node->leaving;
    return out.count;
}

void addresses_failed(struct addresses *addresses, uint32_t number, uint64_t now_ns)
{
    struct address *address = (struct address *)addresses_find(addresses, number);
    if (!address)
        return;
    address->asking = false;
    address->silent = true;
    address->ask_at = now_ns + (address->known ? ADDRESSES_AGAIN_NS : address->wait_ns);
    address->wait_ns = address->wait_ns < ADDRESSES_ASK_NS / 2 ? 2 * address->wait_ns : ADDRESSES_ASK_NS;
}
