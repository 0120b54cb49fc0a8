/* peering.h: talks with the other daemons of a cluster: it asks them, answers them, and follows which nodes there are.
 * It moves bytes without knowing their meaning; the engine's thread decides, by the events that it is told.
 *
 * Two threads move the bytes, the network client's and the server's. They decode and check messages, and tell them as
 * events by config.tell, one after the other in each thread. A tell must not wait for the network.
 *
 * Nodes are named by their ids. Their addresses come from discovery, and stay here. */
#ifndef LARDER_SERVER_PEERING_PEERING_H
#define LARDER_SERVER_PEERING_PEERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "server/cluster/members.h"
#include "server/cluster/peer_wire.h"

#define PEERING_NODES_MAX 64 /* addresses of a list, and endpoints of etcd */

enum peering_discovery { PEERING_LIST, PEERING_SLURM, PEERING_DNS, PEERING_ETCD };

enum peering_event_type {
    PEERING_ASKED,    /* Another daemon asks: message is its request. It waits for peering_answer. */
    PEERING_ANSWERED, /* the result of a peering_ask; code 0: message is the answer; else there is none */
    PEERING_MEMBERS,  /* an event for members_step, without the time */
};

/* The receiver owns the event, and frees it with peering_event_free. */
struct peering_event {
    enum peering_event_type type;
    uint64_t number; /* ASKED: for peering_answer. ANSWERED: as peering_ask was given it. */
    /* ANSWERED: 0; LARDER_EGONE: nobody listens there, or another node does. Anything else: no answer in time, none
     * that can be understood, or a BATCH with a payload that is not what its check says. */
    int code;
    struct peer_message message; /* borrows from body */
    /* BATCH: the payloads, one behind the other; their lengths are those of the entries, which add up to payload_bytes.
     * Each has been compared with its check. */
    const uint8_t *payload;
    size_t payload_bytes;
    void *body; /* owned */
    void (*free_body)(void *body);
    struct members_event members;
};

struct peering_config {
    const char *cluster;           /* its name, not empty */
    const char *name;              /* this node's, for people */
    uint8_t self[PEER_NODE_BYTES]; /* this node's id */
    uint64_t boot, prep_id;        /* boot and prep_id of this daemon */
    const char *listen;            /* "host:port"; port 0: a free one */
    const char *advertise;         /* "host:port" that others use; NULL: as listen */
    const char *bundle;            /* path of this node's certificates (net/identity.h); NULL: plain HTTP */
    enum peering_discovery discovery;
    const char *const *nodes; /* LIST: "host:port" each; DNS: one "name:port"; ETCD: endpoints */
    size_t n_nodes;
    uint32_t lease_s;         /* ETCD */
    const char *const *roots; /* roots that other nodes may see; n_roots may be 0 */
    size_t n_roots;
    void (*tell)(void *arg, struct peering_event *event);
    void *arg;
};

struct peering;

/* peering_start listens and begins to look for others. All of config is copied. LARDER_EINVAL, LARDER_EBUSY (the port
 * is taken), LARDER_EPERM, LARDER_EFORMAT, LARDER_ENOENT (the bundle), LARDER_EIO, LARDER_ELIMIT, LARDER_ENOMEM. */
int peering_start(const struct peering_config *config, struct peering **out, struct error *err);
/* peering_stop ends both threads: no event comes after it returns, and every request has had its ANSWERED event by
 * then. After peering_leave it first waits, at most 3 s, until etcd has taken the lease back. Afterwards peering_ask
 * fails and peering_answer does nothing. peering_destroy frees it; accepts NULL, and stops first. */
void peering_stop(struct peering *peering);
void peering_destroy(struct peering *peering);
uint16_t peering_port(const struct peering *peering); /* the port that it listens at */

/* peering_ask sends a request to a node; cluster, node and boot of the message are filled in. Exactly one ANSWERED
 * event follows, later, unless it fails: LARDER_EGONE (the address is not known, or it stops), LARDER_ELIMIT,
 * LARDER_ENOMEM. fresh: on a new connection. *ticket is for peering_cancel, after which the event has another code than
 * 0, or had come before. Any thread. */
int peering_ask(struct peering *peering, const uint8_t node[PEER_NODE_BYTES], const struct peer_message *message,
                uint64_t number, bool fresh, uint32_t whole_ms, uint64_t *ticket);
void peering_cancel(struct peering *peering, uint64_t ticket);

/* peering_answer answers an ASKED event: the message's head, then the payload as it lies behind *payload (a
 * peering_block; becomes the peering's; NULL: none). boot is filled in. Any thread. */
void peering_answer(struct peering *peering, uint64_t number, const struct peer_message *message, void *payload,
                    size_t payload_bytes);

/* For members' actions: with etcd they have their results as events; without, they do nothing. */
void peering_register(struct peering *peering, bool leaving);
void peering_keepalive(struct peering *peering);
void peering_leave(struct peering *peering);
/* peering_forget drops the address of a node. */
void peering_forget(struct peering *peering, const uint8_t node[PEER_NODE_BYTES]);

/* peering_cluster returns the cluster's name, which lives with the peering. peering_name copies what is known of a
 * node, this one or another, each text cut to its room; an address has a scheme. False: it has no address. Any
 * thread. */
struct peering_named {
    char name[256], url[512];
};
const char *peering_cluster(const struct peering *peering);
bool peering_name(struct peering *peering, const uint8_t node[PEER_NODE_BYTES], struct peering_named *out);

void peering_event_free(struct peering_event *event); /* accepts NULL */
/* peering_block returns memory for a payload; NULL: there is none. A block that is not given to peering_answer goes
 * back by peering_block_free, which accepts NULL. Blocks are kept for later payloads until peering_rest. Call that when
 * nobody is asked or answered for a while. */
void *peering_block(size_t bytes);
void peering_block_free(void *block);
void peering_rest(void);

#endif
