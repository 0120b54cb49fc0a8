/* Calls that run aside: in a process of their own that shares memory and descriptors. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/aside.h"

struct made {
    pid_t pid;
    char *text;
    int fd;
};

static void make(void *ctx)
{
    struct made *made = ctx;
    made->pid = getpid();
    made->text = strdup("made aside");
    made->fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
}

/* What the function makes is the caller's: memory, descriptors and results; it ran in another process. So it is where
 * the launcher ignores SIGCHLD, too. */
static void test_shares(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct made made = {.fd = -1};
        char byte;
        signal(SIGCHLD, i ? SIG_IGN : SIG_DFL);
        aside_run(make, &made);
        assert_int_not_equal(made.pid, getpid());
        assert_string_equal(made.text, "made aside");
        assert_true(made.fd >= 0);
        assert_int_equal(fcntl(made.fd, F_GETFD), FD_CLOEXEC);
        assert_true(read(made.fd, &byte, 1) <= 1);
        assert_int_equal(close(made.fd), 0);
        free(made.text);
    }
    signal(SIGCHLD, SIG_DFL);
}

static void hang(void *ctx)
{
    const int *pipes = ctx;
    char byte;
    ssize_t moved = write(pipes[1], "h", 1) == 1 ? read(pipes[2], &byte, 1) : 0;
    moved += write(pipes[1], "g", 1);
    (void)moved;
}

/* A process that is killed while its function hangs ends at once; the function goes on when it is let. */
static void test_outlived(void **state)
{
    (void)state;
    int pipes[4], status;
    char byte;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(pipes + 2), 0);
    pid_t pid = fork();
    if (pid == 0) {
        aside_run(hang, pipes);
        _exit(0);
    }
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(write(pipes[3], "go", 1), 1);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(byte, 'g');
    for (int i = 0; i < 4; i++)
        close(pipes[i]);
}

/* A device that is no FUSE file system does not suit. */
static void test_suits(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat("/proc", &st), 0);
    for (int i = 0; i < 2; i++)
        assert_false(aside_suits(st.st_dev));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_outlived),
        cmocka_unit_test(test_suits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
