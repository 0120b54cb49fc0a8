/* node.h: this daemon as a node of a cluster, as its configuration says. */
#ifndef LARDER_SERVER_NODE_H
#define LARDER_SERVER_NODE_H

#include "common/mailbox.h"
#include "server/config/config.h"
#include "server/driver/driver.h"
#include "server/peering/peering.h"

/* node_is tells whether the configuration names a cluster. node_describe fills in what the driver has to know of one,
 * which has all decoders loaded. A node's id is a hash of its name, so it is the same after a restart. */
bool node_is(const struct config *config);
void node_describe(const struct config *config, struct sharing_node *out);
/* node_start begins to talk with the other nodes. Their messages go to the inbox, which is borrowed. The errors are
 * those of peering_start. */
int node_start(const struct config *config, const struct sharing_node *node, uint64_t boot, struct mailbox *inbox,
               struct peering **out, struct error *err);

#endif
