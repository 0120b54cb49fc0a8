/* test_client_resolver.c: a name whose lookup hangs holds up nobody but its own request. */
#include <dlfcn.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "asking.h"
#include "common/clock.h"
#include "fake_server.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool hangs;
    int n_inside;
} lookup = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER, .hangs = true};

/* Stands before the C library's, which libcurl would call. */
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *hints, struct addrinfo **out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!name || strcmp(name, "stuck.invalid") != 0)
        return real(name, service, hints, out);
    pthread_mutex_lock(&lookup.lock);
    lookup.n_inside++;
    pthread_cond_broadcast(&lookup.change);
    while (lookup.hangs)
        pthread_cond_wait(&lookup.change, &lookup.lock);
    lookup.n_inside--;
    pthread_cond_broadcast(&lookup.change);
    pthread_mutex_unlock(&lookup.lock);
    return EAI_NONAME;
}

static void answer(void *arg, struct fake_exchange *exchange)
{
    (void)arg;
    exchange->text = "ok";
}

static void wait_inside(int count)
{
    pthread_mutex_lock(&lookup.lock);
    while (lookup.n_inside != count)
        pthread_cond_wait(&lookup.change, &lookup.lock);
    pthread_mutex_unlock(&lookup.lock);
}

static void test_stuck(void **state)
{
    (void)state;
    struct asking stuck = ASKING_INIT, other = ASKING_INIT;
    struct net_client *client;
    char url[64], room[16];
    uint64_t ticket;
    struct fake_server *server = fake_start(0, NULL, answer, NULL);
    assert_int_equal(net_client_start(4, &client, NULL), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/x", fake_port(server));
    struct net_request good = {.url = url, .answer = room, .answer_max = sizeof room};
    struct net_request bad = {.url = "http://stuck.invalid/x", .done = asking_done, .arg = &stuck};
    /* cancelled, late by its whole time, late by the time for the connection */
    assert_int_equal(net_submit(client, &bad, &ticket, NULL), 0);
    wait_inside(1);
    net_cancel(client, ticket);
    assert_int_equal(asking_ask(&other, client, &good).status, 200);
    asking_wait(&stuck, 1);
    assert_int_equal(stuck.result.code, LARDER_EEND);
    bad.whole_ms = 100;
    assert_int_equal(net_submit(client, &bad, NULL, NULL), 0);
    assert_int_equal(asking_ask(&other, client, &good).status, 200);
    asking_wait(&stuck, 2);
    assert_int_equal(stuck.result.code, LARDER_ETIMEOUT);
    bad.whole_ms = 0;
    bad.connect_ms = 100;
    assert_int_equal(net_submit(client, &bad, NULL, NULL), 0);
    asking_wait(&stuck, 3);
    assert_int_equal(stuck.result.code, LARDER_ETIMEOUT);
    assert_int_equal(asking_ask(&other, client, &good).status, 200);
    assert_int_equal(net_submit(client, &bad, NULL, NULL), 0);
    wait_inside(4);
    net_client_stop(client);
    assert_int_equal(stuck.n_done, 4);
    assert_int_equal(lookup.n_inside, 4); /* all of them hang still */
    pthread_mutex_lock(&lookup.lock);
    lookup.hangs = false;
    pthread_cond_broadcast(&lookup.change);
    pthread_mutex_unlock(&lookup.lock);
    wait_inside(0);
    fake_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stuck)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
