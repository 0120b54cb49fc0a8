/* jobs.c: the jobs as a table: how far each is, what it waits for, what it shares. Pure. */
#include <string.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"

#define NAME_COLUMNS 24
#define SILENT_S 10.0 /* a script that holds a batch for as long, and for four steps, has stopped asking */

double cli_budgets(const json_t *status)
{
    const json_t *samples = cells_at(status, "memory", "samples", "budget_bytes");
    double scratch = cells_number(cells_at(status, "memory", "scratch", "budget_bytes"));
    if (samples)
        return cells_number(samples) + scratch;
    return cells_number(cells_at(status, "memory", "arena", "budget_bytes")) +
           cells_number(cells_at(status, "memory", "encoded", "budget_bytes")) + scratch;
}

double cli_elapsed_s(const json_t *now, const json_t *before)
{
    bool same = cells_number(cells_at(now, "daemon", "pid", NULL)) ==
                cells_number(cells_at(before, "daemon", "pid", NULL));
    return same ? cells_number(cells_at(now, "daemon", "time_s", NULL)) -
                      cells_number(cells_at(before, "daemon", "time_s", NULL))
                : 0;
}

const json_t *cli_find_job(const json_t *status, const char *name)
{
    const json_t *jobs = json_object_get(status, "jobs"), *row;
    size_t i;
    json_array_foreach((json_t *)jobs, i, row) {
        const char *called = json_string_value(json_object_get(row, "name"));
        if (called && name && strcmp(called, name) == 0)
            return row;
    }
    return NULL;
}

/* Only ranks that are there can stand still. */
static size_t ranks_there(const json_t *job)
{
    const json_t *queues = json_object_get(job, "queues"), *queue;
    size_t i, there = 0;
    json_array_foreach((json_t *)queues, i, queue)
        there += !json_is_false(json_object_get(queue, "attached"));
    return there;
}

/* stalled returns the fraction of the time, 0 to 1, that the job's present clients stood still for one cause. */
static double stalled(const json_t *job, const json_t *before, double elapsed_s, const char *cause)
{
    size_t ranks = ranks_there(job);
    double part = cells_rate(cells_number(cells_at(job, "stall_s", cause, NULL)),
                             cells_number(cells_at(before, "stall_s", cause, NULL)), elapsed_s);
    return part > 0 && ranks ? part / (double)ranks : 0;
}

const char *cli_worst_stall(const json_t *job, const json_t *before, double elapsed_s, double *all)
{
    static const char *const causes[] = {"load", "prepare", "room", "rank"};
    const char *worst = causes[0];
    *all = 0;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        *all += stalled(job, before, elapsed_s, causes[i]);
        if (stalled(job, before, elapsed_s, causes[i]) > stalled(job, before, elapsed_s, worst))
            worst = causes[i];
    }
    *all = *all < 1 ? *all : 1; /* the daemon's clock began a little before this one */
    return worst;
}

/* queue_of returns the rank's row in an earlier status of the job. */
static const json_t *queue_of(const json_t *job, const json_t *rank)
{
    const json_t *queues = json_object_get(job, "queues"), *queue;
    size_t i;
    json_array_foreach((json_t *)queues, i, queue) {
        if (json_equal(json_object_get(queue, "rank"), rank))
            return queue;
    }
    return NULL;
}

/* waited_s returns for how long the rank's client has stood still since the daemon was started, or it came. */
static double waited_s(const json_t *queue)
{
    double sum = 0;
    const json_t *stall_s = json_object_get(queue, "stall_s"), *part;
    const char *cause;
    json_object_foreach((json_t *)stall_s, cause, part)
        sum += cells_number(part);
    return sum;
}

/* is_silent tells whether the rank's client neither trains nor waits: it has held a batch for far longer than a step
 * takes, and has got nothing and waited for nothing since `before`; or its process is stopped or gone. */
static bool is_silent(const json_t *queue, const json_t *before)
{
    const char *process = json_string_value(json_object_get(queue, "process"));
    double step_s = cells_number(cells_at(queue, "governor", "train_ms", NULL)) / 1e3;
    bool long_held = cells_field(queue, "oldest_lease_s") >= (SILENT_S > 4 * step_s ? SILENT_S : 4 * step_s);
    if (!json_is_true(json_object_get(queue, "attached")))
        return false;
    if (process && strcmp(process, "runs") != 0)
        return true;
    return long_held && before && cells_field(queue, "batches") == cells_field(before, "batches") &&
           waited_s(queue) <= waited_s(before);
}

/* silent_queue returns the queue of the first rank whose script asks for nothing any more, because it is busy with
 * something else, stopped or gone; NULL: there is none. */
static const json_t *silent_queue(const json_t *job, const json_t *before)
{
    const json_t *queues = json_object_get(job, "queues"), *queue;
    size_t i;
    json_array_foreach((json_t *)queues, i, queue) {
        if (is_silent(queue, queue_of(before, json_object_get(queue, "rank"))))
            return queue;
    }
    return NULL;
}

/* has_open_rank tells whether a rank that is there, or is away, has not had its share of the epoch. */
static bool has_open_rank(const json_t *job, bool away)
{
    const json_t *queues = json_object_get(job, "queues"), *queue;
    size_t i;
    json_array_foreach((json_t *)queues, i, queue) {
        bool there = json_is_true(json_object_get(queue, "attached"));
        if (there != away && !json_is_true(json_object_get(queue, "done")))
            return true;
    }
    return false;
}

struct cli_state cli_state_of(const json_t *job, const json_t *before, double elapsed_s)
{
    struct cli_state state = {.known = before && elapsed_s > 0};
    const char *worst = cli_worst_stall(job, before, state.known ? elapsed_s : 0, &state.waits);
    bool all_gone = json_array_size(json_object_get(job, "queues")) > 0 && ranks_there(job) == 0;
    state.silent = silent_queue(job, before);
    if (json_is_true(json_object_get(job, "waits_for_source")))
        state.cause = "storage";
    else if (all_gone)
        state.cause = "gone";
    else if (has_open_rank(job, true)) /* the others may hang in an all-reduce */
        state.cause = "rank";
    else if (state.silent)
        state.cause = "script";
    else if (!json_is_true(json_object_get(job, "started")) && !(state.waits >= CLI_WAITS))
        state.cause = "idle";
    else
        state.cause = !state.known ? "new" : state.waits >= CLI_WAITS ? worst : "training";
    return state;
}

/* Time to the end of the epoch at the present rate; "-" when that is not known. */
static const char *left_text(const json_t *job, double per_s, char buf[CELL_BYTES])
{
    double left = cells_field(job, "epoch_samples") - cells_field(job, "epoch_delivered");
    return per_s > 0 && left >= 0 ? cells_duration(left / per_s, buf) : strcpy(buf, "-");
}

static void print_job(const json_t *jobs, const json_t *job, const json_t *before, double elapsed_s, bool color,
                      FILE *out)
{
    char buf[CELL_BYTES];
    double view = cells_field(job, "epoch_samples"), epochs = cells_field(job, "epochs");
    double per_s = before ? cells_rate(cells_field(job, "delivered"), cells_field(before, "delivered"), elapsed_s) : -1;
    struct cli_state state = cli_state_of(job, before, elapsed_s);
    cells_left(out, cells_name(jobs, job, NAME_COLUMNS, buf), NAME_COLUMNS);
    snprintf(buf, sizeof buf, "%zu", json_array_size(json_object_get(job, "queues")));
    cells_right(out, buf, 5);
    snprintf(buf, sizeof buf, epochs > 0 ? "%.0f/%.0f" : "%.0f", cells_field(job, "epoch"), epochs);
    cells_right(out, buf, 7);
    snprintf(buf, sizeof buf, "%.0f%%", view > 0 ? 100 * cells_field(job, "epoch_delivered") / view : 0);
    cells_right(out, buf, 5);
    cells_right(out, left_text(job, per_s, buf), 13);
    cells_right(out, cells_rate_text(per_s, buf), 8);
    if (color && state.waits >= 0.25)
        fputs("\033[31m", out);
    snprintf(buf, sizeof buf, "%.0f%%", 100 * state.waits);
    cells_right(out, state.known ? buf : "-", 6);
    bool nothing = strcmp(state.cause, "training") == 0 || strcmp(state.cause, "new") == 0;
    cells_right(out, nothing ? "-" : state.cause, 7);
    if (color && state.waits >= 0.25)
        fputs("\033[0m", out);
    double delivered = cells_field(job, "delivered");
    snprintf(buf, sizeof buf, "%.0f%%", delivered > 0 ? 100 * cells_field(job, "shared") / delivered : 0);
    cells_right(out, delivered > 0 ? buf : "-", 7);
    cells_right(out, cells_count(cells_field(job, "bad_samples"), buf), 5);
    fputc('\n', out);
}

void cli_jobs_print(const json_t *status, const json_t *before, bool color, FILE *out)
{
    static const struct {
        const char *text;
        size_t width;
    } heads[] = {{"RANKS", 5}, {"EPOCH", 7},   {"DONE", 5}, {"EPOCH ENDS IN", 13}, {"PER SEC", 8}, {"WAITS", 6},
                 {"FOR", 7},   {"SHARING", 7}, {"BAD", 5}};
    const json_t *jobs = json_object_get(status, "jobs"), *job;
    double elapsed_s = cli_elapsed_s(status, before);
    size_t i;
    if (json_array_size(jobs) == 0) {
        fputs("no jobs\n", out);
        return;
    }
    cells_left(out, "JOB", NAME_COLUMNS);
    for (i = 0; i < sizeof heads / sizeof *heads; i++)
        cells_right(out, heads[i].text, heads[i].width);
    fputc('\n', out);
    json_array_foreach((json_t *)jobs, i, job) {
        const json_t *earlier = cli_find_job(before, json_string_value(json_object_get(job, "name")));
        bool same = earlier && json_equal(json_object_get(earlier, "job"), json_object_get(job, "job"));
        print_job(jobs, job, same ? earlier : NULL, elapsed_s, color, out);
    }
}
