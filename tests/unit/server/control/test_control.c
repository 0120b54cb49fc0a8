/* The control socket and the `larder` command on its two ends, each in a process of its own. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/server/control/control_fixture.h"

/* Every operator's command goes through a real socket to its answer and exit status. */
static void test_commands(void **state)
{
    (void)state;
    struct peer peer;
    assert_string_equal(start_daemon(&peer), "listening\n");
    assert_ping();
    assert_output("larderd " LARDER_VERSION ", pid ");
    assert_int_equal(run_larder("status", "--json", NULL), 0);
    assert_output("\"name\": \"train-a\"");
    assert_int_equal(run_larder("status", NULL, NULL), 0);
    assert_output("larderd 9.8.7, running, up for 1 h 2 min, pid 4711, /run/larder/larder.sock, page at "
                  "http://127.0.0.1:9450/, 3 connected\n");
    assert_output("train-a             1/90 "); /* a job's row, with a rate over the two answers */
    assert_output("  512    25%    3/4     1 ");
    assert_int_equal(run_larder("cancel", "train-a", NULL), 0);
    assert_output("cancelled train-a\n");
    assert_int_equal(run_larder("cancel", "train-b", NULL), 1);
    assert_output("larder: no job is called 'train-b'\n");
    assert_int_equal(run_larder("weight", "train-a", "2.5"), 0);
    assert_output("train-a has weight 2.5\n");
    assert_int_equal(run_larder("weight", "train-b", "2.5"), 1);
    assert_output("larder: no job is called 'train-b'\n");
    assert_int_equal(run_larder("drain", NULL, NULL), 0);
    assert_output("the daemon takes no new jobs, and stops after the last one\n");
    assert_int_equal(run_larder("poison", "list", NULL), 0);
    assert_string_equal(output, "no samples are noted\n");
    assert_int_equal(run_larder("poison", "clear", "/d/a.jpg"), 1);
    assert_output("larder: no sample is noted as '/d/a.jpg'\n");
    assert_string_equal(stop_daemon(&peer), "1 cancels");
}

/* Where no daemon answers, because none was there or it was killed, is exit status 3 and says where it looked. */
static void test_no_daemon(void **state)
{
    (void)state;
    char expected[256];
    struct peer peer;
    snprintf(expected, sizeof expected, "larder: no daemon answers at %s: start one with larderd, ", session_path);
    assert_int_equal(run_larder("ping", NULL, NULL), 3);
    assert_output(expected);
    assert_string_equal(start_daemon(&peer), "listening\n");
    kill(peer.pid, SIGKILL);
    assert_int_equal(program_wait(peer.pid), 128 + SIGKILL);
    close(peer.to);
    close(peer.from);
    assert_int_equal(access(control_path, F_OK), 0); /* its socket file is still there */
    assert_int_equal(run_larder("status", NULL, NULL), 3);
    snprintf(expected, sizeof expected, "larder: no daemon answers at %s: the last one was killed, ", session_path);
    assert_output(expected);
}

/* A socket file left behind by a killed daemon does not keep the next from starting; a daemon that lives does. */
static void test_stale_and_busy(void **state)
{
    (void)state;
    struct peer peer, second;
    char expected[256];
    struct stat info;
    assert_string_equal(start_daemon(&peer), "listening\n");
    kill(peer.pid, SIGKILL);
    program_wait(peer.pid);
    close(peer.to);
    close(peer.from);
    assert_string_equal(start_daemon(&peer), "listening\n");
    assert_int_equal(stat(control_path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    snprintf(expected, sizeof expected,
             "another process answers on the control socket %s: stop it, or give this daemon another socket.path\n",
             control_path);
    assert_string_equal(start_daemon(&second), expected);
    assert_int_equal(program_wait(second.pid), 1);
    close(second.to);
    close(second.from);
    assert_ping(); /* and the first goes on */
    stop_daemon(&peer);
    assert_int_equal(access(control_path, F_OK), -1);
}

/* A socket that cannot be made is an error that says why. */
static void test_start_errors(void **state)
{
    (void)state;
    char lengthy[200];
    char *argv[] = {control_daemon, "/nowhere/at/all.sock", NULL};
    assert_int_equal(program_run(argv, "", output, sizeof output), 1);
    assert_output("cannot make the control socket /nowhere/at/all.sock: its folder does not exist\n");
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[0] = '/';
    lengthy[sizeof lengthy - 1] = '\0';
    argv[1] = lengthy;
    assert_int_equal(program_run(argv, "", output, sizeof output), 1);
    assert_output("has 199 bytes, and the system allows 107");
}

/* One that is stopped while its thread just begins to receive ends in order, again and again. */
static void test_stopped_at_once(void **state)
{
    (void)state;
    char *argv[] = {control_daemon, control_path, "200", NULL};
    assert_int_equal(program_run(argv, "", output, sizeof output), 0);
    assert_output("listening\n0 cancels\n");
}

/* A socket file that another made in our place is neither taken back nor removed, and one that is gone is not made
 * anew; peers that are connected are served. */
static void test_lost_place(void **state)
{
    (void)state;
    struct peer first, second;
    struct stat before, after;
    assert_string_equal(start_daemon(&first), "listening\n");
    assert_int_equal(unlink(control_path), 0);
    assert_string_equal(start_daemon(&second), "listening\n");
    assert_int_equal(stat(control_path, &before), 0);
    assert_int_equal(before.st_mode & 0777, 0600);
    stop_daemon(&first);
    assert_int_equal(stat(control_path, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_ping();
    stop_daemon(&second);
    assert_int_equal(access(control_path, F_OK), -1);
}

/* A daemon that runs out of descriptors for a while, so that nobody can connect, answers as before when it has some
 * again, and has not taken its socket for ended. */
static void test_no_descriptors(void **state)
{
    (void)state;
    struct peer peer;
    struct rlimit before, none;
    char said[16384], name[48];
    size_t len = 0;
    ssize_t got;
    rlim_t lowest = 0; /* descriptor that is free */
    assert_string_equal(start_daemon(&peer), "listening\n");
    assert_ping();
    sleep(1); /* until it has closed its end */
    do
        snprintf(name, sizeof name, "/proc/%d/fd/%u", (int)peer.pid, (unsigned)lowest++);
    while (access(name, F_OK) == 0 || errno != ENOENT);
    lowest--;
    assert_int_equal(prlimit(peer.pid, RLIMIT_NOFILE, NULL, &before), 0);
    for (rlim_t room = 1; room <= 2; room++) { /* for a probe, and for one connection */
        none = (struct rlimit){.rlim_cur = lowest + room, .rlim_max = before.rlim_max};
        assert_int_equal(prlimit(peer.pid, RLIMIT_NOFILE, &none, NULL), 0);
        sleep(9); /* time for two probes; if fewer came nothing is proved, and nothing fails */
    }
    assert_int_equal(prlimit(peer.pid, RLIMIT_NOFILE, &before, NULL), 0);
    assert_ping();
    close(peer.to);
    while ((got = read(peer.from, said + len, sizeof said - 1 - len)) > 0)
        len += (size_t)got;
    said[len] = '\0';
    close(peer.from);
    assert_int_equal(program_wait(peer.pid), 0);
#ifdef __SANITIZE_ADDRESS__
    if (!getenv("LARDER_TEST_QUIET")) /* so slow a probe may come too late where others take the processors */
        return;
#endif
    if (strstr(said, "listening anew"))
        fail_msg("it said: %s", said);
}

/* The watching forms go on until the daemon is gone, and then say so. */
static void test_watch(void **state)
{
    (void)state;
    struct peer peer, watch;
    char *argv[] = {larder, "status", "--json", "--watch", "--interval", "0.1", NULL}, lines[8192];
    size_t len = 0, newlines = 0;
    assert_string_equal(start_daemon(&peer), "listening\n");
    watch.pid = program_start(argv, &watch.to, &watch.from);
    while (newlines < 3) {
        ssize_t got = read(watch.from, lines + len, sizeof lines - 1 - len);
        assert_true(got > 0);
        for (ssize_t i = 0; i < got; i++)
            newlines += lines[len + (size_t)i] == '\n';
        len = len + (size_t)got < sizeof lines / 2 ? len + (size_t)got : 0;
    }
    kill(watch.pid, SIGTERM);
    assert_int_equal(program_wait(watch.pid), 128 + SIGTERM);
    close(watch.to);
    close(watch.from);
    stop_daemon(&peer);
}

/* A wrong command line is exit status 2; help and version are 0. */
static void test_usage(void **state)
{
    (void)state;
    static char *const wrong[][2] = {{NULL, NULL},         {"statsu", NULL},    {"status", "--jsn"},
                                     {"cancel", NULL},     {"ping", "--watch"}, {"status", "--interval"},
                                     {"ping", "--socket"}, {"weight", "a"},     {"weight", NULL},
                                     {"drain", "a"},       {"poison", NULL},    {"poison", "lost"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run_larder(wrong[i][0], wrong[i][1], NULL), 2);
        assert_output("`larder --help` shows what is possible");
    }
    static char *const no_weights[] = {"0", "0.009", "100.5", "nan", "inf", "x", "1x", ""};
    for (size_t i = 0; i < sizeof no_weights / sizeof *no_weights; i++) {
        assert_int_equal(run_larder("weight", "a", no_weights[i]), 2);
        assert_output("larder: a weight is a number from 0.01 to 100, not: ");
    }
    assert_int_equal(run_larder("drain", "--help", NULL), 0);
    assert_output("  larder drain --for-restart  stop now");
    assert_output("`larder --help` has the other commands");
    assert_int_equal(run_larder("--help", NULL, NULL), 0);
    assert_output("  3  no daemon answers");
    assert_int_equal(run_larder("--version", NULL, NULL), 0);
    assert_output("larder " LARDER_VERSION "\nbuilt with libjpeg-turbo ");
}

/* What larderd does itself goes to the larderd beside larder, with the same arguments and its exit status. */
static void test_exec(void **state)
{
    (void)state;
    char copy[128], daemon[128], command[1024];
    snprintf(copy, sizeof copy, "%s/larder", folder);
    snprintf(daemon, sizeof daemon, "%s/larderd", folder);
    snprintf(command, sizeof command, "cp '%s' '%s'", larder, copy);
    assert_int_equal(system(command), 0);
    FILE *file = fopen(daemon, "w");
    fputs("#!/bin/sh\necho \"$0:$*\"\nexit 7\n", file);
    fclose(file);
    assert_int_equal(chmod(daemon, 0755), 0);
    char *argv[] = {copy, "check", "--show", "my file.yaml", NULL}, expected[256];
    assert_int_equal(program_run(argv, "", output, sizeof output), 7);
    snprintf(expected, sizeof expected, "%s:check --show my file.yaml\n", daemon);
    assert_string_equal(output, expected);
    unlink(daemon);
    setenv("PATH", "/nowhere", 1);
    assert_int_equal(program_run(argv, "", output, sizeof output), 1);
    assert_output("larder: cannot run larderd, neither beside larder nor from PATH: ");
    unlink(copy);
}

int main(int argc, char **argv)
{
    if (!control_begin(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),        cmocka_unit_test(test_no_daemon),
        cmocka_unit_test(test_stale_and_busy),  cmocka_unit_test(test_start_errors),
        cmocka_unit_test(test_stopped_at_once), cmocka_unit_test(test_lost_place),
        cmocka_unit_test(test_no_descriptors),  cmocka_unit_test(test_watch),
        cmocka_unit_test(test_usage),           cmocka_unit_test(test_exec),
    };
    return cmocka_run_group_tests(tests, NULL, control_end);
}
