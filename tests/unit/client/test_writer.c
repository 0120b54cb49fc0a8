/* test_writer.c: proves that a writer's log holds what was added, whatever fails and wherever the process is killed.
 * This program has the calls of the C library that liblarder writes with, and lets them fail. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <larder/larder.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT 9
#define BLOCK 512
#define SHARD_BYTES 6000
#define LOG_MAX (1 << 16)
#define EXPORTED __attribute__((visibility("default")))

/* ── calls that fail ── */

enum mishap { NONE, KILL, FULL, INTERRUPT };

static enum mishap mishap;
static unsigned calls, strike_at; /* KILL and FULL strike one call, INTERRUPT each other one */

static bool strikes(void)
{
    calls++;
    if (mishap == INTERRUPT)
        return calls % 2 == 1;
    return (mishap == KILL || mishap == FULL) && calls == strike_at;
}

static long fail_call(void)
{
    if (mishap == KILL)
        raise(SIGKILL);
    errno = mishap == INTERRUPT ? EINTR : ENOSPC;
    return -1;
}

/* A write that fails has written a part; one that is interrupted too, and says so. */
EXPORTED ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    bool struck = strikes();
    size_t part = mishap == INTERRUPT && bytes > 100 ? 100 : bytes / 2;
    if (!struck && mishap != INTERRUPT)
        return syscall(SYS_pwrite64, fd, data, bytes, at);
    if (struck && mishap == INTERRUPT)
        return fail_call();
    long put = syscall(SYS_pwrite64, fd, data, mishap == INTERRUPT && part == 0 ? bytes : part, at);
    return struck ? fail_call() : put;
}

EXPORTED ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at)
{
    return pwrite(fd, data, bytes, at);
}

EXPORTED int fsync(int fd)
{
    (void)fd;
    return strikes() ? (int)fail_call() : 0;
}

EXPORTED int ftruncate(int fd, off_t bytes)
{
    return (int)(strikes() ? fail_call() : syscall(SYS_ftruncate, fd, bytes));
}

EXPORTED int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    bool ends = mishap == INTERRUPT; /* rename is not interrupted */
    return (int)(strikes() && !ends ? fail_call() : syscall(SYS_renameat2, from_fd, from, to_fd, to, 0));
}

EXPORTED int unlinkat(int fd, const char *name, int flags)
{
    bool ends = mishap == INTERRUPT;
    return (int)(strikes() && !ends ? fail_call() : syscall(SYS_unlinkat, fd, name, flags));
}

/* ── a log ── */

static const char *const classes[] = {"wren", "auk", "owl"};
static char root[] = "/tmp/larder-writer-XXXXXX";
static char store[64], logs[80];

static int open_writer(struct larder_writer **out, uint64_t shard_bytes)
{
    struct larder_writer_options options;
    larder_writer_options_init(&options);
    options.destination = store;
    options.classes = classes;
    options.n_classes = 3;
    options.shard_bytes = shard_bytes;
    return larder_writer_open(&options, out);
}

/* add_one adds the sample of that number: two of three have keys, one of them too long for one header. */
static int add_one(struct larder_writer *writer, uint64_t number)
{
    char key[300], data[900];
    size_t len = 100 + number * 97 % 700;
    snprintf(key, sizeof key, "bird/%0*d%s", number % 3 == 1 ? 200 : 4, (int)number, number % 2 ? ".PPM" : "");
    for (size_t i = 0; i < len; i++)
        data[i] = (char)(number * 7 + i);
    memcpy(data, "P6", 2);
    return larder_writer_add(writer, number % 3 ? key : NULL, data, len, (int64_t)(number % 3));
}

/* write_rest: each sample is in a write of its own, however fast the machine is. Returns 0 or the first failure. */
static int write_rest(struct larder_writer *writer, uint64_t until)
{
    int rc = 0;
    for (uint64_t number; rc == 0 && (number = larder_writer_done(writer)) < until;) {
        rc = add_one(writer, number);
        if (rc == 0)
            rc = larder_writer_flush(writer);
    }
    return rc;
}

static void write_all(uint64_t shard_bytes)
{
    struct larder_writer *writer;
    assert_int_equal(open_writer(&writer, shard_bytes), 0);
    assert_int_equal(write_rest(writer, COUNT), 0);
    assert_int_equal(larder_writer_close(&writer), 0);
    assert_null(writer);
}

static size_t read_file(const char *name, uint8_t *out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", logs, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(out, 1, LOG_MAX, file);
    assert_true(bytes < LOG_MAX);
    fclose(file);
    return bytes;
}

/* write_file writes over what is there: to empty a file first makes some file systems write to the disk. */
static void write_file(const char *name, const uint8_t *data, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", logs, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    close(fd);
}

/* read_log: the samples of all shards, as their bytes, without the classes before them and the zeros behind them. All
 * shards are whole, and nothing else is there. */
static size_t read_log(uint8_t *out)
{
    static const uint8_t zeros[2 * BLOCK];
    struct dirent **entries;
    size_t used = 0;
    int count = scandir(logs, &entries, NULL, alphasort);
    assert_true(count > 2);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            assert_string_equal(entries[i]->d_name + strlen("000000-000000000000"), ".tar");
            size_t bytes = read_file(entries[i]->d_name, out + used);
            assert_true(bytes > 4 * BLOCK && used + bytes < LOG_MAX);
            assert_string_equal((char *)out + used, "__classes__");
            assert_memory_equal(out + used + bytes - sizeof zeros, zeros, sizeof zeros);
            memmove(out + used, out + used + 2 * BLOCK, bytes - 4 * BLOCK);
            used += bytes - 4 * BLOCK;
        }
        free(entries[i]);
    }
    free(entries);
    return used;
}

static void remove_log(void)
{
    struct dirent **entries;
    char path[512];
    int count = scandir(logs, &entries, NULL, NULL);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", logs, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            unlink(path);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    rmdir(logs);
}

static uint8_t want[2 * LOG_MAX], got[2 * LOG_MAX];
static size_t want_bytes;

static void check_log(unsigned at)
{
    size_t bytes = read_log(got);
    if (bytes != want_bytes || memcmp(got, want, bytes) != 0)
        fail_msg("at %u: the log has other samples than an undisturbed one", at);
    remove_log();
}

static int set_up(void **state)
{
    (void)state;
    mishap = NONE;
    calls = 0;
    remove_log();
    write_all(SHARD_BYTES);
    want_bytes = read_log(want);
    remove_log();
    return want_bytes > 10000 ? 0 : -1;
}

/* ── tests ── */

static void killed_anywhere_it_goes_on(void **state)
{
    (void)state;
    int status = 0;
    unsigned at = 1;
    for (;; at++) {
        pid_t child = fork();
        if (child == 0) {
            struct larder_writer *writer;
            mishap = KILL;
            strike_at = at;
            calls = 0;
            _exit(open_writer(&writer, SHARD_BYTES) || write_rest(writer, COUNT) || larder_writer_close(&writer));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status))
            break;
        write_all(SHARD_BYTES);
        check_log(at);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(at > 50);
}

static void a_full_disk_costs_nothing(void **state)
{
    (void)state;
    unsigned failures = 0;
    for (strike_at = 1;; strike_at++) {
        struct larder_writer *writer = NULL;
        mishap = FULL;
        calls = 0;
        for (int tries = 0; open_writer(&writer, SHARD_BYTES) != 0; tries++)
            assert_true(tries < 2);
        int rc;
        while ((rc = write_rest(writer, COUNT)) || (rc = larder_writer_close(&writer))) {
            assert_int_equal(rc, LARDER_EIO);
            assert_non_null(strstr(larder_writer_last_error(writer), "No space left on device"));
            assert_non_null(strstr(larder_writer_last_error(writer), "make room"));
            failures++;
        }
        mishap = NONE;
        if (calls < strike_at)
            break;
        check_log(strike_at);
    }
    assert_true(failures > 50);
}

static void short_and_interrupted_calls_are_gone_on_with(void **state)
{
    (void)state;
    mishap = INTERRUPT;
    calls = 0;
    write_all(SHARD_BYTES);
    mishap = NONE;
    assert_true(calls > 300);
    check_log(0);
}

/* A shard is cut at every byte of its last sample, at every 7th of the one before, whose name has a header of its own,
 * and at every 97th of the rest: what is whole is found, and at some of the cuts the rest is written again. */
static void cut_anywhere_it_goes_on(void **state)
{
    (void)state;
    static uint8_t shard[LOG_MAX], said[LOG_MAX];
    static const char name[] = "000000-000000000000.tar.open", state_name[] = "000000.state";
    struct larder_writer *writer;
    size_t ends[COUNT + 1] = {0}, said_bytes = 0;
    assert_int_equal(open_writer(&writer, 1 << 20), 0);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(write_rest(writer, i + 1), 0);
        ends[i + 1] = read_file(name, shard);
    }
    said_bytes = read_file(state_name, said);
    larder_writer_leave(&writer);
    remove_log();
    write_all(1 << 20);
    want_bytes = read_log(want);
    remove_log();
    mkdir(logs, 0755);
    for (size_t cut = 0, cuts = 0; cut <= ends[COUNT]; cuts++) {
        uint64_t whole = 0;
        while (whole < COUNT && ends[whole + 1] <= cut)
            whole++;
        write_file(name, shard, cut);
        write_file(state_name, said, said_bytes);
        assert_int_equal(open_writer(&writer, 1 << 20), 0);
        assert_int_equal(larder_writer_done(writer), whole);
        if (cuts % 16 == 0 || cut == ends[COUNT]) {
            assert_int_equal(write_rest(writer, COUNT), 0);
            assert_int_equal(larder_writer_close(&writer), 0);
            check_log((unsigned)cut);
            mkdir(logs, 0755);
        }
        larder_writer_leave(&writer);
        cut += cut < ends[COUNT - 2] ? 97 : cut < ends[COUNT - 1] ? 7 : 1;
    }
}

/* After another start of the machine only what was on the disk counts. */
static void after_the_machine_went_down(void **state)
{
    (void)state;
    static uint8_t said[LOG_MAX];
    struct larder_writer *writer;
    assert_int_equal(open_writer(&writer, 1 << 20), 0);
    assert_int_equal(write_rest(writer, 4), 0);
    larder_writer_leave(&writer);
    read_file("000000.state", said);
    said[0] ^= 1;
    write_file("000000.state", said, 128);
    assert_int_equal(open_writer(&writer, 1 << 20), 0);
    assert_int_equal(larder_writer_done(writer), 4);
    larder_writer_leave(&writer);
    int len = snprintf((char *)said, sizeof said, "another-start 0 4096");
    write_file("000000.state", said, (size_t)len);
    assert_int_equal(open_writer(&writer, 1 << 20), 0);
    assert_true(larder_writer_done(writer) > 0 && larder_writer_done(writer) < 4);
    larder_writer_leave(&writer);
}

static void refuse(int rc, const struct larder_writer *writer, int code, const char *part)
{
    assert_int_equal(rc, code);
    if (!strstr(larder_writer_last_error(writer), part))
        fail_msg("'%s' is not in '%s'", part, larder_writer_last_error(writer));
}

static void what_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    struct larder_writer *writer, *other = NULL;
    static char long_key[4100];
    static const char *const keys[] = {"",     "/a",      "a/", "../a",    "a/./b",  "b.c",    ".jpg",
                                       "a//b", "a.b.jpg", "a.", "__x__/b", "____/b", long_key, "d/.hidden"};
    static const char *const good[] = {"a.b/c", "__x/b", "___/b", "a/__x__", "..a/b", "A.JPeG", "x.tiff"};
    memset(long_key, 'x', sizeof long_key - 1);
    assert_int_equal(open_writer(&writer, 1 << 20), 0);
    refuse(open_writer(&other, 1 << 20), NULL, LARDER_EBUSY, "writer 0 is at work there");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        refuse(larder_writer_add(writer, keys[i], "P6", 2, 0), writer, LARDER_EINVAL, "a key is a path");
    refuse(larder_writer_add(writer, "a", "", 0, 0), writer, LARDER_EINVAL, "0 bytes");
    refuse(larder_writer_add(writer, "a", "P6", 2, 3), writer, LARDER_EINVAL, "label 3: is 0 to 2");
    refuse(larder_writer_add(writer, "a", "P6", 2, -2), writer, LARDER_EINVAL, "label -2: is 0 to 2");
    refuse(larder_writer_add(writer, "a", "P6", (size_t)1 << 33, 0), writer, LARDER_ELIMIT, "at most 8589934591");
    assert_int_equal(larder_writer_done(writer), 0);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(larder_writer_add(writer, good[i], "P6", 2, 0), 0);
    refuse(larder_writer_add(writer, "x.tiff", "P6", 2, 0), writer, LARDER_EINVAL, "twice in a row");
    refuse(larder_writer_add(writer, "b", "P6", 2, LARDER_NO_LABEL), writer, LARDER_EINVAL, "without a label");
    assert_int_equal(larder_writer_done(writer), sizeof good / sizeof *good);
    assert_int_equal(larder_writer_close(&writer), 0);
}

static void options_are_checked(void **state)
{
    (void)state;
    static const char *const twice[] = {"a", "b", "a"}, *const lines[] = {"a\nb"}, *const none[] = {""};
    struct larder_writer_options options, start;
    struct larder_writer *writer = NULL;
    larder_writer_options_init(&start);
    refuse(larder_writer_open(&start, &writer), NULL, LARDER_EINVAL, "destination");
    start.destination = store;
    struct {
        const char *const *classes;
        uint32_t n_classes, writer;
        const char *part;
    } cases[] = {{twice, 3, 0, "a comes twice"},
                 {lines, 1, 0, "can be printed"},
                 {none, 1, 0, "class 0"},
                 {NULL, 1, 0, "n_classes is 1"},
                 {NULL, 0, 1000000, "give 0 to 999999"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options = start;
        options.classes = cases[i].classes;
        options.n_classes = cases[i].n_classes;
        options.writer = cases[i].writer;
        refuse(larder_writer_open(&options, &writer), NULL, LARDER_EINVAL, cases[i].part);
    }
    write_all(1 << 20);
    refuse(larder_writer_open(&start, &writer), NULL, LARDER_EINVAL, "other classes");
    options = start;
    options.size_bytes = 0;
    refuse(larder_writer_open(&options, &writer), NULL, LARDER_EINVAL, "larder_writer_options_init");
    options = start;
    options.destination = "/proc/none/x";
    refuse(larder_writer_open(&options, &writer), NULL, LARDER_EIO, "cannot write a log there");
    assert_null(writer);
    remove_log();
}

/* A child leaves its parent's writer alone, and its being there does not keep others from going on. */
static void a_child_leaves_it_alone(void **state)
{
    (void)state;
    struct larder_writer *writer;
    int go[2], status;
    assert_int_equal(pipe(go), 0);
    assert_int_equal(open_writer(&writer, 1 << 20), 0);
    assert_int_equal(write_rest(writer, 3), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        bool right = add_one(writer, 3) == LARDER_EPERM && larder_writer_flush(writer) == LARDER_EPERM &&
                     larder_writer_close(&writer) == LARDER_EPERM &&
                     strstr(larder_writer_last_error(writer), "belongs to process");
        close(go[1]);
        _exit(right && read(go[0], &byte, 1) == 0 ? 0 : 1);
    }
    larder_writer_leave(&writer);
    write_all(1 << 20);
    close(go[1]);
    close(go[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    write_all(1 << 20); /* there is nothing to do */
    remove_log();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(killed_anywhere_it_goes_on, set_up),
        cmocka_unit_test_setup(a_full_disk_costs_nothing, set_up),
        cmocka_unit_test_setup(short_and_interrupted_calls_are_gone_on_with, set_up),
        cmocka_unit_test_setup(cut_anywhere_it_goes_on, set_up),
        cmocka_unit_test_setup(after_the_machine_went_down, set_up),
        cmocka_unit_test_setup(what_cannot_be_kept_is_refused, set_up),
        cmocka_unit_test_setup(options_are_checked, set_up),
        cmocka_unit_test_setup(a_child_leaves_it_alone, set_up),
    };
    if (!mkdtemp(root))
        return 1;
    snprintf(store, sizeof store, "%s/mine.store", root);
    snprintf(logs, sizeof logs, "%s.log", store);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_log();
    rmdir(root);
    return failed;
}
