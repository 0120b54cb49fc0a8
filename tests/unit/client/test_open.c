/* test_open.c: opening a loader: what is sent, what is learnt, and what is refused with which text. */
#include <fcntl.h>
#include <larder/larder.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_daemon.h"

static struct fake_daemon fake;

static struct larder_options options_for_fake(void)
{
    struct larder_options options;
    larder_options_init(&options);
    options.socket = fake.path;
    options.dataset = "/data/set";
    options.pipeline = "[\"p\"]";
    options.batch_size = FAKE_BATCH_SIZE;
    return options;
}

static void assert_refused(const struct larder_options *options, int code, const char *part)
{
    struct larder_loader *loader = (struct larder_loader *)&fake;
    assert_int_equal(larder_open(options, &loader), code);
    assert_ptr_equal(loader, &fake); /* untouched */
    if (!strstr(larder_last_error(NULL), part))
        fail_msg("'%s' is not in '%s'", part, larder_last_error(NULL));
}

/* The options arrive at the daemon, and its answers at the program: info, class names over several pages. */
static void opens(void **state)
{
    (void)state;
    struct larder_loader *loader = NULL;
    fake_init(&fake);
    fake_start(&fake, fake_until_closed);
    struct larder_options options = options_for_fake();
    options.seed = UINT64_MAX;
    options.epochs = 9;
    options.world_size = 4;
    options.rank = 3;
    options.prefetch = 5;
    options.weight = 2.5;
    options.shuffle = LARDER_SHUFFLE_STRICT;
    options.bad = LARDER_BAD_ERROR;
    options.drop_last = options.private_augment = options.all_files = 1;
    assert_int_equal(larder_open(&options, &loader), 0);

    struct larder_info info;
    assert_int_equal(larder_info_get(loader, &info), 0);
    assert_int_equal(info.n_samples, 100);
    assert_int_equal(info.n_batches, 25);
    assert_int_equal(info.held_max, 4);
    assert_int_equal(info.height * info.width * info.channels, info.sample_bytes);
    assert_int_equal(info.fingerprint[1], 8);
    assert_string_equal(info.job, "job-3");
    assert_int_equal(info.n_classes, FAKE_CLASSES);
    assert_string_equal(larder_class_name(loader, 0), "class 0");
    assert_string_equal(larder_class_name(loader, 4), "class 4");
    assert_null(larder_class_name(loader, 5));
    assert_null(larder_class_name(loader, -1));
    assert_true(larder_fd(loader) >= 0);
    assert_true(fcntl(larder_fd(loader), F_GETFD) & FD_CLOEXEC);

    larder_close(&loader);
    assert_null(loader);
    larder_close(&loader);
    fake_stop(&fake);
    assert_true(fake.bye);
    assert_string_equal(fake.dataset, "/data/set");
    assert_string_equal(fake.pipeline, "[\"p\"]");
    assert_memory_equal(fake.client, "c/", 2);
    assert_true(fake.reg.seed == UINT64_MAX);
    assert_int_equal(fake.reg.epochs, 9);
    assert_int_equal(fake.reg.world_size, 4);
    assert_int_equal(fake.reg.rank, 3);
    assert_int_equal(fake.reg.prefetch, 5);
    assert_true(fake.reg.weight == 2.5);
    assert_int_equal(fake.reg.shuffle, SHUFFLE_STRICT);
    assert_int_equal(fake.reg.bad_policy, BAD_ERROR);
    assert_int_equal(fake.reg.flags, WIRE_DROP_LAST | WIRE_PRIVATE_AUGMENT | WIRE_ALL_FILES | WIRE_HEARS_DONE);
}

/* A relative folder is sent as an absolute one, a plain name as it is; LARDER_SOCKET is followed. `mix` is a tenth, and
 * said of a deal at home alone. */
static void resolves_names(void **state)
{
    (void)state;
    char here[1024], wanted[1100];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(wanted, sizeof wanted, "%s/./images", here);
    const char *given[] = {"./images", "imagenet"}, *sent[] = {wanted, "imagenet"};
    for (int i = 0; i < 2; i++) {
        struct larder_loader *loader = NULL;
        fake_init(&fake);
        fake_start(&fake, NULL);
        setenv("LARDER_SOCKET", fake.path, 1);
        struct larder_options options = options_for_fake();
        options.socket = NULL;
        options.dataset = given[i];
        options.deal = i ? LARDER_DEAL_HOME : LARDER_DEAL_EPOCH;
        assert_int_equal(larder_open(&options, &loader), 0);
        larder_close(&loader);
        fake_stop(&fake);
        assert_string_equal(fake.dataset, sent[i]);
        assert_int_equal(fake.reg.deal, i ? WIRE_DEAL_HOME : WIRE_DEAL_EPOCH);
        assert_int_equal(fake.reg.mix, i ? WIRE_MIX_ALL / 10 : 0);
    }
    unsetenv("LARDER_SOCKET");
}

/* Wrong options are refused before anything is sent, by name and with what is allowed. */
static void refuses_options(void **state)
{
    (void)state;
    fake_init(&fake);
    strcpy(fake.path, "/nonexistent/larder.sock");
    char *longer = malloc(WIRE_SPEC_MAX + 2);
    memset(longer, 'x', WIRE_SPEC_MAX + 1);
    longer[WIRE_SPEC_MAX + 1] = 0;
    struct larder_options options, good = options_for_fake();

#define REFUSED(field, value, code, part) \
    options = good;                       \
    options.field = value;                \
    assert_refused(&options, code, part)
    REFUSED(dataset, NULL, LARDER_EINVAL, "dataset");
    REFUSED(dataset, "", LARDER_EINVAL, "dataset");
    REFUSED(batch_size, 0, LARDER_EINVAL, "batch_size is 0");
    REFUSED(batch_size, 8193, LARDER_EINVAL, "1 to 8192");
    REFUSED(prefetch, 65, LARDER_EINVAL, "prefetch");
    REFUSED(world_size, 0, LARDER_EINVAL, "world_size");
    REFUSED(rank, 1, LARDER_EINVAL, "rank is 1: give 0 to 0");
    REFUSED(shuffle, 3, LARDER_EINVAL, "shuffle");
    REFUSED(bad, 3, LARDER_EINVAL, "bad");
    REFUSED(deal, 2, LARDER_EINVAL, "deal is 2: give 0 to 1");
    REFUSED(mix, 1000001, LARDER_EINVAL, "mix");
    good.shuffle = LARDER_SHUFFLE_STRICT;
    REFUSED(deal, LARDER_DEAL_HOME, LARDER_EINVAL, "leave one of the two out");
    good.shuffle = LARDER_SHUFFLE_DEPENDENT;
    REFUSED(weight, 0, LARDER_EINVAL, "weight is 0: give 0.01 to 100");
    REFUSED(weight, 101, LARDER_EINVAL, "weight");
    REFUSED(weight, NAN, LARDER_EINVAL, "weight");
    REFUSED(pipeline, longer, LARDER_ELIMIT, "pipeline");
    REFUSED(subset, longer, LARDER_ELIMIT, "subset");
    REFUSED(job, longer, LARDER_ELIMIT, "job");
    REFUSED(dataset, longer, LARDER_ELIMIT, "dataset");
    REFUSED(size_bytes, 0, LARDER_EINVAL, "larder_options_init");
    assert_refused(NULL, LARDER_EINVAL, "without options");
    assert_int_equal(larder_open(&good, NULL), LARDER_EINVAL);
    free(longer);
}

/* A program built with a newer header works as long as it leaves the newer options alone; one built with an older
 * header has the defaults of what it does not know. */
static void grows(void **state)
{
    (void)state;
    struct {
        struct larder_options options;
        uint64_t newer;
    } grown;
    memset(&grown, 0xff, sizeof grown);
    larder_options_init_sized(&grown.options, sizeof grown);
    assert_int_equal(grown.newer, 0);
    grown.options.dataset = "x";
    grown.options.socket = "/nonexistent/larder.sock";
    assert_refused(&grown.options, LARDER_EGONE, "/nonexistent/larder.sock");
    grown.newer = 1;
    assert_refused(&grown.options, LARDER_EVERSION, "does not know");

    struct larder_options older;
    memset(&older, 0xff, sizeof older);
    larder_options_init_sized(&older, offsetof(struct larder_options, hold));
    older.dataset = "x";
    older.socket = "/nonexistent/larder.sock";
    assert_refused(&older, LARDER_EGONE, "/nonexistent/larder.sock");

    struct larder_info info;
    memset(&info, 0xff, sizeof info);
    assert_int_equal(larder_info_sized(NULL, &info, sizeof info), LARDER_EINVAL);
}

/* A path no socket can have, a socket nobody made, one nobody listens on, and one that lets nobody in: each by its
 * path. */
static void refuses_sockets(void **state)
{
    (void)state;
    char longer[SOCKET_PATH_MAX + 1];
    fake_init(&fake);
    struct larder_options options = options_for_fake();
    memset(longer, 'x', sizeof longer);
    longer[0] = '/';
    longer[SOCKET_PATH_MAX] = 0;
    options.socket = longer;
    assert_refused(&options, LARDER_ELIMIT, "the system allows 107");
    options.socket = "";
    assert_refused(&options, LARDER_EINVAL, "empty");
    options.socket = "/nonexistent/larder.sock";
    assert_refused(&options, LARDER_EGONE, "no daemon answers at /nonexistent/larder.sock");

    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/larder-stale-%ld.sock", (long)getpid());
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    options.socket = address.sun_path;
    assert_refused(&options, LARDER_EGONE, address.sun_path);
    assert_int_equal(listen(fd, 0), 0); /* a backlog that is full soon, and an end to waiting for it */
    options.open_timeout_ms = 50;
    assert_refused(&options, LARDER_ETIMEOUT, address.sun_path);
    close(fd);
    unlink(address.sun_path);
}

static void refuse_registration(struct fake_daemon *daemon)
{
    struct wire_message msg;
    fake_receive(daemon, &msg);
    struct wire_message answer = {.type = WIRE_WELCOME, .seq = msg.seq};
    answer.welcome = (struct wire_welcome){.arena_bytes = FAKE_ARENA_BYTES, .batch_max = 64};
    fake_send(daemon, &answer, daemon->arena_fd);
    fake_receive(daemon, &msg);
    fake_error(daemon, msg.seq, LARDER_ENOENT, false, "no folder /data/set: mount it");
}

/* Without a free descriptor it is refused, with what to do; and with one more it is another that is missing. */
static void names_missing_descriptors(void **state)
{
    (void)state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int next = dup(0);
    close(next);
    struct larder_options options = options_for_fake();
    options.socket = "/nowhere/larder.sock";
    for (int free_ones = 0; free_ones < 4; free_ones++) {
        struct rlimit none = {(rlim_t)(next + free_ones), limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        struct larder_loader *loader = NULL;
        int code = larder_open(&options, &loader);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal(code, free_ones < 3 ? LARDER_ELIMIT : LARDER_EGONE);
        if (free_ones < 3 && !strstr(larder_last_error(NULL), "no file descriptor is free"))
            fail_msg("%s", larder_last_error(NULL));
    }
}

static void refuse_peer(struct fake_daemon *daemon)
{
    fake_error(daemon, 0, LARDER_EPERM, true, "users of group x only");
}

static void say_nothing(struct fake_daemon *daemon)
{
    fake_until_closed(daemon);
}

/* A daemon that refuses gives its own text and code, even when it closes before it was asked; a silent one times out;
 * one that hangs up is named. */
static void hands_errors_through(void **state)
{
    (void)state;
    static const struct {
        fake_script *script;
        int code;
        const char *part;
    } cases[] = {
        {refuse_registration, LARDER_ENOENT, "no folder /data/set: mount it"},
        {refuse_peer, LARDER_EPERM, "users of group x only"},
        {say_nothing, LARDER_ETIMEOUT, "larder.sock"},
        {NULL, LARDER_EGONE, "larder.sock"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_init(&fake);
        fake.opening_only = true;
        fake_start(&fake, cases[i].script);
        struct larder_options options = options_for_fake();
        options.open_timeout_ms = cases[i].script == say_nothing ? 50 : 60000;
        assert_refused(&options, cases[i].code, cases[i].part);
        fake_stop(&fake);
    }
}

/* Whether a daemon that refuses a peer closes before or after the client has sent its greeting, its text gets
 * through. */
static void hands_early_errors_through(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        fake_init(&fake);
        fake.opening_only = true;
        fake_start(&fake, refuse_peer);
        struct larder_options options = options_for_fake();
        assert_refused(&options, LARDER_EPERM, "users of group x only");
        fake_stop(&fake);
    }
}

/* A batch larger than the daemon allows is refused by the library. */
static void refuses_large_batch(void **state)
{
    (void)state;
    fake_init(&fake);
    fake_start(&fake, NULL);
    struct larder_options options = options_for_fake();
    options.batch_size = 65;
    assert_refused(&options, LARDER_ELIMIT, "allows 64");
    fake_stop(&fake);
}

/* serve_as listens at path as another user, says so on `ready`, and stays. */
static void serve_as(uid_t user, const char *path, int ready)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setgid(user) != 0 || setuid(user) != 0)
        _exit(2);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1) != 0 ||
        write(ready, "", 1) != 1)
        _exit(2);
    for (;;)
        pause();
}

/* Who answers at the socket as another user than this one or root is refused before a word is said. */
static void refuses_foreign_daemons(void **state)
{
    (void)state;
    int ready[2];
    char folder[] = "/tmp/larder-foreign-XXXXXX", path[64], byte;
    if (geteuid() != 0) {
        print_message("not root: cannot become another user\n");
        skip();
    }
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0777), 0);
    snprintf(path, sizeof path, "%s/s", folder);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0)
        serve_as(65534, path, ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    struct larder_options options = options_for_fake();
    options.socket = path;
    options.open_timeout_ms = 2000;
    assert_refused(&options, LARDER_EPERM,
                   "is user 65534's, and only a daemon of your own (user 0) or root's is trusted");
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens),
        cmocka_unit_test(resolves_names),
        cmocka_unit_test(refuses_options),
        cmocka_unit_test(grows),
        cmocka_unit_test(refuses_sockets),
        cmocka_unit_test(names_missing_descriptors),
        cmocka_unit_test(hands_errors_through),
        cmocka_unit_test(refuses_large_batch),
        cmocka_unit_test(hands_early_errors_through),
        cmocka_unit_test(refuses_foreign_daemons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
