/* json.c: turns a dataset's pipeline and subset from YAML into the JSON that pipeline_parse (preprocess/pipeline.h) and
 * view_parse (sampler/view.h) read.
 *
 * Plain texts become values by YAML's core schema (null, truth values, numbers), quoted ones stay texts. The pipeline
 * parser interprets the operators; their places are kept, so that its errors can be shown with a line. A subset is
 * parsed here, while the document is still there to find the place of an error. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "sampler/view.h"
#include "server/config/config_priv.h"

#define NUMBER_MAX_BYTES 64
/* YAML recognises a key only within 1,024 characters, and JSON may write six for a byte. The written file must be
 * readable again. */
#define KEY_MAX_BYTES 128
#define KEY_MAX_TEXT "128"

struct converter {
    const char *file;
    const char *key;
    struct error *err;
};

static int convert(const struct converter *converter, const struct doc_node *node, json_t **out);

static int refuse(const struct converter *converter, const struct doc_node *node, const char *text)
{
    return config_fail(converter->err, LARDER_EINVAL, converter->file, node->at, converter->key, "%s", text);
}

/* looks_like_a_number: [-+] digits, with a fraction and an exponent perhaps: what strtod takes, less its hexadecimal,
 * inf and nan. */
static bool looks_like_a_number(const char *text)
{
    size_t len = strlen(text);
    const char *first = text + (*text == '-' || *text == '+');
    return len > 0 && len < NUMBER_MAX_BYTES && strspn(first, "0123456789.eE+-") == strlen(first) &&
           strpbrk(first, "0123456789") && *first != '-' && *first != '+' && *first != 'e' && *first != 'E';
}

static int convert_number(const struct converter *converter, const struct doc_node *node, json_t **out)
{
    char *end;
    if (!strpbrk(node->text, ".eE")) {
        errno = 0;
        long long whole = strtoll(node->text, &end, 10);
        if (*end || errno)
            return refuse(converter, node, "not a number that fits: write a smaller one, or put a text into quotes");
        *out = json_integer(whole);
        return 0;
    }
    double number = strtod(node->text, &end);
    if (*end || !isfinite(number))
        return refuse(converter, node, "not a number: write one such as 0.5, or put a text into quotes");
    *out = json_real(number);
    return 0;
}

static int convert_scalar(const struct converter *converter, const struct doc_node *node, json_t **out)
{
    const char *text = node->text;
    if (!node->quoted && (*text == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0))
        *out = json_null();
    else if (!node->quoted && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
        *out = json_boolean(*text == 't');
    else if (!node->quoted && looks_like_a_number(text))
        return convert_number(converter, node, out);
    else
        *out = json_string(text);
    return *out ? 0 : refuse(converter, node, "the text is not UTF-8: save the file as UTF-8");
}

static int convert_sequence(const struct converter *converter, const struct doc_node *node, json_t **out)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < node->n_children; i++) {
        json_t *item = NULL;
        int rc = convert(converter, node->children[i], &item);
        if (rc) {
            json_decref(array);
            return rc;
        }
        CHECK(json_array_append_new(array, item) == 0);
    }
    *out = array;
    return 0;
}

static int convert_mapping(const struct converter *converter, const struct doc_node *node, json_t **out)
{
    json_t *object = json_object();
    for (uint32_t i = 0; i < node->n_children; i += 2) {
        json_t *value = NULL;
        int rc = strlen(node->children[i]->text) <= KEY_MAX_BYTES
                     ? convert(converter, node->children[i + 1], &value)
                     : refuse(converter, node->children[i], "a key of more than " KEY_MAX_TEXT " bytes: shorten it");
        if (rc == 0 && json_object_set_new(object, node->children[i]->text, value) != 0)
            rc = refuse(converter, node->children[i], "the key is not UTF-8: save the file as UTF-8");
        if (rc) {
            json_decref(object);
            return rc;
        }
    }
    *out = object;
    return 0;
}

/* The recursion is as deep as the document, which DOC_DEPTH_MAX bounds. */
static int convert(const struct converter *converter, const struct doc_node *node, json_t **out)
{
    switch (node->kind) {
    case DOC_SEQUENCE: return convert_sequence(converter, node, out);
    case DOC_MAPPING: return convert_mapping(converter, node, out);
    default: return convert_scalar(converter, node, out);
    }
}

/* write_json returns the JSON text of a node; takes json. */
static int write_json(json_t *json, char **out, struct error *err)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(json);
    if (!text)
        return error_set(err, LARDER_ENOMEM, "out of memory while reading the configuration");
    *out = xstrdup(text);
    free(text);
    return 0;
}

int config_pipeline_json(const char *file, const struct doc_node *node, const char *key, struct config_dataset *dataset,
                         struct error *err)
{
    struct converter converter = {.file = file, .key = key, .err = err};
    if (node->kind != DOC_SEQUENCE && node->kind != DOC_MAPPING)
        return refuse(&converter, node, "is a list of operators: write `- resize: {size: 256}` and the like below it");
    json_t *json = NULL;
    int rc = convert(&converter, node, &json);
    if (rc == 0)
        rc = write_json(json, &dataset->pipeline, err);
    if (rc)
        return rc;
    uint32_t count = node->kind == DOC_SEQUENCE ? node->n_children : 0;
    dataset->pipeline_at = xcalloc(count + 1, sizeof *dataset->pipeline_at);
    dataset->n_pipeline_at = count;
    for (uint32_t i = 0; i < count; i++)
        dataset->pipeline_at[i] = node->children[i]->at;
    dataset->pipeline_at[count] = node->at;
    return 0;
}

static const struct doc_node *value_of(const struct doc_node *node, const char *key, size_t len)
{
    for (uint32_t i = 0; node->kind == DOC_MAPPING && i < node->n_children; i += 2) {
        if (strlen(node->children[i]->text) == len && memcmp(node->children[i]->text, key, len) == 0)
            return node->children[i + 1];
    }
    return NULL;
}

/* subset_place goes as far as it can along the place that a message of view_parse begins with:
 * "subset.union[1].range: …". */
static struct config_mark subset_place(const struct doc_node *node, const char *text)
{
    for (const char *at = text + strcspn(text, ".[:"); *at == '.' || *at == '[';) {
        const struct doc_node *inner = NULL;
        char *end;
        if (*at == '.') {
            size_t len = strcspn(at + 1, ".[:");
            inner = value_of(node, at + 1, len);
            at += 1 + len;
        } else {
            unsigned long index = strtoul(at + 1, &end, 10);
            if (node->kind == DOC_SEQUENCE && index < node->n_children)
                inner = node->children[index];
            at = end + (*end == ']');
        }
        if (!inner)
            break;
        node = inner;
    }
    return node->at;
}

int config_subset_json(const char *file, const struct doc_node *node, const char *key, struct config_dataset *dataset,
                       struct error *err)
{
    struct converter converter = {.file = file, .key = key, .err = err};
    struct view *view = NULL;
    struct error why;
    json_t *json = NULL;
    int rc = convert(&converter, node, &json);
    if (rc == 0)
        rc = write_json(json, &dataset->subset, err);
    if (rc)
        return rc;
    rc = view_parse(dataset->subset, strlen(dataset->subset), &view, &why);
    view_destroy(view);
    if (rc == 0)
        return 0;
    const char *behind = why.text + strcspn(why.text, ".[:"); /* the message begins with "subset", as the key ends */
    return config_fail(err, rc, file, subset_place(node, why.text), "", "%s%s", key, behind);
}
