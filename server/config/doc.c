/* doc.c: makes YAML events a tree of nodes that remember their places.
 *
 * This file alone uses libyaml. Everything whose size a file decides has a bound: depth, nodes, entries of one node.
 * Anchors, aliases, tags and further documents are refused, because a configuration needs none of them and each has its
 * own surprises. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/check.h"
#include "server/config/config_priv.h"

#define KEY_PATH_MAX 160

struct frame {
    struct doc_node *node;
    struct doc_node *key; /* in a mapping: the key whose value was not read yet */
};

struct builder {
    const char *file;
    struct doc *doc;
    struct frame stack[DOC_DEPTH_MAX];
    uint32_t depth;
    uint32_t documents;
    struct error *err;
};

int config_fail(struct error *err, int code, const char *file, struct config_mark at, const char *key, const char *fmt,
                ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *colon = *key ? ": " : "";
    if (file && at.line)
        return error_set(err, code, "%s:%u:%u: %s%s%s", file, at.line, at.column, key, colon, text);
    if (file)
        return error_set(err, code, "%s: %s%s%s", file, key, colon, text);
    return error_set(err, code, "%s%s%s", key, colon, text);
}

int config_fail_setting(const struct config *config, enum config_setting setting, struct error *err, int code,
                        const char *fmt, ...)
{
    const char *file = config->source[setting] == CONFIG_FROM_FILE ? config->file : NULL;
    char text[512];
    va_list values;
    va_start(values, fmt);
    vsnprintf(text, sizeof text, fmt, values);
    va_end(values);
    return config_fail(err, code, file, config->mark[setting], config_rows[setting].key_path, "%s", text);
}

static struct config_mark mark_of(yaml_mark_t mark)
{
    return (struct config_mark){.line = (uint32_t)mark.line + 1, .column = (uint32_t)mark.column + 1};
}

/* key_path writes the key of the builder's place, such as "datasets.cats.pipeline[1]". */
static const char *key_path(const struct builder *builder, char buf[KEY_PATH_MAX])
{
    size_t len = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < builder->depth && len < KEY_PATH_MAX - 1; i++) {
        const struct frame *frame = &builder->stack[i];
        int wrote = 0;
        bool inside = i + 1 < builder->depth; /* the entry is already in its sequence */
        if (frame->node->kind == DOC_SEQUENCE)
            wrote = snprintf(buf + len, KEY_PATH_MAX - len, "[%u]", frame->node->n_children - inside);
        else if (frame->key)
            wrote = snprintf(buf + len, KEY_PATH_MAX - len, "%s%s", len ? "." : "", config_shown(frame->key->text));
        len += wrote > 0 ? (size_t)wrote : 0;
    }
    return buf;
}

static int refuse(struct builder *builder, struct config_mark at, const char *text)
{
    char key[KEY_PATH_MAX];
    return config_fail(builder->err, LARDER_EINVAL, builder->file, at, key_path(builder, key), "%s", text);
}

static struct doc_node *node_create(struct builder *builder, enum doc_kind kind, struct config_mark at)
{
    struct doc_node *node = builder->doc->n_nodes < DOC_NODES_MAX ? calloc(1, sizeof *node) : NULL;
    if (!node) {
        refuse(builder, at, "the file has too many entries: remove some");
        return NULL;
    }
    node->kind = kind;
    node->at = at;
    node->next = builder->doc->all;
    builder->doc->all = node;
    builder->doc->n_nodes++;
    return node;
}

static int append(struct builder *builder, struct doc_node *parent, struct doc_node *child)
{
    uint32_t per_entry = parent->kind == DOC_MAPPING ? 2 : 1;
    if (parent->n_children >= DOC_CHILDREN_MAX * per_entry)
        return refuse(builder, child->at, "too many entries: at most 2048 are possible in one place");
    parent->children = xgrow(parent->children, sizeof *parent->children, &parent->cap, parent->n_children + 1);
    parent->children[parent->n_children++] = child;
    return 0;
}

static int take_key(struct builder *builder, struct frame *frame, struct doc_node *key)
{
    if (key->kind != DOC_SCALAR)
        return refuse(builder, key->at, "a key must be a plain word: write `key: value`");
    for (uint32_t i = 0; i < frame->node->n_children; i += 2) {
        const struct doc_node *earlier = frame->node->children[i];
        if (strcmp(earlier->text, key->text) != 0)
            continue;
        char path[KEY_PATH_MAX];
        frame->key = key; /* so that the path contains it */
        return config_fail(builder->err, LARDER_EINVAL, builder->file, key->at, key_path(builder, path),
                           "is given a second time (first in line %u): remove one of the two", earlier->at.line);
    }
    frame->key = key;
    return append(builder, frame->node, key);
}

/* attach puts a node where the builder stands. */
static int attach(struct builder *builder, struct doc_node *node)
{
    if (builder->depth == 0) {
        builder->doc->root = node;
        return 0;
    }
    struct frame *frame = &builder->stack[builder->depth - 1];
    if (frame->node->kind == DOC_MAPPING && !frame->key)
        return take_key(builder, frame, node);
    int rc = append(builder, frame->node, node);
    if (rc == 0 && node->kind == DOC_SCALAR)
        frame->key = NULL; /* a collection's key stays until its end, for messages from inside it */
    return rc;
}

/* has_odd_character finds characters that no setting needs and no editor shows: control characters other than tabs and
 * line breaks, and characters that YAML takes for a line break or cannot contain. The text is UTF-8, as libyaml has
 * checked. */
static bool has_odd_character(const char *text, size_t len)
{
    static const char *const odd[] = {"\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbb\xbf", "\xef\xbf\xbe", "\xef\xbf\xbf"};
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text[i];
        if ((byte < ' ' && byte != '\t' && byte != '\n') || byte == 0x7f)
            return true;
        if (byte == 0xc2 && (unsigned char)text[i + 1] < 0xa0)
            return true;
        for (size_t k = 0; byte >= 0xe2 && k < sizeof odd / sizeof *odd; k++) {
            if (strncmp(text + i, odd[k], 3) == 0)
                return true;
        }
    }
    return false;
}

static int on_scalar(struct builder *builder, const yaml_event_t *event)
{
    struct config_mark at = mark_of(event->start_mark);
    const char *value = (const char *)event->data.scalar.value;
    if (has_odd_character(value, event->data.scalar.length))
        return refuse(builder, at, "the text has a control character in it: remove it");
    struct doc_node *node = node_create(builder, DOC_SCALAR, at);
    if (!node)
        return LARDER_EINVAL;
    node->text = xstrdup(value);
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return attach(builder, node);
}

static int on_open(struct builder *builder, const yaml_event_t *event, enum doc_kind kind)
{
    struct config_mark at = mark_of(event->start_mark);
    if (builder->depth == DOC_DEPTH_MAX)
        return refuse(builder, at, "nested too deep: at most 16 levels are possible");
    struct doc_node *node = node_create(builder, kind, at);
    if (!node)
        return LARDER_EINVAL;
    int rc = attach(builder, node);
    if (rc == 0)
        builder->stack[builder->depth++] = (struct frame){.node = node};
    return rc;
}

static void on_close(struct builder *builder)
{
    CHECK(builder->depth > 0);
    builder->depth--;
    if (builder->depth > 0)
        builder->stack[builder->depth - 1].key = NULL;
}

/* unwanted names what a configuration may not have in an event. NULL: the event has none of it. */
static const char *unwanted(const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT: return "aliases (*name) are not possible here: write the value out";
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    case YAML_DOCUMENT_START_EVENT:
        if (event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end)
            return "%TAG directives are not possible here: remove the line";
        break;
    default: break;
    }
    if (anchor)
        return "anchors (&name) are not possible here: remove it";
    return tag ? "tags (!name) are not possible here: remove it" : NULL;
}

static int on_event(struct builder *builder, const yaml_event_t *event)
{
    const char *text = unwanted(event);
    if (text)
        return refuse(builder, mark_of(event->start_mark), text);
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (builder->documents++ > 0)
            return refuse(builder, mark_of(event->start_mark),
                          "a second document begins here: keep one document in the file");
        return 0;
    case YAML_SCALAR_EVENT: return on_scalar(builder, event);
    case YAML_SEQUENCE_START_EVENT: return on_open(builder, event, DOC_SEQUENCE);
    case YAML_MAPPING_START_EVENT: return on_open(builder, event, DOC_MAPPING);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: on_close(builder); return 0;
    default: return 0;
    }
}

static int syntax_error(struct builder *builder, const yaml_parser_t *parser)
{
    struct config_mark at = mark_of(parser->problem_mark);
    const char *problem = parser->problem ? parser->problem : "not understood";
    const char *hint = strstr(problem, "cannot start any token")
                           ? " (tabs do not indent, and texts that begin with a special character need quotes)"
                           : "";
    if (parser->error == YAML_MEMORY_ERROR)
        return error_set(builder->err, LARDER_ENOMEM, "%s: out of memory while reading it", builder->file);
    if (parser->error == YAML_READER_ERROR)
        return error_set(builder->err, LARDER_EFORMAT, "%s: byte %zu: %s: save the file as UTF-8 text", builder->file,
                         parser->problem_offset, problem);
    return config_fail(builder->err, LARDER_EFORMAT, builder->file, at, "", "not YAML: %s%s%s%s",
                       parser->context ? parser->context : "", parser->context ? ", " : "", problem, hint);
}

int doc_parse(const char *file, const char *text, size_t len_bytes, struct doc *doc, struct error *err)
{
    struct builder builder = {.file = file, .doc = doc, .err = err};
    yaml_parser_t parser;
    memset(doc, 0, sizeof *doc);
    if (!yaml_parser_initialize(&parser))
        return error_set(err, LARDER_ENOMEM, "%s: out of memory while reading it", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len_bytes);
    int rc = 0;
    for (bool more = true; more && rc == 0;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            rc = syntax_error(&builder, &parser);
            break;
        }
        more = event.type != YAML_STREAM_END_EVENT;
        rc = on_event(&builder, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (rc)
        doc_clear(doc);
    return rc;
}

bool doc_is_null(const struct doc_node *node)
{
    return node->kind == DOC_SCALAR && !node->quoted &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

void doc_clear(struct doc *doc)
{
    while (doc->all) {
        struct doc_node *node = doc->all;
        doc->all = node->next;
        free(node->text);
        free(node->children);
        free(node);
    }
    memset(doc, 0, sizeof *doc);
}
