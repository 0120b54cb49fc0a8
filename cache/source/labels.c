/* labels.c: labels that samples bring themselves, and the classes that these make. See labels.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/file.h"
#include "cache/source/labels.h"
#include "common/larder_err.h"
#include "common/utf8.h"

#define NUMBER_DIGITS_MAX 18
#define TEXT_BYTES_MAX 255

/* ── one label ── */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

int label_take_name(const char *text, size_t len, struct index *strings, struct label *out, struct error *err)
{
    char name[TEXT_BYTES_MAX + 1];
    if (len == 0 || len > TEXT_BYTES_MAX || memchr(text, 0, len))
        return error_set(err, LARDER_EINVAL, "its label is no whole number, and no text of 1 to %d bytes",
                         TEXT_BYTES_MAX);
    memcpy(name, text, len);
    name[len] = '\0';
    if (!utf8_printable(name))
        return error_set(err, LARDER_EINVAL, "its label is no whole number, and no text in UTF-8");
    out->kind = LABEL_TEXT;
    return index_text(strings, name, NULL, &out->text) ? error_set(err, LARDER_ENOMEM, "out of memory") : 0;
}

int label_take(const char *text, size_t len, struct index *strings, struct label *out, struct error *err)
{
    char digits[NUMBER_DIGITS_MAX + 3];
    for (; len && is_blank(*text); len--)
        text++;
    while (len && is_blank(text[len - 1]))
        len--;
    size_t sign = len && (*text == '-' || *text == '+'), at = sign;
    while (at < len && text[at] >= '0' && text[at] <= '9')
        at++;
    if (at < len || at == sign || at - sign > NUMBER_DIGITS_MAX)
        return label_take_name(text, len, strings, out, err);
    memcpy(digits, text, len);
    digits[len] = '\0';
    out->kind = LABEL_NUMBER;
    out->number = strtoll(digits, NULL, 10);
    return 0;
}

bool json_is_flat(const void *json, size_t len)
{
    const char *text = json;
    bool in_text = false;
    unsigned depth = 0;
    for (size_t i = 0; i < len && depth <= JSON_DEPTH_MAX; i++) {
        if (text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_text = !in_text;
        else if (!in_text)
            depth += (text[i] == '[' || text[i] == '{') - ((text[i] == ']' || text[i] == '}') && depth);
    }
    return depth <= JSON_DEPTH_MAX;
}

/* ── all labels ── */

/* The first sample that can be read and has a label (or none, with `without`); the number of samples: there is none. */
static size_t find(const struct label *found, const struct index *index, bool without)
{
    size_t i = 0;
    while (i < index->sample_count &&
           (index->samples[i].flags & INDEX_UNREACHABLE || (found[i].kind == LABEL_NONE) != without))
        i++;
    return i;
}

static int label_error(const struct index *index, size_t sample, const char *what, struct error *err)
{
    struct shown root, key;
    return error_set(err, LARDER_EINVAL, "%s/%s: %s", path_shown(index->root, &root),
                     path_shown(index_key(index, sample), &key), what);
}

static int add_class(struct index *index, uint64_t name)
{
    int code = array_grow((void **)&index->classes, index->class_count, &index->class_cap, sizeof *index->classes,
                          CLASSES_MAX);
    if (!code)
        index->classes[index->class_count++] = name;
    return code;
}

static int add_new_class(struct index *index, const char *name)
{
    uint64_t at;
    int code = index_text(index, name, NULL, &at);
    return code ? code : add_class(index, at);
}

/* Makes a class of each of so many names, which lie in lines. *all: there are as many, or more. */
static int add_names(const char *lines, size_t count, struct index *index, bool *all)
{
    size_t lines_count = 0;
    for (const char *at = lines; at && *at; at = strchr(at, '\n') + 1)
        lines_count++;
    *all = lines_count >= count;
    char name[TEXT_BYTES_MAX + 1];
    int code = 0;
    for (const char *at = lines; *all && at && *at && !code; at = strchr(at, '\n') + 1) {
        snprintf(name, sizeof name, "%.*s", (int)(strchr(at, '\n') - at), at);
        code = add_new_class(index, name);
    }
    return code;
}

static int compare_classes(const void *a, const void *b, void *strings)
{
    return strcmp((const char *)strings + *(const uint64_t *)a, (const char *)strings + *(const uint64_t *)b);
}

/* That two classes have one name would make them one for whoever asks by names. */
static int check_names(const struct index *index, struct error *err)
{
    struct shown root, name;
    size_t count = index->class_count, bytes = count * sizeof *index->classes;
    uint64_t *sorted = malloc(bytes);
    int code = 0;
    if (!sorted)
        return LARDER_ENOMEM;
    memcpy(sorted, index->classes, bytes);
    qsort_r(sorted, count, sizeof *sorted, compare_classes, index->strings);
    for (size_t i = 1; !code && i < count; i++) {
        if (compare_classes(&sorted[i - 1], &sorted[i], index->strings) == 0)
            code = error_set(err, LARDER_EINVAL,
                             "%s: two classes are called \"%s\" in its __classes__: give each a name of its own",
                             path_shown(index->root, &root), path_shown(index->strings + sorted[i], &name));
    }
    free(sorted);
    return code;
}

static int take_numbers(const struct labels_wish *wish, const struct label *found, struct index *index,
                        struct error *err)
{
    int64_t most = 0;
    char name[24];
    bool named;
    for (size_t i = 0; i < index->sample_count; i++) {
        if (found[i].kind != LABEL_NUMBER)
            continue;
        if (found[i].number < 0 || found[i].number >= CLASSES_MAX)
            return label_error(index, i, "its label is not 0 to 1048575: give labels=\"none\", and labels of your own",
                               err);
        index->samples[i].label = (int32_t)found[i].number;
        most = found[i].number > most ? found[i].number : most;
    }
    int code = add_names(wish->names, (size_t)most + 1, index, &named);
    for (int64_t i = 0; !code && !named && i <= most; i++) {
        snprintf(name, sizeof name, "%" PRId64, i);
        code = add_new_class(index, name);
    }
    if (!code && named)
        code = check_names(index, err);
    return code && code != LARDER_EINVAL ? error_set(err, code, "out of memory for classes") : code;
}

struct named {
    uint64_t text;
    size_t sample;
};

static int compare_named(const void *a, const void *b, void *context)
{
    const char *strings = context;
    return text_compare(strings + ((const struct named *)a)->text, strings + ((const struct named *)b)->text);
}

static int take_texts(const struct label *found, struct index *index, struct error *err)
{
    struct named *named = malloc(index->sample_count * sizeof *named);
    size_t count = 0;
    int code = named ? 0 : LARDER_ENOMEM;
    for (size_t i = 0; named && i < index->sample_count; i++) {
        if (found[i].kind == LABEL_TEXT)
            named[count++] = (struct named){found[i].text, i};
    }
    if (named)
        qsort_r(named, count, sizeof *named, compare_named, index->strings);
    for (size_t i = 0; !code && i < count; i++) {
        if (i == 0 || compare_named(&named[i - 1], &named[i], index->strings) != 0)
            code = add_class(index, named[i].text);
        index->samples[named[i].sample].label = (int32_t)index->class_count - 1;
    }
    free(named);
    return code
               ? error_set(err, code,
                           code == LARDER_ELIMIT ? "more than 1,048,576 different labels" : "out of memory for classes")
               : 0;
}

int labels_apply(const struct labels_wish *wish, const struct label *found, struct index *index, struct error *err)
{
    size_t with = find(found, index, false), without = find(found, index, true), count = index->sample_count;
    char what[600];
    if (with == count && !wish->needed)
        return add_new_class(index, "unlabelled") ? error_set(err, LARDER_ENOMEM, "out of memory for classes") : 0;
    if (without < count) {
        snprintf(what, sizeof what, "it has no %s%s: %s", wish->what, with < count ? ", and others have" : "",
                 wish->instead);
        return label_error(index, without, what, err);
    }
    if (with == count)
        return error_set(err, LARDER_EINVAL, "%s: no sample can be read, so there are no labels", index->text);
    for (size_t i = with; i < count; i++) {
        if (found[i].kind != LABEL_NONE && found[i].kind != found[with].kind)
            return label_error(index, i,
                               found[with].kind == LABEL_NUMBER
                                   ? "its label is a text, and those before it are whole numbers: make them all one"
                                   : "its label is a whole number, and those before it are texts: make them all one",
                               err);
    }
    return found[with].kind == LABEL_NUMBER ? take_numbers(wish, found, index, err) : take_texts(found, index, err);
}
