/* rows.c: parts that are rows of numbers. See rows.h. All rows of a dataset are read when it is indexed, and stay in
 * memory. Their container knows whether they have changed. */
#include "cache/source/rows.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/source/masks_cell.h"
#include "common/check.h"
#include "common/larder_err.h"
#include "common/little_endian.h"

#define DEPTH_MAX 4

struct numbered {
    struct source source;
    bool masks; /* a row is the mask of an instance (sample_masks.h) */
    struct part_rows about;
    uint8_t *bytes; /* the samples, one behind the other */
    size_t len_bytes, cap_bytes;
    uint64_t most_bytes, counted_bytes; /* what they may take, and what of them all_bytes has */
    uint64_t *begins;                   /* of each sample */
};

static atomic_ullong all_bytes; /* of all sources; relaxed, for it is only shown */

/* Numbers of a row that are being read. */
struct row {
    double numbers[SAMPLE_ROW_NUMBERS_MAX];
    uint32_t count;
};

char *rows_column(const char *value, bool *masks)
{
    size_t len = strlen(value);
    *masks = len > 2 && value[0] == '{' && value[len - 1] == '}';
    return *masks || (len > 2 && value[0] == '[' && value[len - 1] == ']') ? strndup(value + 1, len - 2) : NULL;
}

static int out_of_memory(struct error *err)
{
    return error_set(err, LARDER_ENOMEM, "out of memory while indexing");
}

/* ── cells ── */

static int take_number(struct numbered *made, const json_t *value, struct row *row, struct error *err)
{
    double number = json_number_value(value);
    if (!json_is_number(value))
        return error_set(err, LARDER_EFORMAT, "it has something that is no number: give numbers, such as [1.5, 2]");
    json_int_t whole = json_integer_value(value), most = (json_int_t)SAMPLE_ROW_WHOLE_MAX;
    if (json_is_integer(value) ? whole > most || whole < -most : fabs(number) > (double)FLT_MAX)
        return error_set(err, LARDER_EFORMAT,
                         "the number %g is too large: a whole one may be up to 2^53, and another "
                         "what float32 has",
                         number);
    if (row->count == SAMPLE_ROW_NUMBERS_MAX)
        return error_set(err, LARDER_ELIMIT, "a row of more than %d numbers", SAMPLE_ROW_NUMBERS_MAX);
    made->about.whole = made->about.whole && number == rint(number) && fabs(number) <= SAMPLE_ROW_WHOLE_MAX;
    row->numbers[row->count++] = number;
    return 0;
}

/* take_row reads a number, or lists of them, which lie one behind the other in a row. */
static int take_row(struct numbered *made, const json_t *value, int depth, struct row *row, struct error *err)
{
    if (!json_is_array(value))
        return take_number(made, value, row, err);
    if (depth == DEPTH_MAX)
        return error_set(err, LARDER_EFORMAT, "lists more than %d levels deep", DEPTH_MAX);
    int code = 0;
    for (size_t i = 0; i < json_array_size(value) && !code; i++)
        code = take_row(made, json_array_get(value, i), depth + 1, row, err);
    return code;
}

static int make_room(struct numbered *made, size_t more, struct error *err)
{
    if (made->len_bytes + more > made->most_bytes)
        return error_set(err, LARDER_ELIMIT,
                         "its rows take more than the %llu bytes that limits.columns leaves: raise that, or leave "
                         "parts out",
                         (unsigned long long)made->most_bytes);
    if (made->cap_bytes - made->len_bytes >= more)
        return 0;
    size_t cap = made->cap_bytes * 2 + more;
    uint8_t *grown = realloc(made->bytes, cap);
    if (!grown)
        return out_of_memory(err);
    made->bytes = grown;
    made->cap_bytes = cap;
    return 0;
}

/* put_rows appends a sample with the rows of a list. */
static int put_rows(struct numbered *made, const json_t *list, struct error *err)
{
    struct part_rows *about = &made->about;
    uint32_t count = (uint32_t)json_array_size(list), width = 0;
    int code = 0;
    struct row row;
    for (uint32_t i = 0; i < count && !code; i++) {
        row.count = 0;
        code = take_row(made, json_array_get(list, i), 1, &row, err);
        if (!code && (row.count == 0 || (about->width && row.count != about->width)))
            code = error_set(err, LARDER_EFORMAT,
                             "its row %u has %u numbers, and rows before it %u: give all rows as many", i, row.count,
                             about->width);
        width = about->width = code ? about->width : row.count;
        if (!code && i == 0)
            code = make_room(made, sample_rows_bytes(count, width), err);
        for (uint32_t j = 0; j < row.count && !code; j++)
            sample_rows_put(made->bytes + made->len_bytes, (size_t)i * width + j, row.numbers[j]);
    }
    if (!code && count == 0)
        code = make_room(made, sample_rows_bytes(0, 0), err);
    if (code)
        return code;
    sample_rows_write(count, width, made->bytes + made->len_bytes);
    made->len_bytes += sample_rows_bytes(count, width);
    about->most = count > about->most ? count : about->most;
    return 0;
}

/* put_masks appends a sample with the masks of a list. */
static int put_masks(struct numbered *made, const json_t *list, struct error *err)
{
    uint8_t *masks;
    size_t len_bytes, count = json_array_size(list);
    int code = masks_cell_read(list, &masks, &len_bytes, err);
    if (code)
        return code;
    code = make_room(made, len_bytes, err);
    if (!code) {
        memcpy(made->bytes + made->len_bytes, masks, len_bytes);
        made->len_bytes += len_bytes;
        made->about.most = count > made->about.most ? (uint32_t)count : made->about.most;
    }
    free(masks);
    return code;
}

/* take_cell appends a sample. A cell without a value has no rows. */
static int take_cell(struct numbered *made, const char *text, size_t len, struct error *err)
{
    json_error_t why;
    json_t *value = len ? json_loadb(text, len, JSON_DECODE_ANY, &why) : json_array();
    int code = 0;
    if (!value)
        code = error_set(err, LARDER_EFORMAT, "it is no JSON: %s", why.text);
    else if (!json_is_array(value))
        code = error_set(err, LARDER_EFORMAT, "it is no list of %s",
                         made->masks ? "masks" : "numbers, or of lists of numbers");
    else if (json_array_size(value) > SAMPLE_ROWS_MAX)
        code = error_set(err, LARDER_ELIMIT, "it has %zu rows, and a sample may have %u", json_array_size(value),
                         SAMPLE_ROWS_MAX);
    else
        code = made->masks ? put_masks(made, value, err) : put_rows(made, value, err);
    json_decref(value);
    return code;
}

/* ── the index ── */

static int add_sample(struct numbered *made, const struct source *container, uint32_t index)
{
    struct index *own = &made->source.index;
    uint64_t begin = index ? made->begins[index - 1] + own->samples[index - 1].size : 0;
    struct index_sample *sample = &own->samples[index];
    uint64_t bytes = made->len_bytes - begin;
    *sample = (struct index_sample){.size = bytes, .mtime_ns = (int64_t)XXH3_64bits(made->bytes + begin, bytes)};
    made->begins[index] = begin;
    own->sample_count = index + 1;
    return index_text(own, index_key(&container->index, index), NULL, &sample->key);
}

static int take_cells(struct numbered *made, const struct source *container, const struct cells *cells,
                      struct error *err)
{
    const char *texts = cells->texts ? cells->texts : ""; /* all cells are empty */
    int code = 0;
    for (uint32_t i = 0; i < cells->count && !code; i++) {
        uint64_t from = i ? cells->ends[i - 1] : 0;
        code = take_cell(made, texts + from, cells->ends[i] - from, err);
        if (code)
            return error_prefix(err, code, "%s: row %u, %s", container->index.text, i + 1,
                                index_key(&container->index, i));
        code = add_sample(made, container, i) ? out_of_memory(err) : 0;
    }
    return code;
}

static int read_cells(const struct source *container, const struct source_wish *wish, struct cells *cells,
                      struct error *err)
{
    const char *column = wish->part;
    if (!container->kind->column)
        return error_set(err, LARDER_EINVAL, "%s has no columns, and \"%.100s\" is to be one: give a list with it",
                         container->index.text, column);
    int code = container->kind->column(container, column, wish->interrupt, cells, err);
    if (code == LARDER_ENOENT || (!code && cells->count != container->index.sample_count))
        return error_set(err, LARDER_EINVAL, "%s has no column \"%.100s\"", container->index.text, column);
    if (code == LARDER_ELIMIT)
        return error_set(err, code, "%s: its column \"%.100s\" takes more than limits.columns: raise that",
                         container->index.text, column);
    return code == LARDER_ENOMEM ? out_of_memory(err) : code;
}

/* settle gives back what the rows do not need, and counts what they take. */
static void settle(struct numbered *made)
{
    uint8_t *less = realloc(made->bytes, made->len_bytes + 1);
    if (less) {
        made->bytes = less;
        made->cap_bytes = made->len_bytes + 1;
    }
    made->counted_bytes = made->cap_bytes + made->source.index.sample_count * sizeof *made->begins;
    atomic_fetch_add_explicit(&all_bytes, made->counted_bytes, memory_order_relaxed);
}

int rows_index(const struct source *container, const struct source_wish *wish, bool masks, struct source **out,
               struct error *err)
{
    struct source *source = NULL;
    uint64_t most = wish->rows_max ? wish->rows_max : ROWS_BYTES_MAX;
    struct cells cells = {.bytes_max = most};
    int code = source_create(&rows_kind, &source, err);
    if (!code)
        code = read_cells(container, wish, &cells, err);
    if (!code) {
        struct numbered *made = (struct numbered *)source;
        made->masks = masks;
        made->about.whole = true;
        made->most_bytes = most;
        made->begins = calloc(cells.count + 1, sizeof *made->begins);
        source->index.samples = calloc(cells.count + 1, sizeof *source->index.samples);
        source->index.sample_cap = cells.count + 1;
        source->index.root = strdup(container->index.root);
        code = made->begins && source->index.samples && source->index.root ? take_cells(made, container, &cells, err)
                                                                           : out_of_memory(err);
    }
    cells_free(&cells);
    if (!code && index_pack(&source->index))
        code = out_of_memory(err);
    if (code) {
        source_free(&source);
    } else {
        settle((struct numbered *)source);
        *out = source;
    }
    return code;
}

uint64_t rows_bytes(const struct source *source)
{
    CHECK(source->kind == &rows_kind);
    return ((const struct numbered *)source)->counted_bytes;
}

uint64_t rows_bytes_of_all(void)
{
    return atomic_load_explicit(&all_bytes, memory_order_relaxed);
}

struct part_rows rows_about(const struct source *source)
{
    CHECK(source->kind == &rows_kind);
    return ((const struct numbered *)source)->about;
}

/* ── the kind ── */

static bool unchanged(struct source *source, const struct interrupt *interrupt, bool *settled)
{
    (void)source, (void)interrupt;
    *settled = false;
    return true;
}

static const uint8_t *bytes_of(const struct source *source, uint32_t index)
{
    const struct numbered *made = (const struct numbered *)source;
    return made->bytes + made->begins[index];
}

/* The bytes of rows and those of masks begin with how many they are. */
uint32_t rows_count(const struct source *source, uint32_t index)
{
    CHECK(source->kind == &rows_kind);
    return get_u32(bytes_of(source, index));
}

static uint32_t read_samples(const struct source *source, struct sample_read *reads, uint32_t count, uint64_t until_ns)
{
    (void)until_ns;
    for (uint32_t i = 0; i < count; i++) {
        reads[i].err.code = 0;
        reads[i].left = false;
        memcpy(reads[i].buf, bytes_of(source, reads[i].index), index_size(&source->index, reads[i].index));
    }
    return 0;
}

static struct identity identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed)
{
    (void)apart;
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes_of(source, index), index_size(&source->index, index), seed);
    return (struct identity){.low = hash.low64, .high = hash.high64};
}

static int hash_sample(const struct source *source, uint32_t index, const struct interrupt *interrupt,
                       struct identity *out, struct error *err)
{
    (void)interrupt, (void)err;
    *out = identity(source, index, 0, 0);
    return 0;
}

static void destroy(struct source *source)
{
    struct numbered *made = (struct numbered *)source;
    atomic_fetch_sub_explicit(&all_bytes, made->counted_bytes, memory_order_relaxed);
    free(made->bytes);
    free(made->begins);
}

const struct source_kind rows_kind = {
    .name = "a column of rows of numbers",
    .bytes = sizeof(struct numbered),
    .unchanged = unchanged,
    .read = read_samples,
    .hash = hash_sample,
    .identity = identity,
    .destroy = destroy,
};
