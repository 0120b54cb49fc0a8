/* explain_job.c: `larder explain JOB`: looks at the daemon for a while, and says what it makes of it. */
#include <math.h>
#include <string.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"
#include "client/cli/explain.h"
#include "client/cli/line.h"

#define LOOK_MS 2000

/* look asks twice, and reads beside each answer what the machine allows the daemon. job: NULL, or one that is to be
 * there. */
static int look(const char *socket, const char *job, unsigned interval_ms, struct explain_facts *facts,
                struct error *err)
{
    struct cli_look first, second;
    int rc = cli_look(socket, &first, err);
    if (rc)
        return rc;
    if (job && !cli_find_job(first.now, job)) {
        cli_look_clear(&first);
        return error_set(err, LARDER_ENOENT,
                         "there is no job \"%s\": `larder jobs` lists them, and `larder history` those that have ended",
                         job);
    }
    cli_machine_read("", lround(cells_number(cells_at(first.now, "daemon", "pid", NULL))), &facts->machine_before);
    if (json_array_size(json_object_get(first.now, "jobs")) > 0)
        cli_sleep_ms(interval_ms);
    rc = cli_look(socket, &second, err);
    if (rc == 0) {
        cli_machine_read("", lround(cells_number(cells_at(second.now, "daemon", "pid", NULL))), &facts->machine_now);
        facts->before = json_incref(first.now);
        facts->now = json_incref(second.now);
        cli_look_clear(&second);
    }
    cli_look_clear(&first);
    return rc;
}

static int say_one(const struct explain_facts *facts, const json_t *job, bool json)
{
    struct explanation told;
    const char *name = json_string_value(json_object_get(job, "name"));
    char waits[80] = "";
    cli_explain(facts, job, &told);
    if (told.known && strcmp(told.cause, "training") != 0)
        snprintf(waits, sizeof waits, " It waits for Larder for %.0f %% of the time.", 100 * told.waits);
    return cli_say(json,
                   json_pack("{s:s,s:s,s:f,s:s,s:s,s:s,s:s}", "job", name ? name : "", "cause", told.cause, "waits",
                             told.waits, "why", told.why, "change", told.change, "figure", told.figure, "where",
                             told.where),
                   "%s.%s What would help most: %s. The figures: %s.%s%s%s\n", told.why, waits, told.change,
                   told.figure, *told.where ? " " : "", told.where, *told.where ? "." : "");
}

/* say_all explains each job that is there, in a line. */
static int say_all(const struct explain_facts *facts, bool json)
{
    const json_t *jobs = json_object_get(facts->now, "jobs"), *job;
    size_t i;
    int status = CLI_OK;
    if (json_array_size(jobs) == 0 && !json)
        puts("no jobs");
    json_array_foreach((json_t *)jobs, i, job) {
        int said = say_one(facts, job, json);
        status = said ? said : status;
    }
    return status;
}

int cli_explain_job(const struct cli_line *line)
{
    struct explain_facts facts = {.before = NULL};
    struct error err;
    const char *name = line->words ? line->word[0] : NULL;
    if (look(line->socket, name, line->given & CLI_INTERVAL ? line->interval_ms : LOOK_MS, &facts, &err))
        return cli_fail(&err);
    const json_t *job = cli_find_job(facts.now, name);
    int status;
    if (name && !job) {
        error_set(&err, LARDER_ENOENT, "the job \"%s\" has ended meanwhile", name);
        status = cli_fail(&err);
    } else {
        status = name ? say_one(&facts, job, line->json) : say_all(&facts, line->json);
    }
    json_decref((json_t *)facts.before);
    json_decref((json_t *)facts.now);
    return status;
}
