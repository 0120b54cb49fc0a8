#include "server/discovery/node_value.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/utf8.h"

static const char hex[] = "0123456789abcdef";

static int digit_of(char c)
{
    const char *at = c ? strchr(hex, c) : NULL;
    return at ? (int)(at - hex) : -1;
}

void node_id_write(const uint8_t id[MAP_NODE_ID_BYTES], char out[NODE_ID_DIGITS + 1])
{
    for (size_t i = 0; i < MAP_NODE_ID_BYTES; i++) {
        out[2 * i] = hex[id[i] >> 4];
        out[2 * i + 1] = hex[id[i] & 15];
    }
    out[NODE_ID_DIGITS] = 0;
}

bool node_id_read(const char *text, size_t len, uint8_t id[MAP_NODE_ID_BYTES])
{
    if (len != NODE_ID_DIGITS)
        return false;
    for (size_t i = 0; i < MAP_NODE_ID_BYTES; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        id[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* ── writing ── */

static json_t *roots_of(const struct discovery_node *node)
{
    json_t *roots = json_array();
    const char *root = node->roots;
    for (uint32_t i = 0; i < node->n_roots; i++, root += strlen(root) + 1)
        json_array_append_new(roots, json_string(root));
    return roots;
}

/* 64 bits as hexadecimal digits: JSON's numbers lose some. */
static json_t *bits(uint64_t value)
{
    return json_sprintf("%016" PRIx64, value);
}

int node_value_write(const struct discovery_node *node, char **out, struct error *err)
{
    json_t *json = json_pack("{s:o,s:s,s:s,s:s,s:o,s:i,s:o,s:s}", "boot", bits(node->boot), "name", node->name, "url",
                             node->url, "version", node->version, "prep_id", bits(node->prep_id), "weight",
                             (int)node->weight, "roots", roots_of(node), "state", node->leaving ? "leaving" : "up");
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (!text)
        return error_set(err, LARDER_EINVAL, "this node's name, address or a root is no UTF-8");
    if (strlen(text) > NODE_VALUE_MAX) {
        free(text);
        return error_set(err, LARDER_ELIMIT, "this node's roots are longer than a key in etcd may be: name fewer");
    }
    *out = text;
    return 0;
}

char *node_config_write(uint32_t bound)
{
    char text[64];
    snprintf(text, sizeof text, "{\"format\":%d,\"bound\":%" PRIu32 "}", NODE_CONFIG_FORMAT, bound);
    return xstrdup(text);
}

/* ── reading ── */

/* A text of an object, copied; false: there is none, or it is too long or no plain text. */
static bool copy_text(const json_t *object, const char *name, char *out, size_t cap)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (!text || strlen(text) >= cap || !utf8_printable(text))
        return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static bool read_bits(const json_t *object, const char *name, uint64_t *out)
{
    const char *text = json_string_value(json_object_get(object, name));
    uint64_t value = 0;
    if (!text || strlen(text) != 16)
        return false;
    for (; *text; text++) {
        int digit = digit_of(*text);
        if (digit < 0)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *out = value;
    return true;
}

static bool read_roots(const json_t *list, struct discovery_node *node)
{
    size_t i, at = 0;
    json_t *item;
    if (!json_is_array(list))
        return false;
    json_array_foreach(list, i, item) {
        const char *root = json_string_value(item);
        size_t len = root ? strlen(root) + 1 : 0;
        if (!root || *root != '/' || !utf8_printable(root) || len > sizeof node->roots - at)
            return false;
        memcpy(node->roots + at, root, len);
        at += len;
        node->n_roots++;
    }
    return true;
}

/* A number of an object, within bounds. */
static bool read_number(const json_t *object, const char *name, uint32_t least, uint32_t most, uint32_t *out)
{
    const json_t *field = json_object_get(object, name);
    json_int_t value = json_integer_value(field);
    if (!json_is_integer(field) || value < least || value > most)
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool is_url(const char *url)
{
    return strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
}

static bool read_state(const json_t *object, bool *leaving)
{
    const char *state = json_string_value(json_object_get(object, "state"));
    if (!state || (strcmp(state, "up") != 0 && strcmp(state, "leaving") != 0))
        return false;
    *leaving = strcmp(state, "leaving") == 0;
    return true;
}

static json_t *load(const char *text, size_t len_bytes, const char *what, struct error *err)
{
    json_error_t why;
    json_t *json = len_bytes <= NODE_VALUE_MAX ? json_loadb(text, len_bytes, 0, &why) : NULL;
    if (len_bytes > NODE_VALUE_MAX)
        error_set(err, LARDER_ELIMIT, "%s is longer than %d bytes", what, NODE_VALUE_MAX);
    else if (!json)
        error_set(err, LARDER_EFORMAT, "%s is no JSON object: %s", what, why.text);
    return json;
}

int node_value_read(const char *text, size_t len_bytes, struct discovery_node *out, struct error *err)
{
    struct discovery_node node = {0};
    json_t *json = load(text, len_bytes, "a node's value", err);
    if (!json)
        return len_bytes > NODE_VALUE_MAX ? LARDER_ELIMIT : LARDER_EFORMAT;
    const char *bad = !read_bits(json, "boot", &node.boot) || node.boot == 0                    ? "boot"
                      : !copy_text(json, "name", node.name, sizeof node.name)                   ? "name"
                      : !copy_text(json, "url", node.url, sizeof node.url) || !is_url(node.url) ? "url"
                      : !copy_text(json, "version", node.version, sizeof node.version)          ? "version"
                      : !read_bits(json, "prep_id", &node.prep_id)                              ? "prep_id"
                      : !read_number(json, "weight", 1, MAP_WEIGHT_MAX, &node.weight)           ? "weight"
                      : !read_roots(json_object_get(json, "roots"), &node)                      ? "roots"
                      : !read_state(json, &node.leaving)                                        ? "state"
                                                                                                : NULL;
    json_decref(json);
    if (bad)
        return error_set(err, LARDER_EFORMAT, "a node's value has a wrong \"%s\"", bad);
    memcpy(node.id, out->id, sizeof node.id);
    *out = node;
    return 0;
}

int node_config_read(const char *text, size_t len_bytes, uint32_t *bound, struct error *err)
{
    uint32_t format = 0, read = 0;
    json_t *json = load(text, len_bytes, "the cluster's config", err);
    if (!json)
        return LARDER_EFORMAT;
    bool has_format = read_number(json, "format", 0, UINT32_MAX, &format);
    bool has_bound = read_number(json, "bound", 100, MAP_BOUND_MAX, &read);
    json_decref(json);
    if (has_format && format != NODE_CONFIG_FORMAT)
        return error_set(err, LARDER_EVERSION,
                         "the cluster's nodes speak format %" PRIu32 ", this daemon format %d: run one version of "
                         "Larder on all, or give the cluster another name",
                         format, NODE_CONFIG_FORMAT);
    if (!has_format || !has_bound)
        return error_set(err, LARDER_EFORMAT, "the cluster's config in etcd is wrong: delete its key");
    *bound = read;
    return 0;
}
