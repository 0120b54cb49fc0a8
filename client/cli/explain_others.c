/* explain_others.c: what other jobs have that a job waits for: room in the arena, and threads. Pure. */
#include <math.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/explain_priv.h"
#include "common/types.h"

#define HOLDS_MUCH 0.1 /* the part of the arena, or of the threads, from which on a job that has it is told of */
#define MORE_WEIGHT 3  /* the advised weight, by the greater of the two jobs' weights */

const char *explain_name(const json_t *job, char buf[CELL_BYTES])
{
    return cells_printable(json_object_get(job, "name"), 60, buf);
}

double explain_mean(const json_t *job, const char *key)
{
    const json_t *queues = json_object_get(job, "queues"), *queue;
    double sum = 0;
    size_t i, known = 0;
    json_array_foreach((json_t *)queues, i, queue) {
        double value = cells_number(cells_at(queue, "governor", key, NULL));
        sum += value;
        known += value > 0;
    }
    return known ? sum / (double)known : 0;
}

/* most_of returns the other job that has most, if that is at least `least`. */
static const json_t *most_of(const struct explain_facts *facts, const json_t *mine, double least,
                             double (*has)(const struct explain_facts *facts, const json_t *job))
{
    const json_t *jobs = json_object_get(facts->now, "jobs"), *job, *most = NULL;
    size_t i;
    json_array_foreach((json_t *)jobs, i, job) {
        if (job != mine && has(facts, job) >= least) {
            least = has(facts, job);
            most = job;
        }
    }
    return most;
}

static double kept_bytes(const struct explain_facts *facts, const json_t *job)
{
    (void)facts;
    return cells_field(job, "quota_bytes");
}

const char *explain_holder(const struct explain_facts *facts, const json_t *job, char buf[EXPLAIN_OTHER_BYTES])
{
    double arena = cells_number(cells_at(facts->now, "memory", "arena", "budget_bytes"));
    const json_t *holder = most_of(facts, job, fmax(1, HOLDS_MUCH * arena), kept_bytes), *queue;
    const json_t *queues = json_object_get(holder, "queues");
    char name[CELL_BYTES], bytes[CELL_BYTES];
    double held = 0;
    size_t i, len;
    buf[0] = '\0';
    if (!holder)
        return buf;
    json_array_foreach((json_t *)queues, i, queue)
        held += cells_field(queue, "leased_batches");
    len = (size_t)snprintf(buf, EXPLAIN_OTHER_BYTES, "; %s keeps %s of it", explain_name(holder, name),
                           cells_bytes(cells_field(holder, "quota_bytes"), bytes));
    if (cells_field(holder, "held_max") > 0 && len < EXPLAIN_OTHER_BYTES)
        snprintf(buf + len, EXPLAIN_OTHER_BYTES - len, ", of which its script holds %.0f %s of zero_copy", held,
                 held == 1 ? "batch" : "batches");
    return buf;
}

/* wall_of returns for how long the job's samples were in threads in a second, while these had a core or waited for
 * one. */
static double wall_of(const struct explain_facts *facts, const json_t *job)
{
    const json_t *before = cli_find_job(facts->before, json_string_value(json_object_get(job, "name")));
    double per_s = cells_rate(cells_field(job, "prepared"), cells_field(before, "prepared"),
                              before ? cli_elapsed_s(facts->now, facts->before) : 0);
    return fmax(0, per_s) * explain_mean(job, "prepare_ms") / 1e3;
}

double explain_threads(const struct explain_facts *facts)
{
    const json_t *jobs = json_object_get(facts->now, "jobs"), *job;
    double sum = 0;
    size_t i;
    json_array_foreach((json_t *)jobs, i, job)
        sum += wall_of(facts, job);
    return sum;
}

const char *explain_neighbour(const struct explain_facts *facts, const json_t *job, char buf[EXPLAIN_OTHER_BYTES])
{
    double threads = cells_number(cells_at(facts->now, "governor", "preparers", NULL));
    /* What a sample takes is a mean over longer, so all jobs together may seem to have more threads than there are. */
    double all = fmax(threads, explain_threads(facts));
    /* Of two jobs that wait, the one that has more is not advised to take from the other. */
    double least = fmax(HOLDS_MUCH * all, wall_of(facts, job));
    const json_t *other = threads > 0 ? most_of(facts, job, least, wall_of) : NULL;
    double weight = MORE_WEIGHT * fmax(cells_field(job, "weight"), cells_field(other, "weight"));
    char name[CELL_BYTES], mine[CELL_BYTES];
    buf[0] = '\0';
    if (!other || weight < JOB_WEIGHT_MIN || weight > JOB_WEIGHT_MAX)
        return buf;
    int len = snprintf(
        buf, EXPLAIN_OTHER_BYTES,
        "; %s (%.*f ms a sample) has %.0f %% of the threads' time: `larder weight %s %.3g` gives this one more",
        explain_name(other, name), explain_mean(other, "prepare_ms") < 10, explain_mean(other, "prepare_ms"),
        100 * wall_of(facts, other) / all, explain_name(job, mine), weight);
    if (len >= EXPLAIN_OTHER_BYTES)
        buf[0] = '\0'; /* a part of a command is none */
    return buf;
}
