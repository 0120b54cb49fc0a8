/* test_client.c: the client against a server that behaves: answers arrive whole and once, limits hold, cancelling and
 * stopping end everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "asking.h"
#include "common/clock.h"
#include "fake_server.h"

#define CONNECTIONS 3
#define BIG_BYTES 3000000

struct world {
    struct fake_server *server;
    struct net_client *client;
    struct asking asking;
    char url[128];
    char *big;
    atomic_uint waiting; /* answers that do not come */
};

static long trickle(void *arg, char *at, size_t cap)
{
    struct world *world = arg;
    (void)cap;
    *at = '.';
    return fake_wait(world->server, 20) ? -1 : 1;
}

static void answer(void *arg, struct fake_exchange *exchange)
{
    struct world *world = arg;
    if (strcmp(exchange->path, "/echo") == 0) {
        const char *wanted = exchange->header(exchange, "X-Wanted");
        exchange->status = wanted && strcmp(wanted, "yes") == 0 ? 201 : 400;
        exchange->text = exchange->body_bytes == BIG_BYTES ? world->big : "small";
        exchange->text_bytes = exchange->body_bytes == BIG_BYTES ? BIG_BYTES : 0;
        if (exchange->body_bytes == BIG_BYTES && memcmp(exchange->body, world->big, BIG_BYTES) != 0)
            exchange->status = 500;
    } else if (strcmp(exchange->path, "/hang") == 0) {
        atomic_fetch_add(&world->waiting, 1);
        fake_wait(world->server, 600000);
    } else if (strcmp(exchange->path, "/trickle") == 0) {
        exchange->more = trickle;
        exchange->more_arg = world;
    } else {
        exchange->text = exchange->path;
        exchange->status = 404;
    }
}

static int set_up(void **state)
{
    struct world *world = xcalloc(1, sizeof *world);
    world->asking = (struct asking)ASKING_INIT;
    world->big = xmalloc(BIG_BYTES);
    for (size_t i = 0; i < BIG_BYTES; i++)
        world->big[i] = (char)(i * 31 + i / 256);
    world->server = fake_start(0, NULL, answer, world);
    assert_int_equal(net_client_start(CONNECTIONS, &world->client, NULL), 0);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    net_client_stop(world->client);
    fake_stop(world->server);
    free(world->big);
    free(world);
    return 0;
}

static struct net_request request_to(struct world *world, const char *path)
{
    snprintf(world->url, sizeof world->url, "http://127.0.0.1:%u%s", fake_port(world->server), path);
    return (struct net_request){.url = world->url, .done = asking_done, .arg = &world->asking};
}

/* A body goes there and comes back whole, with the request's headers, again over the same connection. */
static void test_post(void **state)
{
    struct world *world = *state;
    char *room = xmalloc(BIG_BYTES);
    for (int i = 0; i < 3; i++) {
        struct net_request request = request_to(world, "/echo");
        request.headers[0] = "X-Wanted: yes";
        request.body = world->big;
        request.body_bytes = BIG_BYTES;
        request.answer = room;
        request.answer_max = BIG_BYTES;
        struct net_result result = asking_ask(&world->asking, world->client, &request);
        assert_int_equal(result.code, 0);
        assert_int_equal(result.status, 201);
        assert_int_equal(result.len_bytes, BIG_BYTES);
        assert_memory_equal(room, world->big, BIG_BYTES);
    }
    assert_int_equal(fake_connections(world->server, NULL), 1);
    free(room);
}

/* Any status is an answer; `fresh` takes a new connection; the environment's proxy is not asked. */
static void test_get(void **state)
{
    struct world *world = *state;
    char room[16];
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    for (uint32_t i = 1; i <= 2; i++) {
        struct net_request request = request_to(world, "/other");
        request.answer = room;
        request.answer_max = sizeof room;
        request.fresh = true;
        struct net_result result = asking_ask(&world->asking, world->client, &request);
        assert_int_equal(result.code, 0);
        assert_int_equal(result.status, 404);
        assert_int_equal(result.len_bytes, 6);
        assert_memory_equal(room, "/other", 6);
        assert_int_equal(fake_connections(world->server, NULL), i);
    }
    unsetenv("http_proxy");
}

struct taker {
    struct asking asking;
    size_t n_bytes;
    int status, give;
};

static int take(void *arg, int status, const void *data, size_t len_bytes)
{
    struct taker *taker = arg;
    (void)data;
    taker->status = status;
    taker->n_bytes += len_bytes;
    return taker->n_bytes > 3 ? taker->give : 0;
}

/* Pieces come as they arrive, with the status; who takes them can end the request with a code. */
static void test_stream(void **state)
{
    struct world *world = *state;
    struct taker taker = {.asking = ASKING_INIT, .give = LARDER_EFORMAT};
    struct net_request request = request_to(world, "/trickle");
    request.take = take;
    request.answer_max = 1000;
    request.arg = &taker;
    assert_int_equal(asking_ask(&taker.asking, world->client, &request).code, LARDER_EFORMAT);
    assert_int_equal(taker.n_bytes, 4);
    assert_int_equal(taker.status, 200);
}

/* A longer answer than there is room for is an error, and nothing is written behind the room. */
static void test_too_long(void **state)
{
    struct world *world = *state;
    char room[8] = "........";
    struct net_request request = request_to(world, "/other");
    request.answer = room;
    request.answer_max = 5;
    assert_int_equal(asking_ask(&world->asking, world->client, &request).code, LARDER_ELIMIT);
    assert_memory_equal(room + 5, "...", 3);
}

/* The whole time ends a request though bytes move; the stall ends one in which none do. */
static void test_times(void **state)
{
    struct world *world = *state;
    struct taker taker = {.asking = ASKING_INIT};
    struct net_request request = request_to(world, "/trickle");
    request.take = take;
    request.answer_max = SIZE_MAX;
    request.arg = &taker;
    request.whole_ms = 3000;
    request.stall_ms = 60000;
    assert_int_equal(asking_ask(&taker.asking, world->client, &request).code, LARDER_ETIMEOUT);
    assert_true(taker.n_bytes > 0);
    assert_non_null(strstr(taker.asking.text, "/trickle: no whole answer"));

    request = request_to(world, "/hang");
    request.stall_ms = 100;
    assert_int_equal(asking_ask(&world->asking, world->client, &request).code, LARDER_ETIMEOUT);
    assert_non_null(strstr(world->asking.text, "nothing moved"));
}

/* No peer has more connections than were allowed; what waits for one can be late too. */
static void test_connections(void **state)
{
    struct world *world = *state;
    uint64_t tickets[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        struct net_request hang = request_to(world, "/hang");
        assert_int_equal(net_submit(world->client, &hang, &tickets[i], NULL), 0);
    }
    struct taker taker = {.asking = ASKING_INIT};
    struct net_request late = request_to(world, "/other");
    late.take = take;
    late.answer_max = 100;
    late.arg = &taker;
    late.whole_ms = 200;
    assert_int_equal(asking_ask(&taker.asking, world->client, &late).code, LARDER_ETIMEOUT);
    late.whole_ms = 0;
    late.done = asking_done;
    assert_int_equal(net_submit(world->client, &late, NULL, NULL), 0);
    net_cancel(world->client, tickets[1]);
    asking_wait(&taker.asking, 2);
    assert_int_equal(taker.asking.result.code, 0);
    assert_int_equal(taker.asking.result.status, 404);
    asking_wait(&world->asking, 1);
    assert_int_equal(world->asking.result.code, LARDER_EEND);
    uint32_t most;
    fake_connections(world->server, &most);
    assert_in_range(most, 1, CONNECTIONS + 1); /* the server may see a new one before the end of the old */
}

/* Stopping ends what runs, what waits and alarms, each once; a cancelled ticket may be cancelled again. */
static void test_stop(void **state)
{
    struct world *world = *state;
    uint64_t ticket, alarm;
    for (int i = 0; i < 10; i++) {
        struct net_request hang = request_to(world, "/hang");
        assert_int_equal(net_submit(world->client, &hang, &ticket, NULL), 0);
    }
    assert_int_equal(net_after(world->client, 600000, asking_done, &world->asking, &alarm), 0);
    assert_true(alarm > ticket);
    net_cancel(world->client, ticket);
    asking_wait(&world->asking, 1);
    net_cancel(world->client, ticket);
    net_cancel(world->client, 12345);
    net_client_stop(world->client);
    assert_int_equal(world->asking.n_done, 11);
    assert_int_equal(world->asking.result.code, LARDER_EEND);
    assert_int_equal(net_client_start(CONNECTIONS, &world->client, NULL), 0);
}

struct chain {
    struct asking asking;
    struct net_client *client;
    uint32_t left;
};

static void go_on(void *arg, const struct net_result *result)
{
    struct chain *chain = arg;
    if (result->code == 0 && --chain->left > 0)
        CHECK(net_after(chain->client, chain->left % 2, go_on, chain, NULL) == 0);
    else
        asking_done(&chain->asking, result);
}

/* An alarm comes, never early, and a callback may set the next. */
static void test_alarms(void **state)
{
    struct world *world = *state;
    struct chain chain = {.asking = ASKING_INIT, .client = world->client, .left = 50};
    uint64_t before_ns = clock_now_ns();
    assert_int_equal(net_after(world->client, 50, go_on, &chain, NULL), 0);
    asking_wait(&chain.asking, 1);
    assert_int_equal(chain.asking.result.code, 0);
    assert_true(clock_now_ns() - before_ns >= 50 * CLOCK_NS_PER_MS);
}

/* There is room for so many requests; one more is refused, and its done is not called. */
static void test_room(void **state)
{
    struct world *world = *state;
    struct error err = {0};
    uint32_t n = 0;
    while (net_after(world->client, 600000, asking_done, &world->asking, NULL) == 0)
        n++;
    assert_int_equal(n, NET_CALLS_MAX);
    struct net_request request = request_to(world, "/hang");
    while (net_submit(world->client, &request, NULL, NULL) == 0)
        n++;
    assert_int_equal(n, 2 * NET_CALLS_MAX);
    assert_int_equal(net_submit(world->client, &request, NULL, &err), LARDER_ELIMIT);
    assert_non_null(strstr(err.text, "/hang: 4096 requests"));
    net_client_stop(world->client);
    assert_int_equal(world->asking.n_done, 2 * NET_CALLS_MAX);
    assert_int_equal(net_client_start(CONNECTIONS, &world->client, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_post, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_get, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_connections, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_alarms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_room, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
