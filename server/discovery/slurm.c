#include "server/discovery/slurm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

#define DIGITS_MAX 9

struct expansion {
    const char *list;
    struct slurm_hosts hosts;
    size_t cap;
    struct error *err;
};

static int fail(struct expansion *expansion, int code, const char *what)
{
    return error_set(expansion->err, code, "the list of hosts '%.128s' %s", expansion->list, what);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_in_name(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
}

static int add(struct expansion *expansion, const char *name, size_t len)
{
    struct slurm_hosts *hosts = &expansion->hosts;
    if (len == 0)
        return fail(expansion, LARDER_EINVAL, "has an empty name");
    if (hosts->count == SLURM_HOSTS_MAX)
        return fail(expansion, LARDER_ELIMIT, "has too many hosts");
    hosts->names = xgrow(hosts->names, sizeof *hosts->names, &expansion->cap, hosts->count + 1);
    hosts->names[hosts->count++] = xstrdup(name);
    return 0;
}

/* A number of a range, and how many digits it was written with. */
static int read_number(struct expansion *expansion, const char **at, uint32_t *value, int *width)
{
    const char *from = *at;
    *value = 0;
    for (; is_digit(**at) && *at - from < DIGITS_MAX; (*at)++)
        *value = *value * 10 + (uint32_t)(**at - '0');
    *width = (int)(*at - from);
    return *width == 0 || is_digit(**at) ? fail(expansion, LARDER_EINVAL, "has a wrong number between brackets") : 0;
}

static int expand(struct expansion *expansion, const char *at, char *name, size_t len);

/* One range of a bracket; `behind` is what stands behind the bracket. */
static int expand_range(struct expansion *expansion, const char **at, const char *behind, char *name, size_t len)
{
    uint32_t first, last;
    int width, last_width, rc = read_number(expansion, at, &first, &width);
    last = first;
    if (rc == 0 && **at == '-') {
        (*at)++;
        rc = read_number(expansion, at, &last, &last_width);
    }
    if (rc == 0 && last < first)
        rc = fail(expansion, LARDER_EINVAL, "has a range that ends before it begins");
    for (uint32_t number = first; rc == 0 && number <= last; number++) {
        int wrote = snprintf(name + len, SLURM_HOST_MAX - len, "%0*u", width, number);
        if (wrote < 0 || (size_t)wrote >= SLURM_HOST_MAX - len)
            return fail(expansion, LARDER_ELIMIT, "has a name that is too long");
        rc = expand(expansion, behind, name, len + (size_t)wrote);
    }
    return rc;
}

static int expand_bracket(struct expansion *expansion, const char *at, char *name, size_t len)
{
    const char *end = strchr(at, ']');
    if (!end)
        return fail(expansion, LARDER_EINVAL, "has a bracket without its end");
    for (at++;; at++) {
        int rc = expand_range(expansion, &at, end + 1, name, len);
        if (rc)
            return rc;
        if (at == end)
            return 0;
        if (*at != ',')
            return fail(expansion, LARDER_EINVAL, "has something else than numbers between brackets");
    }
}

/* Adds all hosts of one entry of the list, of whose name `len` bytes stand already. As deep as it has brackets, of
 * which each adds a byte to the name. */
static int expand(struct expansion *expansion, const char *at, char *name, size_t len)
{
    for (; is_in_name(*at); at++) {
        if (len + 1 >= SLURM_HOST_MAX)
            return fail(expansion, LARDER_ELIMIT, "has a name that is too long");
        name[len++] = *at;
    }
    if (*at == '[')
        return expand_bracket(expansion, at, name, len);
    if (*at && *at != ',')
        return fail(expansion, LARDER_EINVAL, "has a sign that no name has");
    name[len] = 0;
    return add(expansion, name, len);
}

/* The end of the entry: the next comma outside of brackets, or the list's end. */
static const char *entry_end(const char *at)
{
    bool inside = false;
    for (; *at && (inside || *at != ','); at++)
        inside = *at == '[' || (inside && *at != ']');
    return at;
}

int slurm_expand(const char *list, struct slurm_hosts *out, struct error *err)
{
    struct expansion expansion = {.list = list, .err = err};
    char name[SLURM_HOST_MAX];
    for (const char *at = list;; at++) {
        int rc = expand(&expansion, at, name, 0);
        if (rc) {
            slurm_free(&expansion.hosts);
            return rc;
        }
        at = entry_end(at);
        if (*at == 0)
            break;
    }
    *out = expansion.hosts;
    return 0;
}

void slurm_free(struct slurm_hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        free(hosts->names[i]);
    free(hosts->names);
    *hosts = (struct slurm_hosts){0};
}
