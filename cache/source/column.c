/* column.c: gathers the cells of a column, and finds out what they are. See column.h. */
#include "cache/source/column.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/larder_err.h"

#define NUMBER_BYTES_MAX 400 /* the longest text that is read as a number */

/* What a column is not. */
enum { NOT_WHOLES = 1, NOT_REALS = 2, NOT_VECTORS = 4, NOT_WHOLE_VECTORS = 8, NOT_NUMBERS = 15 };

/* ── numbers ── */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t digits(const char *text, size_t len, size_t at)
{
    size_t from = at;
    while (at < len && text[at] >= '0' && text[at] <= '9')
        at++;
    return at - from;
}

/* Whether a text is a number as people write it; *whole: it has neither point nor exponent. */
static bool is_number(const char *text, size_t len, bool *whole)
{
    size_t at = len && (*text == '-' || *text == '+'), before = digits(text, len, at), behind = 0;
    at += before;
    *whole = at == len;
    if (at < len && text[at] == '.') {
        behind = digits(text, len, ++at);
        at += behind;
    }
    if (before + behind == 0)
        return false;
    if (at < len && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        at += at < len && (text[at] == '-' || text[at] == '+');
        size_t exponent = digits(text, len, at);
        at += exponent;
        return exponent && at == len;
    }
    return at == len;
}

static bool is_word(const char *text)
{
    text += *text == '-' || *text == '+';
    return strcasecmp(text, "nan") == 0 || strcasecmp(text, "inf") == 0 || strcasecmp(text, "infinity") == 0;
}

enum number number_of(const char *text, size_t len, int64_t *whole, double *real)
{
    char copy[NUMBER_BYTES_MAX + 1];
    bool is_whole;
    for (; len && is_blank(*text); len--)
        text++;
    while (len && is_blank(text[len - 1]))
        len--;
    if (len == 0 || len > NUMBER_BYTES_MAX || memchr(text, 0, len))
        return NUMBER_NONE;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (is_word(copy)) {
        *real = strtod(copy, NULL);
        return NUMBER_WORD;
    }
    if (!is_number(copy, len, &is_whole))
        return NUMBER_NONE;
    if (!is_whole) {
        *real = strtod(copy, NULL);
        return NUMBER_REAL;
    }
    errno = 0;
    *whole = strtoll(copy, NULL, 10);
    return errno ? NUMBER_NONE : NUMBER_WHOLE;
}

/* ── cells ── */

static bool grow(void **array, size_t *cap, size_t wanted, size_t element_bytes)
{
    if (wanted <= *cap)
        return true;
    size_t more = wanted + wanted / 2 + 64;
    void *grown = realloc(*array, more * element_bytes);
    if (!grown)
        return false;
    *array = grown;
    *cap = more;
    return true;
}

static int append(struct cells *cells, const char *text, size_t len)
{
    if (len > cells->bytes_max || cells->texts_bytes + cells->count * sizeof *cells->ends > cells->bytes_max - len)
        return LARDER_ELIMIT;
    if (!grow((void **)&cells->texts, &cells->texts_cap, cells->texts_bytes + len, 1) ||
        !grow((void **)&cells->ends, &cells->cap, cells->count + 1, sizeof *cells->ends))
        return LARDER_ENOMEM;
    if (len)
        memcpy(cells->texts + cells->texts_bytes, text, len);
    cells->texts_bytes += len;
    cells->ends[cells->count++] = cells->texts_bytes;
    return 0;
}

int cells_add_none(struct cells *cells)
{
    cells->lacks = true;
    return append(cells, NULL, 0);
}

int cells_add_text(struct cells *cells, const char *text, size_t len)
{
    cells->not |= NOT_NUMBERS;
    return append(cells, text, len);
}

int cells_add(struct cells *cells, const char *text, size_t len)
{
    static const unsigned nots[] = {
        [NUMBER_NONE] = NOT_NUMBERS,
        [NUMBER_WHOLE] = NOT_VECTORS | NOT_WHOLE_VECTORS,
        [NUMBER_REAL] = NOT_WHOLES | NOT_VECTORS | NOT_WHOLE_VECTORS,
        [NUMBER_WORD] = NOT_WHOLES | NOT_VECTORS | NOT_WHOLE_VECTORS,
    };
    int64_t whole;
    double real;
    if (len == 0)
        return cells_add_none(cells);
    if (cells->not != NOT_NUMBERS) {
        enum number number = number_of(text, len, &whole, &real);
        cells->not |= nots[number];
        cells->some |= number == NUMBER_WHOLE || number == NUMBER_REAL;
    }
    return append(cells, text, len);
}

/* What a column that has this array is not. */
static unsigned not_of_array(const json_t *array, struct cells *cells)
{
    size_t i, width = json_array_size(array);
    const json_t *value;
    unsigned not = NOT_WHOLES | NOT_REALS;
    if (width == 0 || width > COLUMN_WIDTH_MAX || (cells->width && cells->width != width))
        return NOT_NUMBERS;
    json_array_foreach(array, i, value) {
        if (!json_is_number(value))
            return NOT_NUMBERS;
        not |= json_is_integer(value) ? 0 : NOT_WHOLE_VECTORS;
    }
    cells->width = (uint32_t)width;
    cells->some = true;
    return not ;
}

int cells_add_json(struct cells *cells, const struct json_t *value)
{
    if (!value || json_is_null(value))
        return cells_add_none(cells);
    if (json_is_string(value))
        return cells_add_text(cells, json_string_value(value), json_string_length(value));
    if (json_is_boolean(value))
        return cells_add(cells, json_is_true(value) ? "1" : "0", 1);
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return LARDER_ENOMEM;
    int code;
    if (json_is_number(value)) {
        code = cells_add(cells, text, strlen(text));
    } else {
        cells->not |= json_is_array(value) ? not_of_array(value, cells) : NOT_NUMBERS;
        code = append(cells, text, strlen(text));
    }
    free(text);
    return code;
}

/* ── columns ── */

void column_free(struct column *column)
{
    free(column->words);
    free(column->texts);
    *column = (struct column){0};
}

uint64_t column_words(const struct column *column)
{
    return column->kind == COLUMN_TEXT ? column->count + 1 : column->count * column->width;
}

uint64_t column_bytes(const struct column *column)
{
    uint64_t words = column_words(column);
    return words * sizeof *column->words + (column->kind == COLUMN_TEXT ? column->words[words - 1] : 0);
}

static uint64_t bits(double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static void put(struct column *column, uint64_t at, const char *text, size_t len)
{
    int64_t whole = 0;
    double real = NAN;
    bool is_whole = number_of(text, len, &whole, &real) == NUMBER_WHOLE;
    if (column->kind == COLUMN_WHOLE)
        column->words[at] = (uint64_t)whole;
    else
        column->words[at] = bits(is_whole ? (double)whole : real);
}

/* Reads the numbers of a cell: one, or as many as an array of JSON has. A cell that lacks its value has NaNs. */
static void put_cell(struct column *column, uint64_t row, const char *text, size_t len)
{
    size_t at = len && *text == '[';
    for (uint32_t i = 0; i < column->width; i++) {
        size_t end = at;
        while (end < len && text[end] != ',' && text[end] != ']')
            end++;
        put(column, row * column->width + i, text + at, end - at);
        at = end < len ? end + 1 : end;
    }
}

/* What the cells are: the column without its rows. */
static struct column shape_of(const struct cells *cells)
{
    struct column column = {.kind = COLUMN_TEXT, .width = 1, .count = cells->count};
    unsigned not = cells->not | (cells->some ? 0 : NOT_NUMBERS) | (cells->lacks ? NOT_WHOLES | NOT_WHOLE_VECTORS : 0);
    if (!(not &NOT_VECTORS) && cells->width) {
        column.width = cells->width;
        column.kind = not &NOT_WHOLE_VECTORS ? COLUMN_REAL : COLUMN_WHOLE;
    } else if (!(not &NOT_REALS)) {
        column.kind = not &NOT_WHOLES ? COLUMN_REAL : COLUMN_WHOLE;
    }
    return column;
}

int cells_finish(struct cells *cells, struct column *out)
{
    struct column column = shape_of(cells);
    bool is_text = column.kind == COLUMN_TEXT, fits = column_words(&column) <= cells->bytes_max / sizeof *column.words;
    column.words = fits ? calloc(column_words(&column) + 1, sizeof *column.words) : NULL;
    for (size_t i = 0, from = 0; column.words && i < cells->count; from = cells->ends[i++]) {
        if (is_text)
            column.words[i + 1] = cells->ends[i];
        else
            put_cell(&column, i, cells->texts + from, cells->ends[i] - from);
    }
    if (is_text && column.words) {
        column.texts = cells->texts;
        cells->texts = NULL;
    }
    cells_free(cells);
    if (!column.words)
        return fits ? LARDER_ENOMEM : LARDER_ELIMIT;
    *out = column;
    return 0;
}

void cells_free(struct cells *cells)
{
    free(cells->texts);
    free(cells->ends);
    *cells = (struct cells){.bytes_max = cells->bytes_max};
}

/* ── members of objects ──────────────────────────────────────────────────────────────────────────────────────────── */

/* Finds the same member of each object of a list, or of one object. */
static json_t *find_within(const json_t *json, const char *name)
{
    if (!json_is_array(json))
        return column_member(json, name);
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(json); i++) {
        json_t *value = column_member(json_array_get(json, i), name);
        if (json_array_append_new(list, value ? value : json_null())) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

json_t *column_member(const json_t *object, const char *name)
{
    json_t *found = json_incref(json_object_get(object, name));
    for (const char *dot = name; !found && (dot = strchr(dot, '.')); dot++) {
        char *member = strndup(name, (size_t)(dot - name));
        const json_t *within = member ? json_object_get(object, member) : NULL;
        free(member);
        if (within)
            found = find_within(within, dot + 1);
    }
    return found;
}
