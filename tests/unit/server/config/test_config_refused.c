/* What larderd's configuration refuses, with the exact texts that people will read. */
#include "tests/unit/server/config/config_fixture.h"

#define X16 "xxxxxxxxxxxxxxxx"
#define X64 X16 X16 X16 X16

static const struct {
    const char *text, *expected;
} refused[] = {
    /* unknown keys, with the nearest known one */
    {"memroy:\n  arena: 1GiB\n", "f.yaml:1:1: memroy: no such section: did you mean memory?"},
    {"quux: 1\n", "f.yaml:1:1: quux: no such section: the sections are socket, memory, threads, redirect, limits, log, "
                  "metrics, control, catalog, jobs, cluster, storage, roots and datasets"},
    {"arena: 1GiB\n", "f.yaml:1:1: arena: no such section: did you mean memory.arena?"},
    {"memory.arena: 1GiB\n", "f.yaml:1:1: memory.arena: is written in two levels: put `arena:` below `memory:`"},
    {"memory:\n  aren: 1GiB\n", "f.yaml:2:3: memory.aren: no such setting: did you mean memory.arena?"},
    {"memory:\n  workers: 3\n", "f.yaml:2:3: memory.workers: no such setting: did you mean threads.workers?"},
    {"memory:\n  zzz: 3\n",
     "f.yaml:2:3: memory.zzz: no such setting: `memory` has samples, arena, encoded, decoded, scratch, linger"},
    {"<<: {}\n", "f.yaml:1:1: <<: no such section: the sections are socket, memory, threads, redirect, limits, log, "
                 "metrics, control, catalog, jobs, cluster, storage, roots and datasets"},
    /* roots */
    {"roots: /x\n", "f.yaml:1:8: roots: is a list of folders below which datasets must lie: write `[/a/folder, "
                    "/another]`"},
    {"roots: [/x, y]\n", "f.yaml:1:13: roots[1]: 'y' is not an absolute path: write an absolute path"},
    {"roots: [~]\n", "f.yaml:1:9: roots[0]: write one value (an absolute path)"},
    {"roots: [[/x]]\n", "f.yaml:1:9: roots[0]: write one value (an absolute path)"},
    {"root: [/x]\n", "f.yaml:1:1: root: no such section: did you mean roots:?"},
    /* storage classes */
    {"storage: /x\n",
     "f.yaml:1:10: storage: is a list of storage classes, the fastest first: write `- {path: /a/folder, "
     "size: 100GiB}`"},
    {"storage:\n  - /x\n", "f.yaml:2:5: storage[0]: is a storage class: write `{path: /a/folder, size: 100GiB}`"},
    {"storage:\n  - {path: x, size: 1GiB}\n",
     "f.yaml:2:12: storage[0].path: 'x' is not an absolute path: write an absolute path"},
    {"storage:\n  - {path: /x, size: 1GiB}\n  - {path: /y}\n",
     "f.yaml:3:5: storage[1]: has no size: write how much it may take of the disk, `size: 100GiB`"},
    {"storage:\n  - {size: 1GiB}\n",
     "f.yaml:2:5: storage[0]: has no path: write `path: /a/folder`, a folder of its own"},
    {"storage:\n  - {path: /x, size: 10%}\n",
     "f.yaml:2:22: storage[0].size: '10%' is not a size: write a number with a unit (KiB, MiB, GiB, TiB, KB, MB, GB, "
     "TB or B), such as 100GiB"},
    {"storage:\n  - {path: /x, size: 1KiB}\n",
     "f.yaml:2:22: storage[0].size: 1KiB is out of range (it is 1 KiB): write a size from 1 MiB to 1024 TiB"},
    {"storage:\n  - {path: /x, size: 1GiB, threads: 0}\n",
     "f.yaml:2:37: storage[0].threads: 0 is out of range: write a whole number from 1 to 64 (reads at once), without "
     "quotes"},
    {"storage:\n  - {path: /x, size: 1GiB, thread: 2}\n",
     "f.yaml:2:28: storage[0].thread: no such setting: did you mean threads?"},
    {"storage:\n  - {path: ~, size: 1GiB}\n", "f.yaml:2:12: storage[0].path: write one value (an absolute path)"},
    {"storage:\n  - {path: /x, size: 1GiB}\n  - {path: /x, size: 1GiB}\n",
     "f.yaml:3:5: storage[1]: has the path of an earlier one: give each a folder of its own"},
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
     "f.yaml:2:1: not YAML: while scanning for the next token, found character that cannot start any token (tabs do "
     "not indent, and texts that begin with a special character need quotes)"},
    {"memory: {arena: 1GiB\n", "f.yaml:2:1: not YAML: while parsing a flow mapping, did not find expected ',' or '}'"},
    {"log: \xff\n", "f.yaml: byte 5: invalid leading UTF-8 octet: save the file as UTF-8 text"},
    /* sizes */
    {"memory:\n  arena: 12QB\n",
     "f.yaml:2:10: memory.arena: '12QB' is not a size: write a number with a unit (KiB, MiB, GiB, TiB, KB, MB, GB, TB "
     "or B), such as 512MiB, or a percentage of the memory, such as 25%"},
    {"memory:\n  arena: 1000\n",
     "f.yaml:2:10: memory.arena: '1000' is not a size: write a number with a unit (KiB, MiB, GiB, TiB, KB, MB, GB, TB "
     "or B), such as 512MiB, or a percentage of the memory, such as 25%"},
    {"memory:\n  arena: -1GiB\n",
     "f.yaml:2:10: memory.arena: '-1GiB' is not a size: write a number with a unit (KiB, MiB, GiB, TiB, KB, MB, GB, TB "
     "or B), such as 512MiB, or a percentage of the memory, such as 25%"},
    {"memory:\n  arena: 99999999999999999999GiB\n",
     "f.yaml:2:10: memory.arena: '99999999999999999999GiB' is not a size: write a number with a unit (KiB, MiB, GiB, "
     "TiB, KB, MB, GB, TB or B), such as 512MiB, or a percentage of the memory, such as 25%"},
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
     "f.yaml:2:12: memory.scratch: memory.scratch (11 GiB) and memory.samples (memory.arena and memory.encoded) "
     "together are more than the 16 GiB of memory this machine (or cgroup) has: make one smaller"},
    {"memory:\n  samples: 2GiB\n  arena: 2GiB\n",
     "f.yaml:3:10: memory.arena: memory.arena (2 GiB) leaves less than 1 MiB of memory.samples (2 GiB) for samples as "
     "they lie on disk: make it smaller, or memory.samples larger"},
    {"memory:\n  scratch: 15MiB\n",
     "f.yaml:2:12: memory.scratch: 15MiB is out of range (it is 15 MiB): write a size from 16 MiB to 64 TiB"},
    {"redirect:\n  width: \"half\"\n", "f.yaml:2:10: redirect.width: 'half' is not a whole number: write a whole "
                                       "number from 0 to 4096 (slots, half or off), without quotes"},
    {"redirect:\n  width: 4097\n", "f.yaml:2:10: redirect.width: 4097 is out of range: write a whole number from 0 to "
                                   "4096 (slots, half or off), without quotes"},
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
     "at most 99 are possible here, choose a shorter one"},
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
    {"datasets:\n  a: {path: /d, pipeline: [{? " X64 X64 "x : 1}]}\n",
     "f.yaml:2:31: datasets.a.pipeline: a key of more than 128 bytes: shorten it"},
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

int main(void)
{
    set_environment();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
