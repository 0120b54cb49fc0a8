/* etcd_ask.h: the bodies of requests to etcd's JSON gateway. Pure. Each function gives a text that the caller frees;
 * NULL: no memory, or a text that is no UTF-8. Keys and values are any bytes. */
#ifndef LARDER_SERVER_DISCOVERY_ETCD_ASK_H
#define LARDER_SERVER_DISCOVERY_ETCD_ASK_H

#include <stddef.h>
#include <stdint.h>

struct etcd_bytes {
    const char *data;
    size_t len_bytes;
};

/* Asks for a lease of `seconds`; etcd chooses its number. */
char *etcd_ask_grant(uint32_t seconds);
/* The body for keeping a lease alive, and for giving it back. */
char *etcd_ask_lease(int64_t lease);
/* lease 0: none. */
char *etcd_ask_put(struct etcd_bytes key, struct etcd_bytes value, int64_t lease);
/* Puts the key unless it is there; then the answer has what is there. */
char *etcd_ask_create(struct etcd_bytes key, struct etcd_bytes value, int64_t lease);
/* Up to `limit` keys that begin with the prefix, at the revision (0: the present one). after: only keys behind that
 * one; data NULL: from the first on. The prefix is not empty. */
char *etcd_ask_range(struct etcd_bytes prefix, struct etcd_bytes after, uint32_t limit, int64_t revision);
/* Every change from this revision on of a key that begins with the prefix. */
char *etcd_ask_watch(struct etcd_bytes prefix, int64_t revision);
char *etcd_ask_login(const char *user, const char *password);

#endif
