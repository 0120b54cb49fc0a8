/* etcd.c: beginning, end, and what other threads order. */
#include "server/discovery/etcd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/utf8.h"
#include "server/discovery/etcd_priv.h"
#include "server/discovery/node_value.h"

#define KEY_MAX (sizeof "/larder/1//config" + sizeof "nodes/" + ETCD_CLUSTER_MAX + NODE_ID_DIGITS)

/* ── orders: carried out in the client's thread ── */

struct order {
    struct etcd *etcd;
    void (*carry_out)(struct etcd *etcd, struct order *order);
    char *key, *value; /* register; etcd takes them over */
};

static void carry_out(void *arg, const struct net_result *result)
{
    struct order *order = arg;
    if (result->code == 0)
        order->carry_out(order->etcd, order);
    free(order->key);
    free(order->value);
    free(order);
}

static int give_order(struct etcd *etcd, void (*what)(struct etcd *etcd, struct order *order), char *key, char *value)
{
    CHECK_MAGIC(etcd, ETCD_MAGIC);
    struct order *order = xmalloc(sizeof *order);
    *order = (struct order){.etcd = etcd, .carry_out = what, .key = key, .value = value};
    int rc = net_after(etcd->client, 0, carry_out, order, NULL);
    if (rc) {
        free(key);
        free(value);
        free(order);
    }
    return rc;
}

static void order_register(struct etcd *etcd, struct order *order)
{
    free(etcd->self_key);
    free(etcd->self_value);
    etcd->self_key = order->key;
    etcd->self_value = order->value;
    order->key = order->value = NULL;
    etcd->wants_register = true;
    etcd_lease_next(etcd);
}

static void order_keepalive(struct etcd *etcd, struct order *order)
{
    (void)order;
    etcd->wants_keepalive = true;
    etcd_lease_next(etcd);
}

static void order_leave(struct etcd *etcd, struct order *order)
{
    (void)order;
    if (etcd->leaves == ETCD_STAYS)
        etcd->leaves = ETCD_LEAVES_NEXT;
    etcd_lease_next(etcd);
}

static void order_follow(struct etcd *etcd, struct order *order)
{
    (void)order;
    etcd_follow(etcd);
}

int etcd_register(struct etcd *etcd, const struct discovery_node *self, struct error *err)
{
    char digits[NODE_ID_DIGITS + 1], key[KEY_MAX], *value;
    int rc = node_value_write(self, &value, err);
    if (rc)
        return rc;
    node_id_write(self->id, digits);
    snprintf(key, sizeof key, "%s%s", etcd->prefix, digits);
    rc = give_order(etcd, order_register, xstrdup(key), value);
    return rc ? error_set(err, rc, "the network's client cannot take this node's key to etcd") : 0;
}

int etcd_keepalive(struct etcd *etcd)
{
    return give_order(etcd, order_keepalive, NULL, NULL);
}

int etcd_leave(struct etcd *etcd)
{
    return give_order(etcd, order_leave, NULL, NULL);
}

/* ── life ── */

static int check_endpoint(const struct etcd_config *config, const char *url, struct error *err)
{
    bool tls = strncmp(url, "https://", 8) == 0;
    if ((!tls && strncmp(url, "http://", 7) != 0) || strlen(url) > NET_URL_MAX || !utf8_printable(url))
        return error_set(err, LARDER_EINVAL, "cluster.etcd: '%.128s' is no address: write https://HOST:2379", url);
    if (tls && !config->tls)
        return error_set(err, LARDER_EINVAL, "cluster.etcd: %.128s wants TLS: set cluster.etcd_tls", url);
    return 0;
}

static int check(const struct etcd_config *config, struct error *err)
{
    size_t len = strlen(config->cluster);
    if (config->n_endpoints == 0 || config->n_endpoints > ETCD_ENDPOINTS_MAX)
        return error_set(err, LARDER_EINVAL, "cluster.etcd: name 1 to %d endpoints", ETCD_ENDPOINTS_MAX);
    if (len == 0 || len > ETCD_CLUSTER_MAX || strchr(config->cluster, '/') || !utf8_printable(config->cluster))
        return error_set(err, LARDER_EINVAL, "cluster.name: 1 to %d plain characters without a slash",
                         ETCD_CLUSTER_MAX);
    if (config->lease_s < ETCD_LEASE_MIN_S || config->lease_s > ETCD_LEASE_MAX_S)
        return error_set(err, LARDER_EINVAL, "cluster.lease: %d to %d seconds", ETCD_LEASE_MIN_S, ETCD_LEASE_MAX_S);
    if (!config->user != !config->password || (config->user && !utf8_printable(config->user)))
        return error_set(err, LARDER_EINVAL, "cluster.etcd_tls: set both user and password_file, or neither");
    for (size_t i = 0; i < config->n_endpoints; i++) {
        int rc = check_endpoint(config, config->endpoints[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

static char *key_of(const char *cluster, const char *what)
{
    char key[KEY_MAX];
    snprintf(key, sizeof key, "/larder/1/%s/%s", cluster, what);
    return xstrdup(key);
}

int etcd_start(const struct etcd_config *config, struct net_client *client, struct etcd **out, struct error *err)
{
    int rc = check(config, err);
    if (rc)
        return rc;
    struct etcd *etcd = xcalloc(1, sizeof *etcd);
    etcd->magic = ETCD_MAGIC;
    etcd->client = client;
    etcd->tls = config->tls;
    etcd->tell = config->tell;
    etcd->arg = config->arg;
    etcd->lease_s = config->lease_s;
    etcd->bound = config->bound;
    etcd->user = config->user ? xstrdup(config->user) : NULL;
    etcd->password = config->password ? xstrdup(config->password) : NULL;
    etcd->config_key = key_of(config->cluster, "config");
    etcd->prefix = key_of(config->cluster, "nodes/");
    for (; etcd->n_endpoints < config->n_endpoints; etcd->n_endpoints++) {
        char *url = xstrdup(config->endpoints[etcd->n_endpoints]);
        for (size_t len = strlen(url); url[len - 1] == '/'; len--)
            url[len - 1] = 0;
        etcd->endpoints[etcd->n_endpoints] = url;
    }
    rc = give_order(etcd, order_follow, NULL, NULL);
    if (rc) {
        etcd_destroy(etcd);
        return error_set(err, rc, "the network's client cannot begin to ask etcd");
    }
    *out = etcd;
    return 0;
}

static void free_op(struct etcd_op *op)
{
    free(op->body);
    free(op->heard.data);
}

void etcd_destroy(struct etcd *etcd)
{
    if (!etcd)
        return;
    CHECK_MAGIC(etcd, ETCD_MAGIC);
    for (size_t i = 0; i < etcd->n_endpoints; i++)
        free(etcd->endpoints[i]);
    free_op(&etcd->login);
    free_op(&etcd->lease_op);
    free_op(&etcd->follow_op);
    free(etcd->user);
    free(etcd->password);
    free(etcd->auth);
    free(etcd->config_key);
    free(etcd->prefix);
    free(etcd->self_key);
    free(etcd->self_value);
    free(etcd->last_key);
    free(etcd->watch_body);
    free(etcd->line.data);
    etcd->magic = 0;
    free(etcd);
}
