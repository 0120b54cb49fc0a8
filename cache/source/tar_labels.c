/* tar_labels.c: labels of samples in tar shards. See tar_priv.h. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cache/file.h"
#include "cache/source/tar_priv.h"
#include "common/utf8.h"

int tar_labels_parse(const char *text, struct tar_labels *out, struct error *err)
{
    struct shown shown;
    struct tar_labels labels = {.from = LABELS_ANY};
    if (strcmp(text, "none") == 0)
        labels.from = LABELS_NONE;
    else if (strcmp(text, "cls") == 0)
        labels.from = LABELS_CLS;
    else if (*text)
        labels.from = LABELS_JSON;
    const char *key = strncmp(text, "json:", 5) == 0 ? text + 5 : text;
    if (labels.from == LABELS_JSON && (!*key || strlen(key) >= sizeof labels.key))
        return error_set(err, LARDER_EINVAL, "labels=%s: labels of shards are cls, json:KEY, KEY or none",
                         path_shown(text, &shown));
    if (labels.from == LABELS_JSON)
        snprintf(labels.key, sizeof labels.key, "%s", key);
    *out = labels;
    return 0;
}

bool tar_labels_want(const struct tar_labels *labels, const char *part)
{
    return labels->from != LABELS_NONE && tar_part_is(part, labels->from == LABELS_JSON ? "json" : "cls");
}

/* ── one label ── */

static int read_json(const struct tar_labels *labels, const uint8_t *bytes, size_t len, struct index *strings,
                     struct label *out, struct error *err)
{
    json_error_t why;
    if (!json_is_flat(bytes, len))
        return error_set(err, LARDER_EINVAL, "its .json is more than %d levels deep", JSON_DEPTH_MAX);
    json_t *json = json_loadb((const char *)bytes, len, 0, &why);
    const json_t *value = json_object_get(json, labels->key);
    int code = 0;
    if (!json)
        code = error_set(err, LARDER_EINVAL, "its .json is none: %s", why.text);
    else if (!json_is_object(json))
        code = error_set(err, LARDER_EINVAL, "its .json is no object, which would have the label as \"%.100s\"",
                         labels->key);
    else if (json_is_string(value))
        code = label_take_name(json_string_value(value), json_string_length(value), strings, out, err);
    else if (json_is_integer(value))
        *out = (struct label){.kind = LABEL_NUMBER, .number = json_integer_value(value)};
    else if (value)
        code = error_set(err, LARDER_EINVAL, "\"%.100s\" in its .json is neither a whole number nor a text",
                         labels->key);
    json_decref(json);
    return code;
}

int tar_label_read(const struct tar_labels *labels, const uint8_t *bytes, size_t len, struct index *strings,
                   struct label *out, struct error *err)
{
    return labels->from == LABELS_JSON ? read_json(labels, bytes, len, strings, out, err)
                                       : label_take((const char *)bytes, len, strings, out, err);
}

bool tar_classes_are(const char *text)
{
    char name[256];
    for (const char *at = text, *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        if (!end || end == at || end - at >= (long)sizeof name)
            return false;
        memcpy(name, at, (size_t)(end - at));
        name[end - at] = '\0';
        if (!utf8_printable(name))
            return false;
    }
    return *text;
}

int tar_labels_apply(const struct tar_labels *labels, const char *names, const struct label *found, struct index *index,
                     struct error *err)
{
    char missing[300];
    snprintf(missing, sizeof missing, "%s", labels->from == LABELS_JSON ? labels->key : ".cls");
    const struct labels_wish wish = {.what = missing,
                                     .instead = "give labels=\"none\", labels=\"json:KEY\", or labels of your own",
                                     .needed = labels->from != LABELS_ANY && labels->from != LABELS_NONE,
                                     .names = names};
    return labels_apply(&wish, found, index, err);
}
