/* etcd_follow.c: config, then all keys, then the watch, again and again. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/log.h"
#include "server/discovery/etcd_priv.h"
#include "server/discovery/node_value.h"

#define WAIT_MIN_MS 250
#define WAIT_MAX_MS 8000
#define PAGE_KEYS 64
#define PAGES_MAX 64

/* ── attempts ── */

static void forget_last_key(struct etcd *etcd)
{
    free(etcd->last_key);
    etcd->last_key = NULL;
    etcd->last_key_bytes = 0;
}

static void follow_now(void *arg, const struct net_result *result)
{
    if (result->code == 0)
        etcd_follow(arg);
}

static void follow_later(struct etcd *etcd)
{
    uint64_t twice_ms = 2 * etcd->wait_ms;
    etcd->wait_ms = twice_ms < WAIT_MIN_MS ? WAIT_MIN_MS : twice_ms > WAIT_MAX_MS ? WAIT_MAX_MS : twice_ms;
    forget_last_key(etcd);
    int rc = net_after(etcd->client, etcd->wait_ms, follow_now, etcd, NULL);
    CHECK(rc == 0 || rc == LARDER_EGONE); /* the daemon sets few alarms */
    etcd_lease_refuse(etcd);
}

static void watch_ended(struct etcd *etcd)
{
    follow_later(etcd);
}

/* ── all keys ── */

static void ask_page(struct etcd *etcd);

static void finish_reading(struct etcd *etcd)
{
    etcd_keys_end(etcd, etcd->revision);
    forget_last_key(etcd);
    etcd_watch(etcd, watch_ended);
}

static void keep_last(struct etcd *etcd, const struct etcd_kv *kv)
{
    forget_last_key(etcd);
    etcd->last_key = memcpy(xmalloc(kv->key_bytes + 1), kv->key, kv->key_bytes + 1);
    etcd->last_key_bytes = kv->key_bytes;
}

static void take_page(struct etcd *etcd, const struct etcd_answer *answer)
{
    if (!answer || answer->code) { /* among the codes: the first page's revision was compacted meanwhile */
        follow_later(etcd);
        return;
    }
    if (etcd->n_pages++ == 0)
        etcd->revision = answer->revision;
    for (size_t i = 0; i < answer->n_kvs; i++)
        etcd_take_kv(etcd, &answer->kvs[i], etcd->revision);
    if (!answer->more || answer->n_kvs == 0) {
        finish_reading(etcd);
    } else if (etcd->n_pages == PAGES_MAX) {
        log_warn_limited("msg=\"etcd has more keys below '%s' than a cluster can have: the rest is not read\"",
                         etcd->prefix);
        finish_reading(etcd);
    } else {
        keep_last(etcd, &answer->kvs[answer->n_kvs - 1]);
        ask_page(etcd);
    }
}

static void ask_page(struct etcd *etcd)
{
    struct etcd_bytes prefix = {etcd->prefix, strlen(etcd->prefix)};
    struct etcd_bytes after = {etcd->last_key, etcd->last_key_bytes};
    int64_t revision = etcd->n_pages ? etcd->revision : 0;
    etcd_ask(etcd, &etcd->follow_op, "kv/range", etcd_ask_range(prefix, after, PAGE_KEYS, revision), take_page);
}

/* ── config ── */

/* Reads the cluster's config: this daemon's own proposal, or an earlier one. */
static int read_config(const struct etcd *etcd, const struct etcd_answer *answer, uint32_t *bound, struct error *err)
{
    *bound = etcd->bound;
    if (answer->succeeded)
        return 0;
    if (answer->n_kvs == 0)
        return error_set(err, LARDER_EFORMAT, "etcd neither put the cluster's config nor told it");
    return node_config_read(answer->kvs[0].value, answer->kvs[0].value_bytes, bound, err);
}

static void take_config(struct etcd *etcd, const struct etcd_answer *answer)
{
    struct error err = {.text = ""};
    uint32_t bound;
    if (!answer || answer->code) {
        follow_later(etcd);
        return;
    }
    if (read_config(etcd, answer, &bound, &err)) {
        if (etcd->format != ETCD_FORMAT_OTHER)
            log_error("msg=\"this daemon does not join the cluster\" err=\"%s\"", err.text);
        etcd->format = ETCD_FORMAT_OTHER;
        etcd->wait_ms = WAIT_MAX_MS;
        follow_later(etcd);
        return;
    }
    if (!etcd->config_told || bound != etcd->bound_told)
        etcd_tell(etcd, &(struct discovery_event){.type = DISCOVERY_CONFIG, .bound = bound});
    etcd->config_told = true;
    etcd->bound_told = bound;
    etcd->format = ETCD_FORMAT_OURS;
    etcd->n_pages = 0;
    etcd_keys_begin(etcd);
    ask_page(etcd);
    etcd_lease_next(etcd);
}

void etcd_follow(struct etcd *etcd)
{
    char *value = node_config_write(etcd->bound);
    char *body = etcd_ask_create((struct etcd_bytes){etcd->config_key, strlen(etcd->config_key)},
                                 (struct etcd_bytes){value, strlen(value)}, 0);
    free(value);
    etcd_ask(etcd, &etcd->follow_op, "kv/txn", body, take_config);
}
