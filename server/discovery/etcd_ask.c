#include "server/discovery/etcd_ask.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/discovery/base64.h"

static json_t *bytes(struct etcd_bytes value)
{
    char *text = base64_encode(value.data, value.len_bytes);
    json_t *json = json_string(text);
    free(text);
    return json;
}

/* The gateway has 64-bit numbers as texts, since JSON's lose digits. */
static json_t *number(int64_t value)
{
    return json_sprintf("%" PRId64, value);
}

static char *dump(json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

char *etcd_ask_grant(uint32_t seconds)
{
    return dump(json_pack("{s:o}", "TTL", number(seconds)));
}

char *etcd_ask_lease(int64_t lease)
{
    return dump(json_pack("{s:o}", "ID", number(lease)));
}

static json_t *put(struct etcd_bytes key, struct etcd_bytes value, int64_t lease)
{
    return json_pack("{s:o,s:o,s:o}", "key", bytes(key), "value", bytes(value), "lease", number(lease));
}

char *etcd_ask_put(struct etcd_bytes key, struct etcd_bytes value, int64_t lease)
{
    return dump(put(key, value, lease));
}

char *etcd_ask_create(struct etcd_bytes key, struct etcd_bytes value, int64_t lease)
{
    return dump(json_pack("{s:[{s:o,s:s,s:s,s:o}],s:[{s:o}],s:[{s:{s:o}}]}", "compare", "key", bytes(key), "target",
                          "CREATE", "result", "EQUAL", "createRevision", number(0), "success", "requestPut",
                          put(key, value, lease), "failure", "requestRange", "key", bytes(key)));
}

/* The first key that is behind all that begin with the prefix. */
static json_t *prefix_end(struct etcd_bytes prefix)
{
    CHECK(prefix.len_bytes > 0 && (uint8_t)prefix.data[prefix.len_bytes - 1] < UINT8_MAX);
    char *end = memcpy(xmalloc(prefix.len_bytes), prefix.data, prefix.len_bytes);
    end[prefix.len_bytes - 1]++;
    json_t *json = bytes((struct etcd_bytes){end, prefix.len_bytes});
    free(end);
    return json;
}

/* The key right behind this one is the same with a NUL byte. */
static json_t *key_behind(struct etcd_bytes key)
{
    char *behind = xcalloc(1, key.len_bytes + 1);
    memcpy(behind, key.data, key.len_bytes);
    json_t *json = bytes((struct etcd_bytes){behind, key.len_bytes + 1});
    free(behind);
    return json;
}

char *etcd_ask_range(struct etcd_bytes prefix, struct etcd_bytes after, uint32_t limit, int64_t revision)
{
    return dump(json_pack("{s:o,s:o,s:o,s:o}", "key", after.data ? key_behind(after) : bytes(prefix), "range_end",
                          prefix_end(prefix), "limit", number(limit), "revision", number(revision)));
}

char *etcd_ask_watch(struct etcd_bytes prefix, int64_t revision)
{
    return dump(json_pack("{s:{s:o,s:o,s:o}}", "create_request", "key", bytes(prefix), "range_end", prefix_end(prefix),
                          "start_revision", number(revision)));
}

char *etcd_ask_login(const char *user, const char *password)
{
    return dump(json_pack("{s:s,s:s}", "name", user, "password", password));
}
