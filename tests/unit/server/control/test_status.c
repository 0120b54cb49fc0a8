/* A snapshot of the daemon as JSON and as Prometheus text. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/control/status_cache.h"
#include "tests/unit/server/control/sample_status.h"

static const char expected_json[] =
    "{\"v\":1,\"daemon\":{\"version\":\"9.8.7\",\"pid\":4711,\"state\":\"running\",\"socket\":\"/run/larder/"
    "larder.sock\",\"page\":\"http://127.0.0.1:9450/\","
    "\"uptime_s\":3725.0,\"start_time_s\":1700000000.0,\"time_s\":5000.5,\"rss_bytes\":3221225472,\"cpu_s\":100.25,"
    "\"open_fds\":42,\"max_fds\":null,\"sessions\":3,\"datasets\":1,\"threads\":{\"load\":8,\"prepare\":4},"
    "\"settings\":{\"threads.workers\":4,\"threads.loaders\":8,\"jobs.quota\":0.5,\"storage\":1},"
    "\"places\":{\"memory.arena\":\"in /etc/l.yaml:3\"}},"
    "\"samples\":{\"loaded\":1500,\"loaded_bytes\":150000000,\"reads\":30,\"decoded\":1300,\"from_decoded\":77,"
    "\"prepared\":1400,"
    "\"delivered\":2800,"
    "\"prepared_per_delivered\":0.5,\"redirected\":{\"prepared\":11,\"encoded\":13},\"delivered_from\":{\"prepared\":"
    "1400,\"encoded\":900,\"read\":500},\"bad\":{\"unreadable\":2,\"not_an_"
    "image\":0,\"corrupt\":1},\"prepare_s\":0.0},"
    "\"memory\":{\"samples\":{\"budget_bytes\":5368709120,\"moves\":true},\"arena\":{\"budget_bytes\":4294967296,"
    "\"reserved_bytes\":3221225472,\"used_bytes\":1073741824,"
    "\"pinned_bytes\":536870912,"
    "\"quota_bytes\":2147483648},\"encoded\":{\"budget_bytes\":1073741824,\"used_bytes\":268435456,\"decoded_"
    "bytes\":3000,\"decoded_samples\":2,\"look_ahead_"
    "bytes\":536870912},"
    "\"scratch\":{\"budget_bytes\":536870912,\"used_bytes\":134217728,\"waiting\":1,\"waits\":12},"
    "\"evicted\":{\"prepared\":7,\"encoded\":9},\"history\":{\"budget_bytes\":5000000},"
    "\"catalogs\":{\"budget_bytes\":9000000,\"samples_bytes\":7000000,\"paths_bytes\":8000000,\"identities_bytes\":0},"
    "\"columns\":{\"used_bytes\":6000000}},"
    "\"storage\":{\"source\":{\"samples\":500,\"bytes\":50000000},\"classes\":[{\"path\":\"/nvme/larder\","
    "\"state\":\"full\",\"form\":\"planes\",\"size_bytes\":4294967296,\"used_bytes\":4294967296,\"samples\":40000,"
    "\"planes\":30000,\"planes_left\":6000,\"segments\":64,"
    "\"read\":{\"samples\":1000,\"bytes\":150000000},\"written\":{\"samples\":40000,\"bytes\":4294967296},"
    "\"waiting_bytes\":8,\"skipped\":9,\"corrupt\":1,\"given_up\":2,\"left_alone\":false,\"mb_per_s\":1500.0}]},"
    "\"engine\":{\"loads_inflight\":5,\"prepares_inflight\":4,\"source_retries\":17,\"source_waits\":1,\"unknown_"
    "releases\":0,\"steps\":4,\"step_ms\":{\"longest\":2.0,\"mean\":1.25}},"
    "\"governor\":{\"preparers\":3,\"loaders\":9,\"prepare_rate\":1500.5,\"load_rate\":null,\"moves\":12},\"jobs\":["
    "{\"name\":\"train-a\",\"job\":0,\"id\":17,\"pid\":815,\"client\":\"python/0.1\",\"dataset\":\"/data/imagenet/"
    "train\",\"dataset_samples\":null,\"store\":{\"max_side\":256,\"quality\":90,\"shrunk\":470,"
    "\"undecoded\":3,\"restart_rows\":17,\"planes\":480},"
    "\"pipeline\":\"[{\\\"random_resized_crop\\\":{\\\"size\\\":224}}]\",\"weight\":1.0,\"batch_size\":64,\"prefetch\":"
    "4,\"prefetch_asked\":8,\"look_ahead\":3,\"epoch\":1,"
    "\"epochs\":90,\"started\":true,\"view_samples\":1000,\"epoch_samples\":"
    "1000,\"remaining\":600,\"epoch_delivered\":400,\"delivered\":1400,"
    "\"batches\":22,\"shared\":700,\"bad_samples\":0,\"epoch_lost\":0,\"waits_for_source\":false,\"source_wait_s\":0.0,"
    "\"held_slots\":256,\"held_max\":4,\"quota_bytes\":1073741824,\"prepared\":560,"
    "\"sharing_factor\":2.5,\"stall_s\":{\"load\":0.5,\"prepare\":0.25,\"room\":0.125,\"rank\":0.0625},\"loaders\":4,"
    "\"ahead_batches\":3,"
    "\"mix\":null,\"queues\":[{\"rank\":0,\"ready_batches\":3,\"leased_batches\":1,\"oldest_lease_s\":0.75,"
    "\"credits\":2,\"stall_s\":{\"load\":0.5,\"prepare\":0.25,\"room\":0.125,\"rank\":0.0625},"
    "\"attached\":true,"
    "\"done\":false,\"epoch_delivered\":400,\"batches\":22,\"pid\":null,\"process\":null,\"governor\":{\"line\":2,"
    "\"loaders\":4,\"reading\":3,"
    "\"pending_reads\":5,\"pending_samples\":320,\"load_ms\":0.5,\"prepare_ms\":null,\"train_ms\":250.0,\"late_ms\":-"
    "125.0}}]},"
    "{\"name\":\"quote\\\"back\\\\slash\",\"job\":1,\"id\":null,\"pid\":null,\"client\":null,\"dataset\":\"/data/"
    "imagenet/"
    "train\",\"dataset_samples\":null,\"store\":null,"
    "\"pipeline\":null,\"weight\":0.5,\"batch_size\":64,\"prefetch\":4,\"prefetch_asked\":8,\"look_ahead\":3,\"epoch\":"
    "1,\"epochs\":0,\"started\":true,\"view_samples\":"
    "1000,\"epoch_samples\":1000,"
    "\"remaining\":600,\"epoch_delivered\":400,\"delivered\":1400,\"batches\":22,\"shared\":700,\"bad_samples\":0,"
    "\"epoch_lost\":3,\"waits_for_source\":true,\"source_wait_s\":2.5,\"held_slots\":256,\"held_max\":4,\"quota_"
    "bytes\":1073741824,"
    "\"prepared\":0,\"sharing_factor\":null,\"stall_s\":{\"load\":0.5,\"prepare\":0.25,\"room\":0.125,\"rank\":0.0625},"
    "\"loaders\":5,\"ahead_batches\":null,"
    "\"mix\":0.25,\"queues\":[{\"rank\":0,\"ready_batches\":3,\"leased_batches\":1,\"oldest_lease_s\":0.75,"
    "\"credits\":2,\"stall_s\":{\"load\":0.5,\"prepare\":0.25,\"room\":0.125,\"rank\":0.0625},"
    "\"attached\":true,"
    "\"done\":false,\"epoch_delivered\":400,\"batches\":22,\"pid\":null,\"process\":null,\"governor\":null}]}]}";

/* The JSON has exactly the documented keys, in one order. */
static void test_json(void **state)
{
    (void)state;
    struct daemon_status status;
    sample_status_fill(&status);
    char *json = status_to_json(&status);
    assert_string_equal(json, expected_json);
    free(json);
    status_clear(&status);
    assert_null(status.jobs);
}

static const char expected_cluster[] =
    "\"cluster\":{\"name\":\"lab\",\"node\":\"node-1\",\"id\":\"a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0\",\"nodes\":["
    "{\"id\":\"a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0\",\"name\":\"node-1\",\"url\":\"http://node-1:9451\","
    "\"state\":\"UP\",\"self\":true,\"asked\":false},"
    "{\"id\":\"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1\",\"name\":\"node-2\",\"url\":\"http://node-2:9451\","
    "\"state\":\"UP\",\"self\":false,\"asked\":true},"
    "{\"id\":\"a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2\",\"name\":\"node-3\",\"url\":null,"
    "\"state\":\"UP\",\"self\":false,\"asked\":false},"
    "{\"id\":\"a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3\",\"name\":null,\"url\":null,"
    "\"state\":\"LOST\",\"self\":false,\"asked\":false}],"
    "\"guests\":3,\"requests\":900,\"probes\":70,\"given\":12000,\"received\":34000,\"refused\":5,\"moved\":60,"
    "\"back\":7,\"jobs\":["
    "{\"name\":\"train-a\",\"received\":30000,\"refused\":4,\"moved\":50,\"back\":6,"
    "\"homes\":true,\"trainings\":2,\"spread\":\"auto\",\"parts\":["
    "{\"node\":\"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1\",\"left\":1200,\"asked\":64,\"waiting\":8,\"open\":true}]}]}}";

/* A daemon in a cluster says so, behind all else. */
static void test_json_cluster(void **state)
{
    (void)state;
    struct daemon_status status;
    sample_status_fill(&status);
    sample_status_join(&status);
    char *json = status_to_json(&status);
    size_t alone = strlen(expected_json) - 1; /* without the last brace */
    assert_memory_equal(json, expected_json, alone);
    assert_int_equal(json[alone], ',');
    assert_string_equal(json + alone + 1, expected_cluster);
    free(json);
    status_clear(&status);
    assert_null(status.cluster);
}

/* A job's name in another encoding, and a daemon that has done nothing yet, still give JSON. */
static void test_json_odd(void **state)
{
    (void)state;
    struct daemon_status status;
    sample_status_fill(&status);
    strcpy(status.jobs[0].engine.name, "caf\xe9");
    status.totals = (struct engine_totals){.counts.loaded_bytes = UINT64_MAX};
    char *text = status_to_json(&status);
    json_t *json = json_loads(text, 0, NULL);
    json_t *samples = json_object_get(json, "samples");
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(json, "jobs"), 0), "name")),
                        "caf?");
    assert_true(json_is_null(json_object_get(samples, "prepared_per_delivered")));
    assert_true(json_integer_value(json_object_get(samples, "loaded_bytes")) == INT64_MAX);
    json_decref(json);
    free(text);
    status_clear(&status);
}

/* The metrics have a daemon's and two jobs' rows, escaped, each metric's together. What is not known is not there. */
static void test_metrics(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "\nlarder_process_start_time_seconds 1700000000\n",
        "\nlarder_threads{role=\"load\"} 8\nlarder_threads{role=\"prepare\"} 4\n",
        "\nlarder_reads_total 30\n",
        "\n# TYPE larder_samples_decoded_total counter\nlarder_samples_decoded_total 1300\n",
        "\nlarder_samples_from_decoded_total 77\n",
        "\nlarder_encoded_decoded_bytes 3000\n",
        "\nlarder_encoded_decoded_samples 2\n",
        "\n# TYPE larder_samples_prepared_total counter\nlarder_samples_prepared_total 1400\n",
        "\nlarder_bad_samples_total{reason=\"unreadable\"} 2\nlarder_bad_samples_total{reason=\"not_an_image\"} 0\n",
        "\nlarder_delivered_from_total{level=\"prepared\"} 1400\nlarder_delivered_from_total{level=\"encoded\"} 900\n",
        "\nlarder_delivered_from_total{level=\"read\"} 500\n",
        "\nlarder_redirected_picks_total{level=\"prepared\"} 11\nlarder_redirected_picks_total{level=\"encoded\"} 13\n",
        "\nlarder_process_open_fds 42\n",
        "\nlarder_job_stall_seconds_total{job=\"train-a\",rank=\"0\",cause=\"load\"} 0.5\n",
        "\nlarder_job_stall_seconds_total{job=\"train-a\",rank=\"0\",cause=\"rank\"} 0.0625\n",
        "\nlarder_job_batch_wait_seconds_bucket{job=\"train-a\",le=\"0.25\"} 0\n",
        "\nlarder_job_batch_wait_seconds_bucket{job=\"train-a\",le=\"0.5\"} 1\n",
        "\nlarder_job_sharing_factor{job=\"train-a\"} 2.5\n",
        "\nlarder_job_leases{job=\"train-a\",rank=\"0\"} 1\n",
        "\nlarder_job_oldest_lease_seconds{job=\"train-a\",rank=\"0\"} 0.75\n",
        "\nlarder_source_retries_total 17\n",
        "\nlarder_jobs_waiting_for_source 1\n",
        "\nlarder_arena_budget_bytes 4294967296\n",
        "\nlarder_samples_budget_bytes 5368709120\n",
        "\nlarder_job_look_ahead_batches{job=\"train-a\"} 3\n",
        "\nlarder_look_ahead_shortened_total 6\n",
        "\nlarder_evictions_total{form=\"prepared\"} 7\nlarder_evictions_total{form=\"encoded\"} 9\n",
        "\nlarder_job_samples_delivered_total{job=\"train-a\"} 1400\n",
        "\nlarder_governor_preparers 3\n",
        "\nlarder_governor_job_loaders{job=\"train-a\"} 4\n",
        "\nlarder_governor_queue_train_seconds{job=\"train-a\",rank=\"0\"} 0.25\n",
        "\nlarder_job_samples_delivered_total{job=\"quote\\\"back\\\\slash\"} 1400\n",
    };
    static const char *const unknown[] = {"larder_process_max_fds",
                                          "larder_governor_load_rate",
                                          "larder_governor_job_ahead_batches{job=\"quote",
                                          "larder_job_sharing_factor{job=\"quote",
                                          "larder_governor_queue_prepare_seconds",
                                          "larder_cluster_"};
    struct daemon_status status;
    size_t len = 0;
    sample_status_fill(&status);
    char *text = status_to_metrics(&status, &len);
    assert_int_equal(strlen(text), len);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        if (strstr(text, unknown[i]))
            fail_msg("in the metrics though it is not known: %s\n%s", unknown[i], text);
    }
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (!strstr(text, lines[i]))
            fail_msg("not in the metrics: %s\n%s", lines[i], text);
    }
    free(text);
    status_clear(&status);
}

/* A daemon in a cluster has the cluster's metrics: a row for each state, also where no node has it. */
static void test_metrics_cluster(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "\nlarder_cluster_nodes{state=\"UNKNOWN\"} 0\nlarder_cluster_nodes{state=\"UP\"} 3\n"
        "larder_cluster_nodes{state=\"LEAVING\"} 0\nlarder_cluster_nodes{state=\"LOST\"} 1\n",
        "\nlarder_cluster_guests 3\n",
        "\nlarder_cluster_samples_received_total 34000\n",
        "\nlarder_cluster_samples_given_total 12000\n",
        "\nlarder_cluster_samples_moved_total 60\n",
        "\nlarder_cluster_arrivals_refused_total 5\n",
        "\nlarder_cluster_requests_total 900\n",
        "\nlarder_cluster_probes_total 70\n",
    };
    struct daemon_status status;
    size_t len = 0;
    sample_status_fill(&status);
    sample_status_join(&status);
    char *text = status_to_metrics(&status, &len);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (!strstr(text, lines[i]))
            fail_msg("not in the metrics: %s\n%s", lines[i], text);
    }
    free(text);
    status_clear(&status);
}

static void read_status(void *ctx, struct daemon_status *status)
{
    unsigned *times = ctx;
    sample_status_fill(status);
    status->sessions = ++*times;
}

/* However often and for whatever is asked, the daemon is looked at once a second. */
static void test_cache(void **state)
{
    (void)state;
    unsigned times = 0;
    struct status_cache cache = {.read = read_status, .ctx = &times};
    for (uint64_t now_ns = 0; now_ns < 5 * STATUS_CACHE_NS; now_ns += STATUS_CACHE_NS / 100) {
        char row[64];
        size_t len = 0;
        char *json = status_cache_json(&cache, now_ns), *metrics = status_cache_metrics(&cache, now_ns, &len);
        assert_int_equal(times, 1 + now_ns / STATUS_CACHE_NS);
        snprintf(row, sizeof row, "\"sessions\":%u,", times);
        assert_non_null(strstr(json, row));
        snprintf(row, sizeof row, "\nlarder_sessions %u\n", times);
        assert_non_null(strstr(metrics, row));
        assert_int_equal(strlen(metrics), len);
        free(json);
        free(metrics);
    }
    status_cache_clear(&cache);
}

/* What is read about this process is plausible: it uses memory, and time passes. */
static void test_process(void **state)
{
    (void)state;
    struct status_process process = {0}, later = {0};
    status_read_process(&process);
    assert_int_equal(process.pid, getpid());
    assert_in_range(process.rss_bytes, 100000, UINT64_C(1) << 40);
    for (volatile unsigned i = 0; i < 100000000; i++)
        ;
    status_read_process(&later);
    assert_true(later.cpu_s > process.cpu_s);
    assert_true(later.time_s > process.time_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),         cmocka_unit_test(test_json_odd),        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_json_cluster), cmocka_unit_test(test_metrics_cluster), cmocka_unit_test(test_cache),
        cmocka_unit_test(test_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
