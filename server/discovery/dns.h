/* dns.h: keeps a list of addresses equal to what a name in DNS stands for, such as a headless service of Kubernetes. A
 * name that cannot be resolved changes nothing in the list.
 *
 * It has a thread of its own, since the C library waits for DNS. */
#ifndef LARDER_SERVER_DISCOVERY_DNS_H
#define LARDER_SERVER_DISCOVERY_DNS_H

#include "server/discovery/list.h"

#define DNS_EVERY_MS 5000

struct dns;

/* dns_start resolves "host:port" at once, and again every DNS_EVERY_MS. The list is borrowed, and outlives it.
 * LARDER_EINVAL, LARDER_ELIMIT (no thread). */
int dns_start(const char *address, struct list *list, struct dns **out, struct error *err);
/* dns_stop waits until a question under way is answered, and frees. Before the network's client stops. Accepts NULL. */
void dns_stop(struct dns *dns);

#endif
