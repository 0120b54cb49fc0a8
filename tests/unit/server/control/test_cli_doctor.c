/* `larder doctor`: what it makes of made situations and machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/cli/cli.h"
#include "client/cli/doctor.h"
#include "tests/unit/server/control/advice.h"

/* Of a status with nothing in it something is said too. */
static void takes_anything(void **state)
{
    (void)state;
    json_t *nothing = json_object();
    struct doctor_report report = {.count = 0};
    doctor_judge(nothing, &(struct cli_machine){.cores = 0}, &report);
    doctor_look_at_datasets(nothing, &report);
    assert_true(doctor_is_bad(&report)); /* the version */
    json_decref(nothing);
}

/* Of shards that a pattern names the folder is looked at. */
static void doctor_finds_shards(void **state)
{
    static const struct {
        const char *dataset;
        bool good;
    } cases[] = {{"/tmp/shard-{000..009}.tar", true},
                 {"/tmp/*.tar#labels=cls", true},
                 {"/tmp/no-such-folder/{0..9}.tar", false},
                 {"/tmp/no-such-folder", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct doctor_report report = {.count = 0};
        json_t *status = json_pack("{s:[{s:s}]}", "jobs", "dataset", cases[i].dataset);
        doctor_look_at_datasets(status, &report);
        assert_int_equal(report.count, 1);
        assert_int_equal(report.all[0].verdict, cases[i].good ? DOCTOR_GOOD : DOCTOR_BAD);
        json_decref(status);
    }
}

static enum doctor_verdict verdict_of(const struct doctor_report *report, const char *of)
{
    for (size_t i = 0; i < report->count; i++) {
        if (strcmp(report->all[i].of, of) == 0)
            return report->all[i].verdict;
    }
    fail_msg("nothing is said of %s", of);
    return DOCTOR_UNKNOWN;
}

static struct doctor_report judged_of(int workers, double arena_bytes, double open_fds, double max_fds,
                                      struct cli_machine machine)
{
    struct doctor_report report = {.count = 0};
    json_t *status = json_pack("{s:{s:s,s:f,s:f,s:{s:i}},s:{s:{s:f}},s:{s:i}}", "daemon", "version", LARDER_VERSION,
                               "open_fds", open_fds, "max_fds", max_fds, "settings", "threads.workers", workers,
                               "memory", "arena", "budget_bytes", arena_bytes, "governor", "preparers", 1);
    assert_non_null(status);
    doctor_judge(status, &machine, &report);
    for (size_t i = 0; i < report.count; i++)
        advice_follow(report.all[i].todo);
    json_decref(status);
    return report;
}

static struct doctor_report judged(double arena_bytes, double open_fds, double max_fds, struct cli_machine machine)
{
    return judged_of(4, arena_bytes, open_fds, max_fds, machine);
}

static const char *todo_of(const struct doctor_report *report, const char *of)
{
    for (size_t i = 0; i < report->count; i++) {
        if (strcmp(report->all[i].of, of) == 0)
            return report->all[i].todo;
    }
    fail_msg("nothing is said of %s", of);
    return NULL;
}

/* Classes that a daemon has left out are told, and only those. */
static void doctor_counts_classes(void **state)
{
    (void)state;
    for (int asked = 0; asked < 3; asked++) {
        struct doctor_report report = {.count = 0};
        json_t *status = json_pack("{s:{s:{s:i}},s:{s:[{}]}}", "daemon", "settings", "storage", asked, "storage",
                                   "classes");
        doctor_judge(status, &(struct cli_machine){.cores = 0}, &report);
        if (asked > 0)
            assert_int_equal(strlen(todo_of(&report, "storage")) > 0, asked == 2);
        json_decref(status);
    }
}

/* What the doctor says is to be done can be done, and is not done already. */
static void doctor_advises_what_helps(void **state)
{
    (void)state;
    static const struct {
        int workers;
        double arena, open_fds, max_fds;
        struct cli_machine machine;
        const char *of, *todo;
    } rows[] = {
#define SOUND .memory_bytes = 1000, .available_bytes = 500
        {4, 950, 20, 4096, {.cores = 8, SOUND}, "memory", "lower memory.samples before the kernel"},
        {4, 500, 20, 4096, {.cores = 8, SOUND, .limit_bytes = 400}, "memory", "raise the cgroup's limit"},
        {4, 950, 20, 4096, {.cores = 8, SOUND, .limit_bytes = 4000}, "memory", "memory.samples before the kernel"},
        {4, 500, 20, 256, {.cores = 8, SOUND}, "descriptors", "LimitNOFILE=65536"},
        {4, 500, 65000, 65536, {.cores = 8, SOUND}, "descriptors", "LimitNOFILE=131072"},
        {4,
         500,
         20,
         4096,
         {.cores = 8, SOUND, .quota_cores = 2},
         "processors",
         "raise the quota (CPUQuota=), or set threads.workers from 4 to 2"},
        {4, 500, 20, 4096, {.cores = 8, SOUND, .quota_cores = .2}, "processors", "set threads.workers from 4 to 1"},
        {2,
         500,
         20,
         4096,
         {.cores = 8, SOUND, .quota_cores = 2, .periods = 10, .throttled_periods = 5},
         "processors",
         "raise the quota (CPUQuota=)"},
        {8, 500, 20, 4096, {.cores = 2, SOUND, .quota_cores = 2}, "processors", "set threads.workers from 8 to 2"},
        {2,
         500,
         20,
         4096,
         {.cores = 2, SOUND, .quota_cores = 2, .periods = 10, .throttled_periods = 5},
         "processors",
         "move other programs out of the cgroup"},
        {4,
         500,
         20,
         4096,
         {.cores = 8, .memory_bytes = 1000, .available_bytes = 10},
         "page cache",
         "end programs that take much, or lower memory.samples"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct doctor_report report = judged_of(rows[i].workers, rows[i].arena, rows[i].open_fds, rows[i].max_fds,
                                                rows[i].machine);
        const char *todo = todo_of(&report, rows[i].of);
        if (!strstr(todo, rows[i].todo))
            fail_msg("row %zu: \"%s\", and not \"%s\"", i, todo, rows[i].todo);
        bool whole = strstr(rows[i].todo, "raise the quota (CPUQuota=)") == rows[i].todo;
        assert_true(!whole || strstr(rows[i].todo, "threads.workers") || strcmp(todo, rows[i].todo) == 0);
    }
}

/* Each thing that is wrong is told with what to do, and alone. */
static void doctor_finds(void **state)
{
    (void)state;
    const struct cli_machine sound = {.cores = 8, .memory_bytes = 1000, .available_bytes = 500};
    struct doctor_report report = judged(500, 20, 4096, sound);
    assert_false(doctor_is_bad(&report));
    report = judged(950, 20, 4096, sound);
    assert_int_equal(verdict_of(&report, "memory"), DOCTOR_BAD);
    struct cli_machine machine = sound;
    machine.limit_bytes = 400;
    report = judged(500, 20, 4096, machine);
    assert_int_equal(verdict_of(&report, "memory"), DOCTOR_BAD);
    assert_int_equal(verdict_of(&report, "processors"), DOCTOR_GOOD);
    report = judged(500, 3900, 4096, sound);
    assert_int_equal(verdict_of(&report, "descriptors"), DOCTOR_BAD);
    report = judged(500, 20, 256, sound);
    assert_int_equal(verdict_of(&report, "descriptors"), DOCTOR_BAD);
    machine = sound;
    machine.quota_cores = 2;
    report = judged(500, 20, 4096, machine);
    assert_int_equal(verdict_of(&report, "processors"), DOCTOR_BAD);
    machine = sound;
    machine.available_bytes = 10;
    report = judged(500, 20, 4096, machine);
    assert_int_equal(verdict_of(&report, "page cache"), DOCTOR_BAD);
    for (size_t i = 0; i < report.count; i++)
        assert_true((report.all[i].verdict == DOCTOR_BAD) == (report.all[i].todo[0] != '\0'));
}

static void put(const char *root, const char *path, const char *text)
{
    char whole[4096];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(whole, sizeof whole, "%s%.*s", root, (int)(slash - path), path);
        mkdir(whole, 0700);
    }
    snprintf(whole, sizeof whole, "%s%s", root, path);
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* The limits of both kinds of cgroups are read, those of the groups around a process's own too. */
static void reads_machines(void **state)
{
    (void)state;
    struct cli_machine machine;
    char root[] = "/tmp/larder-machine-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    cli_machine_read(root, 7, &machine);
    assert_true(machine.memory_bytes == 0 && machine.limit_bytes == 0 && machine.quota_cores == 0 &&
                machine.idle_s == 0);
    put(root, "/proc/stat", "cpu  1 2 3 400 500 6 0 7 0 0\ncpu0 1 2 3 4 5 6 0 7 0 0\n");
    put(root, "/proc/meminfo", "MemTotal: 2000 kB\nMemAvailable: 1000 kB\nCached: 500 kB\n");
    put(root, "/proc/7/cgroup", "0::/a/b\n");
    put(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put(root, "/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    put(root, "/sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_periods 40\nnr_throttled 10\n");
    put(root, "/sys/fs/cgroup/a/b/memory.max", "4096\n");
    cli_machine_read(root, 7, &machine);
    assert_true(machine.memory_bytes == 2000 * 1024 && machine.available_bytes == 1000 * 1024);
    assert_true(machine.quota_cores == 1.5 && machine.periods == 40 && machine.throttled_periods == 10);
    assert_int_equal(machine.limit_bytes, 4096);
    assert_int_equal(machine.idle_s * (double)sysconf(_SC_CLK_TCK), 900);
    put(root, "/proc/8/cgroup", "5:cpu:/c\n4:memory:/c\n");
    put(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n");
    put(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
    put(root, "/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "9223372036854771712\n");
    cli_machine_read(root, 8, &machine);
    assert_true(machine.quota_cores == 0.5 && machine.limit_bytes == 0);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_anything),
        cmocka_unit_test(doctor_finds_shards),
        cmocka_unit_test(doctor_finds),
        cmocka_unit_test(doctor_counts_classes),
        cmocka_unit_test(doctor_advises_what_helps),
        cmocka_unit_test(reads_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
