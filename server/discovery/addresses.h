/* addresses.h: which node lives at which address, where the list has addresses alone. Pure: the time comes in, events
 * for members go out. One thread owns it.
 *
 * Each address is asked who lives there: often at first, since nodes start together, and seldom once somebody has
 * answered, since another node may move in. The node that was heard there is LISTED. It VANISHES when its last address
 * leaves the list, or another node answers at that one. An address that no longer answers says nothing: probes tell who
 * is there (members.h). */
#ifndef LARDER_SERVER_DISCOVERY_ADDRESSES_H
#define LARDER_SERVER_DISCOVERY_ADDRESSES_H

#include "server/discovery/discovery.h"

/* Between two questions to an address without a node, at first and at most: twice as long each time. */
#define ADDRESSES_FIRST_NS UINT64_C(125000000)
#define ADDRESSES_ASK_NS UINT64_C(2000000000)
#define ADDRESSES_AGAIN_NS UINT64_C(10000000000) /* time between two requests to an address with a node */
#define ADDRESSES_EVENTS_MAX (DISCOVERY_NODES_MAX + 1)

struct address {
    char url[DISCOVERY_URL_MAX];
    uint8_t id[MAP_NODE_ID_BYTES]; /* who was heard there last */
    bool known, asking;
    bool silent; /* the last question had no answer */
    uint64_t ask_at;
    uint64_t wait_ns; /* after the next question that nobody answers, while nobody ever has */
    uint32_t number;  /* no other address ever had it; answers name it */
};

struct addresses {
    uint8_t self[MAP_NODE_ID_BYTES]; /* is never listed */
    uint64_t revision;               /* grows with each change */
    uint32_t count, last_number;
    struct address all[DISCOVERY_NODES_MAX];
};

void addresses_init(struct addresses *addresses, const uint8_t self[MAP_NODE_ID_BYTES]);
/* addresses_set takes the whole list. It returns the number of events; here and below the caller has room for
 * ADDRESSES_EVENTS_MAX. Addresses beyond DISCOVERY_NODES_MAX are left out. */
size_t addresses_set(struct addresses *addresses, const char *const *urls, size_t count, uint64_t now_ns,
                     struct members_event *events);
/* addresses_due returns an address that is to be asked now, and marks it as asked; NULL: there is none. */
const struct address *addresses_due(struct addresses *addresses, uint64_t now_ns);
/* addresses_alarm returns when the next one is due; UINT64_MAX: none is. */
uint64_t addresses_alarm(const struct addresses *addresses);
/* addresses_answered: this node lives at the address of that number. addresses_failed: nobody answered. Both change
 * nothing when the address has left the list meanwhile. */
size_t addresses_answered(struct addresses *addresses, uint32_t number, const struct discovery_node *node,
                          uint64_t now_ns, struct members_event *events);
void addresses_failed(struct addresses *addresses, uint32_t number, uint64_t now_ns);
/* addresses_find returns the address of that number; NULL: it has left the list. */
const struct address *addresses_find(const struct addresses *addresses, uint32_t number);

#endif
