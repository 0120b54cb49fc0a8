/* `larder status` as a person sees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"
#include "tests/unit/server/control/sample_status.h"

static char *print(const json_t *status, const json_t *before)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    cli_status_print(status, before, out);
    fclose(out);
    return text;
}

static json_t *to_json(struct daemon_status *status)
{
    char *text = status_to_json(status);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    free(text);
    status_clear(status);
    return json;
}

static const char expected_table[] =
    "larderd 9.8.7, running, up for 1 h 2 min, pid 4711, /run/larder/larder.sock, page at "
    "http://127.0.0.1:9450/, 3 connected\n"
    "samples  1,400 prepared, 2,800 delivered: 0.50 prepared for each delivered\n"
    "bad      2 unreadable, 1 corrupt\n"
    "memory   arena 1.0 GiB of 4.0 GiB (512 MiB pinned), encoded 256 MiB of 1.0 GiB (256 MiB of files, 2.9 KiB of "
    "decoded images), process 3.0 GiB\n"
    "storage  /nvme/larder full, 4.0 GiB of 4.0 GiB, 30,000 of 40,000 samples in planes; 75% of reads\n"
    "threads  8 load, 4 prepare; 2.5 cores busy, 350 samples prepared/s\n"
    "engine   4 steps, 1.250 ms on the mean, the longest 2.0 ms\n"
    "\n"
    "JOB                EPOCH  DONE    SAMPLES  PER SEC  WAITS  READY  HELD  SHARING   BAD  DATASET\n"
    "train-a             1/90   40%      1,000      700    38%    3/4     1      50%     0  …agenet/train\n"
    "quote\"back\\slash       1   40%      1,000      700    38%    3/4     1      50%     0  …agenet/train\n"
    "\n"
    "weights: quote\"back\\slash 0.5\n"
    "\n"
    "no answer for 2 s from the storage of quote\"back\\slash\n";

/* Two snapshots two seconds apart give the table with its rates. */
static void test_table(void **state)
{
    (void)state;
    struct daemon_status status;
    sample_status_fill(&status);
    status.process.time_s -= 2;
    status.process.cpu_s -= 5;
    status.totals.counts.instances_prepared -= 700;
    for (size_t i = 0; i < status.n_jobs; i++) {
        status.jobs[i].engine.delivery.samples -= 1400;
        status.jobs[i].engine.delivery.stall_s[0] -= 0.5;
        status.jobs[i].engine.delivery.stall_s[3] -= 0.25;
    }
    json_t *before = to_json(&status);
    sample_status_fill(&status);
    json_t *now = to_json(&status);
    char *text = print(now, before);
    assert_string_equal(text, expected_table);
    free(text);
    json_decref(before);
    json_decref(now);
}

/* Names that look the same where they are cut have the job's number behind them, and others have none. */
static void test_names(void **state)
{
    static const struct {
        const char *name;
        int id;
        const char *shown;
    } rows[] = {
        {"a-sweep-of-many-trials-with-a-long-name-lr-0.1-seed-17", 4, "…lr-0.1-seed-17 #4"},
        {"another-one-of-many-trials-with-a-long-name-lr-0.1-seed-17", 12, "…r-0.1-seed-17 #12"},
        {"a-sweep-of-many-trials-with-a-long-name-lr-0.1-seed-18", 5, "…me-lr-0.1-seed-18"},
        {"short", 6, "short #6"},
        {"short", 7, "short #7"},
        {"seed-17", 8, "seed-17"},
    };
    (void)state;
    json_t *jobs = json_array();
    char buf[CELL_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_array_append_new(jobs, json_pack("{s:s,s:i}", "name", rows[i].name, "id", rows[i].id));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *shown = cells_name(jobs, json_array_get(jobs, i), 18, buf);
        if (strlen(rows[i].name) > 18)
            assert_int_equal(cells_columns(shown), 18);
        assert_string_equal(shown, rows[i].shown);
    }
    json_decref(jobs);
}

static const char expected_line[] = "cluster  lab: 3 of 4 nodes UP; guests: 3; samples: 34,000 received, 12,000 given\n"
                                    "         node-3 is not asked now: it did not answer\n"
                                    "         …3a3a3a3a3a3a3a3a3a3a3a3 is LOST\n"
                                    "\n"
                                    "JOB ";
static const char expected_cluster[] = "cluster  lab, this node is node-1, its id a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0\n"
                                       "guests   3, to which 12,000 samples were sent\n"
                                       "samples  34,000 received, 5 refused, 60 moved, 7 back, for 900 requests\n"
                                       "\n"
                                       "NODE                            STATE        ASKED  ADDRESS\n"
                                       "node-1                             UP       itself  http://node-1:9451\n"
                                       "node-2                             UP          yes  http://node-2:9451\n"
                                       "node-3                             UP           no  -\n"
                                       "…3a3a3a3a3a3a3a3a3a3a3a3         LOST           no  -\n"
                                       "\n"
                                       "JOB                          RECEIVED      REFUSED        MOVED         BACK"
                                       "  PREPARED\n"
                                       "train-a                        30,000            4           50            6"
                                       "  by homes, 2 wanting it\n"
                                       "\n"
                                       "STILL TO COME FROM               LEFT        ASKED      WAITING  TO\n"
                                       "node-2                          1,200           64            8  train-a\n";

/* Of a cluster the status has a line, and one for each node that does not do its part; `larder cluster status` has it
 * all. A daemon in none says so there. */
static void test_cluster(void **state)
{
    (void)state;
    struct daemon_status status;
    char *text = NULL;
    size_t len;
    sample_status_fill(&status);
    sample_status_join(&status);
    json_t *now = to_json(&status);
    char *whole = print(now, NULL);
    assert_non_null(strstr(whole, expected_line));
    free(whole);
    FILE *out = open_memstream(&text, &len);
    cli_cluster_print(json_object_get(now, "cluster"), out);
    fclose(out);
    assert_string_equal(text, expected_cluster);
    free(text);
    out = open_memstream(&text, &len);
    cli_cluster_print(json_object_get(now, "no such section"), out);
    fclose(out);
    assert_string_equal(text, "this daemon is in no cluster\n");
    free(text);
    json_decref(now);
}

/* One snapshot alone, one of another daemon process, and a job that was not there before give no rates. */
static void test_no_rates(void **state)
{
    (void)state;
    struct daemon_status status;
    sample_status_fill(&status);
    status.process.time_s -= 2;
    strcpy(status.jobs[0].engine.name, "an earlier one");
    json_t *before = to_json(&status);
    sample_status_fill(&status);
    json_t *now = to_json(&status);
    char *text = print(now, before);
    assert_non_null(strstr(text, "train-a             1/90   40%      1,000        -      -    3/4"));
    free(text);
    json_object_set_new(json_object_get(before, "daemon"), "pid", json_integer(1));
    text = print(now, before);
    char *alone = print(now, NULL);
    assert_string_equal(text, alone);
    assert_null(strstr(text, "cores busy"));
    free(text);
    free(alone);
    json_decref(before);
    json_decref(now);
}

/* A client's bytes reach the terminal without control characters, and long ones are cut by characters. */
static void test_texts(void **state)
{
    (void)state;
    struct daemon_status status;
    sample_status_fill(&status);
    strcpy(status.jobs[0].engine.name, "\x1b[2J\xc2\x9b"
                                       "7mx\r\n\x7f");
    free(status.jobs[1].dataset);
    status.jobs[1].dataset = strdup("/d\xc3\xa4ta/with/a/rather/lengthy/n\xc3\xa4me/inside");
    json_t *now = to_json(&status);
    char *text = print(now, NULL);
    assert_non_null(strstr(text, "\n?[2J?7mx???         1/90 "));
    assert_non_null(strstr(text, "  \xe2\x80\xa6/n\xc3\xa4me/inside\n"));
    free(text);
    json_decref(now);
}

/* A status with parts missing or of other types, from another version say, prints what there is. */
static void test_strange(void **state)
{
    (void)state;
    static const char *const statuses[] = {
        "{}",
        "{\"daemon\":1,\"samples\":[],\"memory\":null,\"jobs\":[1,{},{\"name\":3,\"queues\":{}}]}",
        "{\"cluster\":{\"name\":1,\"nodes\":[1,{},{\"state\":7}],\"guests\":\"x\"}}",
        "{\"daemon\":{\"uptime_s\":1e308,\"rss_bytes\":-1e308,\"time_s\":1e308}}",
        "{\"jobs\":[{\"epoch\":1e308,\"delivered\":1e308,\"epoch_samples\":1e308,\"queues\":[{\"wait_s\":-1e308}]}]}",
    };
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        json_t *status = json_loads(statuses[i], 0, NULL);
        assert_non_null(status);
        char *text = print(status, status);
        assert_true(strlen(text) > 0);
        free(text);
        json_decref(status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),    cmocka_unit_test(test_names), cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_no_rates), cmocka_unit_test(test_texts), cmocka_unit_test(test_strange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
