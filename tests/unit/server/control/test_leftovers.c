/* Connections that a listener has left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "server/control/leftovers.h"

enum { CONNECTIONS = 3 };

struct scene {
    char folder[32];
    struct sockaddr_un address;
    int listener;
    int clients[CONNECTIONS], accepted[CONNECTIONS];
};

static void listen_at(struct scene *scene)
{
    *scene = (struct scene){.folder = "/tmp/leftovers.XXXXXX", .address = {.sun_family = AF_UNIX}};
    assert_non_null(mkdtemp(scene->folder));
    snprintf(scene->address.sun_path, sizeof scene->address.sun_path, "%s/s", scene->folder);
    scene->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(scene->listener, (struct sockaddr *)&scene->address, sizeof scene->address), 0);
    assert_int_equal(listen(scene->listener, CONNECTIONS), 0);
    for (int i = 0; i < CONNECTIONS; i++) {
        scene->clients[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(scene->clients[i], (struct sockaddr *)&scene->address, sizeof scene->address), 0);
    }
}

static void leave(struct scene *scene)
{
    for (int i = 0; i < CONNECTIONS; i++)
        close(scene->clients[i]);
    unlink(scene->address.sun_path);
    rmdir(scene->folder);
}

/* Proves: each connection is closed ten seconds after it was first noted, however often others are noted meanwhile. */
static void test_each_has_its_own_wait(void **state)
{
    (void)state;
    struct scene scene;
    struct leftovers leftovers = {0};
    listen_at(&scene);
    const char *address = scene.address.sun_path;
    scene.accepted[0] = accept(scene.listener, NULL, NULL);
    scene.accepted[1] = accept(scene.listener, NULL, NULL);
    leftovers_note(&leftovers, address, 0); /* the listener is one of them */
    scene.accepted[2] = accept(scene.listener, NULL, NULL);
    for (uint64_t s = 3; s <= 9; s += 3)
        leftovers_note(&leftovers, address, s * CLOCK_NS_PER_S);
    assert_int_equal(leftovers_close(&leftovers, 10 * CLOCK_NS_PER_S - 1), 0);
    assert_int_equal(leftovers_close(&leftovers, 10 * CLOCK_NS_PER_S), 3);
    assert_int_equal(leftovers_close(&leftovers, 13 * CLOCK_NS_PER_S - 1), 0);
    assert_int_equal(leftovers_close(&leftovers, 13 * CLOCK_NS_PER_S), 1);
    assert_int_equal(leftovers_close(&leftovers, 99 * CLOCK_NS_PER_S), 0);
    leftovers_free(&leftovers);
    leave(&scene);
}

/* Proves: a descriptor that meanwhile is another socket's stays open. */
static void test_another_at_the_number(void **state)
{
    (void)state;
    struct scene scene;
    struct leftovers leftovers = {0};
    listen_at(&scene);
    scene.accepted[0] = accept(scene.listener, NULL, NULL);
    leftovers_note(&leftovers, scene.address.sun_path, 0);
    int other = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(dup2(other, scene.accepted[0]), scene.accepted[0]);
    assert_int_equal(leftovers_close(&leftovers, 10 * CLOCK_NS_PER_S), 1); /* the listener */
    assert_int_equal(close(scene.accepted[0]), 0);
    close(other);
    leftovers_free(&leftovers);
    leave(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_has_its_own_wait),
                                       cmocka_unit_test(test_another_at_the_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
