/* view_line.c: reads a line of a list, in the forms that people's programs write. Pure. The Python client reads files
 * of labels by the same rules (_label_file.py); one table of lines tests both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sampler/view_priv.h"

#define FIELD_MAX 64 /* bytes of a number */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_separator(char c)
{
    return c == ',' || c == ';';
}

static void trim_end(struct line_part *part)
{
    while (part->len && is_blank(part->text[part->len - 1]))
        part->len--;
}

struct line_part line_trimmed(struct line_part part)
{
    while (part.len && is_blank(*part.text)) {
        part.text++;
        part.len--;
    }
    trim_end(&part);
    return part;
}

static struct line_part unquoted(struct line_part part)
{
    part = line_trimmed(part);
    if (part.len >= 2 && part.text[0] == '"' && part.text[part.len - 1] == '"')
        return (struct line_part){part.text + 1, part.len - 2};
    return part;
}

static bool is_number(struct line_part field)
{
    char text[FIELD_MAX + 1], *end;
    if (field.len == 0 || field.len > FIELD_MAX)
        return false;
    memcpy(text, field.text, field.len);
    text[field.len] = '\0';
    strtod(text, &end);
    return *end == '\0';
}

/* A label is a number, a word, or an empty cell. A field that may be a piece of a path is no label: otherwise the
 * second half of a wrong name would be taken for the label of another sample. */
static bool may_be_label(struct line_part field)
{
    field = unquoted(field);
    if (is_number(field))
        return true;
    for (size_t i = 0; i < field.len; i++) {
        if (strchr("/\\.", field.text[i]))
            return false;
    }
    return true;
}

bool line_shorten(struct line_part *part, bool *label)
{
    size_t at = part->len;
    while (at > 0 && !is_blank(part->text[at - 1]) && !is_separator(part->text[at - 1]))
        at--;
    if (at == 0)
        return false;
    *label = may_be_label((struct line_part){part->text + at, part->len - at});
    part->len = at;
    trim_end(part);
    if (part->len && is_separator(part->text[part->len - 1]))
        part->len--;
    trim_end(part);
    return true;
}

bool line_unquote(struct line_part part, char *buf, struct line_part *name, struct line_part *rest)
{
    size_t len = 0, at = 1;
    if (part.len < 2 || part.text[0] != '"')
        return false;
    for (; at < part.len; at++) {
        bool twice = at + 1 < part.len && part.text[at + 1] == '"';
        if (part.text[at] == '"' && !twice)
            break;
        at += part.text[at] == '"';
        buf[len++] = part.text[at];
    }
    if (at >= part.len)
        return false;
    *name = (struct line_part){buf, len};
    *rest = (struct line_part){part.text + at + 1, part.len - at - 1};
    return true;
}

struct line_part line_normalised(struct line_part part, char *buf)
{
    size_t len = 0;
    for (size_t at = 0; at < part.len; at++) {
        bool begins = len == 0 || buf[len - 1] == '/';
        if (begins && part.text[at] == '.' && at + 1 < part.len && part.text[at + 1] == '/')
            at++; /* "./" */
        else if (part.text[at] != '/' || len == 0 || buf[len - 1] != '/')
            buf[len++] = part.text[at];
    }
    if (len && part.text[0] != '/' && buf[0] == '/') { /* ".//key" */
        memmove(buf, buf + 1, len - 1);
        len--;
    }
    return (struct line_part){buf, len};
}

bool line_is_titles(struct line_part part)
{
    static const char *const words[] = {
        "",       "path",   "paths",   "file",    "files",     "filename",  "name",      "names",   "filepath", "image",
        "images", "img",    "imageid", "imgpath", "imagepath", "imagename", "imagefile", "key",     "keys",     "id",
        "ids",    "sample", "samples", "index",   "idx",       "uri",       "position",  "relpath", NULL};
    char word[FIELD_MAX + 1];
    size_t len = 0, end = 0;
    while (end < part.len && !is_blank(part.text[end]) && !is_separator(part.text[end]))
        end++;
    struct line_part first = unquoted((struct line_part){part.text, end});
    for (size_t i = 0; i < first.len && len < FIELD_MAX; i++) {
        if (first.text[i] != '_' && first.text[i] != '-')
            word[len++] = first.text[i];
    }
    word[len] = '\0';
    for (const char *const *known = words; *known; known++) {
        if (strcasecmp(*known, word) == 0)
            return true;
    }
    return false;
}
