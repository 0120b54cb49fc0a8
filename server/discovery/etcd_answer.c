#include "server/discovery/etcd_answer.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/discovery/base64.h"

/* Reading an answer. Once `bad`, its first fault stands in err. */
struct reading {
    struct etcd_answer *out;
    struct error *err;
    int bad;
};

static void fault(struct reading *reading, int code, const char *what)
{
    if (!reading->bad)
        reading->bad = error_set(reading->err, code, "etcd's answer %s", what);
}

/* The library that reads JSON calls itself for each level. */
static bool is_too_deep(const char *data, size_t len_bytes)
{
    bool in_text = false;
    unsigned depth = 0;
    for (size_t i = 0; i < len_bytes; i++) {
        char c = data[i];
        if (in_text && c == '\\')
            i++;
        else if (c == '"')
            in_text = !in_text;
        else if (!in_text && (c == '{' || c == '['))
            depth++;
        else if (!in_text && (c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > ETCD_DEPTH_MAX)
            return true;
    }
    return false;
}

/* ── fields: absent ones have their default value, ones of a wrong type are a fault ── */

static int64_t number_in(struct reading *reading, const json_t *object, const char *name)
{
    const json_t *field = json_object_get(object, name);
    if (!field || json_is_integer(field))
        return json_integer_value(field);
    const char *text = json_string_value(field);
    char *end = NULL;
    errno = 0;
    long long value = text && ((*text >= '0' && *text <= '9') || *text == '-') ? strtoll(text, &end, 10) : 0;
    if (!end || *end || errno) {
        fault(reading, LARDER_EFORMAT, "has a number that is none");
        return 0;
    }
    return value;
}

static bool flag_in(struct reading *reading, const json_t *object, const char *name)
{
    const json_t *field = json_object_get(object, name);
    if (field && !json_is_boolean(field))
        fault(reading, LARDER_EFORMAT, "has a flag that is neither true nor false");
    return json_is_true(field);
}

static const char *text_in(struct reading *reading, const json_t *object, const char *name)
{
    const json_t *field = json_object_get(object, name);
    if (field && !json_is_string(field))
        fault(reading, LARDER_EFORMAT, "has something else where a text is due");
    return json_string_value(field);
}

static char *bytes_in(struct reading *reading, const json_t *object, const char *name, size_t *len_bytes)
{
    const char *text = text_in(reading, object, name);
    char *data = NULL;
    if (base64_decode(text ? text : "", text ? strlen(text) : 0, &data, len_bytes))
        fault(reading, LARDER_EFORMAT, "has bytes that are no base64");
    return data;
}

/* ── parts ── */

static void read_kv(struct reading *reading, const json_t *kv, bool deleted)
{
    if (!json_is_object(kv))
        fault(reading, LARDER_EFORMAT, "has something else where a key is due");
    if (reading->bad)
        return;
    struct etcd_kv *at = &reading->out->kvs[reading->out->n_kvs++];
    *at = (struct etcd_kv){.mod_revision = number_in(reading, kv, "mod_revision"), .deleted = deleted};
    at->key = bytes_in(reading, kv, "key", &at->key_bytes);
    at->value = bytes_in(reading, kv, "value", &at->value_bytes);
}

static void read_event(struct reading *reading, const json_t *event)
{
    const char *type = text_in(reading, event, "type"); /* absent: PUT */
    if (type && strcmp(type, "PUT") != 0 && strcmp(type, "DELETE") != 0)
        fault(reading, LARDER_EFORMAT, "has an event of a type that is not known");
    read_kv(reading, json_object_get(event, "kv"), type && strcmp(type, "DELETE") == 0);
}

static void read_list(struct reading *reading, const json_t *list,
                      void (*read)(struct reading *reading, const json_t *item))
{
    struct etcd_answer *out = reading->out;
    size_t i, count = json_array_size(list);
    json_t *item;
    if (list && !json_is_array(list))
        fault(reading, LARDER_EFORMAT, "has something else where a list is due");
    if (count > ETCD_KVS_MAX - out->n_kvs)
        fault(reading, LARDER_ELIMIT, "has too many keys");
    if (count == 0 || reading->bad)
        return;
    out->kvs = xrealloc(out->kvs, out->n_kvs + count, sizeof *out->kvs);
    json_array_foreach(list, i, item) {
        read(reading, item);
    }
}

static void read_key(struct reading *reading, const json_t *kv)
{
    read_kv(reading, kv, false);
}

/* The answer to a request of a transaction; only ranges have something to tell. */
static void read_response(struct reading *reading, const json_t *response)
{
    read_list(reading, json_object_get(json_object_get(response, "response_range"), "kvs"), read_key);
}

static void read_responses(struct reading *reading, const json_t *responses)
{
    if (responses && !json_is_array(responses))
        fault(reading, LARDER_EFORMAT, "has something else where a list is due");
    if (json_array_size(responses) > 0) /* no transaction here has more than one request */
        read_response(reading, json_array_get(responses, 0));
}

/* An error is an object in a stream; elsewhere it is a text, and its code stands beside it. */
static void read_error(struct reading *reading, const json_t *root)
{
    const json_t *error = json_object_get(root, "error"), *from = json_is_object(error) ? error : root;
    if (!error)
        return;
    const char *text = text_in(reading, from, "message");
    int64_t code = number_in(reading, from, from == root ? "code" : "grpc_code");
    reading->out->code = code > 0 && code <= ETCD_UNAUTHENTICATED ? (int)code : ETCD_UNKNOWN;
    snprintf(reading->out->text, sizeof reading->out->text, "%s", text ? text : "it does not say why");
}

static void read_all(struct reading *reading, const json_t *root)
{
    struct etcd_answer *out = reading->out;
    const json_t *result = json_object_get(root, "result"), *from = result ? result : root;
    if (!json_is_object(root) || !json_is_object(from)) {
        fault(reading, LARDER_EFORMAT, "is no JSON object");
        return;
    }
    read_error(reading, root);
    out->revision = number_in(reading, json_object_get(from, "header"), "revision");
    out->id = number_in(reading, from, "ID");
    out->ttl = number_in(reading, from, "TTL");
    out->succeeded = flag_in(reading, from, "succeeded");
    out->more = flag_in(reading, from, "more");
    out->created = flag_in(reading, from, "created");
    out->cancelled = flag_in(reading, from, "canceled");
    out->compact_revision = number_in(reading, from, "compact_revision");
    const char *token = text_in(reading, from, "token");
    out->token = token ? xstrdup(token) : NULL;
    read_list(reading, json_object_get(from, "kvs"), read_key);
    read_list(reading, json_object_get(from, "events"), read_event);
    read_responses(reading, json_object_get(from, "responses"));
}

int etcd_answer_read(const char *data, size_t len_bytes, struct etcd_answer *out, struct error *err)
{
    struct etcd_answer answer = {0};
    struct reading reading = {.out = &answer, .err = err};
    if (len_bytes > ETCD_ANSWER_MAX)
        return error_set(err, LARDER_ELIMIT, "etcd's answer is longer than %zu bytes", ETCD_ANSWER_MAX);
    if (is_too_deep(data, len_bytes))
        return error_set(err, LARDER_ELIMIT, "etcd's answer is deeper than %d levels", ETCD_DEPTH_MAX);
    json_error_t why;
    json_t *root = json_loadb(data, len_bytes, 0, &why);
    if (!root)
        return error_set(err, LARDER_EFORMAT, "etcd's answer is no JSON: %s", why.text);
    read_all(&reading, root);
    json_decref(root);
    if (reading.bad) {
        etcd_answer_free(&answer);
        return reading.bad;
    }
    *out = answer;
    return 0;
}

void etcd_answer_free(struct etcd_answer *answer)
{
    for (size_t i = 0; i < answer->n_kvs; i++) {
        free(answer->kvs[i].key);
        free(answer->kvs[i].value);
    }
    free(answer->kvs);
    free(answer->token);
    *answer = (struct etcd_answer){0};
}
