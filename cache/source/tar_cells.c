/* tar_cells.c: one sample's cell of a column: a part's text, or a word of its .json. See tar_priv.h. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/source/tar_priv.h"

/* The word in the .json that a column is; NULL: it is a part. */
static const char *json_key(const char *column)
{
    return strncmp(column, "json:", 5) == 0 && column[5] ? column + 5 : NULL;
}

bool tar_cell_want(const char *column, const char *part)
{
    return tar_part_is(part, json_key(column) ? "json" : column);
}

int tar_cell_read(const char *column, const uint8_t *bytes, size_t len, struct index *strings, uint64_t *cell,
                  struct error *err)
{
    const char *key = json_key(column);
    json_error_t why;
    if (!key && memchr(bytes, 0, len))
        return error_set(err, LARDER_EINVAL, "it is no text");
    if (!key) {
        char *text = strndup((const char *)bytes, len);
        int code = text ? index_text(strings, text, NULL, cell) : LARDER_ENOMEM;
        free(text);
        return code;
    }
    if (!json_is_flat(bytes, len))
        return error_set(err, LARDER_EINVAL, "it is more than %d levels deep", JSON_DEPTH_MAX);
    json_t *json = json_loadb((const char *)bytes, len, 0, &why);
    json_t *value = column_member(json, key);
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    int code = 0;
    if (!json_is_object(json))
        code = error_set(err, LARDER_EINVAL, "it is no object of JSON, which would have \"%.100s\"", key);
    else if (value)
        code = text ? index_text(strings, text, NULL, cell) : LARDER_ENOMEM;
    free(text);
    json_decref(value);
    json_decref(json);
    return code;
}

int tar_cell_add(const char *column, const char *text, struct cells *cells)
{
    if (!json_key(column))
        return cells_add(cells, text, strlen(text));
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    int code = value ? cells_add_json(cells, value) : LARDER_ENOMEM;
    json_decref(value);
    return code;
}

int tar_names_add(const char *part, const uint8_t *bytes, size_t len, struct cells *names)
{
    char name[COLUMN_NAME_MAX + 1];
    const char *key;
    json_t *value;
    if (memchr(bytes, 0, len) || strlen(part) > COLUMN_NAME_MAX)
        return 0;
    int code = cells_add_text(names, part, strlen(part));
    if (code || !tar_part_is(part, "json") || !json_is_flat(bytes, len))
        return code;
    json_t *json = json_loadb((const char *)bytes, len, 0, NULL);
    json_object_foreach(json, key, value) {
        int length = snprintf(name, sizeof name, "json:%s", key);
        if (!code && *key && length < (int)sizeof name)
            code = cells_add_text(names, name, (size_t)length);
    }
    json_decref(json);
    return code;
}
