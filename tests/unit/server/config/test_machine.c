/* What the machine has, as the configuration reads it. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
