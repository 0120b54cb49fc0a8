/* The control socket and the `larder` command on its two ends, each in a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/control/control_priv.h"
#include "tests/unit/server/program.h"

static char *larder, *control_daemon; /* the programs' paths, from the command line */
static char folder[] = "/tmp/larder control XXXXXX";
static char session_path[64], control_path[72];

struct peer {
    pid_t pid;
    int to, from;
};

/* start_daemon starts the made-up daemon and gives the first thing it says. */
static const char *start_daemon(struct peer *peer)
{
    static char said[512];
    char *argv[] = {control_daemon, control_path, NULL};
    peer->pid = program_start(argv, &peer->to, &peer->from);
    ssize_t len = read(peer->from, said, sizeof said - 1);
    said[len > 0 ? len : 0] = '\0';
    return said;
}

/* stop_daemon ends it, with exit status 0 or the test has failed, and gives the last line it says. */
static const char *stop_daemon(struct peer *peer)
{
    static char said[16384];
    size_t len = 0;
    ssize_t got;
    close(peer->to);
    while ((got = read(peer->from, said + len, sizeof said - 1 - len)) > 0)
        len += (size_t)got;
    said[len] = '\0';
    close(peer->from);
    int status = program_wait(peer->pid);
    if (status != 0)
        fail_msg("the daemon ended with %d and said: %s", status, said);
    if (len > 0)
        said[len - 1] = '\0'; /* the last line's end */
    char *before = strrchr(said, '\n');
    return before ? before + 1 : said;
}

static char output[65536];

/* run_larder runs `larder ARGS…` on the test's socket and gives its exit status. */
static int run_larder(char *a, char *b, char *c)
{
    char *argv[] = {larder, a, b, c, NULL};
    return program_run(argv, "", output, sizeof output);
}

static void assert_output(const char *expected)
{
    if (!strstr(output, expected))
        fail_msg("expected %s in: %s", expected, output);
}

/* The daemon answers. A peer that closed at once may have ended nng's listener, which takes control.c seconds to mend: then
 * a ping may be lost. */
static void assert_ping(void)
{
    for (int tries = 0; run_larder("ping", NULL, NULL) != 0; tries++) {
        print_message("ping: %s", output);
        assert_true(tries < 5);
    }
}

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
    assert_output("larderd 9.8.7, running for 1 h 2 min, pid 4711, /run/larder/larder.sock, 3 connected\n");
    assert_output("train-a             2/90 "); /* a job's row, with a rate over the two answers */
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
    assert_string_equal(stop_daemon(&peer), "1 cancels");
}

/* Where no daemon answers, because none was there or it was killed, is exit status 3 and says where it looked. */
static void test_no_daemon(void **state)
{
    (void)state;
    char expected[256];
    struct peer peer;
    snprintf(expected, sizeof expected, "larder: no daemon answers at %s: start one with larderd, ", control_path);
    assert_int_equal(run_larder("ping", NULL, NULL), 3);
    assert_output(expected);
    assert_string_equal(start_daemon(&peer), "listening\n");
    kill(peer.pid, SIGKILL);
    assert_int_equal(program_wait(peer.pid), 128 + SIGKILL);
    close(peer.to);
    close(peer.from);
    assert_int_equal(access(control_path, F_OK), 0); /* its socket file is still there */
    assert_int_equal(run_larder("status", NULL, NULL), 3);
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

/* connect_plainly connects to the control socket without nng. */
static int connect_plainly(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", control_path);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* closed_within counts the connections that their peer has closed, until there are `wanted` or a minute passed. */
static size_t closed_within(struct pollfd *fds, size_t count, size_t wanted)
{
    size_t closed = 0;
    uint64_t until_ns = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    while (closed < wanted && clock_now_ns() < until_ns) {
        poll(fds, (nfds_t)count, 100);
        for (size_t i = 0; i < count; i++) {
            char bytes[64];
            if (fds[i].fd >= 0 && fds[i].revents && read(fds[i].fd, bytes, sizeof bytes) <= 0) {
                close(fds[i].fd);
                fds[i].fd = -1;
                closed++;
            }
        }
    }
    return closed;
}

/* Idle connections beyond the limit are closed, and a client comes through once the others are gone. */
static void test_connection_limit(void **state)
{
    (void)state;
    enum { MORE = 20 };
    struct peer peer;
    struct pollfd fds[CONTROL_CONNECTIONS_MAX + MORE];
    static const unsigned char hello[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* a REQ peer's */
    assert_string_equal(start_daemon(&peer), "listening\n");
    for (size_t i = 0; i < CONTROL_CONNECTIONS_MAX + MORE; i++) {
        fds[i] = (struct pollfd){.fd = connect_plainly(), .events = POLLIN};
        assert_int_equal(send(fds[i].fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    }
    assert_int_equal(closed_within(fds, CONTROL_CONNECTIONS_MAX + MORE, MORE), MORE);
    for (size_t i = 0; i < CONTROL_CONNECTIONS_MAX + MORE; i++) {
        if (fds[i].fd >= 0)
            close(fds[i].fd);
    }
    assert_ping();
    stop_daemon(&peer);
}

/* Peers that close at once, send nonsense, or say nothing do not keep the control socket from answering the next. */
static void test_rude_peers(void **state)
{
    (void)state;
    struct peer peer;
    static const char *const says[] = {"GET / HTTP/1.1\r\n\r\n", "x", ""};
    int fds[3];
    assert_string_equal(start_daemon(&peer), "listening\n");
    kill(peer.pid, SIGSTOP); /* so that it surely finds the connection closed when it comes to it */
    close(connect_plainly());
    kill(peer.pid, SIGCONT);
    assert_ping();
    for (size_t i = 0; i < 3; i++) {
        fds[i] = connect_plainly();
        send(fds[i], says[i], strlen(says[i]), MSG_NOSIGNAL);
        assert_ping();
    }
    for (size_t i = 0; i < 3; i++)
        close(fds[i]);
    stop_daemon(&peer);
}

/* ask_on sends status requests and reads nothing, until the daemon has closed the connection or nothing went through
 * for half a minute; gives how many went. */
static unsigned ask_on(int fd)
{
    static const char request[] = "{\"v\":1,\"op\":\"status\"}";
    unsigned char frame[9 + 4 + sizeof request - 1] = {1, [8] = 4 + sizeof request - 1, [9] = 0x80}; /* SP over ipc */
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    unsigned sent = 0;
    memcpy(frame + 13, request, sizeof request - 1);
    for (; poll(&poll_fd, 1, 30000) == 1 && !(poll_fd.revents & POLLHUP); sent++) {
        frame[12] = (unsigned char)sent;
        if (send(fd, frame, sizeof frame, MSG_NOSIGNAL) != sizeof frame)
            break;
    }
    return sent;
}

/* A peer that asks and asks and reads no answer keeps nobody else from being answered, and loses its connection. */
static void test_unread_answers(void **state)
{
    (void)state;
    static const unsigned char hello[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* a REQ peer's */
    struct peer peer;
    assert_string_equal(start_daemon(&peer), "listening\n");
    struct pollfd rude = {.fd = connect_plainly(), .events = POLLRDHUP};
    assert_int_equal(send(rude.fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    assert_true(ask_on(rude.fd) > 100);
    for (int i = 0; i < 3; i++)
        assert_ping();
    assert_int_equal(poll(&rude, 1, 60000), 1);
    close(rude.fd);
    assert_int_equal(run_larder("drain", NULL, NULL), 0);
    stop_daemon(&peer);
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
    static char *const wrong[][2] = {{NULL, NULL},        {"statsu", NULL},   {"status", "--jsn"},
                                     {"cancel", NULL},    {"ping", "--json"}, {"status", "--interval"},
                                     {"ping", "--socket"}, {"weight", "a"},   {"weight", NULL},
                                     {"drain", "a"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run_larder(wrong[i][0], wrong[i][1], NULL), 2);
        assert_output("`larder --help` shows what is possible");
    }
    static char *const no_weights[] = {"0", "0.009", "100.5", "nan", "inf", "x", "1x", ""};
    for (size_t i = 0; i < sizeof no_weights / sizeof *no_weights; i++) {
        assert_int_equal(run_larder("weight", "a", no_weights[i]), 2);
        assert_output("larder: a weight is a number from 0.01 to 100, not: ");
    }
    assert_int_equal(run_larder("status", "--help", NULL), 0);
    assert_output("larder drain");
    assert_int_equal(run_larder("--help", NULL, NULL), 0);
    assert_output("exit status: 0 done; 1 failed; 2 usage; 3 no daemon answers");
    assert_int_equal(run_larder("--version", NULL, NULL), 0);
    assert_string_equal(output, "larder " LARDER_VERSION "\n");
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

/* ── requests, without a socket ────────────────────────────────────────────────────────────────────────────────── */

static unsigned cancels;

static char *status_json(void *ctx)
{
    return ctx ? NULL : strdup("{\"v\":1,\"jobs\":[{\"name\":\"a\"}]}");
}

static int cancel_job(void *ctx, const char *job, struct error *err)
{
    (void)ctx;
    if (strcmp(job, "a") != 0)
        return error_set(err, LARDER_ENOENT, "no job is called '%s'", job);
    cancels++;
    return 0;
}

static double weight_given;

static int set_weight(void *ctx, const char *job, double weight, struct error *err)
{
    (void)ctx;
    if (strcmp(job, "a") != 0)
        return error_set(err, LARDER_ENOENT, "no job is called '%s'", job);
    weight_given = weight;
    return 0;
}

static unsigned drains;

static int drain(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    drains++;
    return 0;
}

static struct control_handlers handlers = {
    .status_json = status_json, .cancel = cancel_job, .set_weight = set_weight, .drain = drain};

static void assert_answer(struct control_memory *memory, const char *request, const char *expected)
{
    char *answer = control_answer(&handlers, memory, request, strlen(request));
    assert_string_equal(answer, expected);
    free(answer);
}

#define FAILED(code, text) "{\"v\":1,\"ok\":false,\"error\":{\"code\":\"" code "\",\"text\":\"" text "\"}}"

/* Each request has its answer, and what is none is told so. */
static void test_requests(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    char ping[128];
    snprintf(ping, sizeof ping, "{\"v\":1,\"ok\":true,\"version\":\"" LARDER_VERSION "\",\"pid\":%d}", (int)getpid());
    assert_answer(&memory, "{\"v\":1,\"op\":\"ping\"}", ping);
    assert_answer(&memory, "{\"v\":1,\"op\":\"status\"}",
                  "{\"v\":1,\"ok\":true,\"status\":{\"v\":1,\"jobs\":[{\"name\":\"a\"}]}}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"jobs\"}", "{\"v\":1,\"ok\":true,\"jobs\":[{\"name\":\"a\"}]}");
    assert_answer(&memory, "", FAILED("EFORMAT", "the request is not a JSON object"));
    assert_answer(&memory, "[1]", FAILED("EFORMAT", "the request is not a JSON object"));
    assert_answer(&memory, "{\"op\":\"ping\",\"op\":\"ping\"}", FAILED("EFORMAT", "the request is not a JSON object"));
    assert_answer(
        &memory, "{\"v\":2,\"op\":\"ping\"}",
        FAILED("EVERSION", "the request is of another version: this daemon (" LARDER_VERSION ") speaks \\\"v\\\":1"));
    assert_answer(&memory, "{\"v\":1}", FAILED("EINVAL", "the request has no \\\"op\\\""));
    assert_answer(&memory, "{\"v\":1,\"op\":\"quit\"}",
                  FAILED("EINVAL", "no such \\\"op\\\": there are ping, status, jobs, cancel, weight and drain"));
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"id\":\"1\"}",
                  FAILED("EINVAL", "cancel needs a job: name it with \\\"job\\\""));
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\"}",
                  FAILED("EINVAL", "cancel needs an \\\"id\\\" of 1 to 63 bytes, new for each cancel"));
    handlers.ctx = &handlers; /* the daemon is stopping */
    assert_answer(&memory, "{\"v\":1,\"op\":\"status\"}", FAILED("EGONE", "the daemon is stopping"));
    assert_answer(&memory, "{\"v\":1,\"op\":\"jobs\"}", FAILED("EGONE", "the daemon is stopping"));
    handlers.ctx = NULL;
    control_memory_clear(&memory);
}

/* A weight is a number within its bounds, and goes to a job that is there; one that is sent late does not undo a
 * newer one. */
static void test_weight(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    static const char *const wrong[] = {"0",    "0.0099",    "100.01", "-1",   "1e999",
                                        "null", "\"2\"", "[1]",    "true", "{}"};
    char request[128];
    weight_given = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(request, sizeof request, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"weight\":%s,\"id\":\"w%zu\"}",
                 wrong[i], i);
        char *answer = control_answer(&handlers, &memory, request, strlen(request));
        assert_non_null(strstr(answer, "\"ok\":false"));
        free(answer);
    }
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"id\":\"x\"}",
                  FAILED("EINVAL", "weight needs a \\\"weight\\\" from 0.01 to 100"));
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"b\",\"weight\":1,\"id\":\"y\"}",
                  FAILED("ENOENT", "no job is called 'b'"));
    assert_true(weight_given == 0);
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"weight\":3,\"id\":\"1\"}", "{\"v\":1,\"ok\":true}");
    assert_true(weight_given == 3);
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"weight\":0.25,\"id\":\"2\"}", "{\"v\":1,\"ok\":true}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"weight\",\"job\":\"a\",\"weight\":3,\"id\":\"1\"}", "{\"v\":1,\"ok\":true}");
    assert_true(weight_given == 0.25);
    control_memory_clear(&memory);
}

/* A drain needs nothing but its id, and is done once for each. */
static void test_drain(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    drains = 0;
    assert_answer(&memory, "{\"v\":1,\"op\":\"drain\"}",
                  FAILED("EINVAL", "drain needs an \\\"id\\\" of 1 to 63 bytes, new for each drain"));
    assert_int_equal(drains, 0);
    for (int i = 0; i < 2; i++)
        assert_answer(&memory, "{\"v\":1,\"op\":\"drain\",\"id\":\"1\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(drains, 1);
    control_memory_clear(&memory);
}

/* A cancel that is sent again is answered again and not carried out again, until so many others came that it is
 * forgotten. */
static void test_repeated(void **state)
{
    (void)state;
    struct control_memory memory = {0};
    char request[128];
    cancels = 0;
    for (int i = 0; i < 3; i++)
        assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"x\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(cancels, 1);
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"b\",\"id\":\"y\"}",
                  FAILED("ENOENT", "no job is called 'b'"));
    for (int i = 0; i < CONTROL_REMEMBERED - 2; i++) {
        snprintf(request, sizeof request, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"%d\"}", i);
        assert_answer(&memory, request, "{\"v\":1,\"ok\":true}");
    }
    assert_int_equal(cancels, CONTROL_REMEMBERED - 1);
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"x\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(cancels, CONTROL_REMEMBERED - 1);
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"z\"}", "{\"v\":1,\"ok\":true}");
    assert_answer(&memory, "{\"v\":1,\"op\":\"cancel\",\"job\":\"a\",\"id\":\"x\"}", "{\"v\":1,\"ok\":true}");
    assert_int_equal(cancels, CONTROL_REMEMBERED + 1);
    control_memory_clear(&memory);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "/bin/rm -rf '%s'", folder);
    return system(command);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s LARDER CONTROL_DAEMON\n", argv[0]);
        return 2;
    }
    larder = argv[1];
    control_daemon = argv[2];
    if (!mkdtemp(folder))
        return 1;
    snprintf(session_path, sizeof session_path, "%s/l.sock", folder);
    snprintf(control_path, sizeof control_path, "%s.control", session_path);
    setenv("LARDER_SOCKET", session_path, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_weight),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_no_daemon),
        cmocka_unit_test(test_stale_and_busy),
        cmocka_unit_test(test_start_errors),
        cmocka_unit_test(test_stopped_at_once),
        cmocka_unit_test(test_rude_peers),
        cmocka_unit_test(test_unread_answers),
        cmocka_unit_test(test_lost_place),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_exec),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
