/* Who is the daemon of a socket path: the lock, killed daemons' leavings, wrong paths, other users. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "tests/unit/server/session/session_fixture.h"

struct place {
    char folder[64], path[128], lock[160];
};

static struct place make_place(void)
{
    struct place place = {.folder = "/tmp/larder-listen-XXXXXX"};
    assert_non_null(mkdtemp(place.folder));
    snprintf(place.path, sizeof place.path, "%s/sub/s.sock", place.folder);
    snprintf(place.lock, sizeof place.lock, "%s.lock", place.path);
    return place;
}

static void remove_place(const struct place *place)
{
    char folder[80];
    snprintf(folder, sizeof folder, "%s/sub", place->folder);
    rmdir(folder);
    assert_int_equal(rmdir(place->folder), 0);
}

/* fork_daemon starts a process that listens at a path, and returns when it does. */
static pid_t fork_daemon(const char *path)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* when the test fails, ctest waits for all that hold its output */
        struct session *session;
        char done = session_listen(path, &session, NULL) == 0;
        ssize_t written = write(ready[1], &done, 1);
        (void)written;
        for (;;)
            pause();
    }
    char done = 0;
    assert_int_equal(read(ready[0], &done, 1), 1);
    assert_int_equal(done, 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void kill_daemon(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* The folder is made for this user alone, and so is the socket; both files are gone after a clean end. */
static void test_modes(void **state)
{
    (void)state;
    struct place place = make_place();
    struct session *session = NULL;
    struct stat st;
    mode_t before = umask(0);
    assert_int_equal(session_listen(place.path, &session, NULL), 0);
    umask(before);
    assert_int_equal(stat(place.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(S_ISSOCK(st.st_mode));
    char folder[80];
    snprintf(folder, sizeof folder, "%s/sub", place.folder);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    session_destroy(session);
    assert_int_equal(access(place.path, F_OK), -1);
    assert_int_equal(access(place.lock, F_OK), -1);
    remove_place(&place);
}

/* A second instance is refused with the first one's pid, also when somebody removed the lock file; a killed daemon's
 * socket and lock keep nobody from starting. */
static void test_one_daemon(void **state)
{
    (void)state;
    struct place place = make_place();
    struct session *session = NULL;
    struct error err = {0};
    char pid[32];
    pid_t first = fork_daemon(place.path);
    snprintf(pid, sizeof pid, "pid %ld", (long)first);
    assert_int_equal(session_listen(place.path, &session, &err), LARDER_EBUSY);
    assert_non_null(strstr(err.text, pid));
    assert_non_null(strstr(err.text, place.path));
    assert_int_equal(unlink(place.lock), 0);
    assert_int_equal(session_listen(place.path, &session, &err), LARDER_EBUSY);
    assert_non_null(strstr(err.text, pid));
    assert_int_equal(access(place.path, F_OK), 0); /* and the first one's socket is still there */

    kill_daemon(first);
    pid_t second = fork_daemon(place.path);
    kill_daemon(second);
    assert_int_equal(access(place.path, F_OK), 0);
    assert_int_equal(access(place.lock, F_OK), 0);
    assert_int_equal(session_listen(place.path, &session, &err), 0);
    struct session *twin = NULL;
    assert_int_equal(session_listen(place.path, &twin, &err), LARDER_EBUSY); /* in one process too */
    session_destroy(session);
    remove_place(&place);
}

/* race listens when the pipe `go` ends, says on `done` that it has tried, and holds what it got until `stay` ends. */
static void race(const char *path, int go, int done, int stay)
{
    char c = 0;
    struct session *session;
    int rc = read(go, &c, 1) == 0 ? session_listen(path, &session, NULL) : LARDER_EIO;
    if (write(done, &c, 1) != 1 || read(stay, &c, 1) != 0)
        _exit(2);
    _exit(rc == 0 ? 0 : rc == LARDER_EBUSY ? 1 : 2);
}

/* Of many daemons that start at one moment at a killed one's socket, exactly one gets it. */
static void test_race(void **state)
{
    (void)state;
    enum { RACERS = 12, ROUNDS = 10 };
    struct place place = make_place();
    for (int round = 0; round < ROUNDS; round++) {
        kill_daemon(fork_daemon(place.path));
        int go[2], done[2], stay[2], won = 0;
        pid_t racers[RACERS];
        assert_true(pipe(go) == 0 && pipe(done) == 0 && pipe(stay) == 0);
        for (int i = 0; i < RACERS; i++) {
            racers[i] = fork();
            if (racers[i] == 0) {
                close(go[1]);
                close(stay[1]);
                race(place.path, go[0], done[1], stay[0]);
            }
        }
        close(go[0]);
        close(go[1]);
        close(done[1]);
        char tried[RACERS];
        for (size_t n = 0; n < RACERS; n++) /* nobody leaves before all have tried */
            assert_int_equal(read(done[0], tried + n, 1), 1);
        close(done[0]);
        close(stay[0]);
        close(stay[1]);
        for (int i = 0; i < RACERS; i++) {
            int status;
            assert_int_equal(waitpid(racers[i], &status, 0), racers[i]);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 2);
            won += WEXITSTATUS(status) == 0;
        }
        assert_int_equal(won, 1);
    }
    unlink(place.path);
    unlink(place.lock);
    remove_place(&place);
}

/* Paths that cannot be: too long, something else in the way, no folder to make the folder in. Each says what to do, and
 * touches nothing. */
static void test_wrong_paths(void **state)
{
    (void)state;
    struct place place = make_place();
    struct session *session = NULL;
    struct error err = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/%0200d", place.folder, 0);
    assert_int_equal(session_listen(path, &session, &err), LARDER_ELIMIT);
    assert_non_null(strstr(err.text, "107"));
    snprintf(path, sizeof path, "%s/missing/sub/s.sock", place.folder);
    assert_int_equal(session_listen(path, &session, &err), LARDER_ENOENT);
    assert_non_null(strstr(err.text, "missing/sub"));
    assert_int_equal(session_listen("", &session, &err), LARDER_EINVAL);

    snprintf(path, sizeof path, "%s/file", place.folder);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    assert_int_equal(session_listen(path, &session, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "not a socket"));
    assert_int_equal(unlink(path), 0);
    assert_null(session);
    remove_place(&place);
}

static ino_t inode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_ino;
}

/* A daemon whose files were removed by somebody, so that another could start at the same path, leaves that one's alone
 * at its end. */
static void test_successor(void **state)
{
    (void)state;
    struct place place = make_place();
    struct session *first = NULL, *second = NULL, *third = NULL;
    struct error err;
    assert_int_equal(session_listen(place.path, &first, NULL), 0);
    assert_int_equal(unlink(place.path), 0);
    assert_int_equal(unlink(place.lock), 0);
    assert_int_equal(session_listen(place.path, &second, NULL), 0);
    ino_t socket_file = inode_of(place.path), lock_file = inode_of(place.lock);
    session_destroy(first);
    assert_true(inode_of(place.path) == socket_file);
    assert_true(inode_of(place.lock) == lock_file);
    close(client_connect(place.path));
    assert_int_equal(session_listen(place.path, &third, &err), LARDER_EBUSY);
    session_destroy(second);
    assert_int_equal(access(place.path, F_OK), -1);
    assert_int_equal(access(place.lock, F_OK), -1);
    remove_place(&place);
}

static void assert_unsafe(const char *path, const char *culprit)
{
    struct session *session = NULL;
    struct error err = {0};
    assert_int_equal(session_listen(path, &session, &err), LARDER_EPERM);
    if (!strstr(err.text, "would not be safe") || !strstr(err.text, culprit))
        fail_msg("expected %s in: %s", culprit, err.text);
    assert_int_equal(access(path, F_OK), -1);
}

static void assert_safe(const char *path)
{
    struct session *session = NULL;
    struct error err = {0};
    if (session_listen(path, &session, &err))
        fail_msg("%s", err.text);
    session_destroy(session);
}

/* A folder in which others may put something in the socket's place is refused, wherever on the way it lies, and the
 * text names it; the sticky bit keeps them from it. */
static void test_writable_folders(void **state)
{
    (void)state;
    struct place place = make_place();
    char sub[80], link[80], behind[128];
    snprintf(sub, sizeof sub, "%s/sub", place.folder);
    snprintf(link, sizeof link, "%s/link", place.folder);
    snprintf(behind, sizeof behind, "%s/../link/s.sock", sub);
    assert_safe(place.path);
    for (mode_t mode = 0720; mode; mode = mode == 0720 ? 0702 : 0) {
        assert_int_equal(chmod(sub, mode), 0);
        assert_unsafe(place.path, sub);
        assert_int_equal(chmod(sub, mode | S_ISVTX), 0);
        assert_safe(place.path);
        assert_int_equal(chmod(sub, 0700), 0);
        assert_int_equal(chmod(place.folder, mode), 0);
        assert_unsafe(place.path, place.folder);
        assert_int_equal(chmod(place.folder, 0700), 0);
    }
    assert_int_equal(symlink("sub", link), 0);
    assert_safe(behind);
    assert_int_equal(chmod(sub, 0777), 0);
    assert_unsafe(behind, sub);
    assert_int_equal(chmod(sub, 0700), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("link", link), 0);
    struct session *session = NULL;
    struct error err;
    assert_int_equal(session_listen(behind, &session, &err), LARDER_EINVAL);
    assert_int_equal(unlink(link), 0);
    remove_place(&place);
}

/* A folder of another user's is refused, on the way too, and so is a link of theirs, whatever their modes are. */
static void test_foreign_folders(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("not root: cannot give folders away\n");
        skip();
    }
    struct place place = make_place();
    char sub[80], link[80], behind[128];
    snprintf(sub, sizeof sub, "%s/sub", place.folder);
    snprintf(link, sizeof link, "%s/link", place.folder);
    snprintf(behind, sizeof behind, "%s/s.sock", link);
    assert_safe(place.path);
    assert_int_equal(chown(sub, 65534, 0), 0);
    assert_unsafe(place.path, "belongs to user 65534");
    assert_int_equal(chmod(sub, 01777), 0);
    assert_unsafe(place.path, "belongs to user 65534");
    assert_int_equal(chown(sub, 0, 0), 0);
    assert_int_equal(chown(place.folder, 65534, 0), 0);
    assert_unsafe(place.path, place.folder);
    assert_int_equal(chown(place.folder, 0, 0), 0);
    assert_int_equal(symlink("sub", link), 0);
    assert_int_equal(lchown(link, 65534, 0), 0);
    assert_unsafe(behind, link);
    assert_int_equal(unlink(link), 0);
    remove_place(&place);
}

/* A client that connects before the sessions start waits, and is served then; one destroyed unstarted leaves
 * nothing. */
static void test_listen_then_start(void **state)
{
    (void)state;
    struct place place = make_place();
    struct session *session = NULL;
    assert_int_equal(session_listen(place.path, &session, NULL), 0);
    int fd = client_connect(place.path);
    struct wire_message hello = {.type = WIRE_HELLO}, msg;
    assert_true(client_send(fd, &hello));
    struct session_config config = {.connections_max = 1, .arena_fd = STDERR_FILENO};
    assert_int_equal(session_start(session, &config, NULL), 0);
    assert_int_equal(client_receive(fd, &msg, NULL), 1);
    assert_int_equal(msg.type, WIRE_WELCOME);
    close(fd);
    session_destroy(session);
    remove_place(&place);
}

/* Another user's process gets a permission error, even where file modes would let it connect. */
static void test_other_user(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("not root: cannot become another user\n");
        skip();
    }
    struct owner *owner = owner_start(4);
    assert_int_equal(chmod(owner->folder, 0755), 0);
    assert_int_equal(chmod(owner->path, 0666), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(2);
        int fd = client_connect(owner->path);
        struct wire_message msg = {.type = WIRE_HELLO};
        client_send(fd, &msg);
        bool refused = client_receive(fd, &msg, NULL) == 1 && msg.type == WIRE_ERROR &&
                       msg.error.code == LARDER_EPERM && msg.error.fatal == 1 && client_receive(fd, &msg, NULL) == 0;
        _exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    struct session_counts counts;
    session_counts(owner->session, &counts);
    assert_int_equal(counts.refused, 1);
    assert_int_equal(counts.connections, 0);
    owner_stop(owner);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_one_daemon),
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_wrong_paths),
        cmocka_unit_test(test_listen_then_start),
        cmocka_unit_test(test_other_user),
        cmocka_unit_test(test_successor),
        cmocka_unit_test(test_writable_folders),
        cmocka_unit_test(test_foreign_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
