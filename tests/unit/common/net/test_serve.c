/* test_serve.c: the server against our own client: requests arrive whole, answers too, whoever gives them and whenever,
 * and stopping ends everything once. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "asking.h"
#include "serving.h"

#define CONNECTIONS 4
#define BIG_BYTES 3000000
#define MANY 1000

struct world {
    struct serving *serving;
    struct net_client *client;
    struct asking asking;
    char *big;
};

static char *bytes_from(uint32_t seed, size_t len_bytes)
{
    char *bytes = xmalloc(len_bytes);
    for (size_t i = 0; i < len_bytes; i++)
        bytes[i] = (char)((i + seed) * 31 + (i + seed) / 256);
    return bytes;
}

static int set_up(void **state)
{
    struct world *world = xcalloc(1, sizeof *world);
    world->asking = (struct asking)ASKING_INIT;
    world->big = bytes_from(0, BIG_BYTES + 1);
    world->serving = serving_start((struct net_serve_options){.body_max = BIG_BYTES});
    assert_int_equal(net_client_start(CONNECTIONS, &world->client, NULL), 0);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    net_client_stop(world->client);
    if (world->serving)
        serving_stop(world->serving);
    free(world->big);
    free(world);
    return 0;
}

static struct net_request request_to(struct world *world, const char *path)
{
    static char url[128];
    snprintf(url, sizeof url, "http://" SERVING_HOST ":%u%s", net_serve_port(world->serving->serve), path);
    return (struct net_request){.url = url, .body = "", .done = asking_done, .arg = &world->asking};
}

static void check_echo(struct world *world, const char *path, size_t len_bytes)
{
    char *room = xmalloc(len_bytes + 1);
    struct net_request request = request_to(world, path);
    request.body = world->big;
    request.body_bytes = len_bytes;
    request.answer = room;
    request.answer_max = len_bytes;
    struct net_result result = asking_ask(&world->asking, world->client, &request);
    assert_int_equal(result.code, 0);
    assert_int_equal(result.status, 200);
    assert_int_equal(result.len_bytes, len_bytes);
    assert_memory_equal(room, world->big, len_bytes);
    free(room);
}

static int status_of(struct world *world, const char *path, size_t len_bytes)
{
    struct net_request request = request_to(world, path);
    request.body = world->big;
    request.body_bytes = len_bytes;
    struct net_result result = asking_ask(&world->asking, world->client, &request);
    return result.code ? result.code : result.status;
}

/* Bodies of all lengths go there and come back whole over one connection, answered at once or by another thread. One
 * that is longer than allowed is refused, and the connection goes on. */
static void test_echo(void **state)
{
    struct world *world = *state;
    const size_t lengths[] = {0, 1, 999, 1000, 1001, 4096, 4097, 70000, BIG_BYTES - 1, BIG_BYTES};
    const size_t n = sizeof lengths / sizeof *lengths;
    for (size_t i = 0; i < n; i++) {
        check_echo(world, "/echo", lengths[i]);
        check_echo(world, "/later", lengths[i]);
    }
    assert_int_equal(status_of(world, "/echo", BIG_BYTES + 1), 413);
    check_echo(world, "/echo", 10);
    struct net_serve_counts counts = serving_count(world->serving);
    assert_int_equal(counts.connections, 1);
    assert_int_equal(counts.requests, 2 * n + 1);
    assert_int_equal(counts.answers, 2 * n + 1);
    assert_int_equal(counts.refused_size, 1);
    assert_int_equal(counts.drops, 0);
    assert_int_equal(world->serving->n_peers, 0);
}

struct one {
    struct asking *asking;
    uint32_t body, room;
    struct net_result result;
};

static void note(void *arg, const struct net_result *result)
{
    struct one *one = arg;
    one->result = *result;
    asking_done(one->asking, result);
}

/* A thousand requests under way at once share few connections, and each gets its own answer. */
static void test_many(void **state)
{
    struct world *world = *state;
    struct one *all = xcalloc(MANY, sizeof *all);
    for (uint32_t i = 0; i < MANY; i++) {
        all[i].asking = &world->asking;
        all[i].body = i * 2654435761u;
        struct net_request request = request_to(world, i % 3 ? "/later" : "/echo");
        request.body = &all[i].body;
        request.body_bytes = request.answer_max = sizeof all[i].body;
        request.answer = &all[i].room;
        request.done = note;
        request.arg = &all[i];
        assert_int_equal(net_submit(world->client, &request, NULL, NULL), 0);
    }
    asking_wait(&world->asking, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(all[i].result.code, 0);
        assert_int_equal(all[i].result.status, 200);
        assert_int_equal(all[i].room, all[i].body);
    }
    struct net_serve_counts counts = serving_count(world->serving);
    assert_in_range(counts.connections, 1, CONNECTIONS);
    assert_int_equal(counts.requests, MANY);
    assert_int_equal(counts.answers, MANY);
    free(all);
}

/* Each status arrives, with no body too; a ticket has one answer, and what is given for another is released. */
static void test_answer_once(void **state)
{
    struct world *world = *state;
    struct serving *serving = world->serving;
    for (uint32_t i = 1; i <= 3; i++) {
        struct net_request request = request_to(world, "/hold");
        request.body = i == 2 ? world->big : ""; /* one that on_request leaves to the server */
        request.body_bytes = i == 2 ? BIG_BYTES : 0;
        assert_int_equal(net_submit(world->client, &request, NULL, NULL), 0);
        serving_wait(serving, &serving->n_held, i);
        uint64_t ticket = serving->held[i - 1];
        serving_answer(serving, ticket + 1, xstrdup("nobody's"), 8);
        serving_answer(serving, 0, xstrdup("nobody's"), 8);
        assert_int_equal(atomic_load(&serving->released), 2 * i);
        struct net_answer answer = {.status = 502 + (int)i};
        net_serve_answer(serving->serve, ticket, &answer);
        net_serve_answer(serving->serve, ticket, &answer);
        asking_wait(&world->asking, i);
        assert_int_equal(world->asking.result.code, 0);
        assert_int_equal(world->asking.result.status, 502 + i);
        assert_int_equal(world->asking.result.len_bytes, 0);
    }
    assert_int_equal(serving_count(serving).answers, 3);
}

/* A client that gives up while its request waits is told of, and its answer is released. Others do not notice. */
static void test_drop(void **state)
{
    struct world *world = *state;
    struct serving *serving = world->serving;
    uint64_t ticket;
    for (uint32_t i = 1; i <= 20; i++) {
        struct net_request request = request_to(world, "/hold");
        assert_int_equal(net_submit(world->client, &request, &ticket, NULL), 0);
        serving_wait(serving, &serving->n_held, i);
        net_cancel(world->client, ticket);
        serving_wait(serving, &serving->n_dropped, i);
        assert_int_equal(serving->dropped[i - 1], serving->held[i - 1]);
        serving_answer(serving, serving->dropped[i - 1], xstrdup("late"), 4);
        assert_int_equal(atomic_load(&serving->released), i);
    }
    asking_wait(&world->asking, 20);
    check_echo(world, "/later", 5000);
    assert_int_equal(serving_count(serving).drops, 20);
}

static int take_nothing(void *arg, int status, const void *data, size_t len_bytes)
{
    (void)arg, (void)status, (void)data, (void)len_bytes;
    return 0;
}

/* Stopping ends requests that wait for an answer or for a connection, connections between two requests, and answers on
 * their way. Each held request is dropped once. */
static void test_stop(void **state)
{
    struct world *world = *state;
    struct serving *serving = world->serving;
    check_echo(world, "/echo", 100);
    for (uint32_t i = 0; i < 10; i++) {
        struct net_request request = request_to(world, "/hold");
        request.take = take_nothing;
        request.answer_max = SIZE_MAX;
        assert_int_equal(net_submit(world->client, &request, NULL, NULL), 0);
    }
    serving_wait(serving, &serving->n_held, CONNECTIONS);
    serving_answer(serving, serving->held[0], bytes_from(1, BIG_BYTES), BIG_BYTES);
    serving_end(serving);
    world->serving = NULL;
    asking_wait(&world->asking, 11);
    assert_in_range(serving->n_dropped, CONNECTIONS - 1, 10);
    for (uint32_t i = 0; i < serving->n_dropped; i++)
        for (uint32_t k = 0; k <= i; k++)
            assert_true((serving->dropped[i] == serving->dropped[k]) == (i == k));
    serving_free(serving);
}

static uint32_t count_descriptors(void)
{
    uint32_t n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) != -1;
    return n;
}

/* Where it cannot listen it says so and leaves no descriptor open, and a port that it left is free at once. */
static void test_start(void **state)
{
    struct world *world = *state;
    struct net_serve *other = NULL;
    struct error err = {0};
    struct net_serve_options options = {.host = SERVING_HOST, .on_request = serving_request};
    uint32_t n_open = count_descriptors();
    uint16_t port = options.port = net_serve_port(world->serving->serve);
    assert_int_equal(net_serve_start(&options, &other, &err), LARDER_EBUSY);
    assert_non_null(strstr(err.text, SERVING_HOST));
    options.host = "no host at all";
    assert_int_equal(net_serve_start(&options, &other, &err), LARDER_EINVAL);
    options.host = "192.0.2.1"; /* of no machine */
    assert_int_equal(net_serve_start(&options, &other, &err), LARDER_EIO);
    options.host = SERVING_HOST;
    options.connections = NET_SERVE_CONNECTIONS_MAX + 1;
    assert_int_equal(net_serve_start(&options, &other, &err), LARDER_EINVAL);
    options.connections = 0;
    options.cert = options.key = options.ca = "no PEM";
    options.port = 0;
    assert_int_equal(net_serve_start(&options, &other, &err), LARDER_EINVAL);
    assert_null(other);
    assert_int_equal(count_descriptors(), n_open);
    check_echo(world, "/echo", 10);
    serving_stop(world->serving);
    world->serving = serving_start((struct net_serve_options){.port = port});
    assert_int_equal(net_serve_port(world->serving->serve), port);
    check_echo(world, "/echo", 10);
    net_serve_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_echo, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_answer_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
