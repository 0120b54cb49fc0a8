/* test_fork.c: what a child of fork may do with its parent's loader: nothing, without harm to the parent. */
#include <larder/larder.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_daemon.h"

static struct fake_daemon fake;
static struct larder_loader *loader;

static void serve(struct fake_daemon *daemon)
{
    fake_serve(daemon, 8);
}

static void open_fake(fake_script *script)
{
    struct larder_options options;
    fake_init(&fake);
    fake_start(&fake, script);
    larder_options_init(&options);
    options.socket = fake.path;
    options.dataset = "set";
    options.batch_size = FAKE_BATCH_SIZE;
    assert_int_equal(larder_open(&options, &loader), 0);
}

/* child_result returns the number of the first thing in the child that was not as it should be, 0 when all was. */
static int child_result(struct larder_batch *held)
{
    struct larder_batch *batch = NULL;
    struct larder_sample sample;
    uint8_t copy[64];
    if (larder_fd(loader) != -1)
        return 1; /* the connection was not closed here */
    if (larder_next(loader, 0, &batch) != LARDER_EPERM || !strstr(larder_last_error(loader), "child"))
        return 2;
    if (larder_start_epoch(loader, 1) != LARDER_EPERM)
        return 3;
    if (larder_batch_copy(held, copy, sizeof copy) != LARDER_EPERM ||
        larder_batch_sample(held, 0, &sample) != LARDER_EPERM)
        return 4;
    if (larder_batch_release(&held) != LARDER_EPERM || held)
        return 5;
    larder_close(&loader);
    return loader ? 6 : 0;
}

/* A child's calls are refused with a text, its larder_close frees its copy, and the parent streams on undisturbed. */
static void refuses_child(void **state)
{
    (void)state;
    struct larder_batch *held = NULL, *batch = NULL;
    open_fake(serve);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, &held), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(child_result(held));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    for (uint32_t index = 1; index < 8; index++) {
        assert_int_equal(larder_next(loader, 60000, &batch), 0);
        assert_int_equal(larder_batch_index(batch), index);
        assert_int_equal(larder_batch_release(&batch), 0);
    }
    assert_int_equal(larder_batch_release(&held), 0);
    larder_close(&loader);
    fake_stop(&fake);
    assert_int_equal(fake.n_released, 8);
}

/* The lease ends with the parent's connection, though a child that was forked meanwhile lives on. */
static void child_keeps_no_lease(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    open_fake(fake_until_closed);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1); /* lives until the parent closes the pipe */
    }
    close(ends[0]);
    larder_close(&loader);
    fake_stop(&fake); /* would wait for ever if the child held the connection */
    close(ends[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refuses_child), cmocka_unit_test(child_keeps_no_lease)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
