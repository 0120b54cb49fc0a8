/* list_rows.c: reads the rows of a list. See list_rows.h. */
#include "cache/source/list_rows.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cache/source/labels.h"
#include "common/larder_err.h"

#define NO_COLUMN UINT32_MAX

/* What programs call the column of paths; the first that a list has is it. */
static const char *const path_names[] = {"file_name", "path", "image",      "file",     "filename",  "file_path",
                                         "filepath",  "img",  "image_path", "img_path", "image_name"};
#define PATH_NAMES (sizeof path_names / sizeof *path_names)

/* What a row may have that matters, each in a column; the last is the one that list_rows_want chose. */
enum row_part { ROW_PATH, ROW_LABEL, ROW_OFFSET, ROW_BYTES, ROW_CRC32, ROW_RAW, ROW_KEY, ROW_WANTED, ROW_PARTS };
static const char *const part_names[ROW_WANTED] = {
    [ROW_OFFSET] = "offset", [ROW_BYTES] = "bytes", [ROW_CRC32] = "crc32", [ROW_RAW] = "raw", [ROW_KEY] = "key"};

/* A text that grows, which is used again for each field. */
struct field {
    char *text;
    size_t len, cap;
};

struct list_rows {
    enum list_form form;
    char separator;
    const char *at, *end;
    size_t line;                 /* of `at`, from 1 */
    const char *line_at;         /* where that line begins */
    char *label_name;            /* "": whichever there is */
    const char *path_name;       /* NULL: one of path_names */
    uint32_t columns[ROW_PARTS]; /* of CSV and TSV: where they stand */
    struct field fields[ROW_PARTS], other;
    bool placed;         /* the list is one of places; of JSON Lines, once the first row is read */
    bool begun;          /* of JSON Lines: the first row is read */
    json_t *json;        /* the row that was read last, of JSON Lines */
    struct cells titles; /* of CSV and TSV */
    char *wanted_name;   /* the chosen column's; NULL: none is */
    bool has_wanted;     /* the row that was read last has it */
    bool met;
    json_t *wanted; /* of JSON Lines: what the row that was read last has in the chosen column; NULL: nothing */
    json_t *named;  /* an object with the columns that list_rows_names has appended; NULL: none yet */
};

enum list_form list_form_of(const char *name)
{
    static const struct {
        const char *ending;
        enum list_form form;
    } forms[] = {{".csv", LIST_CSV}, {".tsv", LIST_TSV}, {".jsonl", LIST_JSONL}};
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t ending = strlen(forms[i].ending);
        if (len > ending && strcasecmp(name + len - ending, forms[i].ending) == 0)
            return forms[i].form;
    }
    return LIST_NONE;
}

static int fail(const struct list_rows *rows, int code, const char *what, struct error *err)
{
    return error_set(err, code, "%zu:%zu: %s", rows->line, (size_t)(rows->at - rows->line_at) + 1, what);
}

/* ── CSV ── */

static int put(struct list_rows *rows, struct field *field, char c, struct error *err)
{
    if (c == '\0')
        return fail(rows, LARDER_EFORMAT, "a zero byte, as UTF-16 has them: save the file as UTF-8", err);
    if (field->len == LIST_FIELD_BYTES_MAX)
        return fail(rows, LARDER_EFORMAT, "a field is longer than 64 KiB: is a double quote missing?", err);
    if (field->len + 1 >= field->cap) {
        size_t cap = field->cap * 2 + 256;
        char *grown = realloc(field->text, cap);
        if (!grown)
            return fail(rows, LARDER_ENOMEM, "out of memory", err);
        field->text = grown;
        field->cap = cap;
    }
    field->text[field->len++] = c;
    field->text[field->len] = '\0';
    return 0;
}

static void new_line(struct list_rows *rows)
{
    rows->line++;
    rows->line_at = rows->at;
}

static bool at_line_end(const struct list_rows *rows)
{
    return rows->at < rows->end && (*rows->at == '\n' || *rows->at == '\r');
}

/* Passes over a line's end: LF, CR LF, or CR alone. */
static void pass_line_end(struct list_rows *rows)
{
    if (rows->at < rows->end && *rows->at == '\r')
        rows->at++;
    if (rows->at < rows->end && *rows->at == '\n')
        rows->at++;
    new_line(rows);
}

/* Reads what stands in double quotes; two of them are one. */
static int quoted(struct list_rows *rows, struct field *field, struct error *err)
{
    int code = 0;
    rows->at++;
    while (!code && rows->at < rows->end) {
        char c = *rows->at++;
        if (c == '"' && (rows->at == rows->end || *rows->at != '"'))
            return 0;
        if (c == '"')
            rows->at++;
        code = put(rows, field, c, err);
        if (c == '\n')
            new_line(rows);
    }
    return code ? code : fail(rows, LARDER_EFORMAT, "the file ends within double quotes", err);
}

/* Reads one field, into `field` or past it, and what separates it from the next. *last: the row ends with it. */
static int read_field(struct list_rows *rows, struct field *field, bool *last, struct error *err)
{
    int code = 0;
    field->len = 0;
    if (field->text)
        field->text[0] = '\0';
    if (rows->at < rows->end && *rows->at == '"')
        code = quoted(rows, field, err);
    while (!code && rows->at < rows->end && *rows->at != rows->separator && !at_line_end(rows)) {
        code = put(rows, field, *rows->at++, err);
    }
    *last = rows->at == rows->end || at_line_end(rows);
    if (!code && *last)
        pass_line_end(rows);
    else
        rows->at++;
    return code;
}

/* Whether a column has the paths; of several that is the one with the lowest `which`. */
static bool is_path_name(const struct list_rows *rows, const char *name, size_t which)
{
    return strcasecmp(name, rows->path_name ? rows->path_name : path_names[which]) == 0;
}

static void take_title(struct list_rows *rows, const char *name, uint32_t column)
{
    const char *label = *rows->label_name ? rows->label_name : "label";
    for (int i = ROW_LABEL; i < ROW_WANTED; i++) {
        if (rows->columns[i] == NO_COLUMN && strcasecmp(name, i == ROW_LABEL ? label : part_names[i]) == 0)
            rows->columns[i] = column;
    }
}

/* Reads the first row: which columns there are. */
static int read_titles(struct list_rows *rows, struct error *err)
{
    size_t best = PATH_NAMES;
    bool last = false;
    for (uint32_t column = 0; !last; column++) {
        int code = column < LIST_COLUMNS_MAX ? read_field(rows, &rows->other, &last, err)
                                             : fail(rows, LARDER_EFORMAT, "more than 4,096 columns", err);
        if (code)
            return code;
        const char *name = rows->other.text ? rows->other.text : "";
        if (cells_add_text(&rows->titles, name, strlen(name)))
            return fail(rows, LARDER_ENOMEM, "out of memory", err);
        for (size_t i = 0; i < best; i++) {
            if (is_path_name(rows, name, i)) {
                best = i;
                rows->columns[ROW_PATH] = column;
            }
        }
        take_title(rows, name, column);
    }
    rows->placed = rows->columns[ROW_OFFSET] != NO_COLUMN && rows->columns[ROW_BYTES] != NO_COLUMN;
    if (best == PATH_NAMES && rows->path_name)
        return error_set(err, LARDER_EINVAL, "1:1: no column \"%.100s\", which would have paths", rows->path_name);
    if (best == PATH_NAMES)
        return error_set(err, LARDER_EINVAL,
                         "1:1: no column of paths: the first row must name the columns, and one of "
                         "them file_name, path, image, file or filename");
    if (*rows->label_name && rows->columns[ROW_LABEL] == NO_COLUMN)
        return error_set(err, LARDER_EINVAL, "1:1: no column \"%.100s\", which would have the labels",
                         rows->label_name);
    return 0;
}

/* The field that a column is read to: one of several that want it. */
static struct field *field_of(struct list_rows *rows, uint32_t column)
{
    for (int i = 0; i < ROW_PARTS; i++) {
        if (rows->columns[i] == column)
            return &rows->fields[i];
    }
    return &rows->other;
}

/* What a row of so many columns has there; NULL: nothing. */
static const char *text_of(struct list_rows *rows, enum row_part which, uint32_t columns)
{
    const struct field *field = field_of(rows, rows->columns[which]);
    return rows->columns[which] < columns && field->len ? field->text : NULL;
}

static int take_number(const struct list_row *row, enum row_part which, const char *text, uint64_t most, uint64_t *out,
                       struct error *err)
{
    uint64_t value = 0;
    const char *at = text ? text : "";
    for (; *at >= '0' && *at <= '9' && value <= most / 10; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (!text || !*text || *at || value > most)
        return error_set(err, LARDER_EFORMAT, "%zu:1: its %s is no whole number from 0 to %llu: \"%.40s\"", row->line,
                         part_names[which], (unsigned long long)most, text ? text : "");
    *out = value;
    return 0;
}

/* Reads a row's place. The texts are NULL where the row has none. */
static int take_place(struct list_row *row, const char *const texts[ROW_PARTS], struct error *err)
{
    struct list_place *place = &row->place;
    uint64_t crc32 = 0;
    int code = take_number(row, ROW_OFFSET, texts[ROW_OFFSET], INT64_MAX, &place->offset, err);
    if (!code)
        code = take_number(row, ROW_BYTES, texts[ROW_BYTES], INT64_MAX - place->offset, &place->bytes, err);
    place->has_crc32 = texts[ROW_CRC32];
    if (!code && place->has_crc32)
        code = take_number(row, ROW_CRC32, texts[ROW_CRC32], UINT32_MAX, &crc32, err);
    place->crc32 = (uint32_t)crc32;
    place->raw = texts[ROW_RAW];
    place->key = texts[ROW_KEY];
    row->placed = true;
    return code;
}

static int next_fields(struct list_rows *rows, struct list_row *row, bool *there, struct error *err)
{
    while (at_line_end(rows))
        pass_line_end(rows);
    *there = rows->at < rows->end;
    if (!*there)
        return 0;
    *row = (struct list_row){.line = rows->line};
    bool last = false;
    uint32_t column = 0;
    for (; !last; column++) {
        int code = read_field(rows, field_of(rows, column), &last, err);
        if (code)
            return code;
    }
    const char *texts[ROW_PARTS];
    for (int i = 0; i < ROW_PARTS; i++)
        texts[i] = text_of(rows, (enum row_part)i, column);
    row->path = texts[ROW_PATH];
    row->label = texts[ROW_LABEL];
    if (!row->path)
        return error_set(err, LARDER_EFORMAT, "%zu:1: the row has no path", row->line);
    rows->has_wanted = column > rows->columns[ROW_WANTED];
    return rows->placed ? take_place(row, texts, err) : 0;
}

/* ── JSON Lines ── */

static const json_t *path_of(const struct list_rows *rows)
{
    const json_t *json = rows->json, *found = rows->path_name ? json_object_get(json, rows->path_name) : NULL;
    if (rows->path_name)
        return found;
    for (size_t i = 0; !found && i < PATH_NAMES; i++)
        found = json_object_get(json, path_names[i]);
    return found;
}

/* Writes a whole number to a column's field. */
static int put_integer(struct list_rows *rows, enum row_part which, const json_t *value, const char **out,
                       struct error *err)
{
    struct field *field = &rows->fields[which];
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(value));
    field->len = 0;
    for (int i = 0; i < len; i++) {
        if (put(rows, field, digits[i], err))
            return LARDER_ENOMEM;
    }
    *out = field->text;
    return 0;
}

static int take_label(struct list_rows *rows, const json_t *value, struct list_row *row, struct error *err)
{
    if (!value || json_is_null(value))
        return 0;
    if (json_is_string(value)) {
        row->label = json_string_value(value);
        row->named = true;
        return 0;
    }
    if (!json_is_integer(value))
        return error_set(err, LARDER_EFORMAT, "%zu:1: its label is neither a whole number nor a text", row->line);
    return put_integer(rows, ROW_LABEL, value, &row->label, err);
}

/* Reads an object's place. Numbers may be texts, as some programs write large ones. */
static int take_object_place(struct list_rows *rows, struct list_row *row, struct error *err)
{
    const char *texts[ROW_PARTS] = {NULL};
    if (!rows->begun)
        rows->placed = json_object_get(rows->json, part_names[ROW_OFFSET]) &&
                       json_object_get(rows->json, part_names[ROW_BYTES]);
    rows->begun = true;
    if (!rows->placed)
        return 0;
    for (int i = ROW_OFFSET; i < ROW_WANTED; i++) {
        const json_t *value = json_object_get(rows->json, part_names[i]);
        int code = 0;
        if (json_is_string(value))
            texts[i] = json_string_length(value) ? json_string_value(value) : NULL;
        else if (json_is_integer(value))
            code = put_integer(rows, (enum row_part)i, value, &texts[i], err);
        else if (value && !json_is_null(value))
            return error_set(err, LARDER_EFORMAT, "%zu:1: its %s is neither a whole number nor a text", row->line,
                             part_names[i]);
        if (code)
            return code;
    }
    return take_place(row, texts, err);
}

/* Whether the text of a JSON number is that of a whole one beyond 64 bits. */
static bool is_beyond(const char *text, size_t len)
{
    int64_t whole;
    double real;
    for (size_t i = 0; i < len; i++) {
        if (strchr("eE.", text[i]))
            return false;
    }
    return number_of(text, len, &whole, &real) == NUMBER_NONE;
}

/* Makes a row's whole numbers beyond 64 bits texts, which they are in CSV too: no digit is lost. NULL: no memory. */
static char *quote_beyond(const char *text, size_t len, size_t *out_len)
{
    char *out = malloc(len + len / 8 + 3), *to = out; /* such a number has 19 digits or more, and gets 2 quotes */
    bool in_text = false;
    for (size_t i = 0, end; out && i < len; i = end) {
        end = i + 1;
        if (in_text && text[i] == '\\' && end < len)
            end++;
        else if (text[i] == '"')
            in_text = !in_text;
        while (!in_text && strchr("-0123456789", text[i]) && end < len && strchr("-+.eE0123456789", text[end]))
            end++;
        bool beyond = end - i > 18 && is_beyond(text + i, end - i);
        if (beyond)
            *to++ = '"';
        memcpy(to, text + i, end - i);
        to += end - i;
        if (beyond)
            *to++ = '"';
    }
    *out_len = out ? (size_t)(to - out) : 0;
    return out;
}

static json_t *load_object(const char *text, size_t len, json_error_t *why)
{
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, why);
    if (json || json_error_code(why) != json_error_numeric_overflow)
        return json;
    size_t quoted_len;
    char *quoted_text = quote_beyond(text, len, &quoted_len);
    if (quoted_text)
        json = json_loadb(quoted_text, quoted_len, JSON_REJECT_DUPLICATES, why);
    free(quoted_text);
    return json;
}

static int next_object(struct list_rows *rows, struct list_row *row, bool *there, struct error *err)
{
    json_error_t why;
    while (rows->at < rows->end && strchr(" \t\r\n", *rows->at)) {
        if (*rows->at++ == '\n')
            new_line(rows);
    }
    *there = rows->at < rows->end;
    if (!*there)
        return 0;
    const char *end = memchr(rows->at, '\n', (size_t)(rows->end - rows->at));
    size_t len = (size_t)((end ? end : rows->end) - rows->at);
    *row = (struct list_row){.line = rows->line};
    json_decref(rows->json);
    rows->json = NULL;
    if (len > LIST_LINE_BYTES_MAX)
        return error_set(err, LARDER_ELIMIT, "%zu:1: a line longer than 16 MiB", row->line);
    if (!json_is_flat(rows->at, len))
        return error_set(err, LARDER_EFORMAT, "%zu:1: more than %d levels deep", row->line, JSON_DEPTH_MAX);
    rows->json = load_object(rows->at, len, &why);
    if (!rows->json)
        return error_set(err, LARDER_EFORMAT, "%zu:%d: no JSON object: %s", row->line, why.column, why.text);
    rows->at += len;
    const json_t *path = path_of(rows);
    if (!json_is_string(path) || !json_string_length(path) ||
        strlen(json_string_value(path)) != json_string_length(path))
        return error_set(err, LARDER_EFORMAT, "%zu:1: no path: an object must have it as %.100s", row->line,
                         rows->path_name ? rows->path_name : "file_name, path, image, file or filename");
    row->path = json_string_value(path);
    json_decref(rows->wanted);
    rows->wanted = rows->wanted_name ? column_member(rows->json, rows->wanted_name) : NULL;
    rows->met |= rows->wanted != NULL;
    int code = take_object_place(rows, row, err);
    if (code)
        return code;
    return take_label(rows, json_object_get(rows->json, *rows->label_name ? rows->label_name : "label"), row, err);
}

/* ── other columns ── */

/* The text of a title, which is not NUL-terminated. */
static const char *title(const struct list_rows *rows, size_t number, size_t *len)
{
    size_t from = number ? rows->titles.ends[number - 1] : 0;
    *len = rows->titles.ends[number] - from;
    return rows->titles.texts + from;
}

int list_rows_want(struct list_rows *rows, const char *name)
{
    size_t len = strlen(name), title_len;
    rows->wanted_name = strdup(name);
    if (!rows->wanted_name)
        return LARDER_ENOMEM;
    for (uint32_t i = 0; i < rows->titles.count; i++) {
        const char *text = title(rows, i, &title_len);
        if (title_len == len && memcmp(text, name, len) == 0) {
            rows->columns[ROW_WANTED] = i;
            rows->met = true;
            return 0;
        }
    }
    return rows->form == LIST_JSONL ? 0 : LARDER_ENOENT;
}

int list_rows_cell(struct list_rows *rows, struct cells *cells)
{
    if (rows->form == LIST_JSONL)
        return cells_add_json(cells, rows->wanted);
    const struct field *field = field_of(rows, rows->columns[ROW_WANTED]);
    return rows->has_wanted ? cells_add(cells, field->text, field->len) : cells_add_none(cells);
}

bool list_rows_met(const struct list_rows *rows)
{
    return rows->met;
}

/* Whether a column can be asked for by its name; of several with one name that is the first. */
static bool is_askable(const struct list_rows *rows, uint32_t number)
{
    size_t len, other_len;
    const char *text = title(rows, number, &len);
    bool is = len > 0 && len <= COLUMN_NAME_MAX;
    for (uint32_t i = 0; is && i < number; i++) {
        const char *other = title(rows, i, &other_len);
        is = other_len != len || memcmp(other, text, len) != 0;
    }
    return is;
}

static int add_titles(struct list_rows *rows, struct cells *names)
{
    int code = 0;
    for (uint32_t i = 0; !code && i < rows->titles.count; i++) {
        size_t len;
        const char *text = title(rows, i, &len);
        if (is_askable(rows, i))
            code = cells_add_text(names, text, len);
    }
    return code;
}

int list_rows_names(struct list_rows *rows, struct cells *names)
{
    const char *name;
    json_t *value;
    int code = 0;
    if (!rows->named) {
        rows->named = json_object();
        code = rows->named ? add_titles(rows, names) : LARDER_ENOMEM;
    }
    json_object_foreach(rows->json, name, value) {
        if (code || !*name || strlen(name) > COLUMN_NAME_MAX || json_object_get(rows->named, name))
            continue;
        if (json_object_size(rows->named) == LIST_COLUMNS_MAX)
            return LARDER_ELIMIT;
        code = json_object_set_new(rows->named, name, json_null()) ? LARDER_ENOMEM
                                                                   : cells_add_text(names, name, strlen(name));
    }
    return code;
}

/* ── both ── */

int list_rows_begin(enum list_form form, const uint8_t *bytes, size_t len_bytes, const char *label, const char *path,
                    struct list_rows **out, struct error *err)
{
    static const char mark[] = "\xef\xbb\xbf";
    struct list_rows *rows = calloc(1, sizeof *rows);
    *out = rows;
    if (!rows || !(rows->label_name = strdup(label))) {
        list_rows_end(rows);
        *out = NULL;
        return error_set(err, LARDER_ENOMEM, "1:1: out of memory");
    }
    rows->form = form;
    rows->path_name = path;
    rows->separator = form == LIST_TSV ? '\t' : ',';
    rows->titles.bytes_max = UINT64_MAX;
    for (int i = 0; i < ROW_PARTS; i++)
        rows->columns[i] = NO_COLUMN;
    rows->line = 1;
    rows->at = rows->line_at = (const char *)bytes;
    rows->end = rows->at + len_bytes;
    if (len_bytes >= 3 && memcmp(bytes, mark, 3) == 0)
        rows->at = rows->line_at = rows->at + 3;
    int code = form == LIST_JSONL ? 0 : read_titles(rows, err);
    if (code) {
        list_rows_end(rows);
        *out = NULL;
    }
    return code;
}

int list_rows_next(struct list_rows *rows, struct list_row *row, bool *there, struct error *err)
{
    return rows->form == LIST_JSONL ? next_object(rows, row, there, err) : next_fields(rows, row, there, err);
}

void list_rows_end(struct list_rows *rows)
{
    if (!rows)
        return;
    json_decref(rows->json);
    json_decref(rows->wanted);
    json_decref(rows->named);
    cells_free(&rows->titles);
    free(rows->wanted_name);
    for (int i = 0; i < ROW_PARTS; i++)
        free(rows->fields[i].text);
    free(rows->other.text);
    free(rows->label_name);
    free(rows);
}
