/* history.c: `larder history`: the jobs of the last day, ended ones too, or one job over time, and what happened. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"
#include "client/cli/line.h"

enum { NAME_COLUMNS = 24, ROWS_MAX = 24, TIME_BYTES = 40, HOUR_S = 3600, DAY_S = 86400 };

/* local writes a Unix time in local time, with its zone where there is a date. */
static const char *local(double time_s, const char *format, char buf[TIME_BYTES])
{
    time_t seconds = (time_t)time_s;
    struct tm tm;
    if (time_s <= 0 || !localtime_r(&seconds, &tm) || !strftime(buf, TIME_BYTES, format, &tm))
        return strcpy(buf, "-");
    return buf;
}

static double part(double some, double all)
{
    return all > 0 ? some / all : 0;
}

static void print_head(void)
{
    cells_left(stdout, "JOB", NAME_COLUMNS);
    puts("  STATE           BEGAN                       LASTED   EPOCHS     SAMPLES  PER SEC   WAITS  SHARING    BAD");
}

static void print_job(const json_t *jobs, const json_t *job)
{
    char buf[CELL_BYTES], when[TIME_BYTES], epochs[CELL_BYTES];
    double lasted_s = cells_field(job, "seconds"), delivered = cells_field(job, "delivered");
    double done = cells_field(job, "epochs_done"), all = cells_field(job, "epochs");
    cells_left(stdout, cells_name(jobs, job, NAME_COLUMNS, buf), NAME_COLUMNS);
    printf("  %-14s  %s", cells_printable(json_object_get(job, "state"), 14, buf),
           local(cells_field(job, "begun_s"), "%Y-%m-%d %H:%M:%S %z", when));
    cells_right(stdout, cells_duration(lasted_s, buf), 8);
    snprintf(epochs, sizeof epochs, all > 0 ? "%.3g/%.0f" : "%.3g", done, all);
    cells_right(stdout, epochs, 7);
    cells_right(stdout, cells_count(delivered, buf), 10);
    cells_right(stdout, cells_rate_text(lasted_s > 0 ? delivered / lasted_s : -1, buf), 7);
    snprintf(buf, sizeof buf, "%.0f%%", 100 * cells_field(job, "waited"));
    cells_right(stdout, buf, 6);
    snprintf(buf, sizeof buf, "%.0f%%", 100 * part(cells_field(job, "shared"), delivered));
    cells_right(stdout, buf, 7);
    cells_right(stdout, cells_count(cells_field(job, "bad"), buf), 5);
    putchar('\n');
}

/* What a job was like over some steps. */
struct stretch {
    double known, per_s, shared_per_s, waits[4];
};
static const char *const causes[] = {"load", "prepare", "room", "rank"};

static struct stretch stretch_of(const json_t *job, size_t from, size_t to)
{
    struct stretch sum = {.known = 0};
    for (size_t i = from; i < to; i++) {
        const json_t *per_s = json_array_get(json_object_get(job, "per_s"), i);
        if (!json_is_number(per_s))
            continue;
        sum.known++;
        sum.per_s += cells_number(per_s);
        sum.shared_per_s += cells_number(per_s) * cells_number(json_array_get(json_object_get(job, "others"), i));
        for (size_t cause = 0; cause < 4; cause++)
            sum.waits[cause] += cells_number(json_array_get(cells_at(job, "causes", causes[cause], NULL), i));
    }
    return sum;
}

static void print_stretch(double time_s, const struct stretch *sum)
{
    char buf[CELL_BYTES], when[TIME_BYTES];
    double all = 0;
    size_t worst = 0;
    for (size_t cause = 0; cause < 4; cause++) {
        all += sum->waits[cause];
        worst = sum->waits[cause] > sum->waits[worst] ? cause : worst;
    }
    all = fmin(1, all / sum->known);
    printf("  %s", local(time_s, "%H:%M:%S", when));
    cells_right(stdout, cells_rate_text(sum->per_s / sum->known, buf), 8);
    snprintf(buf, sizeof buf, "%.0f%%", 100 * all);
    cells_right(stdout, buf, 6);
    cells_right(stdout, all >= CLI_WAITS ? causes[worst] : "-", 7);
    snprintf(buf, sizeof buf, "%.0f%%", 100 * part(sum->shared_per_s, sum->per_s));
    cells_right(stdout, buf, 7);
    putchar('\n');
}

/* print_curve writes at most ROWS_MAX lines, each of as many steps. */
static void print_curve(const json_t *history, const json_t *job)
{
    size_t steps = json_array_size(json_object_get(job, "per_s")), first = steps, end = 0;
    double from_s = cells_field(history, "from_s"), step_s = cells_field(history, "step_s");
    for (size_t i = 0; i < steps; i++) {
        if (!json_is_number(json_array_get(json_object_get(job, "per_s"), i)))
            continue;
        first = i < first ? i : first;
        end = i + 1;
    }
    if (first >= end)
        return;
    size_t each = (end - first + ROWS_MAX - 1) / ROWS_MAX;
    puts("  FROM       PER SEC   WAITS      FOR  SHARING");
    for (size_t i = first; i < end; i += each) {
        struct stretch sum = stretch_of(job, i, i + each < end ? i + each : end);
        if (sum.known > 0)
            print_stretch(from_s + step_s * (double)i, &sum);
    }
}

static bool is_interruption(const json_t *event)
{
    const char *kind = json_string_value(json_object_get(event, "kind"));
    return kind && strcmp(kind, "interrupted") == 0;
}

/* print_known says up to when the job of a killed daemon is known. */
static void print_known(const json_t *job)
{
    char when[TIME_BYTES];
    printf("; the job is known until %s", local(cells_field(job, "ended_s"), "%H:%M:%S", when));
}

static void print_events(const json_t *history, const json_t *job)
{
    char when[TIME_BYTES], kind[CELL_BYTES], text[CELL_BYTES];
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(history, "events"), i, row) {
        const char *more = json_string_value(json_object_get(row, "text"));
        if (lround(cells_field(row, "job")) != lround(cells_field(job, "id")))
            continue;
        printf("  %s  %s%s%s", local(cells_field(row, "time_s"), "%H:%M:%S", when),
               cells_printable(json_object_get(row, "kind"), 40, kind), more && *more ? ": " : "",
               more && *more ? cells_printable(json_object_get(row, "text"), 160, text) : "");
        if (is_interruption(row))
            print_known(job);
        putchar('\n');
    }
}

/* print_interrupted says of a job that a killed daemon had up to when it is known. */
static void print_interrupted(const json_t *history, const json_t *job)
{
    char name[CELL_BYTES], text[CELL_BYTES];
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(history, "events"), i, row) {
        if (!is_interruption(row) || lround(cells_field(row, "job")) != lround(cells_field(job, "id")))
            continue;
        printf("%s: %s", cells_name(json_object_get(history, "jobs"), job, NAME_COLUMNS, name),
               cells_printable(json_object_get(row, "text"), 160, text));
        print_known(job);
        putchar('\n');
    }
}

/* print_together says what the jobs saved by sharing: how much was prepared for all that they got. */
static void print_together(const json_t *jobs)
{
    const json_t *job;
    char count[CELL_BYTES], made[CELL_BYTES];
    double delivered = 0, prepared = 0;
    size_t i;
    json_array_foreach((json_t *)jobs, i, job) {
        delivered += cells_field(job, "delivered");
        prepared += cells_field(job, "prepared");
    }
    if (json_array_size(jobs) < 2 || delivered <= 0)
        return;
    printf("together %zu jobs got %s samples, for which %s were prepared: %.2f for each, %.0f%% less than preparing "
           "every one of them\n",
           i, cells_count(delivered, count), cells_count(prepared, made), prepared / delivered,
           100 * fmax(0, 1 - prepared / delivered));
}

static void print_history(const json_t *history, bool all, bool one)
{
    const json_t *jobs = json_object_get(history, "jobs"), *job;
    size_t i;
    if (json_array_size(jobs) == 0) {
        puts(all ? "no job was here" : "no such job was here");
        return;
    }
    print_head();
    json_array_foreach((json_t *)jobs, i, job) {
        print_job(jobs, job);
        if (!one)
            continue;
        print_curve(history, job);
        print_events(history, job);
    }
    json_array_foreach((json_t *)jobs, i, job) {
        if (!one)
            print_interrupted(history, job);
    }
    print_together(jobs);
}

/* ── which jobs ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* since_of reads when the jobs that are asked for began: so long before now, or at a time of this day or the last one.
 * 0: the text is neither. */
static double since_of(const char *text, time_t now)
{
    static const char units[] = "smhd";
    static const int seconds[] = {1, 60, HOUR_S, DAY_S};
    struct tm tm;
    int hour, minute, second = 0, end = 0;
    double count;
    char unit;
    if (sscanf(text, "%lf%c%n", &count, &unit, &end) == 2 && !text[end] && strchr(units, unit) && count >= 0)
        return (double)now - count * seconds[strchr(units, unit) - units];
    end = 0;
    if ((sscanf(text, "%2d:%2d%n:%2d%n", &hour, &minute, &end, &second, &end) < 2) || text[end] || hour > 23 ||
        minute > 59 || second > 60 || hour < 0 || minute < 0 || second < 0 || !localtime_r(&now, &tm))
        return 0;
    tm.tm_hour = hour;
    tm.tm_min = minute;
    tm.tm_sec = second;
    tm.tm_isdst = -1;
    time_t at = mktime(&tm);
    return (double)(at > now ? at - DAY_S : at);
}

static bool is_asked(const struct cli_line *line, const json_t *job, double since_s)
{
    const char *name = json_string_value(json_object_get(job, "name"));
    bool named = line->words == 0;
    for (size_t i = 0; i < line->words; i++)
        named = named || (name && strcmp(line->word[i], name) == 0);
    return named && cells_field(job, "begun_s") >= since_s;
}

/* choose leaves the jobs that are asked for. */
static void choose(const struct cli_line *line, double since_s, json_t *history)
{
    json_t *jobs = json_object_get(history, "jobs");
    for (size_t i = json_array_size(jobs); i > 0; i--) {
        if (!is_asked(line, json_array_get(jobs, i - 1), since_s))
            json_array_remove(jobs, i - 1);
    }
}

/* ask gets the history of the job, or of all. A job that has been here for more than an hour is told of by the day. */
static int ask(const struct cli_line *line, json_t **out, struct error *err)
{
    struct cli_peer *peer = NULL;
    const char *name = line->words == 1 ? line->word[0] : NULL;
    json_t *answer = NULL;
    int span_s = name ? HOUR_S : DAY_S, rc = cli_connect(line->socket, &peer, err);
    while (rc == 0) {
        json_t *request = json_pack("{s:i,s:s,s:s*,s:i}", "v", 1, "op", "history", "job", name, "span_s", span_s);
        rc = request ? cli_ask(peer, request, &answer, err) : error_set(err, LARDER_ENOENT, "no job has such a name");
        json_decref(request);
        const json_t *history = json_object_get(answer, "history"), *jobs = json_object_get(history, "jobs");
        double begun_s = cells_field(json_array_get(jobs, json_array_size(jobs) - 1), "begun_s");
        if (rc || span_s == DAY_S || begun_s >= cells_field(history, "from_s") || json_array_size(jobs) == 0)
            break;
        span_s = DAY_S;
        json_decref(answer);
        answer = NULL;
    }
    cli_disconnect(peer);
    *out = json_incref(json_object_get(answer, "history"));
    json_decref(answer);
    if (rc == 0 && name && json_array_size(json_object_get(*out, "jobs")) == 0)
        rc = error_set(err, LARDER_ENOENT, "no job \"%s\" was here: `larder history` lists those that were", name);
    return rc;
}

int cli_history(const struct cli_line *line)
{
    json_t *history = NULL;
    struct error err;
    double since_s = line->since ? since_of(line->since, time(NULL)) : 0;
    if (line->since && since_s <= 0)
        return cli_usage("--since needs a time, such as 90s, 10m, 2h, 1d, 14:30 or 14:30:05, and not", line->since);
    int status = ask(line, &history, &err) ? cli_fail(&err) : CLI_OK;
    if (status == CLI_OK)
        choose(line, since_s, history);
    if (status == CLI_OK && line->json) {
        json_dumpf(history, stdout, CLI_JSON);
        putchar('\n');
    } else if (status == CLI_OK) {
        print_history(history, !line->words && !line->since, line->words == 1);
    }
    json_decref(history);
    return status ? status : fflush(stdout) ? CLI_FAILED : CLI_OK;
}
