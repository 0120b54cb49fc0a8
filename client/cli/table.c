/* table.c: a daemon's status for a person. Pure: JSON in, text out; what is missing in it shows as 0 or "-".
 *
 * Texts in a status are clients' bytes: nothing of them may reach the terminal as a control sequence. */
#include <string.h>

#include "client/cli/cli.h"

#define TABLE_COLUMNS 100
#define NAME_COLUMNS_MIN 8
#define NAME_COLUMNS_MAX 18
#define SOCKET_COLUMNS 44
#define CELL_BYTES 256

/* at follows keys, NULL ends them: at(status, "memory", "arena", NULL). */
static const json_t *at(const json_t *json, const char *a, const char *b, const char *c)
{
    json = json_object_get(json, a);
    if (b)
        json = json_object_get(json, b);
    return c ? json_object_get(json, c) : json;
}

static double number(const json_t *json)
{
    return json_is_number(json) ? json_number_value(json) : 0;
}

static double field(const json_t *json, const char *key)
{
    return number(json_object_get(json, key));
}

/* bytes_text writes "1.5 GiB". */
static const char *bytes_text(double bytes, char buf[CELL_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(buf, CELL_BYTES, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return buf;
}

static const char *duration_text(double seconds, char buf[CELL_BYTES])
{
    unsigned long s = seconds > 0 && seconds < 1e12 ? (unsigned long)seconds : 0;
    if (s >= 86400)
        snprintf(buf, CELL_BYTES, "%lu d %lu h", s / 86400, s % 86400 / 3600);
    else if (s >= 3600)
        snprintf(buf, CELL_BYTES, "%lu h %lu min", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        snprintf(buf, CELL_BYTES, "%lu min %lu s", s / 60, s % 60);
    else
        snprintf(buf, CELL_BYTES, "%lu s", s);
    return buf;
}

/* count_text writes a count with its thousands apart. */
static const char *count_text(double value, char buf[CELL_BYTES])
{
    char digits[64];
    int len = snprintf(digits, sizeof digits, "%.0f", value);
    size_t to = 0;
    for (int i = 0; i < len && len < (int)sizeof digits; i++) {
        buf[to++] = digits[i];
        if ((len - i) % 3 == 1 && i + 1 < len && digits[i] != '-')
            buf[to++] = ',';
    }
    buf[to] = '\0';
    return buf;
}

static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

static size_t columns(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += !continues(*text);
    return count;
}

/* printable copies a text without control characters, cut on the left to max columns, "-" for none. */
static const char *printable(const json_t *json, size_t max, char buf[CELL_BYTES])
{
    const char *text = json_string_value(json);
    size_t len = 0, skip;
    if (!text || !*text)
        return strcpy(buf, "-");
    skip = columns(text) > max ? columns(text) - (max - 1) : 0;
    if (skip) {
        strcpy(buf, "…");
        len = strlen(buf);
    }
    for (; skip > 0 || continues(*text); text++)
        skip -= !continues(*text);
    for (; *text && len < CELL_BYTES - 5; text++) {
        unsigned char byte = (unsigned char)*text;
        bool c1 = byte == 0xc2 && (unsigned char)text[1] < 0xa0;
        buf[len++] = byte < ' ' || byte == 0x7f || c1 ? '?' : *text;
        text += c1; /* its second byte too */
    }
    buf[len] = '\0';
    return buf;
}

static int padding(const char *text, size_t width)
{
    size_t used = columns(text);
    return (int)(used < width ? width - used : 0);
}

static void text_cell(FILE *out, const char *text, size_t width)
{
    fprintf(out, "%s%*s", text, padding(text, width), "");
}

static void number_cell(FILE *out, const char *text, size_t width)
{
    fprintf(out, "  %*s%s", padding(text, width), "", text);
}

/* rate gives what a counter grew by a second between two snapshots; negative when there is no telling. */
static double rate(double now, double before, double elapsed_s)
{
    return elapsed_s > 0 && now >= before ? (now - before) / elapsed_s : -1;
}

static const char *rate_text(double per_second, char buf[CELL_BYTES])
{
    if (per_second < 0)
        return strcpy(buf, "-");
    if (per_second >= 100)
        return count_text(per_second, buf);
    snprintf(buf, CELL_BYTES, "%.1f", per_second);
    return buf;
}

/* ── the daemon ────────────────────────────────────────────────────────────────────────────────────────────────── */

static void print_memory(const json_t *status, FILE *out)
{
    char a[CELL_BYTES], b[CELL_BYTES], c[CELL_BYTES];
    fprintf(out, "memory   arena %s of %s", bytes_text(number(at(status, "memory", "arena", "used_bytes")), a),
            bytes_text(number(at(status, "memory", "arena", "budget_bytes")), b));
    fprintf(out, " (%s pinned)", bytes_text(number(at(status, "memory", "arena", "pinned_bytes")), c));
    fprintf(out, ", encoded %s of %s", bytes_text(number(at(status, "memory", "encoded", "used_bytes")), a),
            bytes_text(number(at(status, "memory", "encoded", "budget_bytes")), b));
    fprintf(out, ", process %s\n", bytes_text(number(at(status, "daemon", "rss_bytes", NULL)), c));
}

static void print_samples(const json_t *status, FILE *out)
{
    char a[CELL_BYTES], b[CELL_BYTES];
    const json_t *ratio = at(status, "samples", "prepared_per_delivered", NULL), *value;
    const char *reason;
    fprintf(out, "samples  %s prepared, %s delivered", count_text(number(at(status, "samples", "prepared", NULL)), a),
            count_text(number(at(status, "samples", "delivered", NULL)), b));
    if (json_is_number(ratio))
        fprintf(out, ": %.2f prepared for each delivered", json_number_value(ratio));
    fputc('\n', out);
    const char *between = "bad      ";
    json_object_foreach((json_t *)at(status, "samples", "bad", NULL), reason, value) {
        if (number(value) > 0) {
            fprintf(out, "%s%s %s", between, count_text(number(value), a), reason);
            between = ", ";
        }
    }
    if (*between == ',')
        fputc('\n', out);
}

static void print_threads(const json_t *status, const json_t *before, double elapsed_s, FILE *out)
{
    char buf[CELL_BYTES];
    const char *role, *between = "";
    const json_t *value;
    double cores = rate(number(at(status, "daemon", "cpu_s", NULL)), number(at(before, "daemon", "cpu_s", NULL)),
                        elapsed_s);
    double prepared = rate(number(at(status, "samples", "prepared", NULL)),
                           number(at(before, "samples", "prepared", NULL)), elapsed_s);
    fputs("threads  ", out);
    json_object_foreach((json_t *)at(status, "daemon", "threads", NULL), role, value) {
        fprintf(out, "%s%.0f %s", between, number(value), role);
        between = ", ";
    }
    if (cores >= 0)
        fprintf(out, "; %.1f cores busy, %s samples prepared/s", cores, rate_text(prepared, buf));
    fputc('\n', out);
}

static void print_daemon(const json_t *status, const json_t *before, double elapsed_s, FILE *out)
{
    const json_t *daemon = at(status, "daemon", NULL, NULL);
    char version[CELL_BYTES], socket[CELL_BYTES], uptime[CELL_BYTES], state[CELL_BYTES];
    fprintf(out, "larderd %s, %s for %s, pid %.0f, %s, %.0f connected\n",
            printable(json_object_get(daemon, "version"), NAME_COLUMNS_MAX, version),
            printable(json_object_get(daemon, "state"), NAME_COLUMNS_MAX, state),
            duration_text(field(daemon, "uptime_s"), uptime), field(daemon, "pid"),
            printable(json_object_get(daemon, "socket"), SOCKET_COLUMNS, socket), field(daemon, "sessions"));
    print_samples(status, out);
    print_memory(status, out);
    print_threads(status, before, elapsed_s, out);
}

/* ── the jobs ──────────────────────────────────────────────────────────────────────────────────────────────────── */

struct queue_sums {
    double ready, leased, wait_s;
    size_t count;
};

static struct queue_sums sum_queues(const json_t *job)
{
    struct queue_sums sums = {0};
    const json_t *queues = json_object_get(job, "queues"), *queue;
    size_t i;
    json_array_foreach((json_t *)queues, i, queue) {
        sums.ready += field(queue, "ready_batches");
        sums.leased += field(queue, "leased_batches");
        sums.wait_s += field(queue, "wait_s");
        sums.count++;
    }
    return sums;
}

/* same_job finds a job's row in an earlier status: the same name and place, so that a new job does not go on from an
 * old. */
static const json_t *same_job(const json_t *before, const json_t *job)
{
    const json_t *jobs = json_object_get(before, "jobs"), *row;
    size_t i;
    json_array_foreach((json_t *)jobs, i, row) {
        if (json_equal(json_object_get(row, "name"), json_object_get(job, "name")) &&
            json_equal(json_object_get(row, "job"), json_object_get(job, "job")))
            return row;
    }
    return NULL;
}

/* The columns after the name, and what they take with the gaps before them. The dataset gets what is left. */
enum { EPOCH = 6, DONE = 4, OF = 9, RATE = 7, WAITED = 5, READY = 5, HELD = 4, SHARED = 6, BAD = 4, CELLS = 9 };
#define NUMBERS_COLUMNS (EPOCH + DONE + OF + RATE + WAITED + READY + HELD + SHARED + BAD + 2 * CELLS)

static void print_progress(const json_t *job, FILE *out)
{
    char buf[CELL_BYTES];
    double view = field(job, "view_samples"), done = field(job, "epoch_delivered"), epochs = field(job, "epochs");
    bool started = json_is_true(json_object_get(job, "started"));
    snprintf(buf, sizeof buf, epochs > 0 ? "%.0f/%.0f" : "%.0f", field(job, "epoch") + 1, epochs);
    number_cell(out, started ? buf : "-", EPOCH);
    snprintf(buf, sizeof buf, "%.0f%%", view > 0 ? 100 * done / view : 0);
    number_cell(out, buf, DONE);
    number_cell(out, count_text(view, buf), OF);
}

static void print_job(const json_t *job, const json_t *before, double elapsed_s, size_t name_columns, FILE *out)
{
    char buf[CELL_BYTES];
    struct queue_sums queues = sum_queues(job), earlier = sum_queues(before);
    double delivered = field(job, "delivered");
    double waited = before ? rate(queues.wait_s, earlier.wait_s, elapsed_s) : -1;
    text_cell(out, printable(json_object_get(job, "name"), name_columns, buf), name_columns);
    print_progress(job, out);
    number_cell(out, rate_text(before ? rate(delivered, field(before, "delivered"), elapsed_s) : -1, buf), RATE);
    snprintf(buf, sizeof buf, "%.0f%%", 100 * waited / (queues.count ? (double)queues.count : 1));
    number_cell(out, waited >= 0 ? buf : "-", WAITED);
    snprintf(buf, sizeof buf, "%.0f/%.0f", queues.ready, field(job, "prefetch") * (double)queues.count);
    number_cell(out, buf, READY);
    snprintf(buf, sizeof buf, "%.0f", queues.leased);
    number_cell(out, buf, HELD);
    snprintf(buf, sizeof buf, "%.0f%%", delivered > 0 ? 100 * field(job, "shared") / delivered : 0);
    number_cell(out, buf, SHARED);
    number_cell(out, count_text(field(job, "bad_samples"), buf), BAD);
    size_t left = TABLE_COLUMNS - NUMBERS_COLUMNS - 2 - name_columns;
    fprintf(out, "  %s\n", printable(json_object_get(job, "dataset"), left, buf));
}

static void print_heads(size_t name_columns, FILE *out)
{
    static const struct {
        const char *text;
        size_t width;
    } heads[CELLS] = {{"EPOCH", EPOCH}, {"DONE", DONE}, {"SAMPLES", OF},    {"PER SEC", RATE}, {"WAITS", WAITED},
                      {"READY", READY}, {"HELD", HELD}, {"SHARED", SHARED}, {"BAD", BAD}};
    text_cell(out, "JOB", name_columns);
    for (size_t i = 0; i < CELLS; i++)
        number_cell(out, heads[i].text, heads[i].width);
    fputs("  DATASET\n", out);
}

/* As wide as the longest name, as far as the dataset keeps some room. */
static size_t find_name_columns(const json_t *jobs)
{
    char buf[CELL_BYTES];
    size_t i, most = NAME_COLUMNS_MIN;
    const json_t *job;
    json_array_foreach((json_t *)jobs, i, job) {
        size_t used = columns(printable(json_object_get(job, "name"), NAME_COLUMNS_MAX, buf));
        most = used > most ? used : most;
    }
    return most;
}

/* Most jobs have the weight 1: the others are named, a few a line. */
static void print_weights(const json_t *jobs, FILE *out)
{
    char buf[CELL_BYTES], cell[CELL_BYTES + 32];
    size_t i, used = 0;
    const json_t *job;
    json_array_foreach((json_t *)jobs, i, job) {
        double weight = field(job, "weight");
        if (weight == 0 || weight == 1) /* 0: a daemon that says nothing of weights */
            continue;
        snprintf(cell, sizeof cell, " %s %g", printable(json_object_get(job, "name"), NAME_COLUMNS_MAX, buf), weight);
        if (used == 0 || used + columns(cell) > TABLE_COLUMNS) {
            fputs("\nweights:", out);
            used = sizeof "weights:" - 1;
        } else {
            fputc(',', out);
            used++;
        }
        fputs(cell, out);
        used += columns(cell);
    }
    if (used)
        fputc('\n', out);
}

/* Jobs whose storage does not answer, a line each. */
static void print_waits(const json_t *jobs, FILE *out)
{
    char buf[CELL_BYTES];
    size_t i;
    const json_t *job;
    json_array_foreach((json_t *)jobs, i, job) {
        if (json_is_true(json_object_get(job, "waits_for_source")))
            fprintf(out, "\nno answer for %.0f s from the storage of %s\n", field(job, "source_wait_s"),
                    printable(json_object_get(job, "name"), NAME_COLUMNS_MAX, buf));
    }
}

void cli_status_print(const json_t *status, const json_t *before, FILE *out)
{
    double elapsed_s = number(at(status, "daemon", "time_s", NULL)) - number(at(before, "daemon", "time_s", NULL));
    const json_t *jobs = json_object_get(status, "jobs"), *job;
    size_t i;
    if (!before || field(at(status, "daemon", NULL, NULL), "pid") != field(at(before, "daemon", NULL, NULL), "pid"))
        elapsed_s = 0;
    print_daemon(status, before, elapsed_s, out);
    if (json_array_size(jobs) == 0) {
        fputs("no jobs\n", out);
        return;
    }
    size_t name_columns = find_name_columns(jobs);
    fputc('\n', out);
    print_heads(name_columns, out);
    json_array_foreach((json_t *)jobs, i, job)
        print_job(job, same_job(before, job), elapsed_s, name_columns, out);
    print_weights(jobs, out);
    print_waits(jobs, out);
}
