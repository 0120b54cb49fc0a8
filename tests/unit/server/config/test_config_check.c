/* `larderd check` from end to end, with the real pipeline parser behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/config/config.h"
#include "tests/unit/server/program.h"

static char *self; /* this program: `SELF check …` is what larderd would do */
static char path[] = "/tmp/larder-check-XXXXXX";
static char output[65536];

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int check(char *a, char *b)
{
    char *argv[] = {self, "check", a, b, NULL};
    return program_run(argv, "", output, sizeof output);
}

/* A right file, a wrong one, and a missing one give 0, 1 and 1, each with one line that names the file. */
static void test_files(void **state)
{
    (void)state;
    char expected[512];
    write_file("memory: {arena: 64MiB}\n");
    assert_int_equal(check(path, NULL), 0);
    snprintf(expected, sizeof expected, "%s: right\n", path);
    assert_string_equal(output, expected);
    write_file("memory:\n  arna: 64MiB\n");
    assert_int_equal(check(path, NULL), 1);
    snprintf(expected, sizeof expected, "%s:2:3: memory.arna: no such setting: did you mean memory.arena?\n", path);
    assert_string_equal(output, expected);
    assert_int_equal(check("/nowhere/larder.yaml", NULL), 1);
    assert_string_equal(output, "/nowhere/larder.yaml: cannot open the configuration: No such file or directory\n");
}

/* A pipeline that cannot be is found before any job asks for it, and named by the line of its operator. */
static void test_pipelines(void **state)
{
    (void)state;
    char expected[512];
    write_file("datasets:\n  a:\n    path: /d\n    pipeline:\n      - random_resized_crop: {size: 224}\n"
               "      - random_horizontal_flip\n");
    assert_int_equal(check(path, NULL), 0);
    write_file("datasets:\n  a:\n    path: /d\n    pipeline:\n      - random_resized_crop: {size: 224}\n"
               "      - random_horizontal_flip: {p: 1.5}\n");
    assert_int_equal(check(path, NULL), 1);
    snprintf(expected, sizeof expected, "%s:6:9: datasets.a: pipeline[1] random_horizontal_flip: ", path);
    assert_int_equal(strncmp(output, expected, strlen(expected)), 0);
}

/* --show gives the effective settings with their sources, --example the commented file, and both are right files. */
static void test_written(void **state)
{
    (void)state;
    char kept[sizeof output];
    write_file("limits:\n  jobs: 7\n");
    assert_int_equal(check("--show", path), 0);
    assert_non_null(strstr(output, "\n  jobs: 7  # file line 2\n"));
    assert_non_null(strstr(output, "\n  port: 9450  # default\n"));
    strcpy(kept, output);
    write_file(kept);
    assert_int_equal(check(path, NULL), 0);
    assert_int_equal(check("--example", NULL), 0);
    strcpy(kept, output);
    write_file(kept);
    assert_int_equal(check(path, NULL), 0);
    assert_int_equal(check("--show", NULL), 0);
}

/* A wrong command line is status 2, help 0. */
static void test_usage(void **state)
{
    (void)state;
    assert_int_equal(check(NULL, NULL), 2);
    assert_int_equal(check("--shw", NULL), 2);
    assert_int_equal(check(path, "more"), 2);
    assert_non_null(strstr(output, "usage: larder check FILE"));
    assert_int_equal(check("--help", NULL), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return config_check_main(argc - 1, argv + 1);
    self = argv[0];
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_pipelines),
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_usage),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return rc;
}
