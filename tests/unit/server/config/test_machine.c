/* What the machine has, as the configuration reads it. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "server/config/config_priv.h"

static void put_file(const char *root, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *at = full + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(full, 0700);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_memory(const char *root, uint64_t memory_mib, uint64_t available_mib)
{
    struct config_machine read;
    config_machine_read(root, &read);
    assert_int_equal(read.memory_bytes, memory_mib * CONFIG_MIB);
    assert_int_equal(read.available_bytes, available_mib * CONFIG_MIB);
    assert_true(read.cores >= 1);
}

/* Memory is what the machine has, or the least limit of the cgroups around the process, of either version. */
static void test_machine(void **state)
{
    (void)state;
    char root[] = "/tmp/larder-machine-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    put_file(root, "/proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\nMemAvailable:    4194304 kB\n");
    assert_memory(root, 8192, 4096);
    put_file(root, "/proc/self/cgroup", "0::/a.slice/b.scope\n");
    assert_memory(root, 8192, 4096);
    put_file(root, "/sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
    assert_memory(root, 8192, 4096);
    put_file(root, "/sys/fs/cgroup/a.slice/memory.max", "1073741824\n");
    assert_memory(root, 1024, 1024);
    put_file(root, "/proc/self/cgroup", "5:cpu:/x\n4:memory:/not/visible/in/the/container\n");
    put_file(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_memory(root, 8192, 4096);
    put_file(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
    assert_memory(root, 512, 512);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

/* Cores are those that this process may run on, or fewer by the least quota of the control groups around it, of either
 * version; a part of one counts as one. */
static void test_cores(void **state)
{
    (void)state;
    struct config_machine read;
    char root[] = "/tmp/larder-machine-XXXXXX", command[64];
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    uint32_t all = (uint32_t)CPU_COUNT(&before);
    assert_non_null(mkdtemp(root));
    static const struct {
        const char *path, *text;
        uint32_t least_of; /* of all cores and this many */
    } steps[] = {{"/proc/self/cgroup", "0::/a.slice/b.scope\n", UINT32_MAX},
                 {"/sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n", UINT32_MAX},
                 {"/sys/fs/cgroup/a.slice/cpu.max", "100001 100000\n", 2},
                 {"/sys/fs/cgroup/cpu.max", "50000 100000\n", 1},
                 {"/sys/fs/cgroup/cpu.max", "nonsense\n", 2},
                 {"/proc/self/cgroup", "7:memory:/m\n6:cpuset:/s\n4:cpu,cpuacct:/a/b\n0::/\n", UINT32_MAX},
                 {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n", UINT32_MAX},
                 {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n", UINT32_MAX},
                 {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n", 2},
                 {"/proc/self/cgroup", "4:cpuacct,cpu:/not/visible/in/the/container\n", UINT32_MAX},
                 {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n", UINT32_MAX},
                 {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "20000\n", 1},
                 {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "0\n", UINT32_MAX}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        put_file(root, steps[i].path, steps[i].text);
        config_machine_read(root, &read);
        assert_int_equal(read.cores, all < steps[i].least_of ? all : steps[i].least_of);
    }
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    config_machine_read(root, &read);
    assert_int_equal(read.cores, 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
