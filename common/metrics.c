/* metrics.c: the table, and snapshots of it as Prometheus text. A snapshot belongs to one thread. */
#include "common/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/real.h"
#include "common/utf8.h"

#define METRICS_MAGIC UINT32_C(0x4d455452)
#define NO_VALUE SIZE_MAX

static const struct metric_info table[METRIC_COUNT] = {
#define METRIC(id, type_, name_, help_, ...) \
    [METRIC_##id] = {.name = name_, .help = help_, .type = type_, .labels = {__VA_ARGS__}},
#include "common/metrics_table.h"
#undef METRIC
};

static const char *const types[] = {
    [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};

struct value {
    double number;    /* value of a counter or a gauge */
    size_t histogram; /* index of a histogram in metrics.histograms */
    size_t labels;    /* offset into texts: the label values, each NUL-terminated, in the table's order */
    size_t next;      /* next value of the same metric; NO_VALUE at the end */
};

struct metrics {
    uint32_t magic;
    bool out_of_memory;
    size_t first[METRIC_COUNT], last[METRIC_COUNT];
    struct value *values;
    size_t count, capacity;
    struct histogram *histograms;
    size_t n_histograms, histograms_capacity;
    char *texts;
    size_t texts_len, texts_capacity;
};

const struct metric_info *metric_info(enum metric_id id)
{
    CHECK((unsigned)id < METRIC_COUNT);
    return &table[id];
}

int metrics_create(struct metrics **out)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return LARDER_ENOMEM;
    metrics->magic = METRICS_MAGIC;
    for (size_t id = 0; id < METRIC_COUNT; id++)
        metrics->first[id] = metrics->last[id] = NO_VALUE;
    *out = metrics;
    return 0;
}

void metrics_destroy(struct metrics *metrics)
{
    if (!metrics)
        return;
    CHECK_MAGIC(metrics, METRICS_MAGIC);
    metrics->magic = 0;
    free(metrics->values);
    free(metrics->histograms);
    free(metrics->texts);
    free(metrics);
}

/* grow makes room for `more` elements behind `used`; false when out of memory. */
static bool grow(void *array, size_t used, size_t more, size_t *capacity, size_t element_bytes)
{
    if (*capacity - used >= more)
        return true;
    size_t wanted = (used + more) * 2;
    void **memory = array;
    void *grown = realloc(*memory, wanted * element_bytes);
    if (!grown)
        return false;
    *memory = grown;
    *capacity = wanted;
    return true;
}

static size_t label_count(enum metric_id id)
{
    size_t count = 0;
    while (count < METRIC_LABELS_MAX && table[id].labels[count])
        count++;
    return count;
}

static void add(struct metrics *metrics, enum metric_id id, struct value value, const char *const *label_values)
{
    size_t labels = label_count(id), len = 0;
    for (size_t i = 0; i < labels; i++)
        len += strlen(label_values[i]) + 1;
    void *values = metrics->values, *texts = metrics->texts;
    bool ok = grow(&values, metrics->count, 1, &metrics->capacity, sizeof *metrics->values);
    ok = grow(&texts, metrics->texts_len, len, &metrics->texts_capacity, 1) && ok;
    metrics->values = values;
    metrics->texts = texts;
    if (!ok) {
        metrics->out_of_memory = true; /* a snapshot with holes would lie: metrics_render returns none */
        return;
    }
    size_t at = metrics->count++;
    value.labels = metrics->texts_len;
    value.next = NO_VALUE;
    metrics->values[at] = value;
    for (size_t i = 0; i < labels; i++) {
        size_t bytes = strlen(label_values[i]) + 1;
        memcpy(metrics->texts + metrics->texts_len, label_values[i], bytes);
        metrics->texts_len += bytes;
    }
    if (metrics->last[id] == NO_VALUE)
        metrics->first[id] = at;
    else
        metrics->values[metrics->last[id]].next = at;
    metrics->last[id] = at;
}

void metrics_put(struct metrics *metrics, enum metric_id id, double number, const char *const *label_values)
{
    CHECK_MAGIC(metrics, METRICS_MAGIC);
    CHECK((unsigned)id < METRIC_COUNT && table[id].type != METRIC_HISTOGRAM);
    add(metrics, id, (struct value){.number = number}, label_values);
}

void metrics_put_histogram(struct metrics *metrics, enum metric_id id, const struct histogram *histogram,
                           const char *const *label_values)
{
    CHECK_MAGIC(metrics, METRICS_MAGIC);
    CHECK((unsigned)id < METRIC_COUNT && table[id].type == METRIC_HISTOGRAM);
    void *histograms = metrics->histograms;
    if (!grow(&histograms, metrics->n_histograms, 1, &metrics->histograms_capacity, sizeof *histogram)) {
        metrics->out_of_memory = true;
        return;
    }
    metrics->histograms = histograms;
    metrics->histograms[metrics->n_histograms] = *histogram;
    add(metrics, id, (struct value){.histogram = metrics->n_histograms++}, label_values);
}

/* A job's name is a client's bytes: whatever they are, the page must stay readable for Prometheus, which wants
 * UTF-8. */
static void write_label(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        size_t len = utf8_length(at);
        if (*at == '\\' || *at == '"')
            fprintf(out, "\\%c", *at);
        else if (*at == '\n')
            fputs("\\n", out);
        else if (len == 0)
            fputc('?', out);
        else
            fwrite(at, 1, len, out);
        at += len ? len : 1;
    }
}

static void write_help(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\\\", out);
        else if (*text == '\n')
            fputs("\\n", out);
        else
            fputc(*text, out);
    }
}

static void write_number(FILE *out, double number)
{
    char text[REAL_BYTES];
    if (isnan(number))
        fputs("NaN", out);
    else if (isinf(number))
        fputs(number > 0 ? "+Inf" : "-Inf", out);
    else if (fabs(number) < 9007199254740992.0 && number == floor(number))
        fprintf(out, "%.0f", number);
    else
        fputs(real_text(number, text), out);
}

/* Writes one line: the metric's name with its suffix, the value's labels, and the number. `bound` is the label `le` of
 * a histogram's bucket; NULL: it has none. */
struct line {
    enum metric_id id;
    const struct value *value;
    const char *suffix, *bound;
    double number;
};

static void write_line(FILE *out, const struct metrics *metrics, const struct line *line)
{
    size_t labels = label_count(line->id);
    const char *text = labels ? metrics->texts + line->value->labels : "";
    fprintf(out, "%s%s", table[line->id].name, line->suffix);
    for (size_t i = 0; i < labels; i++) {
        fprintf(out, "%s%s=\"", i ? "," : "{", table[line->id].labels[i]);
        write_label(out, text);
        fputc('"', out);
        text += strlen(text) + 1;
    }
    if (line->bound)
        fprintf(out, "%sle=\"%s\"", labels ? "," : "{", line->bound);
    fputs(labels || line->bound ? "} " : " ", out);
    write_number(out, line->number);
    fputc('\n', out);
}

static void write_histogram(FILE *out, const struct metrics *metrics, enum metric_id id, const struct value *value)
{
    const struct histogram *histogram = &metrics->histograms[value->histogram];
    char bound[32];
    struct line line = {.id = id, .value = value, .suffix = "_bucket", .bound = bound};
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        if (i < HISTOGRAM_BOUNDS)
            snprintf(bound, sizeof bound, "%g", histogram_bound_s(i));
        else
            strcpy(bound, "+Inf");
        line.number += (double)histogram->counts[i];
        write_line(out, metrics, &line);
    }
    line.bound = NULL;
    line.suffix = "_count";
    write_line(out, metrics, &line);
    line.suffix = "_sum";
    line.number = histogram->sum_s;
    write_line(out, metrics, &line);
}

static void write_value(FILE *out, const struct metrics *metrics, enum metric_id id, const struct value *value)
{
    if (table[id].type == METRIC_HISTOGRAM)
        write_histogram(out, metrics, id, value);
    else
        write_line(out, metrics, &(struct line){.id = id, .value = value, .suffix = "", .number = value->number});
}

char *metrics_render(const struct metrics *metrics, size_t *len_bytes)
{
    CHECK_MAGIC(metrics, METRICS_MAGIC);
    char *text = NULL;
    size_t len = 0;
    FILE *out = metrics->out_of_memory ? NULL : open_memstream(&text, &len);
    if (!out)
        return NULL;
    for (size_t id = 0; id < METRIC_COUNT; id++) {
        if (metrics->first[id] == NO_VALUE)
            continue;
        fprintf(out, "# HELP %s ", table[id].name);
        write_help(out, table[id].help);
        fprintf(out, "\n# TYPE %s %s\n", table[id].name, types[table[id].type]);
        for (size_t at = metrics->first[id]; at != NO_VALUE; at = metrics->values[at].next)
            write_value(out, metrics, (enum metric_id)id, &metrics->values[at]);
    }
    bool failed = ferror(out);
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    *len_bytes = len;
    return text;
}
