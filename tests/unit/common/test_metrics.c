/* test_metrics.c: the metrics table and its Prometheus text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/metrics.h"

static struct metrics *metrics;

static int set_up(void **state)
{
    (void)state;
    return metrics_create(&metrics);
}

static int tear_down(void **state)
{
    (void)state;
    metrics_destroy(metrics);
    return 0;
}

static void assert_rendered(const char *wanted)
{
    size_t len = 0;
    char *text = metrics_render(metrics, &len);
    assert_non_null(text);
    assert_string_equal(text, wanted);
    assert_int_equal(len, strlen(wanted));
    free(text);
}

/* Each metric is named as Prometheus wants it: our prefix, counters and only they end in _total, a help text, names
 * once. */
static void has_sound_table(void **state)
{
    (void)state;
    for (int id = 0; id < METRIC_COUNT; id++) {
        const struct metric_info *info = metric_info((enum metric_id)id);
        size_t len = strlen(info->name), tail = strlen("_total");
        assert_memory_equal(info->name, "larder_", 7);
        assert_int_equal(strspn(info->name, "abcdefghijklmnopqrstuvwxyz_"), len);
        bool total = len > tail && strcmp(info->name + len - tail, "_total") == 0;
        assert_int_equal(total, info->type == METRIC_COUNTER);
        assert_true(strlen(info->help) > 10);
        for (int other = 0; other < id; other++)
            assert_string_not_equal(info->name, metric_info((enum metric_id)other)->name);
    }
}

/* Values put in any order come out by metric, in the order they were put, under one HELP and one TYPE. */
static void groups_values(void **state)
{
    (void)state;
    metrics_put(metrics, METRIC_JOB_BATCHES, 0.25, (const char *const[]){"b", "0"});
    metrics_put(metrics, METRIC_JOBS, 2, NULL);
    metrics_put(metrics, METRIC_JOB_BATCHES, 1e300, (const char *const[]){"a", "1"});
    assert_rendered("# HELP larder_jobs Registered jobs.\n"
                    "# TYPE larder_jobs gauge\n"
                    "larder_jobs 2\n"
                    "# HELP larder_job_batches_delivered_total Batches delivered to a job's queue.\n"
                    "# TYPE larder_job_batches_delivered_total counter\n"
                    "larder_job_batches_delivered_total{job=\"b\",rank=\"0\"} 0.25\n"
                    "larder_job_batches_delivered_total{job=\"a\",rank=\"1\"} 1e+300\n");
}

/* A job's name may hold anything: quotes, backslashes and line breaks are escaped, and what is not UTF-8 is
 * replaced. */
static void escapes_labels(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"plain", "plain"},
        {"a\"b\\c\nd", "a\\\"b\\\\c\\nd"},
        {"", ""},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff"
         "a\xc3",
         "?a?"},                      /* no lead byte; a character cut off */
        {"\xc0\x80", "??"},           /* overlong */
        {"\xe0\x80\x80", "???"},      /* overlong */
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
    };
    char wanted[2048] = "# HELP larder_job_epoch The epoch that a job is in, from 0.\n# TYPE larder_job_epoch gauge\n";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(wanted);
        metrics_put(metrics, METRIC_JOB_EPOCH, (double)i, &names[i][0]);
        snprintf(wanted + len, sizeof wanted - len, "larder_job_epoch{job=\"%s\"} %zu\n", names[i][1], i);
    }
    assert_rendered(wanted);
}

/* Whole numbers are written as such up to 2^53, others so that they read back the same, and those that are none by
 * name. */
static void writes_numbers(void **state)
{
    (void)state;
    const double numbers[] = {0, -3, 9007199254740991.0, 0.1, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        metrics_put(metrics, METRIC_JOBS, numbers[i], NULL);
    assert_rendered("# HELP larder_jobs Registered jobs.\n# TYPE larder_jobs gauge\n"
                    "larder_jobs 0\nlarder_jobs -3\nlarder_jobs 9007199254740991\nlarder_jobs 0.1\n"
                    "larder_jobs NaN\nlarder_jobs +Inf\nlarder_jobs -Inf\n");
}

/* An empty snapshot is an empty text, and a large one comes out whole. */
static void renders_any_size(void **state)
{
    (void)state;
    assert_rendered("");
    char job[16];
    for (int i = 0; i < 10000; i++) {
        snprintf(job, sizeof job, "job-%d", i);
        metrics_put(metrics, METRIC_JOB_BAD, i, (const char *const[]){job});
    }
    size_t len, lines = 0;
    char *text = metrics_render(metrics, &len);
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    assert_int_equal(lines, 10002);
    assert_non_null(strstr(text, "larder_job_bad_samples_total{job=\"job-9999\"} 9999\n"));
    free(text);
}

/* A histogram's buckets count all that took at most so long, the last one everything; its sum is that of the times. */
static void writes_histograms(void **state)
{
    (void)state;
    struct histogram times = {0};
    const double seconds[] = {0, 0.0001, 0.00011, 0.3, 10, 10.5};
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
        histogram_add(&times, seconds[i]);
    metrics_put_histogram(metrics, METRIC_JOB_WAIT_SECONDS, &times, (const char *const[]){"a"});
    char wanted[4096];
    int len = snprintf(wanted, sizeof wanted, "# HELP %s %s\n# TYPE %s histogram\n",
                       metric_info(METRIC_JOB_WAIT_SECONDS)->name, metric_info(METRIC_JOB_WAIT_SECONDS)->help,
                       metric_info(METRIC_JOB_WAIT_SECONDS)->name);
    static const struct {
        const char *bound;
        int count;
    } rows[] = {{"0.0001", 2}, {"0.00025", 3}, {"0.0005", 3}, {"0.001", 3}, {"0.0025", 3}, {"0.005", 3},
                {"0.01", 3},   {"0.025", 3},   {"0.05", 3},   {"0.1", 3},   {"0.25", 3},   {"0.5", 4},
                {"1", 4},      {"2.5", 4},     {"5", 4},      {"10", 5},    {"+Inf", 6}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        len += snprintf(wanted + len, sizeof wanted - (size_t)len, "%s_bucket{job=\"a\",le=\"%s\"} %d\n",
                        metric_info(METRIC_JOB_WAIT_SECONDS)->name, rows[i].bound, rows[i].count);
    snprintf(wanted + len, sizeof wanted - (size_t)len, "%s_count{job=\"a\"} 6\n%s_sum{job=\"a\"} 20.80021\n",
             metric_info(METRIC_JOB_WAIT_SECONDS)->name, metric_info(METRIC_JOB_WAIT_SECONDS)->name);
    assert_rendered(wanted);
}

/* Prometheus' own checker accepts every metric of the table. */
static void passes_promtool(void **state)
{
    (void)state;
    if (system("command -v promtool >/dev/null") != 0) {
        print_message("promtool is not here: apt install prometheus\n");
        skip();
    }
    static const char *const labels[] = {"a", "b\"\\\n", "c", "d"};
    struct histogram times = {0};
    histogram_add(&times, 0.2);
    for (int id = 0; id < METRIC_COUNT; id++) {
        if (metric_info((enum metric_id)id)->type == METRIC_HISTOGRAM)
            metrics_put_histogram(metrics, (enum metric_id)id, &times, labels);
        else
            metrics_put(metrics, (enum metric_id)id, id + 0.5, labels);
    }
    size_t len;
    char *text = metrics_render(metrics, &len);
    FILE *promtool = popen("promtool check metrics", "w");
    assert_non_null(promtool);
    assert_int_equal(fwrite(text, 1, len, promtool), len);
    assert_int_equal(pclose(promtool), 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_sound_table),
        cmocka_unit_test_setup_teardown(groups_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(escapes_labels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_histograms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(renders_any_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(passes_promtool, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
