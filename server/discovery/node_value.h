/* node_value.h: the JSON values in etcd under a node's key, and under the cluster's `config`. Pure. Values were written
 * by others, and are checked. Unknown fields are skipped, so that later versions may add some. */
#ifndef LARDER_SERVER_DISCOVERY_NODE_VALUE_H
#define LARDER_SERVER_DISCOVERY_NODE_VALUE_H

#include "common/error.h"
#include "server/discovery/discovery.h"

#define NODE_VALUE_MAX 4096 /* bytes */
#define NODE_ID_DIGITS (2 * MAP_NODE_ID_BYTES)
#define NODE_CONFIG_FORMAT 1

/* node_id_write writes the id's hexadecimal digits and a NUL; node_id_read reads exactly NODE_ID_DIGITS of them, in
 * small letters. */
void node_id_write(const uint8_t id[MAP_NODE_ID_BYTES], char out[NODE_ID_DIGITS + 1]);
bool node_id_read(const char *text, size_t len, uint8_t id[MAP_NODE_ID_BYTES]);

/* node_value_write returns the value, which the caller frees; the id stands in the key. LARDER_ELIMIT: it is longer
 * than NODE_VALUE_MAX; LARDER_EINVAL: a text is no UTF-8. */
int node_value_write(const struct discovery_node *node, char **out, struct error *err);
/* node_value_read fills *out except for the id. LARDER_EFORMAT, LARDER_ELIMIT. */
int node_value_read(const char *text, size_t len_bytes, struct discovery_node *out, struct error *err);

/* The cluster's config: the format that its nodes speak, and the map's bound. */
char *node_config_write(uint32_t bound); /* the caller frees it */
/* LARDER_EFORMAT; LARDER_EVERSION: another format. */
int node_config_read(const char *text, size_t len_bytes, uint32_t *bound, struct error *err);

#endif
