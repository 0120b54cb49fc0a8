/* Whatever bytes come to the control socket, there is an answer: a JSON object that says ok or has an error's text. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/types.h"
#include "server/control/control_priv.h"
#include "tests/fuzz/fuzz.h"

static const char *const seeds[] = {
    "{\"v\":1,\"op\":\"ping\"}",
    "{\"v\":1,\"op\":\"status\"}",
    "{\"v\":1,\"op\":\"jobs\"}",
    "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"0123456789abcdef\"}",
    "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"weight\":2.5,\"id\":\"1\"}",
    "{\"v\":1,\"op\":\"drain\",\"id\":\"2\"}",
    "{\"v\":1,\"op\":\"hand_over\",\"id\":\"3\"}",
    "{\"v\":1,\"op\":\"cluster_leave\",\"id\":\"4\"}",
    "{\"v\":1,\"op\":\"poison\"}",
    "{\"v\":1,\"op\":\"poison_clear\",\"sample\":\"/a\",\"id\":\"3\"}",
    "{\"v\":1,\"op\":\"cancel\",\"job\":\"caf\xc3\xa9 \\u0000 \\ud83d\\ude00\",\"id\":\"x\"}",
};

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    if (index >= sizeof seeds / sizeof *seeds)
        return 0;
    size_t len = strlen(seeds[index]);
    CHECK(len <= cap);
    memcpy(buf, seeds[index], len);
    return len;
}

static char *tree_json(void *ctx)
{
    (void)ctx;
    return strdup("[]");
}

static char *history_json(void *ctx, const char *job, uint32_t span_s)
{
    char *text = NULL;
    (void)ctx;
    return asprintf(&text, "{\"job\":%zu,\"span_s\":%u}", job ? strlen(job) : 0, span_s) < 0 ? NULL : text;
}

static char *status_json(void *ctx)
{
    (void)ctx;
    return strdup("{\"v\":1,\"jobs\":[{\"name\":\"a\"}]}");
}

static int cancel(void *ctx, const char *job, struct error *err)
{
    (void)ctx;
    return strcmp(job, "a") == 0 ? 0 : error_set(err, LARDER_ENOENT, "no job is called '%s'", job);
}

static int set_weight(void *ctx, const char *job, double weight, struct error *err)
{
    (void)ctx;
    CHECK(weight >= JOB_WEIGHT_MIN && weight <= JOB_WEIGHT_MAX);
    return strcmp(job, "a") == 0 ? 0 : error_set(err, LARDER_ENOENT, "no job is called '%s'", job);
}

static int drain(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    return 0;
}

static int cluster_leave(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    return 0;
}

static int hand_over(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    return 0;
}

static int list_poison(void *ctx, struct poison_notes *out, struct error *err)
{
    (void)ctx, (void)err;
    out->all = xcalloc(1, sizeof *out->all);
    out->count = 1;
    strcpy(out->all[0].name, "/a\xff");
    return 0;
}

static int clear_poison(void *ctx, const char *sample, struct error *err)
{
    (void)ctx;
    return !sample || strcmp(sample, "/a") == 0 ? 0 : error_set(err, LARDER_ENOENT, "'%s' is not noted", sample);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct control_handlers handlers = {.status_json = status_json,
                                                     .earlier_json = status_json,
                                                     .tree_json = tree_json,
                                                     .history_json = history_json,
                                                     .cancel = cancel,
                                                     .set_weight = set_weight,
                                                     .drain = drain,
                                                     .hand_over = hand_over,
                                                     .cluster_leave = cluster_leave,
                                                     .list_poison = list_poison,
                                                     .clear_poison = clear_poison};
    struct control_memory memory = {0};
    for (int repeated = 0; repeated < 2; repeated++) {
        char *text = control_answer(&handlers, &memory, data, size);
        json_t *answer = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        const json_t *ok = json_object_get(answer, "ok");
        CHECK(json_is_true(ok) ||
              (json_is_false(ok) && json_is_string(json_object_get(json_object_get(answer, "error"), "text"))));
        json_decref(answer);
        free(text);
    }
    control_memory_clear(&memory);
    return 0;
}
