/* sides.h: daemons for tests that have a peering and nothing else. Each keeps the events that it is told until the test
 * takes them. Probes are answered at once, in the thread that tells them. */
#ifndef LARDER_TESTS_SIDES_H
#define LARDER_TESTS_SIDES_H

#include <stdatomic.h>

#include "common/mailbox.h"
#include "server/peering/peering.h"

#define SIDES_CLUSTER "larder-test"

struct side {
    uint8_t id[PEER_NODE_BYTES];
    uint64_t boot;
    struct peering *peering; /* NULL: stopped */
    char address[64];        /* "127.0.0.1:port" */
    /* Pointers to events: requests without probes, what became of own ones, and those for members. */
    struct mailbox *asked, *answered, *members;
    atomic_uint n_probes; /* of others */
};

/* side_begin returns a side with this number, which no other has; its peering is not started. */
struct side *side_begin(uint8_t number);
/* side_config returns settings on a free loopback port, by a list without nodes. */
struct peering_config side_config(struct side *side);
void side_start(struct side *side, const struct peering_config *config);
/* side_end stops the peering and frees everything. */
void side_end(struct side *side);

/* sides_pair starts two sides that list each other, with these bundles or NULL, and waits until each has found the
 * other. */
void sides_pair(struct side **one, struct side **two, const char *one_bundle, const char *two_bundle);
/* side_free_address writes "127.0.0.1:port" with a port that is free for now. */
void side_free_address(char *out, size_t cap);

/* side_take waits for the next event of a mailbox; the caller frees it. */
struct peering_event *side_take(struct mailbox *mailbox);
/* side_wait_listed waits until a node with this id is listed, and checks its boot. */
void side_wait_listed(struct side *side, const struct side *other);
/* side_ask asks and takes the request's event at the other side. */
struct peering_event *side_ask(struct side *from, struct side *to, const struct peer_message *message, uint64_t number,
                               uint64_t *ticket);
/* side_code takes the event of what was asked by this number, and gives its code. */
int side_code(struct side *side, uint64_t number);

#endif
