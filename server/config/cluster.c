/* cluster.c: the section `cluster`: what its texts may be, and which of its settings go together. */
#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "server/config/config_priv.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum { HOST_MAX = 255, KEY_MAX = 64 };

/* ── the forms of texts ── */

static bool is_name(const char *text)
{
    return strspn(text, LETTERS DIGITS "-_.") == strlen(text);
}

/* split_port copies what stands before the port, without the brackets of an IPv6 address. It returns the port, or 0
 * where the text is not HOST:PORT. */
static uint16_t split_port(const char *text, char host[HOST_MAX + 1], bool *literal)
{
    const char *colon = strrchr(text, ':');
    size_t digits = colon ? strspn(colon + 1, DIGITS) : 0;
    unsigned long port = digits >= 1 && digits <= 5 ? strtoul(colon + 1, NULL, 10) : 0;
    if (!colon || colon[1 + digits] || port > UINT16_MAX)
        return 0;
    *literal = text[0] == '[' && colon[-1] == ']';
    size_t len = (size_t)(colon - text) - (*literal ? 2 : 0);
    if (len == 0 || len > HOST_MAX)
        return 0;
    memcpy(host, text + *literal, len);
    host[len] = '\0';
    return (uint16_t)port;
}

static bool is_host_port(const char *text)
{
    char host[HOST_MAX + 1];
    struct in6_addr v6;
    bool literal = false;
    if (split_port(text, host, &literal) == 0)
        return false;
    return literal ? inet_pton(AF_INET6, host, &v6) == 1 : is_name(host);
}

/* is_listen tells whether the text is ADDRESS:PORT, and whether only this machine reaches it. */
static bool is_listen(const char *text, bool *loopback)
{
    char host[HOST_MAX + 1];
    struct in_addr v4;
    struct in6_addr v6;
    bool literal = false;
    if (split_port(text, host, &literal) == 0)
        return false;
    if (literal) {
        bool good = inet_pton(AF_INET6, host, &v6) == 1;
        *loopback = good && IN6_IS_ADDR_LOOPBACK(&v6);
        return good;
    }
    bool good = inet_pton(AF_INET, host, &v4) == 1;
    *loopback = good && ntohl(v4.s_addr) >> 24 == 127;
    return good;
}

static bool is_url(const char *text)
{
    size_t scheme = strncmp(text, "https://", 8) == 0 ? 8 : strncmp(text, "http://", 7) == 0 ? 7 : 0;
    return scheme && text[scheme] && text[scheme] != '/' && !strpbrk(text, " \"\\");
}

/* ── checks ── */

static int check_name(const struct config *config, enum config_setting setting, const char *name, struct error *err)
{
    if (is_name(name))
        return 0;
    return config_fail_setting(config, setting, err, LARDER_EINVAL,
                               "'%s' is not a name: write 1 to %d letters, digits, - _ or .", config_shown(name),
                               CONFIG_NAME_MAX);
}

static int check_list(const struct config *config, enum config_setting setting, const struct config_text *list,
                      bool (*is_good)(const char *text), const char *form, struct error *err)
{
    char key[KEY_MAX];
    for (uint32_t i = 0; list && list[i].text; i++) {
        snprintf(key, sizeof key, "%s[%u]", config_rows[setting].key_path, i);
        if (!is_good(list[i].text))
            return config_fail(err, LARDER_EINVAL, config->file, list[i].at, key, "'%s' is not %s",
                               config_shown(list[i].text), form);
    }
    return 0;
}

static int check_texts(const struct config *config, bool *loopback, struct error *err)
{
    int rc = check_name(config, SETTING_cluster_name, config->cluster_name, err);
    if (rc == 0)
        rc = check_name(config, SETTING_cluster_node, config->cluster_node, err);
    if (rc == 0)
        rc = check_list(config, SETTING_cluster_etcd, config->cluster_etcd, is_url,
                        "an endpoint: write its URL, such as https://etcd-0:2379", err);
    if (rc == 0)
        rc = check_list(config, SETTING_cluster_nodes, config->cluster_nodes, is_host_port,
                        "a node's address: write HOST:PORT, such as node-1:9451", err);
    if (rc)
        return rc;
    if (!is_listen(config->cluster_listen, loopback))
        return config_fail_setting(config, SETTING_cluster_listen, err, LARDER_EINVAL,
                                   "'%s' is not an address to listen at: write ADDRESS:PORT, such as 0.0.0.0:9451 or "
                                   "[::]:9451",
                                   config_shown(config->cluster_listen));
    if (config->cluster_advertise[0] && !is_host_port(config->cluster_advertise))
        return config_fail_setting(config, SETTING_cluster_advertise, err, LARDER_EINVAL,
                                   "'%s' is not an address: write HOST:PORT, or \"\" for the host's name with the port "
                                   "of cluster.listen",
                                   config_shown(config->cluster_advertise));
    return 0;
}

static int check_discovery(const struct config *config, struct error *err)
{
    if (config->cluster_discovery == CONFIG_DISCOVERY_ETCD && config->n_cluster_etcd == 0)
        return config_fail_setting(config, SETTING_cluster_discovery, err, LARDER_EINVAL,
                                   "etcd needs its endpoints: write `etcd: [https://HOST:2379]` below `cluster:`");
    if (config->cluster_discovery == CONFIG_DISCOVERY_DNS && config->n_cluster_nodes != 1)
        return config_fail_setting(config, SETTING_cluster_discovery, err, LARDER_EINVAL,
                                   "dns needs one name that stands for all nodes, and cluster.nodes has %u: write "
                                   "`nodes: [NAME:PORT]` below `cluster:`",
                                   config->n_cluster_nodes);
    return 0;
}

static int check_security(const struct config *config, bool loopback, struct error *err)
{
    if (!config->cluster_bundle)
        return config_fail_setting(config, SETTING_cluster_bundle, err, LARDER_EINVAL,
                                   "'auto' is not possible here: write an absolute path or none");
    if (config->cluster_security == CONFIG_SECURITY_NONE && !loopback && !config->cluster_insecure)
        return config_fail_setting(config, SETTING_cluster_security, err, LARDER_EINVAL,
                                   "none, and other machines reach cluster.listen (%s): write `security: bundle`, or "
                                   "`insecure: true` if all who reach it may read the samples",
                                   config->cluster_listen);
    if (config->cluster_name[0] && config->cluster_security == CONFIG_SECURITY_BUNDLE && !config->cluster_bundle[0])
        return config_fail_setting(config, SETTING_cluster_name, err, LARDER_EINVAL,
                                   "a cluster needs this node's certificates: make them with `larder cluster keygen`, "
                                   "and write `bundle: /PATH/OF/THEM` below `cluster:`");
    return 0;
}

/* ── what was left out ── */

static int find_host(char host[HOST_NAME_MAX + 1])
{
    if (gethostname(host, HOST_NAME_MAX + 1) != 0)
        host[0] = '\0';
    host[HOST_NAME_MAX] = '\0';
    return host[0] && is_name(host) ? 0 : LARDER_EINVAL;
}

static void set_text(char **field, const char *text)
{
    free(*field);
    *field = xstrdup(text);
}

static int fill_in(struct config *config, struct error *err)
{
    char host[HOST_NAME_MAX + 1], address[CONFIG_HOST_PORT_MAX + 1];
    config->cluster_advertise_auto |= !config->cluster_advertise[0];
    bool has_node = config->cluster_node[0];
    if (has_node && !config->cluster_advertise_auto)
        return 0;
    if (find_host(host) != 0)
        return config_fail_setting(config, SETTING_cluster_name, err, LARDER_EINVAL,
                                   "the host's name '%s' is of no use in a cluster: write `node` and `advertise` below "
                                   "`cluster:`",
                                   config_shown(host));
    if (!has_node)
        set_text(&config->cluster_node, host);
    if (config->cluster_advertise_auto) {
        snprintf(address, sizeof address, "%s%s", host, strrchr(config->cluster_listen, ':'));
        set_text(&config->cluster_advertise, address);
    }
    return 0;
}

int config_cluster_finish(struct config *config, struct error *err)
{
    bool loopback = false;
    config->n_cluster_etcd = config_list_count(config->cluster_etcd);
    config->n_cluster_nodes = config_list_count(config->cluster_nodes);
    int rc = check_texts(config, &loopback, err);
    if (rc == 0)
        rc = check_discovery(config, err);
    if (rc == 0)
        rc = check_security(config, loopback, err);
    return rc == 0 && config->cluster_name[0] ? fill_in(config, err) : rc;
}
