/* table.c: a daemon's status for a person. Pure: JSON in, text out; what is missing in it shows as 0 or "-". */
#include <string.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"

#define TABLE_COLUMNS 100
#define NAME_COLUMNS_MIN 8
#define NAME_COLUMNS_MAX 18
#define SOCKET_COLUMNS 44

/* ── the daemon ────────────────────────────────────────────────────────────────────────────────────────────────── */

static void print_memory(const json_t *status, FILE *out)
{
    char a[CELL_BYTES], b[CELL_BYTES], c[CELL_BYTES];
    fprintf(out, "memory   arena %s of %s",
            cells_bytes(cells_number(cells_at(status, "memory", "arena", "used_bytes")), a),
            cells_bytes(cells_number(cells_at(status, "memory", "arena", "budget_bytes")), b));
    fprintf(out, " (%s pinned)", cells_bytes(cells_number(cells_at(status, "memory", "arena", "pinned_bytes")), c));
    fprintf(out, ", encoded %s of %s",
            cells_bytes(cells_number(cells_at(status, "memory", "encoded", "used_bytes")), a),
            cells_bytes(cells_number(cells_at(status, "memory", "encoded", "budget_bytes")), b));
    double decoded = cells_number(cells_at(status, "memory", "encoded", "decoded_bytes"));
    double files = cells_number(cells_at(status, "memory", "encoded", "used_bytes")) - decoded;
    if (decoded > 0)
        fprintf(out, " (%s of files, %s of decoded images)", cells_bytes(files > 0 ? files : 0, a),
                cells_bytes(decoded, b));
    fprintf(out, ", process %s\n", cells_bytes(cells_number(cells_at(status, "daemon", "rss_bytes", NULL)), c));
}

/* print_storage prints a line for each storage class, with its share of all bytes read. */
static void print_storage(const json_t *status, FILE *out)
{
    char path[CELL_BYTES], state[CELL_BYTES], a[CELL_BYTES], b[CELL_BYTES];
    const json_t *classes = cells_at(status, "storage", "classes", NULL), *row;
    double read = cells_number(cells_at(status, "storage", "source", "bytes"));
    size_t i;
    json_array_foreach((json_t *)classes, i, row)
        read += cells_field(json_object_get(row, "read"), "bytes");
    json_array_foreach((json_t *)classes, i, row) {
        fprintf(out, "storage  %s %s%s, %s of %s", cells_printable(json_object_get(row, "path"), SOCKET_COLUMNS, path),
                cells_printable(json_object_get(row, "state"), NAME_COLUMNS_MAX, state),
                json_is_true(json_object_get(row, "left_alone")) ? " (slower than the source)" : "",
                cells_bytes(cells_field(row, "used_bytes"), a), cells_bytes(cells_field(row, "size_bytes"), b));
        const char *form = json_string_value(json_object_get(row, "form"));
        if (form && strcmp(form, "planes") == 0)
            fprintf(out, ", %s of %s samples in planes", cells_count(cells_field(row, "planes"), a),
                    cells_count(cells_field(row, "samples"), b));
        if (read > 0)
            fprintf(out, "; %.0f%% of reads", 100 * cells_field(json_object_get(row, "read"), "bytes") / read);
        fputc('\n', out);
    }
}

static void print_samples(const json_t *status, FILE *out)
{
    char a[CELL_BYTES], b[CELL_BYTES];
    const json_t *ratio = cells_at(status, "samples", "prepared_per_delivered", NULL), *value;
    const char *reason;
    fprintf(out, "samples  %s prepared, %s delivered",
            cells_count(cells_number(cells_at(status, "samples", "prepared", NULL)), a),
            cells_count(cells_number(cells_at(status, "samples", "delivered", NULL)), b));
    if (json_is_number(ratio))
        fprintf(out, ": %.2f prepared for each delivered", json_number_value(ratio));
    fputc('\n', out);
    const char *between = "bad      ";
    json_object_foreach((json_t *)cells_at(status, "samples", "bad", NULL), reason, value) {
        if (cells_number(value) > 0) {
            fprintf(out, "%s%s %s", between, cells_count(cells_number(value), a), reason);
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
    double cores = cells_rate(cells_number(cells_at(status, "daemon", "cpu_s", NULL)),
                              cells_number(cells_at(before, "daemon", "cpu_s", NULL)), elapsed_s);
    double prepared = cells_rate(cells_number(cells_at(status, "samples", "prepared", NULL)),
                                 cells_number(cells_at(before, "samples", "prepared", NULL)), elapsed_s);
    fputs("threads  ", out);
    json_object_foreach((json_t *)cells_at(status, "daemon", "threads", NULL), role, value) {
        fprintf(out, "%s%.0f %s", between, cells_number(value), role);
        between = ", ";
    }
    if (cores >= 0)
        fprintf(out, "; %.1f cores busy, %s samples prepared/s", cores, cells_rate_text(prepared, buf));
    fputc('\n', out);
}

static void print_steps(const json_t *status, FILE *out)
{
    char buf[CELL_BYTES];
    double steps = cells_number(cells_at(status, "engine", "steps", NULL));
    if (steps > 0)
        fprintf(out, "engine   %s steps, %.3f ms on the mean, the longest %.1f ms\n", cells_count(steps, buf),
                cells_number(cells_at(status, "engine", "step_ms", "mean")),
                cells_number(cells_at(status, "engine", "step_ms", "longest")));
}

static void print_daemon(const json_t *status, const json_t *before, double elapsed_s, FILE *out)
{
    const json_t *daemon = cells_at(status, "daemon", NULL, NULL);
    const json_t *page = json_object_get(daemon, "page");
    char version[CELL_BYTES], socket[CELL_BYTES], uptime[CELL_BYTES], state[CELL_BYTES], shown[CELL_BYTES];
    fprintf(out, "larderd %s, %s, up for %s, pid %.0f, %s%s%s, %.0f connected\n",
            cells_printable(json_object_get(daemon, "version"), NAME_COLUMNS_MAX, version),
            cells_printable(json_object_get(daemon, "state"), NAME_COLUMNS_MAX, state),
            cells_duration(cells_field(daemon, "uptime_s"), uptime), cells_field(daemon, "pid"),
            cells_printable(json_object_get(daemon, "socket"), SOCKET_COLUMNS, socket),
            json_is_string(page) ? ", page at " : "",
            json_is_string(page) ? cells_printable(page, SOCKET_COLUMNS, shown) : "", cells_field(daemon, "sessions"));
    print_samples(status, out);
    print_memory(status, out);
    print_storage(status, out);
    print_threads(status, before, elapsed_s, out);
    print_steps(status, out);
    cli_cluster_line(json_object_get(status, "cluster"), out);
}

/* ── the jobs ──────────────────────────────────────────────────────────────────────────────────────────────────── */

struct queue_sums {
    double ready, leased;
    size_t count;
};

static struct queue_sums sum_queues(const json_t *job)
{
    struct queue_sums sums = {0};
    const json_t *queues = json_object_get(job, "queues"), *queue;
    size_t i;
    json_array_foreach((json_t *)queues, i, queue) {
        sums.ready += cells_field(queue, "ready_batches");
        sums.leased += cells_field(queue, "leased_batches");
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
enum { EPOCH = 6, DONE = 4, OF = 9, RATE = 7, WAITS = 5, READY = 5, HELD = 4, SHARING = 7, BAD = 4, CELLS = 9 };
#define NUMBERS_COLUMNS (EPOCH + DONE + OF + RATE + WAITS + READY + HELD + SHARING + BAD + 2 * CELLS)

static void print_progress(const json_t *job, FILE *out)
{
    char buf[CELL_BYTES];
    double view = cells_field(job, "epoch_samples"), done = cells_field(job, "epoch_delivered"),
           epochs = cells_field(job, "epochs");
    bool started = json_is_true(json_object_get(job, "started"));
    snprintf(buf, sizeof buf, epochs > 0 ? "%.0f/%.0f" : "%.0f", cells_field(job, "epoch"), epochs);
    cells_right(out, started ? buf : "-", EPOCH);
    snprintf(buf, sizeof buf, "%.0f%%", view > 0 ? 100 * done / view : 0);
    cells_right(out, buf, DONE);
    cells_right(out, cells_count(view, buf), OF);
}

static void print_job(const json_t *jobs, const json_t *job, const json_t *before, double elapsed_s,
                      size_t name_columns, FILE *out)
{
    char buf[CELL_BYTES];
    struct queue_sums queues = sum_queues(job);
    double delivered = cells_field(job, "delivered"), waits;
    cli_worst_stall(job, before, elapsed_s, &waits);
    cells_left(out, cells_name(jobs, job, name_columns, buf), name_columns);
    print_progress(job, out);
    cells_right(out,
                cells_rate_text(before ? cells_rate(delivered, cells_field(before, "delivered"), elapsed_s) : -1, buf),
                RATE);
    snprintf(buf, sizeof buf, "%.0f%%", 100 * waits);
    cells_right(out, before && elapsed_s > 0 ? buf : "-", WAITS);
    double most = cells_field(job, "prefetch") * (double)queues.count; /* more may be ready: others' preparations */
    snprintf(buf, sizeof buf, "%.0f/%.0f", queues.ready < most ? queues.ready : most, most);
    cells_right(out, buf, READY);
    snprintf(buf, sizeof buf, "%.0f", queues.leased);
    cells_right(out, buf, HELD);
    snprintf(buf, sizeof buf, "%.0f%%", delivered > 0 ? 100 * cells_field(job, "shared") / delivered : 0);
    cells_right(out, buf, SHARING);
    cells_right(out, cells_count(cells_field(job, "bad_samples"), buf), BAD);
    size_t left = TABLE_COLUMNS - NUMBERS_COLUMNS - 2 - name_columns;
    fprintf(out, "  %s\n", cells_printable(json_object_get(job, "dataset"), left, buf));
}

static void print_heads(size_t name_columns, FILE *out)
{
    static const struct {
        const char *text;
        size_t width;
    } heads[CELLS] = {{"EPOCH", EPOCH}, {"DONE", DONE}, {"SAMPLES", OF},      {"PER SEC", RATE}, {"WAITS", WAITS},
                      {"READY", READY}, {"HELD", HELD}, {"SHARING", SHARING}, {"BAD", BAD}};
    cells_left(out, "JOB", name_columns);
    for (size_t i = 0; i < CELLS; i++)
        cells_right(out, heads[i].text, heads[i].width);
    fputs("  DATASET\n", out);
}

/* As wide as the longest name, as far as the dataset keeps some room. */
static size_t find_name_columns(const json_t *jobs)
{
    char buf[CELL_BYTES];
    size_t i, most = NAME_COLUMNS_MIN;
    const json_t *job;
    json_array_foreach((json_t *)jobs, i, job) {
        size_t used = cells_columns(cells_name(jobs, job, NAME_COLUMNS_MAX, buf));
        most = used > most ? used : most;
    }
    return most;
}

/* Most jobs have weight 1. The others are listed, a few on each line. */
static void print_weights(const json_t *jobs, FILE *out)
{
    char buf[CELL_BYTES], cell[CELL_BYTES + 32];
    size_t i, used = 0;
    const json_t *job;
    json_array_foreach((json_t *)jobs, i, job) {
        double weight = cells_field(job, "weight");
        if (weight == 0 || weight == 1) /* 0: a daemon that says nothing of weights */
            continue;
        snprintf(cell, sizeof cell, " %s %g", cells_name(jobs, job, NAME_COLUMNS_MAX, buf), weight);
        if (used == 0 || used + cells_columns(cell) > TABLE_COLUMNS) {
            fputs("\nweights:", out);
            used = sizeof "weights:" - 1;
        } else {
            fputc(',', out);
            used++;
        }
        fputs(cell, out);
        used += cells_columns(cell);
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
            fprintf(out, "\nno answer for %.0f s from the storage of %s\n", cells_field(job, "source_wait_s"),
                    cells_name(jobs, job, NAME_COLUMNS_MAX, buf));
    }
}

void cli_status_print(const json_t *status, const json_t *before, FILE *out)
{
    double elapsed_s = cells_number(cells_at(status, "daemon", "time_s", NULL)) -
                       cells_number(cells_at(before, "daemon", "time_s", NULL));
    const json_t *jobs = json_object_get(status, "jobs"), *job;
    size_t i;
    if (!before || cells_field(cells_at(status, "daemon", NULL, NULL), "pid") !=
                       cells_field(cells_at(before, "daemon", NULL, NULL), "pid"))
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
        print_job(jobs, job, same_job(before, job), elapsed_s, name_columns, out);
    print_weights(jobs, out);
    print_waits(jobs, out);
}
