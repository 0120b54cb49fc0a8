/* A control request's bytes to its answer, without a socket. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/control/control_priv.h"

static unsigned cancels;

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
    return ctx ? NULL : strdup("{\"v\":1,\"jobs\":[{\"name\":\"a\"}]}");
}

static int cancel_job(void *ctx, const char *job, struct error *err)
{
    (void)ctx;
    if (strcmp(job, "a") != 0)
        return error_set(err, LARDER_ENOENT, "no job is called '%s'", job);
    cancels++;
    return 0;
}

static double weight_given;

static int set_weight(void *ctx, const char *job, double weight, struct error *err)
{
    (void)ctx;
    if (strcmp(job, "a") != 0)
        return error_set(err, LARDER_ENOENT, "no job is called '%s'", job);
    weight_given = weight;
    return 0;
}

static unsigned drains;

static int drain(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    drains++;
    return 0;
}

static unsigned leaves;

static int cluster_leave(void *ctx, struct error *err)
{
    (void)ctx;
    return leaves++ ? error_set(err, LARDER_ENOENT, "this daemon is in no cluster") : 0;
}

static unsigned hand_overs;

static int hand_over(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    hand_overs++;
    return 0;
}

static int list_poison(void *ctx, struct poison_notes *out, struct error *err)
{
    static const struct poison_note noted[] = {
        {.id = {1, 0xa}, .crashes = 2, .signal = SIGSEGV, .name = "/d/\xff\n\"a.jpg"},
        {.id = {2, 0xb}, .deaths = 1, .name = "/d/ä.jpg"},
    };
    if (ctx)
        return error_set(err, LARDER_ENOENT, "nothing is noted");
    out->count = sizeof noted / sizeof *noted;
    out->all = malloc(sizeof noted);
    memcpy(out->all, noted, sizeof noted);
    return 0;
}

static char poison_cleared[64];

static int clear_poison(void *ctx, const char *sample, struct error *err)
{
    (void)ctx;
    snprintf(poison_cleared, sizeof poison_cleared, "%s", sample ? sample : "all");
    return sample && strcmp(sample, "b") == 0 ? error_set(err, LARDER_ENOENT, "no sample is noted as 'b'") : 0;
}

static struct control_handlers handlers = {.status_json = status_json,
                                           .earlier_json = status_json,
                                           .tree_json = tree_json,
                                           .history_json = history_json,
                                           .cancel = cancel_job,
                                           .set_weight = set_weight,
                                           .drain = drain,
                                           .hand_over = hand_over,
                                           .cluster_leave = cluster_leave,
                                           .list_poison = list_poison,
                                           .clear_poison = clear_poison};

static void assert_answer(struct control_memory *memory, const char *request, const char *expected)
{
    char *answer = control_answer(&handlers, memory, request, strlen(request));
    assert_string_equal(answer, expected);
    free(answer);
}

#define FAILED(code, text) "{\"v\":1,\"ok\":false,\"error\":{\"code\":\"" code "\",\"text\":\"" text "\"}}"

/* Each request has its answer, and what is none is told so. */
static void test_requests(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    char ping[128];
    snprintf(ping, sizeof ping, "{\"v\":1,\"ok\":true,\"version\":\"" LARDER_VERSION "\",\"pid\":%d}", (int)getpid());
    assert_answer(&memory, "{\"v\":1,\"op\":\"ping\"}", ping);
    assert_answer(&memory, "{\"v\":1,\"op\":\"status\"}",
                  "{\"v\":1,\"ok\":true,\"status\":{\"v\":1,\"jobs\":[{\"name\":\"a\"}]}}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"status\",\"before\":true}",
                  "{\"v\":1,\"ok\":true,\"status\":{\"v\":1,\"jobs\":[{\"name\":\"a\"}]},"
                  "\"before\":{\"v\":1,\"jobs\":[{\"name\":\"a\"}]}}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"jobs\"}", "{\"v\":1,\"ok\":true,\"jobs\":[{\"name\":\"a\"}]}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"tree\"}", "{\"v\":1,\"ok\":true,\"tree\":[]}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"events\"}", "{\"v\":1,\"ok\":true,\"events\":[]}");
    assert_answer(&memory, "", FAILED("EFORMAT", "the request is not a JSON object"));
    assert_answer(&memory, "[1]", FAILED("EFORMAT", "the request is not a JSON object"));
    assert_answer(&memory, "{\"op\":\"ping\",\"op\":\"ping\"}", FAILED("EFORMAT", "the request is not a JSON object"));
    assert_answer(&memory, "{\"v\":2,\"op\":\"ping\"}",
                  FAILED("EVERSION",
                         "the request is of another version: this daemon (" LARDER_VERSION ") speaks \\\"v\\\":1"));
    assert_answer(&memory, "{\"v\":1}", FAILED("EINVAL", "the request has no \\\"op\\\""));
    assert_answer(&memory, "{\"v\":1,\"op\":\"quit\"}",
                  FAILED("EINVAL",
                         "no such \\\"op\\\": there are ping, status, jobs, tree, events, history, cancel, weight, "
                         "drain, hand_over, cluster_leave, poison and "
                         "poison_clear"));
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"id\":\"1\"}",
                  FAILED("EINVAL", "cancel needs a job: name it with \\\"job\\\""));
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\"}",
                  FAILED("EINVAL", "cancel needs an \\\"id\\\" of 1 to 63 bytes, new for each cancel"));
    handlers.ctx = &handlers; /* no memory for the status */
    assert_answer(&memory, "{\"v\":1,\"op\":\"status\"}", FAILED("ENOMEM", "the daemon has no memory for an answer"));
    assert_answer(&memory, "{\"v\":1,\"op\":\"status\",\"before\":true}",
                  FAILED("ENOMEM", "the daemon has no memory for an answer"));
    assert_answer(&memory, "{\"v\":1,\"op\":\"jobs\"}", FAILED("ENOMEM", "the daemon has no memory for an answer"));
    handlers.ctx = NULL;
    control_memory_clear(&memory);
}

/* A weight is a number within its bounds, and goes to a job that is there; one that is sent late does not undo a
 * newer one. */
static void test_weight(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    static const char *const wrong[] = {"0", "0.0099", "100.01", "-1", "1e999", "null", "\"2\"", "[1]", "true", "{}"};
    char request[128];
    weight_given = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(request, sizeof request, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"weight\":%s,\"id\":\"w%zu\"}",
                 wrong[i], i);
        char *answer = control_answer(&handlers, &memory, request, strlen(request));
        assert_non_null(strstr(answer, "\"ok\":false"));
        free(answer);
    }
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"id\":\"x\"}",
                  FAILED("EINVAL", "weight needs a \\\"weight\\\" from 0.01 to 100"));
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"b\",\"weight\":1,\"id\":\"y\"}",
                  FAILED("ENOENT", "no job is called 'b'"));
    assert_true(weight_given == 0);
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"weight\":3,\"id\":\"1\"}",
                  "{\"v\":1,\"ok\":true}");
    assert_true(weight_given == 3);
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"weight\":0.25,\"id\":\"2\"}",
                  "{\"v\":1,\"ok\":true}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"weight\":3,\"id\":\"1\"}",
                  "{\"v\":1,\"ok\":true}");
    assert_true(weight_given == 0.25);
    control_memory_clear(&memory);
}

/* A drain needs nothing but its id, and is done once for each. */
static void test_drain(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    drains = 0;
    assert_answer(&memory, "{\"v\":1,\"op\":\"drain\"}",
                  FAILED("EINVAL", "drain needs an \\\"id\\\" of 1 to 63 bytes, new for each drain"));
    assert_int_equal(drains, 0);
    for (int i = 0; i < 2; i++)
        assert_answer(&memory, "{\"v\":1,\"op\":\"drain\",\"id\":\"1\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(drains, 1);
    control_memory_clear(&memory);
}

/* So does one that makes room for another daemon, and it is no drain. */
static void test_hand_over(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    drains = hand_overs = 0;
    assert_answer(&memory, "{\"v\":1,\"op\":\"hand_over\"}",
                  FAILED("EINVAL", "hand_over needs an \\\"id\\\" of 1 to 63 bytes, new for each hand_over"));
    assert_int_equal(hand_overs, 0);
    for (int i = 0; i < 2; i++)
        assert_answer(&memory, "{\"v\":1,\"op\":\"hand_over\",\"id\":\"1\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(hand_overs, 1);
    assert_int_equal(drains, 0);
    control_memory_clear(&memory);
}

/* So does one by which a node leaves its cluster; a daemon in no cluster says so. */
static void test_leave(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    leaves = 0;
    assert_answer(&memory, "{\"v\":1,\"op\":\"cluster_leave\"}",
                  FAILED("EINVAL", "cluster_leave needs an \\\"id\\\" of 1 to 63 bytes, new for each cluster_leave"));
    assert_int_equal(leaves, 0);
    for (int i = 0; i < 2; i++)
        assert_answer(&memory, "{\"v\":1,\"op\":\"cluster_leave\",\"id\":\"1\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(leaves, 1);
    assert_answer(&memory, "{\"v\":1,\"op\":\"cluster_leave\",\"id\":\"2\"}",
                  FAILED("ENOENT", "this daemon is in no cluster"));
    control_memory_clear(&memory);
}

/* The samples that daemons died of are listed with names that are text, whatever their bytes; one of them is cleared,
 * or all, once for each id. */
static void test_poison(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    assert_answer(&memory, "{\"v\":1,\"op\":\"poison\"}",
                  "{\"v\":1,\"ok\":true,\"poison\":["
                  "{\"file\":\"/d/??\\\"a.jpg\",\"id\":\"000000000000000a0000000000000001\",\"crashes\":2,\"deaths\":0,"
                  "\"signal\":\"SIGSEGV\",\"verdict\":\"poisonous\"},"
                  "{\"file\":\"/d/\u00e4.jpg\",\"id\":\"000000000000000b0000000000000002\",\"crashes\":0,\"deaths\":1,"
                  "\"signal\":null,\"verdict\":\"suspect\"}]}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"poison_clear\"}",
                  FAILED("EINVAL", "poison_clear needs an \\\"id\\\" of 1 to 63 bytes, new for each poison_clear"));
    assert_answer(&memory, "{\"v\":1,\"op\":\"poison_clear\",\"sample\":7,\"id\":\"1\"}",
                  FAILED("EINVAL", "poison_clear's \\\"sample\\\" is a text"));
    assert_string_equal(poison_cleared, "");
    assert_answer(&memory, "{\"v\":1,\"op\":\"poison_clear\",\"sample\":\"b\",\"id\":\"2\"}",
                  FAILED("ENOENT", "no sample is noted as 'b'"));
    assert_answer(&memory, "{\"v\":1,\"op\":\"poison_clear\",\"sample\":\"/d/a\",\"id\":\"3\"}",
                  "{\"v\":1,\"ok\":true}");
    assert_string_equal(poison_cleared, "/d/a");
    assert_answer(&memory, "{\"v\":1,\"op\":\"poison_clear\",\"id\":\"4\"}", "{\"v\":1,\"ok\":true}");
    assert_string_equal(poison_cleared, "all");
    assert_answer(&memory, "{\"v\":1,\"op\":\"poison_clear\",\"sample\":\"/d/a\",\"id\":\"3\"}",
                  "{\"v\":1,\"ok\":true}");
    assert_string_equal(poison_cleared, "all");
    handlers.ctx = &handlers;
    assert_answer(&memory, "{\"v\":1,\"op\":\"poison\"}", FAILED("ENOENT", "nothing is noted"));
    handlers.ctx = NULL;
    control_memory_clear(&memory);
}

/* A cancel that is sent again is answered again and not carried out again, until so many others came that it is
 * forgotten. */
static void test_repeated(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    char request[128];
    cancels = 0;
    for (int i = 0; i < 3; i++)
        assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"x\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(cancels, 1);
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"b\",\"id\":\"y\"}",
                  FAILED("ENOENT", "no job is called 'b'"));
    for (int i = 0; i < CONTROL_REMEMBERED - 2; i++) {
        snprintf(request, sizeof request, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"%d\"}", i);
        assert_answer(&memory, request, "{\"v\":1,\"ok\":true}");
    }
    assert_int_equal(cancels, CONTROL_REMEMBERED - 1);
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"x\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(cancels, CONTROL_REMEMBERED - 1);
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"z\"}", "{\"v\":1,\"ok\":true}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"x\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(cancels, CONTROL_REMEMBERED + 1);
    control_memory_clear(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests), cmocka_unit_test(test_repeated),  cmocka_unit_test(test_weight),
        cmocka_unit_test(test_drain),    cmocka_unit_test(test_hand_over), cmocka_unit_test(test_poison),
        cmocka_unit_test(test_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
