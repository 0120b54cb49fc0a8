/* past_json.c: writes the past as JSON. past_json.h documents the keys, which stay. */
#include "server/control/past_json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/control/status.h"
#include "server/control/text.h"

enum { STEPS_MAX = 360, ROWS_MAX = 64, GAVE_MAX = 512, GAVE_S = 300, REAL_DIGITS = 5 };

_Static_assert(PAST_CAUSES == ENGINE_STALLS && PAST_NAME_BYTES >= ENGINE_NAME_MAX, "all of a job is remembered");

/* What is read of the past for one answer. */
struct reading {
    const struct past *past;
    const struct past_asked *asked;
    struct past_span span;
    uint16_t row[PAST_JOBS], order[PAST_JOBS]; /* order: the slots that are told of, the latest job last */
    size_t n_jobs, n_rows;
    struct past_step *steps;
    struct past_job_step *jobs;
};

static struct past_span span_of(const struct past_asked *asked)
{
    double span_s = asked->span_s ? asked->span_s : PAST_SPAN_S;
    span_s = fmin(PAST_SPAN_MAX_S, fmax(PAST_SPAN_MIN_S, span_s));
    double step_s = ceil(span_s / STEPS_MAX);
    if (step_s > (double)PAST_SECONDS / STEPS_MAX)
        step_s = 60 * ceil(step_s / 60);
    size_t count = (size_t)ceil(span_s / step_s);
    return (struct past_span){ceil(asked->now_s / step_s) * step_s - (double)count * step_s, step_s, count};
}

/* choose finds the jobs that are told of, and gives rows to the latest of those that were here in the span. */
static void choose(struct reading *reading)
{
    const struct past_asked *asked = reading->asked;
    memset(reading->row, 0xff, sizeof reading->row);
    for (uint16_t slot = 0; slot < PAST_JOBS; slot++) {
        const struct past_job *job = past_job(reading->past, slot);
        if (!job || (asked->job && strcmp(asked->job, job->name) != 0))
            continue;
        size_t at = reading->n_jobs++;
        for (; at > 0 && past_job(reading->past, reading->order[at - 1])->id > job->id; at--)
            reading->order[at] = reading->order[at - 1];
        reading->order[at] = slot;
    }
    for (size_t i = reading->n_jobs; i > 0 && reading->n_rows < ROWS_MAX; i--) {
        uint16_t slot = reading->order[i - 1];
        if (past_job(reading->past, slot)->ended_s >= reading->span.from_s)
            reading->row[slot] = (uint16_t)reading->n_rows++;
    }
}

static json_t *seconds(double time_s)
{
    return json_integer((json_int_t)time_s);
}

static json_t *daemon_curve(const struct reading *reading, size_t value, bool whole)
{
    json_t *curve = json_array();
    for (size_t i = 0; i < reading->span.count; i++) {
        const struct past_step *step = &reading->steps[i];
        double of = step->values[value];
        json_array_append_new(curve, step->seconds <= 0 ? json_null()
                                     : whole            ? json_integer((json_int_t)of)
                                                        : json_real(of));
    }
    return curve;
}

static json_t *prepared_curve(const struct reading *reading)
{
    json_t *curve = json_array();
    for (size_t i = 0; i < reading->span.count; i++) {
        const double *values = reading->steps[i].values;
        json_array_append_new(curve, values[PAST_DELIVERED] > 0
                                         ? json_real(values[PAST_PREPARED] / values[PAST_DELIVERED])
                                         : json_null());
    }
    return curve;
}

static json_t *daemon_json(const struct reading *reading)
{
    json_t *daemon = json_object(), *read = json_array();
    size_t tiers = 1;
    for (size_t i = 0; i < reading->span.count; i++) {
        for (size_t tier = tiers; tier < PAST_TIERS; tier++) {
            if (reading->steps[i].values[PAST_READ + tier] > 0)
                tiers = tier + 1;
        }
    }
    for (size_t tier = 0; tier < tiers; tier++)
        json_array_append_new(read, daemon_curve(reading, PAST_READ + tier, true));
    json_object_set_new(daemon, "delivered", daemon_curve(reading, PAST_DELIVERED, false));
    json_object_set_new(daemon, "prepared_per_delivered", prepared_curve(reading));
    json_object_set_new(daemon, "cores", daemon_curve(reading, PAST_CORES, false));
    json_object_set_new(daemon, "rss_bytes", daemon_curve(reading, PAST_RSS, true));
    json_object_set_new(daemon, "arena_bytes", daemon_curve(reading, PAST_ARENA, true));
    json_object_set_new(daemon, "encoded_bytes", daemon_curve(reading, PAST_ENCODED, true));
    json_object_set_new(daemon, "read", read);
    return daemon;
}

/* A job's curves: samples a second, what part of the time it waits, what part others prepared. */
static void put_curves(const struct reading *reading, const struct past_job_step *steps, json_t *row)
{
    json_t *per_s = json_array(), *waits = json_array(), *others = json_array(), *causes = json_object();
    for (size_t i = 0; i < reading->span.count; i++) {
        const struct past_job_step *step = &steps[i];
        bool known = step->seconds > 0;
        double all = 0;
        for (size_t cause = 0; cause < PAST_CAUSES; cause++)
            all += (double)step->waits[cause];
        json_array_append_new(per_s, known ? json_real((double)step->per_s) : json_null());
        json_array_append_new(waits, known ? json_real(fmin(1, all)) : json_null());
        json_array_append_new(others, known && step->per_s > 0 ? json_real((double)(step->shared_per_s / step->per_s))
                                                               : json_null());
    }
    for (size_t cause = 0; cause < PAST_CAUSES && reading->asked->job; cause++) {
        json_t *of = json_array();
        for (size_t i = 0; i < reading->span.count; i++)
            json_array_append_new(of, steps[i].seconds > 0 ? json_real((double)steps[i].waits[cause]) : json_null());
        json_object_set_new(causes, status_stalls[cause], of);
    }
    json_object_set_new(row, "per_s", per_s);
    json_object_set_new(row, "waits", waits);
    json_object_set_new(row, "others", others);
    if (reading->asked->job)
        json_object_set(row, "causes", causes);
    json_decref(causes);
}

static json_t *job_json(const struct reading *reading, uint16_t slot)
{
    const struct past_job *job = past_job(reading->past, slot);
    const struct past_figures *figures = &job->figures;
    double time_s = (job->ended_s - job->begun_s) * (figures->ranks ? figures->ranks : 1), waited_s = 0;
    json_t *row = json_object(), *stalls = json_object();
    for (size_t cause = 0; cause < PAST_CAUSES; cause++) {
        waited_s += figures->waits_s[cause];
        json_object_set_new(stalls, status_stalls[cause], json_real(figures->waits_s[cause]));
    }
    json_object_set_new(row, "id", json_integer(job->id));
    json_object_set_new(row, "name", text_json(job->name));
    json_object_set_new(row, "state", json_string(past_states[job->state]));
    json_object_set_new(row, "begun_s", seconds(job->begun_s));
    json_object_set_new(row, "ended_s", seconds(job->ended_s));
    json_object_set_new(row, "seconds", json_real(job->ended_s - job->begun_s));
    json_object_set_new(row, "delivered", json_integer((json_int_t)figures->delivered));
    json_object_set_new(row, "shared", json_integer((json_int_t)figures->shared));
    json_object_set_new(row, "prepared", json_integer((json_int_t)figures->prepared));
    json_object_set_new(row, "bad", json_integer((json_int_t)figures->bad));
    json_object_set_new(row, "epochs_done", json_real(figures->epochs_done));
    json_object_set_new(row, "epochs", json_integer(figures->epochs));
    json_object_set_new(row, "ranks", json_integer(figures->ranks));
    json_object_set_new(row, "stall_s", stalls);
    json_object_set_new(row, "waited", json_real(time_s > 0 ? fmin(1, waited_s / time_s) : 0));
    if (reading->row[slot] != PAST_NONE)
        put_curves(reading, reading->jobs + reading->row[slot] * reading->span.count, row);
    return row;
}

static json_t *gave_json(const struct reading *reading)
{
    struct past_gift *gave = xcalloc(GAVE_MAX, sizeof *gave);
    json_t *rows = json_array();
    size_t n = past_gave(reading->past, reading->asked->now_s - GAVE_S, gave, GAVE_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct past_job *from = past_job(reading->past, gave[i].from), *to = past_job(reading->past, gave[i].to);
        if (to)
            json_array_append_new(rows, json_pack("[I,I,I]", (json_int_t)(from ? from->id : 0), (json_int_t)to->id,
                                                  (json_int_t)gave[i].samples));
    }
    free(gave);
    return rows;
}

/* is_told tells whether an event is of a job that is told of, or of none. Some jobs are not remembered any more. */
static bool is_told(const struct reading *reading, uint32_t id)
{
    bool found = id == 0;
    for (size_t i = 0; i < reading->n_jobs && !found; i++)
        found = past_job(reading->past, reading->order[i])->id == id;
    return found;
}

static json_t *events_json(const struct reading *reading)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < past_n_events(reading->past); i++) {
        const struct past_event *event = past_event(reading->past, i);
        if (!is_told(reading, event->id))
            continue;
        json_t *row = json_object();
        json_object_set_new(row, "time_s", seconds(event->time_s));
        json_object_set_new(row, "kind", json_string(past_kinds[event->kind]));
        json_object_set_new(row, "job", json_integer(event->id));
        json_object_set_new(row, "text", text_json(event->text));
        json_array_append_new(rows, row);
    }
    return rows;
}

char *past_to_json(const struct past *past, const struct past_asked *asked)
{
    struct reading *reading = xcalloc(1, sizeof *reading);
    *reading = (struct reading){.past = past, .asked = asked, .span = span_of(asked)};
    choose(reading);
    reading->steps = xcalloc(reading->span.count, sizeof *reading->steps);
    reading->jobs = xcalloc(reading->span.count * (reading->n_rows + 1), sizeof *reading->jobs);
    past_curves(past, &reading->span, reading->steps, reading->row, reading->jobs);
    json_t *jobs = json_array();
    for (size_t i = 0; i < reading->n_jobs; i++)
        json_array_append_new(jobs, job_json(reading, reading->order[i]));
    json_t *root = json_pack("{s:i,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:i,s:o}", "v", 1, "now_s", seconds(asked->now_s),
                             "from_s", seconds(reading->span.from_s), "step_s", seconds(reading->span.step_s), "steps",
                             (json_int_t)reading->span.count, "daemon", daemon_json(reading), "jobs", jobs, "gave",
                             gave_json(reading), "gave_s", GAVE_S, "events", events_json(reading));
    char *json = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS)) : NULL;
    json_decref(root);
    free(reading->steps);
    free(reading->jobs);
    free(reading);
    return json;
}
