/* request.c: answers the requests on the control socket. Any bytes get an answer. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "common/types.h"
#include "server/control/control_priv.h"
#include "server/control/live.h"
#include "server/control/past_json.h"

void control_memory_clear(struct control_memory *memory)
{
    for (size_t i = 0; i < CONTROL_REMEMBERED; i++)
        free(memory->entries[i].answer);
    memset(memory, 0, sizeof *memory);
}

static const char *memory_find(const struct control_memory *memory, const char *id)
{
    for (size_t i = 0; i < CONTROL_REMEMBERED; i++) {
        if (memory->entries[i].answer && strcmp(memory->entries[i].id, id) == 0)
            return memory->entries[i].answer;
    }
    return NULL;
}

static void memory_put(struct control_memory *memory, const char *id, const char *answer)
{
    unsigned place = memory->next++ % CONTROL_REMEMBERED;
    free(memory->entries[place].answer);
    memory->entries[place].answer = xstrdup(answer);
    snprintf(memory->entries[place].id, sizeof memory->entries[place].id, "%s", id);
}

static char *dump(json_t *answer)
{
    char *text = answer ? json_dumps(answer, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(answer);
    return text;
}

static char *failure(const struct error *err)
{
    json_t *answer = json_pack("{s:i,s:b,s:{s:s,s:s}}", "v", 1, "ok", 0, "error", "code", larder_err_name(err->code),
                               "text", err->text);
    if (!answer) /* the error's text quotes bytes that are not UTF-8 */
        answer = json_pack("{s:i,s:b,s:{s:s,s:s}}", "v", 1, "ok", 0, "error", "code", larder_err_name(err->code),
                           "text", "the request failed");
    return dump(answer);
}

static char *fail(int code, const char *text)
{
    struct error err;
    error_set(&err, code, "%s", text);
    return failure(&err);
}

static char *answer_ping(void)
{
    return dump(json_pack("{s:i,s:b,s:s,s:i}", "v", 1, "ok", 1, "version", LARDER_VERSION, "pid", (int)getpid()));
}

/* answer_with answers with a JSON text, which it takes over. */
static char *answer_with(const char *key, char *json)
{
    char *answer = NULL;
    if (!json)
        return fail(LARDER_ENOMEM, "the daemon has no memory for an answer");
    if (asprintf(&answer, "{\"v\":1,\"ok\":true,\"%s\":%s}", key, json) < 0)
        answer = NULL;
    free(json);
    return answer;
}

/* answer_status answers with the status, and with an earlier one where that is asked for. */
static char *answer_status(const struct control_handlers *handlers, const json_t *request)
{
    bool both = json_is_true(json_object_get(request, "before"));
    char *before = both ? handlers->earlier_json(handlers->ctx) : NULL, *answer = NULL;
    char *status = !both || before ? handlers->status_json(handlers->ctx) : NULL;
    if (!before)
        return answer_with("status", status);
    if (status && asprintf(&answer, "{\"v\":1,\"ok\":true,\"status\":%s,\"before\":%s}", status, before) < 0)
        answer = NULL;
    free(before);
    free(status);
    return answer ? answer : fail(LARDER_ENOMEM, "the daemon has no memory for an answer");
}

static char *answer_jobs(const struct control_handlers *handlers)
{
    char *text = handlers->status_json(handlers->ctx);
    if (!text)
        return fail(LARDER_ENOMEM, "the daemon has no memory for an answer");
    json_t *status = json_loads(text, 0, NULL);
    free(text);
    char *answer = dump(json_pack("{s:i,s:b,s:O?}", "v", 1, "ok", 1, "jobs", json_object_get(status, "jobs")));
    json_decref(status);
    return answer;
}

static char *answer_history(const struct control_handlers *handlers, const json_t *request)
{
    const json_t *job = json_object_get(request, "job"), *span = json_object_get(request, "span_s");
    json_int_t span_s = json_integer_value(span);
    if ((job && !json_is_string(job)) || (span && !(span_s >= PAST_SPAN_MIN_S && span_s <= PAST_SPAN_MAX_S)))
        return fail(LARDER_EINVAL, "history's \"job\" is a text, and its \"span_s\" a whole number from 60 to 86400");
    return answer_with("history", handlers->history_json(handlers->ctx, json_string_value(job), (uint32_t)span_s));
}

static bool changes_something(const char *op)
{
    static const char *const ops[] = {"cancel", "weight", "drain", "hand_over", "cluster_leave", "poison_clear"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(op, ops[i]) == 0)
            return true;
    }
    return false;
}

static json_t *poison_row(const struct poison_note *note)
{
    char file[POISON_NAME_BYTES], id[POISON_HEX_BYTES];
    poison_shown(note->name, file);
    poison_hex(note->id, id);
    return json_pack("{s:s,s:s,s:I,s:I,s:s?,s:s}", "file", file, "id", id, "crashes", (json_int_t)note->crashes,
                     "deaths", (json_int_t)note->deaths, "signal", poison_signal(note->signal), "verdict",
                     poison_verdict(note));
}

static char *answer_poison(const struct control_handlers *handlers)
{
    struct poison_notes notes = {0};
    struct error err;
    if (handlers->list_poison(handlers->ctx, &notes, &err))
        return failure(&err);
    json_t *rows = json_array();
    for (size_t i = 0; i < notes.count; i++)
        json_array_append_new(rows, poison_row(&notes.all[i]));
    poison_notes_free(&notes);
    return dump(json_pack("{s:i,s:b,s:o}", "v", 1, "ok", 1, "poison", rows));
}

static int clear_poison(const struct control_handlers *handlers, const json_t *sample, struct error *err)
{
    if (sample && !json_is_string(sample))
        return error_set(err, LARDER_EINVAL, "poison_clear's \"sample\" is a text");
    return handlers->clear_poison(handlers->ctx, json_string_value(sample), err);
}

/* carry_out does what a request that changes something asks for. */
static int carry_out(const struct control_handlers *handlers, const char *op, const json_t *request, struct error *err)
{
    const char *job = json_string_value(json_object_get(request, "job"));
    if (strcmp(op, "drain") == 0)
        return handlers->drain(handlers->ctx, err);
    if (strcmp(op, "hand_over") == 0)
        return handlers->hand_over(handlers->ctx, err);
    if (strcmp(op, "cluster_leave") == 0)
        return handlers->cluster_leave(handlers->ctx, err);
    if (strcmp(op, "poison_clear") == 0)
        return clear_poison(handlers, json_object_get(request, "sample"), err);
    if (!job || !*job)
        return error_set(err, LARDER_EINVAL, "%s needs a job: name it with \"job\"", op);
    if (strcmp(op, "cancel") == 0)
        return handlers->cancel(handlers->ctx, job, err);
    const json_t *number = json_object_get(request, "weight");
    double weight = json_number_value(number);
    if (!json_is_number(number) || !(weight >= JOB_WEIGHT_MIN && weight <= JOB_WEIGHT_MAX))
        return error_set(err, LARDER_EINVAL, "weight needs a \"weight\" from %g to %g", JOB_WEIGHT_MIN, JOB_WEIGHT_MAX);
    return handlers->set_weight(handlers->ctx, job, weight, err);
}

static char *answer_change(const struct control_handlers *handlers, struct control_memory *memory, const char *op,
                           const json_t *request)
{
    struct error err = {0};
    const char *id = json_string_value(json_object_get(request, "id"));
    if (!id || !*id || strlen(id) >= CONTROL_ID_BYTES) {
        error_set(&err, LARDER_EINVAL, "%s needs an \"id\" of 1 to 63 bytes, new for each %s", op, op);
        return failure(&err);
    }
    const char *earlier = memory_find(memory, id);
    if (earlier)
        return strdup(earlier);
    char *answer = carry_out(handlers, op, request, &err) == 0 ? dump(json_pack("{s:i,s:b}", "v", 1, "ok", 1))
                                                               : failure(&err);
    if (answer)
        memory_put(memory, id, answer);
    return answer;
}

char *control_answer(const struct control_handlers *handlers, struct control_memory *memory, const void *request,
                     size_t len_bytes)
{
    json_t *json = json_loadb(request, len_bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *op = json_string_value(json_object_get(json, "op"));
    char *answer;
    if (!json_is_object(json))
        answer = fail(LARDER_EFORMAT, "the request is not a JSON object");
    else if (json_integer_value(json_object_get(json, "v")) != 1)
        answer = fail(LARDER_EVERSION,
                      "the request is of another version: this daemon (" LARDER_VERSION ") speaks \"v\":1");
    else if (!op)
        answer = fail(LARDER_EINVAL, "the request has no \"op\"");
    else if (strcmp(op, "ping") == 0)
        answer = answer_ping();
    else if (strcmp(op, "status") == 0)
        answer = answer_status(handlers, json);
    else if (strcmp(op, "tree") == 0)
        answer = answer_with("tree", handlers->tree_json(handlers->ctx));
    else if (strcmp(op, "jobs") == 0)
        answer = answer_jobs(handlers);
    else if (strcmp(op, "events") == 0)
        answer = answer_with("events", live_lines_json(LOG_RECENT_ALL));
    else if (strcmp(op, "history") == 0)
        answer = answer_history(handlers, json);
    else if (strcmp(op, "poison") == 0)
        answer = answer_poison(handlers);
    else if (changes_something(op))
        answer = answer_change(handlers, memory, op, json);
    else
        answer = fail(LARDER_EINVAL,
                      "no such \"op\": there are ping, status, jobs, tree, events, history, cancel, weight, drain, "
                      "hand_over, cluster_leave, poison and poison_clear");
    json_decref(json);
    return answer;
}
