/* test_log.c: proves that the log's limits count what they hold back, for all threads together, and that between
 * log_start and log_stop nobody who logs waits for standard error: what it does not take is dropped and counted.
 * Standard error is a pipe here, which is read when the test wants it. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"

enum { THREADS = 4, LINES = 5000, PATIENCE_S = 300 };

static int stderr_was, far_end;

static void pipe_begin(void)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    stderr_was = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    far_end = ends[0];
}

/* Nothing more comes into the pipe. */
static void pipe_end(void)
{
    dup2(stderr_was, STDERR_FILENO);
    close(stderr_was);
}

/* Reads until `end` has been seen, or until the pipe's end; the text is the caller's. */
static char *read_until(const char *end)
{
    size_t len = 0, cap = 1 << 16;
    char *text = malloc(cap);
    text[0] = '\0';
    while (!end || !strstr(text, end)) {
        if (cap - len < 4096)
            text = realloc(text, cap *= 2);
        ssize_t got = read(far_end, text + len, cap - len - 1);
        assert_true(got >= 0);
        if (got == 0)
            break;
        len += (size_t)got;
        text[len] = '\0';
    }
    return text;
}

/* What stands after `key` in all lines that hold `mark`, added up; counts the lines. */
static uint64_t sum_of(const char *text, const char *mark, const char *key, uint64_t *lines)
{
    uint64_t sum = 0;
    *lines = 0;
    for (const char *at = text; (at = strstr(at, mark)); at++) {
        const char *end = strchr(at, '\n'), *value = strstr(at, key);
        ++*lines;
        if (value && value < end)
            sum += strtoull(value + strlen(key), NULL, 10);
    }
    return sum;
}

static void flood(int n)
{
    for (int i = 0; i < n; i++)
        log_warn_limited("msg=\"flood\" number=%d", i);
}

static void *flood_thread(void *arg)
{
    (void)arg;
    flood(LINES);
    return NULL;
}

/* Of what several threads log in one place so many pass a second, and lines and counts add up to all of it: at the
 * latest log_stop tells the rest. */
static void limits_are_the_process_s(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint64_t began_ns = clock_now_ns(), lines, told_lines;
    pipe_begin();
    assert_int_equal(log_start(), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, flood_thread, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint64_t seconds = (clock_now_ns() - began_ns) / CLOCK_NS_PER_S + 1;
    log_stop();
    pipe_end();
    char *text = read_until(NULL);
    uint64_t held = sum_of(text, "msg=\"flood\"", " held_back=", &lines);
    held += sum_of(text, "msg=\"lines were held back\" like=\"flood\"", " held_back=", &told_lines);
    assert_true(lines >= LOG_FAULTS_PER_S && lines <= seconds * LOG_FAULTS_PER_S);
    assert_int_equal(lines + held, THREADS * LINES);
    free(text);
    close(far_end);
}

/* When a flood ends, what was held back is told without another line of its kind, and without log_stop. */
static void a_flood_s_end_is_told(void **state)
{
    (void)state;
    pipe_begin();
    assert_int_equal(log_start(), 0);
    flood(LINES);
    char *text = read_until("msg=\"lines were held back\" like=\"flood\" held_back=");
    log_stop();
    pipe_end();
    free(text);
    close(far_end);
}

/* Lines that came, and those that the log says were dropped. */
static uint64_t accounted_for(const char *text)
{
    uint64_t lines, told, dropped = sum_of(text, "msg=\"log lines were dropped", " dropped=", &told);
    sum_of(text, "msg=numbered", " none=", &lines);
    return lines + dropped;
}

/* More is logged than pipe and ring hold while nobody reads: nobody waits, what was dropped is counted in lines that
 * come by themselves once somebody reads, and stand where the others are missing: the order is kept. */
static void nobody_waits_for_stderr(void **state)
{
    (void)state;
    size_t len = 0;
    unsigned number, next = 1;
    char *text = calloc(1, 1 << 22);
    pipe_begin();
    assert_int_equal(log_start(), 0);
    alarm(PATIENCE_S);
    for (unsigned i = 1; i <= LINES; i++)
        log_info("msg=numbered number=%u text=\"%0200d\"", i, 0);
    while (len == 0 || text[len - 1] != '\n' || accounted_for(text) < LINES) {
        ssize_t got = read(far_end, text + len, 65536);
        assert_true(got > 0);
        len += (size_t)got;
    }
    log_stop();
    alarm(0);
    pipe_end();
    assert_int_equal(accounted_for(text), LINES);
    assert_non_null(strstr(text, " dropped="));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n'), *at = strstr(line, "msg=numbered number="),
                   *told = strstr(line, " dropped=");
        if (at && at < end) {
            assert_int_equal(sscanf(at, "msg=numbered number=%u", &number), 1);
            assert_int_equal(number, next++);
        } else {
            assert_true(told && told < end);
            next += (unsigned)strtoul(told + strlen(" dropped="), NULL, 10);
        }
    }
    free(text);
    close(far_end);
}

/* A process whose standard error nobody reads ends all the same; the test reads when it has ended. */
static int run_stalled(void (*last)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE_S);
        if (log_start())
            _exit(3);
        for (int i = 0; i < LINES; i++)
            log_info("msg=numbered number=%d text=\"%0200d\"", i, 0);
        last();
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void fail_check(void)
{
    signal(SIGABRT, SIG_DFL);
    CHECK(!"sound");
}

static void stalled_ends_end(void **state)
{
    (void)state;
    pipe_begin();
    int status = run_stalled(log_stop);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = run_stalled(fail_check);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    pipe_end();
    close(far_end);
}

/* A failed check is written, after all that was logged before, by the time the process ends; before
 * log_start as well. */
static void a_failed_check_is_written(void **state)
{
    (void)state;
    int status;
    for (int started = 0; started < 2; started++) {
        pipe_begin();
        pid_t child = fork();
        if (child == 0) {
            if (started && log_start())
                _exit(3);
            for (int i = 0; i < 20; i++)
                log_info("msg=before number=%d", i);
            fail_check();
        }
        waitpid(child, &status, 0);
        pipe_end();
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        char *text = read_until(NULL);
        const char *before = strstr(text, "msg=before number=19\n"),
                   *fatal = strstr(text, " level=fatal msg=\"check failed\"");
        assert_true(before && fatal > before);
        free(text);
        close(far_end);
    }
}

/* Lines that standard error refuses are counted as well, and told when it takes lines again. */
static void refused_lines_are_told(void **state)
{
    (void)state;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    pipe_begin();
    int into_pipe = dup(STDERR_FILENO);
    dup2(full, STDERR_FILENO);
    assert_int_equal(log_start(), 0);
    for (int i = 0; i < 3; i++)
        log_info("msg=refused");
    log_stop();
    assert_int_equal(log_start(), 0);
    log_info("msg=refused");
    log_stop();
    dup2(into_pipe, STDERR_FILENO);
    log_info("msg=direct");
    assert_int_equal(log_start(), 0);
    log_info("msg=taken");
    log_stop();
    close(into_pipe);
    close(full);
    pipe_end();
    char *text = read_until(NULL);
    assert_non_null(strstr(text, "msg=direct"));
    assert_non_null(strstr(text, " dropped=4\n"));
    assert_true(strstr(text, "msg=taken") > strstr(text, " dropped=4\n"));
    assert_null(strstr(text, "msg=refused"));
    free(text);
    close(far_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_the_process_s),  cmocka_unit_test(a_flood_s_end_is_told),
        cmocka_unit_test(nobody_waits_for_stderr),   cmocka_unit_test(stalled_ends_end),
        cmocka_unit_test(a_failed_check_is_written), cmocka_unit_test(refused_lines_are_told),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
