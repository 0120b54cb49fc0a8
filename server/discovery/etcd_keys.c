/* etcd_keys.c: the nodes' keys, as events for members. */
#include <string.h>

#include "common/log.h"
#include "server/discovery/etcd_priv.h"
#include "server/discovery/node_value.h"

static struct etcd_listed *find(struct etcd *etcd, const uint8_t id[MAP_NODE_ID_BYTES])
{
    for (uint32_t i = 0; i < etcd->n_listed; i++)
        if (memcmp(etcd->listed[i].id, id, MAP_NODE_ID_BYTES) == 0)
            return &etcd->listed[i];
    return NULL;
}

static void vanish(struct etcd *etcd, struct etcd_listed *listed, int64_t revision)
{
    struct members_event event = {.type = MEMBERS_VANISHED, .revision = (uint64_t)revision};
    memcpy(event.id, listed->id, sizeof event.id);
    *listed = etcd->listed[--etcd->n_listed];
    etcd_tell_members(etcd, &event, NULL);
}

static void list(struct etcd *etcd, const struct discovery_node *node, int64_t revision)
{
    struct etcd_listed *listed = find(etcd, node->id);
    if (!listed && etcd->n_listed == DISCOVERY_NODES_MAX) {
        log_warn_limited("msg=\"the cluster has more nodes than this daemon can know: one is left out\" name=\"%s\"",
                         node->name);
        return;
    }
    listed = listed ? listed : &etcd->listed[etcd->n_listed++];
    memcpy(listed->id, node->id, sizeof listed->id);
    listed->seen = true;
    struct members_event event = {.type = MEMBERS_LISTED,
                                  .boot = node->boot,
                                  .weight = node->weight,
                                  .leaving = node->leaving,
                                  .revision = (uint64_t)revision};
    memcpy(event.id, node->id, sizeof event.id);
    etcd_tell_members(etcd, &event, node);
}

void etcd_take_kv(struct etcd *etcd, const struct etcd_kv *kv, int64_t revision)
{
    struct discovery_node node = {0};
    struct error err = {.text = "its name is no node's"};
    size_t skip = strlen(etcd->prefix);
    bool fits = kv->key_bytes >= skip && memcmp(kv->key, etcd->prefix, skip) == 0 &&
                node_id_read(kv->key + skip, kv->key_bytes - skip, node.id);
    if (fits && kv->deleted) {
        struct etcd_listed *listed = find(etcd, node.id);
        if (listed)
            vanish(etcd, listed, revision);
    } else if (fits && node_value_read(kv->value, kv->value_bytes, &node, &err) == 0) {
        list(etcd, &node, revision);
    } else if (!kv->deleted) {
        log_warn_limited("msg=\"a key in etcd is skipped\" key=\"%s\" err=\"%s\"", kv->key, err.text);
    }
}

void etcd_keys_begin(struct etcd *etcd)
{
    for (uint32_t i = 0; i < etcd->n_listed; i++)
        etcd->listed[i].seen = false;
}

void etcd_keys_end(struct etcd *etcd, int64_t revision)
{
    for (uint32_t i = etcd->n_listed; i-- > 0;)
        if (!etcd->listed[i].seen)
            vanish(etcd, &etcd->listed[i], revision);
}
