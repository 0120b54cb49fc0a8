#include "server/node.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/clock.h"
#include "preprocess/version.h"
#include "server/driver/inbox.h"

bool node_is(const struct config *config)
{
    return *config->cluster_name != '\0';
}

/* prepares says how this daemon prepares samples: two that say the same make the same pixels. */
static uint64_t prepares(void)
{
    char text[256], tiff[PREPARE_VERSION_BYTES];
    prepare_tiff_version(tiff);
    int length = snprintf(text, sizeof text, "larder %s %s %s", LARDER_VERSION, prepare_decoders(), tiff);
    return XXH3_64bits(text, (size_t)length);
}

void node_describe(const struct config *config, struct sharing_node *out)
{
    static const enum sharing_spread spreads[] = {[CONFIG_SPREAD_AUTO] = SHARING_SPREAD_AUTO,
                                                  [CONFIG_SPREAD_ALWAYS] = SHARING_SPREAD_ALWAYS,
                                                  [CONFIG_SPREAD_NEVER] = SHARING_SPREAD_NEVER};
    XXH128_canonical_t id;
    XXH128_canonicalFromHash(&id, XXH3_128bits(config->cluster_node, strlen(config->cluster_node)));
    *out = (struct sharing_node){.prep_id = prepares(),
                                 .spread = spreads[config->cluster_spread],
                                 .secure = config->cluster_security == CONFIG_SECURITY_BUNDLE,
                                 .leased = config->cluster_discovery == CONFIG_DISCOVERY_ETCD,
                                 .lease_ns = config->cluster_lease_s * CLOCK_NS_PER_S};
    memcpy(out->id, id.digest, sizeof out->id);
}

static void tell(void *inbox, struct peering_event *event)
{
    struct inbox_message message = {.type = INBOX_PEERS, .peers = event};
    CHECK(mailbox_push(inbox, &message) == 0); /* the inbox outlives the peering */
}

int node_start(const struct config *config, const struct sharing_node *node, uint64_t boot, struct mailbox *inbox,
               struct peering **out, struct error *err)
{
    static const enum peering_discovery discoveries[] = {[CONFIG_DISCOVERY_STATIC] = PEERING_LIST,
                                                         [CONFIG_DISCOVERY_SLURM] = PEERING_SLURM,
                                                         [CONFIG_DISCOVERY_DNS] = PEERING_DNS,
                                                         [CONFIG_DISCOVERY_ETCD] = PEERING_ETCD};
    const char *texts[PEERING_NODES_MAX], *roots[CONFIG_ROOTS_MAX];
    bool etcd = config->cluster_discovery == CONFIG_DISCOVERY_ETCD;
    uint32_t count = etcd ? config->n_cluster_etcd : config->n_cluster_nodes;
    CHECK(count <= PEERING_NODES_MAX);
    for (uint32_t i = 0; i < count; i++)
        texts[i] = etcd ? config->cluster_etcd[i].text : config->cluster_nodes[i].text;
    for (uint32_t i = 0; i < config->n_roots; i++)
        roots[i] = config->roots[i].path;
    bool bundle = config->cluster_security == CONFIG_SECURITY_BUNDLE;
    struct peering_config peering = {.cluster = config->cluster_name,
                                     .name = config->cluster_node,
                                     .boot = boot,
                                     .prep_id = node->prep_id,
                                     .listen = config->cluster_listen,
                                     .advertise = config->cluster_advertise,
                                     .bundle = bundle ? config->cluster_bundle : NULL,
                                     .discovery = discoveries[config->cluster_discovery],
                                     .nodes = texts,
                                     .n_nodes = count,
                                     .lease_s = (uint32_t)config->cluster_lease_s,
                                     .roots = roots,
                                     .n_roots = config->n_roots,
                                     .tell = tell,
                                     .arg = inbox};
    memcpy(peering.self, node->id, sizeof peering.self);
    return peering_start(&peering, out, err);
}
