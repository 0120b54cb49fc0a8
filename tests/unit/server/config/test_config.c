/* What larderd's configuration accepts and refuses, with the exact texts that people will read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "server/config/config_priv.h"

#define GIB (UINT64_C(1) << 30)

static const struct config_machine machine = {.memory_bytes = 16 * GIB, .available_bytes = 12 * GIB, .cores = 6};

static struct config *parse(const char *text)
{
    struct config *config = NULL;
    struct error err = {0};
    if (config_parse("f.yaml", text, text ? strlen(text) : 0, &machine, &config, &err) != 0)
        fail_msg("refused: %s", err.text);
    return config;
}

static void assert_refused(const char *text, size_t len, const char *expected)
{
    struct config *config = NULL;
    struct error err = {0};
    int rc = config_parse("f.yaml", text, len, &machine, &config, &err);
    if (rc == 0)
        fail_msg("accepted: %s", text);
    assert_int_equal(rc, err.code);
    assert_null(config);
    assert_string_equal(err.text, expected);
}

/* Without a file every setting has the table's default, and what depends on the machine and the environment is worked
 * out. */
static void test_defaults(void **state)
{
    (void)state;
    struct config *config = parse(NULL);
    assert_int_equal(config->arena_bytes, 4 * GIB);
    assert_int_equal(config->encoded_bytes, 16 * GIB / 10);
    assert_int_equal(config->scratch_bytes, 16 * GIB / 10);
    assert_int_equal(config->workers, 6);
    assert_int_equal(config->loaders, 8);
    assert_int_equal(config->jobs_max, 64);
    assert_int_equal(config->idle_exit_s, 0);
    assert_int_equal(config->log_level, LOG_INFO);
    assert_true(config->metrics_enabled);
    assert_string_equal(config->metrics_address, "127.0.0.1");
    assert_int_equal(config->metrics_port, 9450);
    assert_string_equal(config->metrics_socket, "");
    assert_true(config->control_enabled);
    assert_string_equal(config->socket_path, "/run/user/7/larder/larder.sock");
    assert_string_equal(config->checkpoint_dir, "/home/x/.cache-there/larder");
    assert_true(config->job_quota_share == 0.5);
    assert_int_equal(config->n_datasets, 0);
    assert_int_equal(config->source[SETTING_arena_bytes], CONFIG_FROM_DEFAULT);
    config_destroy(config);
}

/* The environment decides about the socket's path and the checkpoint folder in the documented order. */
static void test_environment(void **state)
{
    (void)state;
    setenv("LARDER_SOCKET", "/tmp/other.sock", 1);
    struct config *config = parse(NULL);
    assert_string_equal(config->socket_path, "/tmp/other.sock");
    config_destroy(config);
    config = parse("socket: {path: /tmp/from-file.sock}\ncatalog: {checkpoint: none}\n");
    assert_string_equal(config->socket_path, "/tmp/from-file.sock");
    assert_string_equal(config->checkpoint_dir, "");
    config_destroy(config);
    char text[200], lengthy[130];
    memset(lengthy, 'x', sizeof lengthy);
    snprintf(text, sizeof text, "/tmp/%.100s",
             lengthy); /* fits a socket's address, and the control socket's does not */
    setenv("LARDER_SOCKET", text, 1);
    struct error err;
    assert_int_equal(config_parse(NULL, NULL, 0, &machine, &config, &err), LARDER_ELIMIT);
    assert_non_null(strstr(err.text, "the control socket: "));
    unsetenv("LARDER_SOCKET");
}

/* A default share of memory goes down when others use the machine; a share that somebody wrote does not. */
static void test_busy_machine(void **state)
{
    (void)state;
    struct config_machine busy = {.memory_bytes = 16 * GIB, .available_bytes = 2 * GIB, .cores = 1};
    struct config *config = NULL;
    struct error err;
    assert_int_equal(config_parse("f.yaml", NULL, 0, &busy, &config, &err), 0);
    assert_int_equal(config->arena_bytes, GIB);
    config_destroy(config);
    const char *text = "memory: {arena: 25%}";
    assert_int_equal(config_parse("f.yaml", text, strlen(text), &busy, &config, &err), 0);
    assert_int_equal(config->arena_bytes, 4 * GIB);
    config_destroy(config);
}

static const char everything[] = "# a comment\n"
                                 "socket:\n"
                                 "  path: \"/tmp/larder test/l.sock\"\n"
                                 "memory:\n"
                                 "  arena: 1.5GiB\n"
                                 "  encoded: 100 MB\n"
                                 "  scratch: 70MiB\n"
                                 "threads: {workers: 3, loaders: 2}\n"
                                 "debug: {load_delay: 7}\n"
                                 "redirect: {width: 4}\n"
                                 "limits:\n"
                                 "  jobs: 5\n"
                                 "  pixels: 1000\n"
                                 "  scans: 7\n"
                                 "  idle_exit: 60\n"
                                 "  rank_timeout: 45\n"
                                 "  source_wait: 7\n"
                                 "  bad: 2.5%\n"
                                 "log: {level: debug}\n"
                                 "metrics:\n"
                                 "  enabled: false\n"
                                 "  address: ::1\n"
                                 "  port: 0\n"
                                 "  socket: /tmp/m.sock\n"
                                 "control: {enabled: false}\n"
                                 "catalog: {checkpoint: /var/tmp/c}\n"
                                 "jobs:\n"
                                 "  quota: 12.5%\n"
                                 "datasets:\n"
                                 "  cats-1:\n"
                                 "    path: /data/cats\n"
                                 "    pipeline:\n"
                                 "      - random_resized_crop: {size: 224, scale: [0.25, 1], mode: \"1\"}\n"
                                 "      - random_horizontal_flip\n"
                                 "      - normalize: {mean: 1e-1, exact: true, nothing: ~}\n"
                                 "  dogs:\n"
                                 "    path: '/data/my dogs'\n"
                                 "    subset:\n"
                                 "      difference:\n"
                                 "        - classes: [\"n015*\", \"7\"]\n"
                                 "        - fraction: 0.5\n"
                                 "          seed: 3\n";

static void assert_everything(const struct config *config)
{
    assert_string_equal(config->socket_path, "/tmp/larder test/l.sock");
    assert_int_equal(config->arena_bytes, 3 * GIB / 2);
    assert_int_equal(config->encoded_bytes, 100000000);
    assert_int_equal(config->scratch_bytes, 70 * CONFIG_MIB);
    assert_int_equal(config->workers, 3);
    assert_int_equal(config->loaders, 2);
    assert_int_equal(config->load_delay_ms, 7);
    assert_int_equal(config->redirect_width, 4);
    assert_int_equal(config->jobs_max, 5);
    assert_int_equal(config->pixels_max, 1000);
    assert_int_equal(config->scans_max, 7);
    assert_int_equal(config->idle_exit_s, 60);
    assert_int_equal(config->rank_timeout_s, 45);
    assert_int_equal(config->source_wait_s, 7);
    assert_true(config->bad_max.share == 0.025 && config->bad_max.count == 0);
    assert_int_equal(config->log_level, LOG_DEBUG);
    assert_false(config->metrics_enabled);
    assert_string_equal(config->metrics_address, "::1");
    assert_int_equal(config->metrics_port, 0);
    assert_string_equal(config->metrics_socket, "/tmp/m.sock");
    assert_false(config->control_enabled);
    assert_string_equal(config->checkpoint_dir, "/var/tmp/c");
    assert_true(config->job_quota_share == 0.125);
    assert_int_equal(config->n_datasets, 2);
    const struct config_dataset *cats = config_dataset_find(config, "cats-1");
    assert_non_null(cats);
    assert_string_equal(cats->path, "/data/cats");
    assert_string_equal(cats->pipeline,
                        "[{\"random_resized_crop\":{\"size\":224,\"scale\":[0.25,1],\"mode\":\"1\"}},"
                        "\"random_horizontal_flip\","
                        "{\"normalize\":{\"mean\":0.10000000000000001,\"exact\":true,\"nothing\":null}}]");
    assert_int_equal(cats->n_pipeline_at, 3);
    assert_string_equal(config_dataset_find(config, "dogs")->path, "/data/my dogs");
    assert_null(cats->subset);
    assert_null(config_dataset_find(config, "dogs")->pipeline);
    assert_string_equal(config_dataset_find(config, "dogs")->subset,
                        "{\"difference\":[{\"classes\":[\"n015*\",\"7\"]},{\"fraction\":0.5,\"seed\":3}]}");
    assert_null(config_dataset_find(config, "birds"));
}

/* A file that sets everything sets everything, remembers where, and turns pipelines into JSON. */
static void test_everything(void **state)
{
    (void)state;
    struct config *config = parse(everything);
    assert_everything(config);
    for (size_t i = 0; i < CONFIG_SETTINGS; i++)
        assert_int_equal(config->source[i], CONFIG_FROM_FILE);
    assert_int_equal(config->mark[SETTING_arena_bytes].line, 5);
    assert_int_equal(config->mark[SETTING_arena_bytes].column, 10);
    assert_int_equal(config->datasets[0].pipeline_at[1].line, 34);
    assert_int_equal(config->datasets[0].pipeline_at[1].column, 9);
    config_destroy(config);
}

/* What config_dump writes, read back, gives the same settings. */
static void test_dump_round_trip(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    struct config *config = parse(everything);
    FILE *out = open_memstream(&text, &len);
    config_dump(config, out);
    fclose(out);
    config_destroy(config);
    assert_non_null(strstr(text, "  arena: 1610612736B  # file line 5, 1.5 GiB\n"));
    config = parse(text);
    assert_everything(config);
    config_destroy(config);
    free(text);
}

/* A fiber's width is half a chunk unless the file says otherwise, in slots or with a word, and config_dump says the same. */
static void test_widths(void **state)
{
    (void)state;
    static const struct {
        const char *text, *dumped;
        uint64_t width;
    } widths[] = {{"", "  width: half", CONFIG_WIDTH_HALF}, {"redirect: {width: half}\n", "  width: half", CONFIG_WIDTH_HALF},
                  {"redirect: {width: off}\n", "  width: 0", 0}, {"redirect: {width: 0}\n", "  width: 0", 0},
                  {"redirect: {width: 4096}\n", "  width: 4096", 4096}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        char *text = NULL;
        size_t len = 0;
        struct config *config = parse(widths[i].text);
        FILE *out = open_memstream(&text, &len);
        config_dump(config, out);
        fclose(out);
        assert_true(config->redirect_width == widths[i].width);
        assert_non_null(strstr(text, widths[i].dumped));
        config_destroy(config);
        free(text);
    }
}

/* Files with nothing in them, and sections with everything commented out, are the defaults. */
static void test_empty_files(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "# nothing\n", "---\n", "--- ~\n...\n", "memory:\n#  arena: 1GiB\ndatasets:\n", "{}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct config *config = parse(texts[i]);
        assert_int_equal(config->arena_bytes, 4 * GIB);
        config_destroy(config);
    }
}

static const struct {
    const char *text, *expected;
} refused[] = {
    /* unknown keys, with the nearest known one */
    {"memroy:\n  arena: 1GiB\n", "f.yaml:1:1: memroy: no such section: did you mean memory?"},
    {"quux: 1\n",
     "f.yaml:1:1: quux: no such section: the sections are socket, memory, threads, redirect, limits, log, metrics, control, "
     "catalog, jobs and datasets"},
    {"arena: 1GiB\n", "f.yaml:1:1: arena: no such section: did you mean memory.arena?"},
    {"memory.arena: 1GiB\n", "f.yaml:1:1: memory.arena: is written in two levels: put `arena:` below `memory:`"},
    {"memory:\n  aren: 1GiB\n", "f.yaml:2:3: memory.aren: no such setting: did you mean memory.arena?"},
    {"memory:\n  workers: 3\n", "f.yaml:2:3: memory.workers: no such setting: did you mean threads.workers?"},
    {"memory:\n  zzz: 3\n", "f.yaml:2:3: memory.zzz: no such setting: `memory` has arena, encoded, scratch"},
    {"<<: {}\n",
     "f.yaml:1:1: <<: no such section: the sections are socket, memory, threads, redirect, limits, log, metrics, control, "
     "catalog, jobs and datasets"},
    /* given twice */
    {"memory:\n  arena: 1GiB\n  arena: 2GiB\n",
     "f.yaml:3:3: memory.arena: is given a second time (first in line 2): remove one of the two"},
    {"log:\n  level: info\nmemory:\nlog:\n",
     "f.yaml:4:1: log: is given a second time (first in line 1): remove one of the two"},
    {"datasets:\n  a:\n    path: /x\n    pipeline:\n      - crop:\n          size: 1\n          size: 2\n",
     "f.yaml:7:11: datasets.a.pipeline[0].crop.size: is given a second time (first in line 6): remove one of the two"},
    /* what a configuration does without */
    {"memory: &m\n  arena: 1GiB\n", "f.yaml:1:9: memory: anchors (&name) are not possible here: remove it"},
    {"memory:\n  arena: *m\n", "f.yaml:2:10: memory.arena: aliases (*name) are not possible here: write the value out"},
    {"memory:\n  arena: !!str 1GiB\n", "f.yaml:2:10: memory.arena: tags (!name) are not possible here: remove it"},
    {"%TAG ! tag:x,2000:\n---\nlog:\n", "f.yaml:1:1: %TAG directives are not possible here: remove the line"},
    {"log:\n---\nlog:\n", "f.yaml:2:1: a second document begins here: keep one document in the file"},
    {"? [a]\n: 1\n", "f.yaml:1:3: a key must be a plain word: write `key: value`"},
    {"- memory\n", "f.yaml:1:1: not a configuration: write sections such as `memory:` with settings such as `arena: "
                   "2GiB` below them"},
    {"hello\n", "f.yaml:1:1: not a configuration: write sections such as `memory:` with settings such as `arena: 2GiB` "
                "below them"},
    {"memory: 4GiB\n", "f.yaml:1:9: memory: is a section: write its settings below it as `key: value`, indented"},
    {"memory:\n  arena: [1GiB]\n",
     "f.yaml:2:10: memory.arena: is a list or a mapping: write one value (size or % of memory)"},
    {"a: [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\n",
     "f.yaml:1:19: a[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: nested too deep: at most 16 levels are possible"},
    {"log:\n  level: \"a\\0b\"\n", "f.yaml:2:10: log.level: the text has a control character in it: remove it"},
    {"log:\n  level: \"a\\x85\"\n", "f.yaml:2:10: log.level: the text has a control character in it: remove it"},
    {"log:\n  level: \"a\\u2028\"\n", "f.yaml:2:10: log.level: the text has a control character in it: remove it"},
    /* not YAML */
    {"memory:\n\tarena: 1GiB\n",
     "f.yaml:2:1: not YAML: while scanning for the next token, found character that cannot start any token (tabs "
     "do not indent, and texts that begin with a special character need quotes)"},
    {"memory: {arena: 1GiB\n", "f.yaml:2:1: not YAML: while parsing a flow mapping, did not find expected ',' or '}'"},
    {"log: \xff\n", "f.yaml: byte 5: invalid leading UTF-8 octet: save the file as UTF-8 text"},
    /* sizes */
    {"memory:\n  arena: 12QB\n",
     "f.yaml:2:10: memory.arena: '12QB' is not a size: write a number with a unit (KiB, MiB, GiB, TiB, KB, MB, GB, "
     "TB or B), such as 512MiB, or a percentage of the memory, such as 25%"},
    {"memory:\n  arena: 1000\n",
     "f.yaml:2:10: memory.arena: '1000' is not a size: write a number with a unit (KiB, MiB, GiB, TiB, KB, MB, GB, "
     "TB or B), such as 512MiB, or a percentage of the memory, such as 25%"},
    {"memory:\n  arena: -1GiB\n",
     "f.yaml:2:10: memory.arena: '-1GiB' is not a size: write a number with a unit (KiB, MiB, GiB, TiB, KB, MB, GB, "
     "TB or B), such as 512MiB, or a percentage of the memory, such as 25%"},
    {"memory:\n  arena: 99999999999999999999GiB\n",
     "f.yaml:2:10: memory.arena: '99999999999999999999GiB' is not a size: write a number with a unit (KiB, MiB, GiB, "
     "TiB, KB, MB, GB, "
     "TB or B), such as 512MiB, or a percentage of the memory, such as 25%"},
    {"memory:\n  arena: 1KiB\n",
     "f.yaml:2:10: memory.arena: 1KiB is out of range (it is 1 KiB): write a size from 1 MiB to 64 TiB"},
    {"memory:\n  arena: 64GiB\n",
     "f.yaml:2:10: memory.arena: 64GiB is more than the 16 GiB of memory this machine (or cgroup) has: write less"},
    {"memory:\n  arena: 101%\n",
     "f.yaml:2:10: memory.arena: 101% is out of range: a percentage of the memory is above 0% and at most 100%"},
    {"memory:\n  encoded: 14GiB\n",
     "f.yaml:2:12: memory.encoded: memory.arena (4 GiB) and memory.encoded (14 GiB) together are more than the 16 GiB "
     "of memory this machine (or cgroup) has: make one smaller"},
    {"memory:\n  scratch: 11GiB\n",
     "f.yaml:2:12: memory.scratch: memory.scratch (11 GiB), memory.arena and memory.encoded together are more than the 16 GiB "
     "of memory this machine (or cgroup) has: make one smaller"},
    {"memory:\n  scratch: 15MiB\n",
     "f.yaml:2:12: memory.scratch: 15MiB is out of range (it is 15 MiB): write a size from 16 MiB to 64 TiB"},
    {"redirect:\n  width: \"half\"\n",
     "f.yaml:2:10: redirect.width: 'half' is not a whole number: write a whole number from 0 to 4096 (slots, half or off), "
     "without quotes"},
    {"redirect:\n  width: 4097\n",
     "f.yaml:2:10: redirect.width: 4097 is out of range: write a whole number from 0 to 4096 (slots, half or off), without quotes"},
    {"memory:\n  arena:\n", "f.yaml:2:9: memory.arena: no value is given: write one (size or % of memory), or remove "
                            "the line for the default, 25%"},
    /* numbers */
    {"threads:\n  workers: many\n", "f.yaml:2:12: threads.workers: 'many' is not a whole number: write a whole number "
                                    "from 0 to 1024 (threads), without quotes"},
    {"threads:\n  workers: \"4\"\n", "f.yaml:2:12: threads.workers: '4' is not a whole number: write a whole number "
                                     "from 0 to 1024 (threads), without quotes"},
    {"threads:\n  workers: 4.5\n", "f.yaml:2:12: threads.workers: '4.5' is not a whole number: write a whole number "
                                   "from 0 to 1024 (threads), without quotes"},
    {"threads:\n  loaders: 0\n",
     "f.yaml:2:12: threads.loaders: 0 is out of range: write a whole number from 1 to 1024 (threads), without quotes"},
    {"limits:\n  jobs: 257\n",
     "f.yaml:2:9: limits.jobs: 257 is out of range: write a whole number from 1 to 256 (jobs), without quotes"},
    {"metrics: {port: 65536}\n",
     "f.yaml:1:17: metrics.port: 65536 is out of range: write a whole number from 0 to 65535 (port), without quotes"},
    {"jobs: {quota: 0%}\n", "f.yaml:1:15: jobs.quota: 0% is out of range: write a percentage from 1% to 100%"},
    {"jobs: {quota: 0.5}\n", "f.yaml:1:15: jobs.quota: '0.5' is not a percentage: write one from 1% to 100%"},
    /* words */
    {"metrics: {enabled: yes}\n",
     "f.yaml:1:20: metrics.enabled: 'yes' is neither true nor false: write one of the two, without quotes"},
    {"log: {level: loud}\n",
     "f.yaml:1:14: log.level: 'loud' is none of the choices: write one of error|warn|info|debug"},
    /* paths and addresses */
    {"socket: {path: larder.sock}\n",
     "f.yaml:1:16: socket.path: 'larder.sock' is not an absolute path: write an absolute path or auto"},
    {"socket: {path: none}\n",
     "f.yaml:1:16: socket.path: 'none' is not an absolute path: write an absolute path or auto"},
    {"catalog: {checkpoint: \"/a\\nb\"}\n", "f.yaml:1:23: catalog.checkpoint: the path '/a?b' has a control character "
                                            "in it: write an absolute path, auto or none"},
    {"socket:\n  path: "
     "/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
     "f.yaml:2:9: socket.path: the path '/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' has 100 bytes: "
     "at most 99 are possible "
     "here, choose a shorter one"},
    {"metrics: {address: 0.0.0.0}\n",
     "f.yaml:1:20: metrics.address: '0.0.0.0' is not a loopback address: write 127.0.0.1 or ::1 (the endpoint has no "
     "access control; put a proxy in front of it to reach it from elsewhere)"},
    /* datasets */
    {"datasets: [a]\n",
     "f.yaml:1:11: datasets: maps names to datasets: write `name:` below it and `path: /its/folder` below that"},
    {"datasets:\n  a: /data\n", "f.yaml:2:6: datasets.a: is a dataset: write `path: /its/folder` below it, indented"},
    {"datasets:\n  a: {}\n", "f.yaml:2:3: datasets.a: has no path: write `path: /its/folder` below it"},
    {"datasets:\n  /data: {path: /data}\n",
     "f.yaml:2:3: datasets./data: not a name for a dataset: write 1 to 128 letters, digits, _ - or . (no . first)"},
    {"datasets:\n  a: {path: data}\n",
     "f.yaml:2:13: datasets.a.path: is not an absolute path: write the dataset's folder, from / on"},
    {"datasets:\n  a: {path: /d, pipelin: []}\n",
     "f.yaml:2:17: datasets.a.pipelin: no such setting: did you mean pipeline?"},
    {"datasets:\n  a: {path: /d, size: 3}\n",
     "f.yaml:2:17: datasets.a.size: no such setting: a dataset has path, pipeline and subset"},
    {"datasets:\n  a: {path: /d, pipeline: resize}\n",
     "f.yaml:2:27: datasets.a.pipeline: is a list of operators: write `- resize: {size: 256}` and the like below it"},
    {"datasets:\n  a: {path: /d, pipeline: [{x: 1e999}]}\n",
     "f.yaml:2:32: datasets.a.pipeline: not a number: write one such as 0.5, or put a text into quotes"},
    {"datasets:\n  a: {path: /d, pipeline: [{x: 99999999999999999999}]}\n",
     "f.yaml:2:32: datasets.a.pipeline: not a number that fits: write a smaller one, or put a text into quotes"},
    {"datasets:\n  a: {path: /d, subset: [x]}\n",
     "f.yaml:2:25: datasets.a.subset: must be an object such as {\"classes\": [\"cat\"]}"},
    {"datasets:\n  a: {path: /d, subset: {clases: [x]}}\n",
     "f.yaml:2:25: datasets.a.subset: must have exactly one of classes, range, fraction (with seed), list, union, "
     "intersection, difference"},
    {"datasets:\n  a:\n    path: /d\n    subset:\n      union:\n        - range: [0, 9]\n        - classes: [a, 7]\n",
     "f.yaml:7:24: datasets.a.subset.union[1].classes[1]: must be a text, in quotes where it is a number: a class name "
     "or pattern of 1 to 255 bytes"},
    {"datasets:\n  a: {path: /d, subset: {fraction: 0.5, seed: -1}}\n",
     "f.yaml:2:47: datasets.a.subset.seed: must be a whole number, 0 or more"},
    {"datasets:\n  a: {path: /d, subset: {range: [0, 1e999]}}\n",
     "f.yaml:2:37: datasets.a.subset: not a number: write one such as 0.5, or put a text into quotes"},
};

/* Each thing that Larder does not know, or would have to guess, is refused with its place, its key and what to do. */
static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(refused[i].text, strlen(refused[i].text), refused[i].expected);
}

/* The bounds of a document end it with a message, not with the machine's memory. */
static void test_bounds(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    for (int i = 0; i <= 2048; i++)
        fprintf(out, "k%d: 1\n", i);
    fclose(out);
    assert_refused(text, len, "f.yaml:2049:1: k2048: too many entries: at most 2048 are possible in one place");
    free(text);
    out = open_memstream(&text, &len);
    fputs("datasets:\n", out);
    for (int i = 0; i <= 1024; i++)
        fprintf(out, "  d%d: {path: /d}\n", i);
    fclose(out);
    assert_refused(text, len, "f.yaml:2:3: datasets: too many datasets: at most 1024 are possible");
    free(text);
    out = open_memstream(&text, &len);
    for (int i = 0; i < 70; i++) {
        fprintf(out, "k%d: [", i);
        for (int j = 0; j < 1000; j++)
            fputs("1,", out);
        fputs("1]\n", out);
    }
    fclose(out);
    assert_refused(text, len, "f.yaml:66:683: k65[338]: the file has too many entries: remove some");
    free(text);
}

/* Files are read whole, and ones that are missing, too large or folders are refused with their name. */
static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/larder-config-XXXXXX", expected[256];
    struct config *config = NULL;
    struct error err;
    assert_int_equal(config_load("/nowhere/larder.yaml", &config, &err), LARDER_ENOENT);
    assert_string_equal(err.text, "/nowhere/larder.yaml: cannot open the configuration: No such file or directory");
    assert_int_equal(config_load("/tmp", &config, &err), LARDER_EIO);
    assert_string_equal(err.text, "/tmp: cannot read the configuration: Is a directory");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "log: {level: warn}\n", 19), 19);
    assert_int_equal(config_load(path, &config, &err), 0);
    assert_int_equal(config->log_level, LOG_WARN);
    config_destroy(config);
    config = NULL;
    assert_int_equal(ftruncate(fd, CONFIG_FILE_MAX_BYTES + 1), 0);
    assert_int_equal(config_load(path, &config, &err), LARDER_ELIMIT);
    snprintf(expected, sizeof expected, "%s: larger than 1 MiB: this is not a configuration of larderd", path);
    assert_string_equal(err.text, expected);
    assert_null(config);
    close(fd);
    unlink(path);
}

/* The command line's way in reads values as a file does, and leaves everything as it was when it refuses. */
static void test_set(void **state)
{
    (void)state;
    struct config *config = parse(NULL);
    struct error err;
    assert_int_equal(config_set_on(config, &machine, "limits.idle_exit", "30", &err), 0);
    assert_int_equal(config->idle_exit_s, 30);
    assert_int_equal(config->source[SETTING_idle_exit_s], CONFIG_FROM_COMMAND_LINE);
    assert_int_equal(config_set_on(config, &machine, "socket.path", "/tmp/x.sock", &err), 0);
    assert_string_equal(config->socket_path, "/tmp/x.sock");
    assert_int_equal(config_set_on(config, &machine, "socket.path", "x.sock", &err), LARDER_EINVAL);
    assert_string_equal(err.text, "socket.path: 'x.sock' is not an absolute path: write an absolute path or auto");
    assert_string_equal(config->socket_path, "/tmp/x.sock");
    assert_int_equal(config_set_on(config, &machine, "memory.encoded", "100%", &err), LARDER_EINVAL);
    assert_int_equal(config->encoded_bytes, 16 * GIB / 10);
    assert_int_equal(config_set_on(config, &machine, "memory.aren", "1GiB", &err), LARDER_EINVAL);
    assert_string_equal(err.text, "memory.aren: no such setting: `larder check --example` lists them all");
    assert_int_equal(config_set_on(config, &machine, "catalog.checkpoint", "none", &err), 0);
    assert_string_equal(config->checkpoint_dir, "");
    config_destroy(config);
}

/* configs/larder.yaml is what the table says: every setting with its default and its help; and it means the defaults.
 */
static void test_example_file(void **state)
{
    (void)state;
    char *expected = NULL, *text;
    size_t len = 0;
    FILE *out = open_memstream(&expected, &len);
    config_example(out);
    fclose(out);
    FILE *file = fopen(LARDER_SOURCE_DIR "/configs/larder.yaml", "r");
    if (!file)
        fail_msg("configs/larder.yaml is missing");
    text = calloc(1, CONFIG_FILE_MAX_BYTES);
    assert_true(fread(text, 1, CONFIG_FILE_MAX_BYTES - 1, file) > 0);
    fclose(file);
    if (strcmp(text, expected) != 0)
        fail_msg("configs/larder.yaml is stale: larderd check --example > configs/larder.yaml");
    struct config *given = parse(text), *defaults = parse(NULL);
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        assert_int_equal(given->source[i], CONFIG_FROM_FILE);
        given->source[i] = CONFIG_FROM_DEFAULT;
    }
    char *a = NULL, *b = NULL;
    out = open_memstream(&a, &len);
    config_dump(given, out);
    fclose(out);
    out = open_memstream(&b, &len);
    config_dump(defaults, out);
    fclose(out);
    assert_string_equal(a, b);
    config_destroy(given);
    config_destroy(defaults);
    free(a);
    free(b);
    free(text);
    free(expected);
}

/* The minimal example is a file that works. */
static void test_minimal_file(void **state)
{
    (void)state;
    struct config *config = NULL;
    struct error err;
    if (config_load(LARDER_SOURCE_DIR "/configs/larder-minimal.yaml", &config, &err) != 0)
        fail_msg("%s", err.text);
    config_destroy(config);
}

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

/* The folder that systemd made for the daemon holds its checkpoints, before the user's own; what it made for a service
 * that only started the daemon does not. */
static void test_service_cache(void **state)
{
    (void)state;
    char pid[32];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("CACHE_DIRECTORY", "/var/cache/larder:/var/cache/more", 1);
    struct config *config = parse(NULL);
    assert_string_equal(config->checkpoint_dir, "/var/cache/larder");
    config_destroy(config);
    setenv("SYSTEMD_EXEC_PID", pid, 1);
    config = parse(NULL);
    assert_string_equal(config->checkpoint_dir, "/var/cache/larder");
    config_destroy(config);
    setenv("SYSTEMD_EXEC_PID", "1", 1);
    config = parse(NULL);
    assert_string_equal(config->checkpoint_dir, "/home/x/.cache-there/larder");
    config_destroy(config);
    unsetenv("SYSTEMD_EXEC_PID");
    config = parse("catalog: {checkpoint: /var/tmp/c}\n");
    assert_string_equal(config->checkpoint_dir, "/var/tmp/c");
    config_destroy(config);
    unsetenv("CACHE_DIRECTORY");
}

/* A metrics socket that is left to Larder goes with the session's socket, wherever that is set. */
static void test_metrics_socket(void **state)
{
    (void)state;
    struct error err;
    struct config *config = parse("socket: {path: /tmp/a.sock}\nmetrics: {socket: auto}\n");
    assert_string_equal(config->metrics_socket, "/tmp/a.sock.metrics");
    assert_int_equal(config_set_on(config, &machine, "socket.path", "/tmp/b.sock", &err), 0);
    assert_string_equal(config->metrics_socket, "/tmp/b.sock.metrics");
    assert_int_equal(config_set_on(config, &machine, "metrics.socket", "/tmp/m.sock", &err), 0);
    assert_int_equal(config_set_on(config, &machine, "socket.path", "/tmp/c.sock", &err), 0);
    assert_string_equal(config->metrics_socket, "/tmp/m.sock");
    assert_int_equal(config_set_on(config, &machine, "metrics.socket", "none", &err), 0);
    assert_string_equal(config->metrics_socket, "");
    config_destroy(config);
}

int main(void)
{
    unsetenv("LARDER_SOCKET");
    unsetenv("CACHE_DIRECTORY");
    unsetenv("SYSTEMD_EXEC_PID");
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    setenv("XDG_CACHE_HOME", "/home/x/.cache-there", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),   cmocka_unit_test(test_environment),     cmocka_unit_test(test_busy_machine),
        cmocka_unit_test(test_everything), cmocka_unit_test(test_dump_round_trip), cmocka_unit_test(test_widths),
        cmocka_unit_test(test_empty_files),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_bounds),          cmocka_unit_test(test_files),
        cmocka_unit_test(test_set),        cmocka_unit_test(test_example_file),    cmocka_unit_test(test_minimal_file),
        cmocka_unit_test(test_machine),    cmocka_unit_test(test_service_cache),
        cmocka_unit_test(test_metrics_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
