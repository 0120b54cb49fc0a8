/* parts_text.c: the texts that name samples of several parts. See parts_text.h. */
#include "cache/source/parts_text.h"

#include <stdlib.h>
#include <string.h>

#define PARTS "#parts="

const char *parts_text_of(const char *text, size_t *len)
{
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, PARTS)); at++)
        found = at;
    *len = found ? (size_t)(found - text) : strlen(text);
    return found ? found + strlen(PARTS) : NULL;
}

static int add(struct parts_asked *asked, const char *at, size_t len, struct error *err)
{
    const char *equals = memchr(at, '=', len);
    size_t name_len = equals ? (size_t)(equals - at) : 0;
    if (!equals || len == name_len + 1)
        return error_set(err, LARDER_EINVAL, "parts: \"%.*s\" is no NAME=WHAT", (int)(len < 60 ? len : 60), at);
    if (asked->n == SAMPLE_PARTS_MAX)
        return error_set(err, LARDER_EINVAL, "parts: a sample has at most %d", SAMPLE_PARTS_MAX);
    char *name = asked->names[asked->n] = strndup(at, name_len);
    char *value = asked->values[asked->n] = strndup(equals + 1, len - name_len - 1);
    asked->n++;
    if (!name || !value)
        return error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
    if (!sample_part_is_name(name))
        return error_set(
            err, LARDER_EINVAL,
            "parts: \"%.60s\": a name is a lower-case letter, then lower-case letters, digits and _, up to "
            "%d in all",
            name, SAMPLE_NAME_BYTES - 1);
    for (uint32_t i = 0; i + 1 < asked->n; i++) {
        if (strcmp(asked->names[i], name) == 0)
            return error_set(err, LARDER_EINVAL, "parts: two are called %s", name);
    }
    return 0;
}

int parts_text_parse(const char *text, struct parts_asked *out, struct error *err)
{
    struct parts_asked asked = {0};
    int code = 0;
    for (const char *at = text; !code;) {
        size_t len = strcspn(at, "&");
        code = add(&asked, at, len, err);
        if (code || !at[len])
            break;
        at += len + 1;
    }
    if (code)
        parts_asked_free(&asked);
    else
        *out = asked;
    return code;
}

void parts_asked_free(struct parts_asked *asked)
{
    for (uint32_t i = 0; i < asked->n; i++) {
        free(asked->names[i]);
        free(asked->values[i]);
    }
    *asked = (struct parts_asked){0};
}
