/* test_basics.c: random numbers, errors, the log, job sets, and where the sockets are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/error.h"
#include "common/log.h"
#include "common/random.h"
#include "common/socket_path.h"
#include "common/types.h"

/* ── random ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The generators are the published ones: outputs of the reference implementations of xoshiro256** and splitmix64. */
static void random_is_the_published(void **state)
{
    (void)state;
    static const uint64_t wanted[] = {11520, 0, 1509978240, UINT64_C(1215971899390074240)};
    struct rng rng = {.s = {1, 2, 3, 4}};
    for (int i = 0; i < 4; i++)
        assert_true(random_u64(&rng) == wanted[i]);
    assert_true(random_mix64(1234567 + UINT64_C(0x9e3779b97f4a7c15)) == UINT64_C(6457827717110365317));
}

/* A stream depends on its seed, or all four of its keys in their places, and on nothing else. */
static void random_follows_keys(void **state)
{
    (void)state;
    static const uint64_t keys[][4] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0},         {0, 0, 0, 1},
                                       {1, 2, 3, 4}, {2, 1, 3, 4}, {1, 2, 4, 3}, {UINT64_MAX, 0, 0, 0}};
    enum { N = sizeof keys / sizeof *keys };
    uint64_t first[N];
    for (int i = 0; i < N; i++) {
        struct rng rng, again;
        random_seed_keys(&rng, keys[i][0], keys[i][1], keys[i][2], keys[i][3]);
        random_seed_keys(&again, keys[i][0], keys[i][1], keys[i][2], keys[i][3]);
        first[i] = random_u64(&rng);
        assert_true(first[i] == random_u64(&again));
        for (int j = 0; j < i; j++)
            assert_true(first[i] != first[j]);
    }
}

/* random_below is uniform: chi-square over small bounds (99.9 % quantile for 2, 6 and 99 degrees), never reaches its
 * bound, and has no modulo bias where it would be largest (a third of 2^64 would come twice as often). */
static void random_below_is_uniform(void **state)
{
    (void)state;
    static const struct {
        uint64_t bound;
        double limit;
    } cases[] = {{3, 13.82}, {7, 22.46}, {100, 148.23}};
    enum { DRAWS = 200000 };
    struct rng rng;
    random_seed(&rng, 42);
    assert_int_equal(random_below(&rng, 1), 0);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint64_t counts[100] = {0};
        double expected = (double)DRAWS / (double)cases[c].bound, chi_square = 0;
        for (int i = 0; i < DRAWS; i++) {
            uint64_t draw = random_below(&rng, cases[c].bound);
            assert_true(draw < cases[c].bound);
            counts[draw]++;
        }
        for (uint64_t v = 0; v < cases[c].bound; v++)
            chi_square += ((double)counts[v] - expected) * ((double)counts[v] - expected) / expected;
        assert_true(chi_square < cases[c].limit);
    }
    uint64_t bound = (UINT64_MAX / 3) * 2, low = 0;
    for (int i = 0; i < DRAWS; i++)
        low += random_below(&rng, bound) < bound / 2;
    assert_true(low > DRAWS / 2 - 1000 && low < DRAWS / 2 + 1000);
}

/* random_unit stays in [0, 1) and has the mean and variance of the uniform distribution. */
static void random_unit_is_uniform(void **state)
{
    (void)state;
    enum { DRAWS = 200000 };
    struct rng rng;
    double sum = 0, squares = 0;
    random_seed(&rng, 7);
    for (int i = 0; i < DRAWS; i++) {
        double unit = random_unit(&rng);
        assert_true(unit >= 0 && unit < 1);
        sum += unit;
        squares += unit * unit;
    }
    assert_true(sum / DRAWS > 0.497 && sum / DRAWS < 0.503);
    assert_true(squares / DRAWS > 0.330 && squares / DRAWS < 0.337);
}

/* ── error ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Codes have names; unknown ones have one too. */
static void error_names(void **state)
{
    (void)state;
    assert_string_equal(larder_err_name(LARDER_OK), "OK");
    assert_string_equal(larder_err_name(LARDER_EINVAL), "EINVAL");
    assert_string_equal(larder_err_name(LARDER_EEND), "EEND");
    assert_string_equal(larder_err_name(LARDER_ECHANGED), "ECHANGED");
    assert_string_equal(larder_err_name(LARDER_ECANCELLED), "ECANCELLED");
    assert_string_equal(larder_err_name(LARDER_ECANCELLED - 1), "E?");
    assert_string_equal(larder_err_name(1), "E?");
}

/* An error carries its code and text; a prefix goes before it; both work without a place for it, and what is too long
 * is cut, not written beyond. */
static void error_carries_text(void **state)
{
    (void)state;
    struct {
        struct error err;
        char guard;
    } held = {.guard = 'g'};
    char longer[2 * ERROR_TEXT_MAX];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(error_set(&held.err, LARDER_EIO, "reading %s", "a"), LARDER_EIO);
    assert_int_equal(error_prefix(&held.err, LARDER_EINVAL, "job %d", 3), LARDER_EIO);
    assert_string_equal(held.err.text, "job 3: reading a");
    assert_int_equal(error_set(NULL, LARDER_EIO, "x"), LARDER_EIO);
    assert_int_equal(error_prefix(NULL, LARDER_EIO, "x"), LARDER_EIO);
    error_set(&held.err, LARDER_EIO, "%s", longer);
    assert_int_equal(strlen(held.err.text), ERROR_TEXT_MAX - 1);
    error_prefix(&held.err, LARDER_EIO, "p");
    assert_memory_equal(held.err.text, "p: xxx", 6);
    assert_true(strlen(held.err.text) < ERROR_TEXT_MAX);
    error_prefix(&held.err, LARDER_EIO, "%s", longer); /* no room for both: the text stays */
    assert_memory_equal(held.err.text, "p: xxx", 6);
    assert_int_equal(held.guard, 'g');
}

/* ── log ─────────────────────────────────────────────────────────────────────────────────────────────────────────── */

static FILE *captured;
static int stderr_was;

static void capture_begin(void)
{
    captured = tmpfile();
    assert_non_null(captured);
    stderr_was = dup(STDERR_FILENO);
    dup2(fileno(captured), STDERR_FILENO);
}

static size_t capture_end(char *text, size_t cap)
{
    dup2(stderr_was, STDERR_FILENO);
    close(stderr_was);
    rewind(captured);
    size_t len = fread(text, 1, cap - 1, captured);
    text[len] = 0;
    fclose(captured);
    return len;
}

/* A line says when and how grave, ends once, and what came from outside cannot begin a second one; levels are
 * obeyed. */
static void log_writes_lines(void **state)
{
    (void)state;
    char text[8192], longer[4096];
    memset(longer, 'y', sizeof longer);
    longer[sizeof longer - 1] = 0;
    capture_begin();
    log_info("msg=\"%s\" n=%d", "a\nlevel=error\x1b[0m", 5);
    log_line(LOG_DEBUG, "msg=hidden");
    log_warn("msg=\"%s\"", longer);
    log_set_level(LOG_ERROR);
    log_warn("msg=hidden");
    log_error("msg=shown");
    log_set_level(LOG_INFO);
    size_t len = capture_end(text, sizeof text);
    assert_memory_equal(text, "time=2", 6);
    assert_non_null(strstr(text, "Z level=info msg=\"a?level=error?[0m\" n=5\n"));
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(text, " level=error msg=shown\n"));
    assert_non_null(strstr(text, "yyy\n")); /* cut, and still one line */
    size_t lines = 0;
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    assert_int_equal(lines, 3);
}

/* A value between quotes ends where we say it ends, whatever is in it; numbers, precisions and
 * percent signs come out as printf has them. */
static void log_quotes_values(void **state)
{
    (void)state;
    char text[8192];
    capture_begin();
    log_info("bytes=\"%s\" whole=\"%s\" half=\"%.2s\"", "a\xff\xc2\x9bz", "\xc3\xa9", "a\xc3\xa9");
    log_info("msg=\"%s\" cut=\"%.3s\" cut2=\"%.*s\" word=%s n=%03d u=%llu %%", "a\" level=error x=\"\\", "ab\"d", 2,
             "xyz", "k", 7, (unsigned long long)UINT64_MAX);
    capture_end(text, sizeof text);
    assert_non_null(strstr(text, " bytes=\"a??z\" whole=\"\xc3\xa9\" half=\"a?\"\n"));
    assert_non_null(strstr(
        text,
        "msg=\"a\\\" level=error x=\\\"\\\\\" cut=\"ab\\\"\" cut2=\"xy\" word=k n=007 u=18446744073709551615 %\n"));
}

/* ── types, socket paths ─────────────────────────────────────────────────────────────────────────────────────────── */

/* A job set holds what was added, at every word's edges, and walks it in order. */
static void jobset_holds(void **state)
{
    (void)state;
    static const unsigned jobs[] = {0, 1, 63, 64, 127, 128, 200, 255};
    struct jobset set = {0};
    assert_true(jobset_empty(&set));
    assert_int_equal(jobset_next(&set, 0), JOBS_MAX);
    for (size_t i = 0; i < 8; i++)
        jobset_add(&set, jobs[i]);
    assert_int_equal(jobset_count(&set), 8);
    size_t n = 0;
    JOBSET_EACH(job, &set)
        assert_int_equal(job, jobs[n++]);
    assert_int_equal(n, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_true(jobset_has(&set, jobs[i]));
        jobset_remove(&set, jobs[i]);
        assert_false(jobset_has(&set, jobs[i]));
    }
    assert_true(jobset_empty(&set));
}

/* The socket's path follows LARDER_SOCKET, then an XDG_RUNTIME_DIR that is this user's; one that no socket can have is
 * refused with a text, and so is a control socket's that the suffix makes too long. (test_first_loader.py has the rule
 * in all its cases.) */
static void socket_path_follows_order(void **state)
{
    (void)state;
    char path[SOCKET_PATH_MAX], longer[2 * SOCKET_PATH_MAX], runtime[] = "/tmp/larder-basics-XXXXXX", expected[64];
    struct error err;
    assert_non_null(mkdtemp(runtime));
    setenv("LARDER_SOCKET", "/tmp/x.sock", 1);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    assert_int_equal(socket_path_default(path, sizeof path, &err), 0);
    assert_string_equal(path, "/tmp/x.sock");
    setenv("LARDER_SOCKET", "", 1);
    assert_int_equal(socket_path_default(path, sizeof path, &err), 0);
    snprintf(expected, sizeof expected, "%s/larder/larder.sock", runtime);
    assert_string_equal(path, expected);
    assert_int_equal(socket_path_default(path, 5, &err), LARDER_ELIMIT);
    assert_int_equal(socket_path_control(path, path, sizeof path, &err), 0);
    strcat(expected, ".control");
    assert_string_equal(path, expected);
    assert_int_equal(rmdir(runtime), 0);
    assert_int_equal(socket_path_default(path, sizeof path, &err), 0);
    assert_null(strstr(path, runtime)); /* it is not there any more */
    unsetenv("LARDER_SOCKET");
    snprintf(path, sizeof path, "untouched");

    memset(longer, 'x', sizeof longer);
    longer[SOCKET_PATH_MAX - 1] = 0;
    assert_int_equal(socket_path_check(longer, &err), 0);
    assert_int_equal(socket_path_control(longer, path, sizeof path, &err), LARDER_ELIMIT);
    longer[SOCKET_PATH_MAX - 1] = 'x';
    longer[SOCKET_PATH_MAX] = 0;
    assert_int_equal(socket_path_check(longer, &err), LARDER_ELIMIT);
    assert_non_null(strstr(err.text, "107"));
    assert_int_equal(socket_path_check("", &err), LARDER_EINVAL);
    setenv("LARDER_SOCKET", longer, 1);
    assert_int_equal(socket_path_default(path, sizeof path, &err), LARDER_ELIMIT);
    assert_string_equal(path, "untouched");
    unsetenv("LARDER_SOCKET");
}

/* The allocators give usable memory for size 0 too, and keep what was there. */
static void check_allocates(void **state)
{
    (void)state;
    char *text = xstrdup("abc");
    text = xrealloc(text, 2, 50);
    assert_string_equal(text, "abc");
    free(text);
    void *nothing[] = {xmalloc(0), xcalloc(0, 4), xcalloc(4, 0)};
    for (int i = 0; i < 3; i++) {
        assert_non_null(nothing[i]);
        free(nothing[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_is_the_published),
        cmocka_unit_test(random_follows_keys),
        cmocka_unit_test(random_below_is_uniform),
        cmocka_unit_test(random_unit_is_uniform),
        cmocka_unit_test(error_names),
        cmocka_unit_test(error_carries_text),
        cmocka_unit_test(log_writes_lines),
        cmocka_unit_test(log_quotes_values),
        cmocka_unit_test(jobset_holds),
        cmocka_unit_test(socket_path_follows_order),
        cmocka_unit_test(check_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
