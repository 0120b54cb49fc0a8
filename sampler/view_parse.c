/* view_parse.c: JSON to expressions. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "sampler/view_priv.h"

#define VIEW_MAGIC UINT32_C(0x71e3a2c9)

/* A place in the text, as a chain up to the root. It is spelled out only when something is wrong. */
struct where {
    const struct where *outer;
    const char *word;
    size_t index;
    unsigned depth;
};

struct parse {
    unsigned n_nodes;
    struct error *err;
};

static const char *const op_words[] = {"classes", "range", "fraction",     "list",
                                       "indices", "union", "intersection", "difference"};

/* Writes the place into buf, cut off where buf ends. */
static size_t spell(const struct where *where, char *buf, size_t cap)
{
    if (where == NULL)
        return (size_t)snprintf(buf, cap, "subset");
    size_t used = spell(where->outer, buf, cap);
    if (used >= cap)
        return cap;
    if (where->word)
        return used + (size_t)snprintf(buf + used, cap - used, ".%s", where->word);
    return used + (size_t)snprintf(buf + used, cap - used, "[%zu]", where->index);
}

static int refuse(const struct parse *parse, const struct where *where, const char *reason)
{
    char place[160];
    spell(where, place, sizeof place);
    return error_set(parse->err, LARDER_EINVAL, "%s: %s", place, reason);
}

static void node_free(struct view_node *node)
{
    if (node == NULL)
        return;
    for (size_t i = 0; i < node->n_patterns; i++)
        free(node->patterns[i]);
    for (size_t i = 0; i < node->n_parts; i++)
        node_free(node->parts[i]);
    free(node->patterns);
    free(node->parts);
    free(node->path);
    free(node);
}

/* ── one form each ───────────────────────────────────────────────────────────────────────────────────────────────── */

static int parse_classes(struct parse *parse, const struct where *where, const json_t *value, struct view_node *node)
{
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n == 0)
        return refuse(parse, where, "must be a list of class names or patterns, with at least one");
    node->patterns = xcalloc(n, sizeof *node->patterns);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(value, i);
        struct where at = {.outer = where, .index = i};
        size_t len = json_string_length(item);
        if (!json_is_string(item) || len == 0 || len > VIEW_PATTERN_MAX || strlen(json_string_value(item)) != len)
            return refuse(parse, &at,
                          "must be a text, in quotes where it is a number: a class name or pattern of 1 to 255 bytes");
        node->patterns[node->n_patterns++] = xstrdup(json_string_value(item));
    }
    return 0;
}

static int parse_range(struct parse *parse, const struct where *where, const json_t *value, struct view_node *node)
{
    const json_t *first = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (!json_is_array(value) || json_array_size(value) != 2 || !json_is_integer(first) || !json_is_integer(end))
        return refuse(parse, where, "must be two whole numbers, [first, end]");
    json_int_t low = json_integer_value(first), high = json_integer_value(end);
    if (low < 0 || low >= high || high > UINT32_MAX)
        return refuse(parse, where, "must be [first, end] with 0 <= first < end");
    node->first = (uint32_t)low;
    node->end = (uint32_t)high;
    return 0;
}

static int parse_fraction(struct parse *parse, const struct where *where, const json_t *value, const json_t *seed,
                          struct view_node *node)
{
    struct where at_seed = {.outer = where->outer, .word = "seed"};
    double fraction = json_number_value(value);
    if (!json_is_number(value) || !(fraction > 0 && fraction <= 1))
        return refuse(parse, where, "must be a number above 0 and at most 1");
    if (seed && (!json_is_integer(seed) || json_integer_value(seed) < 0))
        return refuse(parse, &at_seed, "must be a whole number, 0 or more");
    node->fraction = fraction;
    node->seed = seed ? (uint64_t)json_integer_value(seed) : 0;
    return 0;
}

static int parse_list(struct parse *parse, const struct where *where, const json_t *value, struct view_node *node)
{
    const char *path = json_string_value(value);
    if (path == NULL || strlen(path) != json_string_length(value) || path[0] != '/')
        return refuse(parse, where, "must be the absolute path of a text file");
    node->path = xstrdup(path);
    return 0;
}

static int parse_set(struct parse *parse, const struct where *where, const json_t *value, struct view_node *node)
{
    const char *name = json_string_value(value);
    if (name == NULL || json_string_length(value) != VIEW_SET_NAME_BYTES ||
        strspn(name, "0123456789abcdef") != VIEW_SET_NAME_BYTES)
        return refuse(parse, where,
                      "is what larder.Indices makes, and must be 32 hexadecimal digits: elsewhere give ranges or a "
                      "list file");
    node->path = xstrdup(name);
    return 0;
}

static int parse_node(struct parse *parse, const struct where *where, const json_t *json, struct view_node **out);

static int parse_parts(struct parse *parse, const struct where *where, const json_t *value, struct view_node *node)
{
    size_t n = json_array_size(value), least = node->op == VIEW_DIFFERENCE ? 2 : 1;
    if (!json_is_array(value) || n < least)
        return refuse(parse, where,
                      least == 2 ? "must be a list of two or more expressions, [e, less, ...]"
                                 : "must be a list of expressions, with at least one");
    if (n > VIEW_NODES_MAX)
        return refuse(parse, where, "is too long: 1024 expressions at most");
    node->parts = xcalloc(n, sizeof *node->parts);
    for (size_t i = 0; i < n; i++) {
        struct where at = {.outer = where, .index = i, .depth = where->depth};
        int rc = parse_node(parse, &at, json_array_get(value, i), &node->parts[i]);
        if (rc)
            return rc;
        node->n_parts++;
    }
    return 0;
}

/* ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static int parse_body(struct parse *parse, const struct where *where, const json_t *json, struct view_node *node)
{
    const json_t *value = NULL;
    for (size_t i = 0; i < sizeof op_words / sizeof *op_words && value == NULL; i++) {
        value = json_object_get(json, op_words[i]);
        node->op = (enum view_op)i;
    }
    const json_t *seed = json_object_get(json, "seed");
    size_t known = 1 + (node->op == VIEW_FRACTION && seed);
    if (value == NULL || json_object_size(json) != known)
        return refuse(
            parse, where,
            "must have exactly one of classes, range, fraction (with seed), list, union, intersection, difference");
    struct where at = {.outer = where, .word = op_words[node->op], .depth = where ? where->depth + 1 : 1};
    if (at.depth > VIEW_DEPTH_MAX)
        return refuse(parse, where, "is too deep: 32 expressions inside each other at most");
    switch (node->op) {
    case VIEW_CLASSES: return parse_classes(parse, &at, value, node);
    case VIEW_RANGE: return parse_range(parse, &at, value, node);
    case VIEW_FRACTION: return parse_fraction(parse, &at, value, seed, node);
    case VIEW_LIST: return parse_list(parse, &at, value, node);
    case VIEW_SET: return parse_set(parse, &at, value, node);
    default: return parse_parts(parse, &at, value, node);
    }
}

static int parse_node(struct parse *parse, const struct where *where, const json_t *json, struct view_node **out)
{
    if (!json_is_object(json))
        return refuse(parse, where, "must be an object such as {\"classes\": [\"cat\"]}");
    if (++parse->n_nodes > VIEW_NODES_MAX)
        return refuse(parse, where, "is one expression too many: 1024 in all at most");
    struct view_node *node = xcalloc(1, sizeof *node);
    int rc = parse_body(parse, where, json, node);
    if (rc) {
        node_free(node);
        return rc;
    }
    *out = node;
    return 0;
}

int view_parse(const char *json, size_t len_bytes, struct view **out, struct error *err)
{
    if (len_bytes > VIEW_TEXT_MAX)
        return error_set(err, LARDER_EINVAL, "subset: %zu bytes, %d at most: put long lists into a list file",
                         len_bytes, VIEW_TEXT_MAX);
    json_error_t where;
    errno = 0; /* out of memory, the library may report a wrong token; malloc sets errno */
    json_t *parsed = json_loadb(json, len_bytes, JSON_REJECT_DUPLICATES, &where);
    if (parsed == NULL && errno == ENOMEM)
        return error_set(err, LARDER_ENOMEM, "subset: no memory to read it");
    if (parsed == NULL)
        return error_set(err, LARDER_EINVAL, "subset: line %d, column %d: %s", where.line, where.column, where.text);
    struct parse parse = {.err = err};
    struct view_node *root = NULL;
    int rc = parse_node(&parse, NULL, parsed, &root);
    json_decref(parsed);
    if (rc)
        return rc;
    struct view *view = xmalloc(sizeof *view);
    view->magic = VIEW_MAGIC;
    view->root = root;
    *out = view;
    return 0;
}

void view_destroy(struct view *view)
{
    if (view == NULL)
        return;
    CHECK_MAGIC(view, VIEW_MAGIC);
    node_free(view->root);
    view->magic = 0;
    free(view);
}

struct view *view_intersect(struct view *a, struct view *b)
{
    if (a == NULL || b == NULL)
        return a ? a : b;
    struct view_node *both = xcalloc(1, sizeof *both);
    both->op = VIEW_INTERSECTION;
    both->parts = xcalloc(2, sizeof *both->parts);
    both->parts[both->n_parts++] = a->root;
    both->parts[both->n_parts++] = b->root;
    a->root = both;
    b->root = NULL;
    view_destroy(b);
    return a;
}
