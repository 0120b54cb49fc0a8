/* test_etcd.c: what etcd may do, from a server that does it on purpose: pages, dead leases, compaction, members without
 * a leader, wrong answers, other formats, tokens that end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "nodes.h"
#include "server/discovery/base64.h"
#include "server/discovery/node_value.h"
#include "tests/unit/common/net/fake_server.h"

#define KEYS 3
#define REVISION 40

/* What the server does; the test sets it before a node starts, or changes one flag at a time. */
static struct {
    struct fake_server *server;
    struct fake_server *second; /* another member of the same etcd */
    atomic_bool first_hangs, kept, put_refused, compacts, no_leader, garbage, wants_token;
    const char *config; /* of another node; NULL: there is none yet */
    char *pages[KEYS];
    atomic_uint n_ranges, n_watches, n_grants, n_puts, n_logins, n_tokens_refused;
    atomic_bool bad_request; /* a request was not as it should be */
    struct nodes nodes;
} world;

static const char *endpoints[4];

static void need(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong request: %s\n", what);
        world.bad_request = true;
    }
}

/* ── the server ── */

static char *page_of(uint32_t number)
{
    struct discovery_node node = {.id = {(uint8_t)number, 0xab}, .boot = 1, .weight = 1};
    char digits[NODE_ID_DIGITS + 1], key[128], *value, *key_text, *value_text, *page;
    snprintf(node.name, sizeof node.name, "node-%u", number);
    snprintf(node.url, sizeof node.url, "https://node-%u:9451", number);
    node_id_write(node.id, digits);
    snprintf(key, sizeof key, "/larder/1/test/nodes/%s", digits);
    assert_int_equal(node_value_write(&node, &value, NULL), 0);
    key_text = base64_encode(key, strlen(key));
    value_text = base64_encode(value, strlen(value));
    assert_true(asprintf(&page,
                         "{\"header\":{\"revision\":\"%u\"},\"more\":%s,\"kvs\":[{\"key\":\"%s\",\"value\":\"%s\"}]}",
                         REVISION + number, number + 1 < KEYS ? "true" : "false", key_text, value_text) > 0);
    free(value);
    free(key_text);
    free(value_text);
    return page;
}

/* The page behind the key that the request names; the first page has the revision that the others are asked at. */
static const char *answer_range(const struct fake_exchange *exchange)
{
    unsigned n = atomic_fetch_add(&world.n_ranges, 1) % KEYS;
    char at_revision[32];
    snprintf(at_revision, sizeof at_revision, "\"revision\":\"%d\"", n ? REVISION : 0);
    need(strstr(exchange->body, at_revision) != NULL, exchange->body);
    need(strstr(exchange->body, "\"limit\":\"64\"") != NULL, exchange->body);
    return world.pages[n];
}

struct stream {
    struct fake_server *server;
    unsigned number;
    size_t at;
};

static const char *watch_text(unsigned number)
{
    if (world.compacts && number == 0)
        return "{\"result\":{\"created\":true}}\n{\"result\":{\"canceled\":true,\"compact_revision\":\"50\"}}\n";
    if (world.no_leader && number == 0)
        return "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\"}}\n";
    if (world.garbage && number == 0)
        return "{\"result\":{\"created\":true}}\n{\"result\":7}\n";
    return "{\"result\":{\"created\":true}}\n\n{\"result\":{\"header\":{\"revision\":\"44\"},\"events\":["
           "{\"type\":\"DELETE\",\"kv\":{\"key\":"
           "\"L2xhcmRlci8xL3Rlc3Qvbm9kZXMvMDJhYjAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA=\"}}]}}\n";
}

/* Byte by byte, so that lines come in pieces; then nothing more. */
static long more(void *arg, char *at, size_t cap)
{
    struct stream *stream = arg;
    const char *text = watch_text(stream->number);
    (void)cap;
    if (text[stream->at] == 0)
        return fake_wait(stream->server, 600000) ? -1 : 0;
    *at = text[stream->at++];
    return 1;
}

static void answer_watch(struct fake_exchange *exchange, struct fake_server *server)
{
    static struct stream streams[64];
    unsigned number = atomic_fetch_add(&world.n_watches, 1);
    const char *has_leader = exchange->header(exchange, "Grpc-Metadata-hasleader");
    need(has_leader && strcmp(has_leader, "true") == 0, "hasleader");
    need(strstr(exchange->body, "\"start_revision\":\"41\"") != NULL, exchange->body);
    streams[number % 64] = (struct stream){.server = server, .number = number};
    exchange->more = more;
    exchange->more_arg = &streams[number % 64];
}

static void refuse(struct fake_exchange *exchange, int status, const char *text)
{
    exchange->status = status;
    exchange->text = text;
}

/* Whether the request may go on: the first token that the server gives is good for the config alone. */
static bool is_let_in(struct fake_exchange *exchange)
{
    const char *token = exchange->header(exchange, "Authorization");
    if (!world.wants_token || (token && strcmp(token, "second") == 0))
        return true;
    if (token && strcmp(token, "first") == 0 && strcmp(exchange->path, "/v3/kv/txn") == 0)
        return true;
    atomic_fetch_add(&world.n_tokens_refused, 1);
    refuse(exchange, 401, "{\"error\":\"x\",\"message\":\"etcdserver: invalid auth token\",\"code\":16}");
    return false;
}

static void answer(void *arg, struct fake_exchange *exchange)
{
    const char *path = exchange->path;
    if (arg == &world.first_hangs && world.first_hangs)
        fake_wait(world.server, 600000);
    else if (strcmp(path, "/v3/auth/authenticate") == 0) {
        need(strcmp(exchange->body, "{\"name\":\"me\",\"password\":\"secret\"}") == 0, exchange->body);
        exchange->text = atomic_fetch_add(&world.n_logins, 1) ? "{\"token\":\"second\"}" : "{\"token\":\"first\"}";
    } else if (!is_let_in(exchange)) {
        return;
    } else if (strcmp(path, "/v3/kv/txn") == 0) {
        exchange->text = world.config ? world.config : "{\"header\":{\"revision\":\"1\"},\"succeeded\":true}";
    } else if (strcmp(path, "/v3/kv/range") == 0) {
        exchange->text = answer_range(exchange);
    } else if (strcmp(path, "/v3/watch") == 0) {
        answer_watch(exchange, arg ? world.server : world.second);
    } else if (strcmp(path, "/v3/lease/grant") == 0) {
        atomic_fetch_add(&world.n_grants, 1);
        exchange->text = "{\"ID\":\"77\",\"TTL\":\"2\"}";
    } else if (strcmp(path, "/v3/kv/put") == 0) {
        atomic_fetch_add(&world.n_puts, 1);
        need(strstr(exchange->body, "\"lease\":\"77\"") != NULL, exchange->body);
        exchange->text = "{\"header\":{\"revision\":\"41\"}}";
        if (world.put_refused)
            refuse(exchange, 404, "{\"error\":\"x\",\"message\":\"requested lease not found\",\"code\":5}");
    } else if (strcmp(path, "/v3/lease/keepalive") == 0) {
        exchange->text = world.kept ? "{\"result\":{\"ID\":\"77\",\"TTL\":\"2\"}}" : "{\"result\":{\"ID\":\"77\"}}";
    } else {
        refuse(exchange, 404, "Not Found");
    }
}

static void answer_nonsense(void *arg, struct fake_exchange *exchange)
{
    exchange->status = *(int *)arg;
    exchange->text = "<html>no etcd here</html>";
}

/* ── the tests ── */

static int set_up(void **state)
{
    static char url[64];
    (void)state;
    memset(&world, 0, sizeof world);
    for (uint32_t i = 0; i < KEYS; i++)
        world.pages[i] = page_of(i);
    world.kept = true;
    world.server = fake_start(0, NULL, answer, &world.first_hangs);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", fake_port(world.server));
    endpoints[0] = url;
    nodes_init(&world.nodes, endpoints, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    nodes_free(&world.nodes);
    fake_stop(world.server);
    for (uint32_t i = 0; i < KEYS; i++)
        free(world.pages[i]);
    return world.bad_request;
}

/* All pages were read, and one deletion came by a watch. */
static bool is_following(const struct nodes *nodes, uint32_t value)
{
    return nodes->all[1].n_listed == value && nodes->all[1].n_vanished == 1 && nodes->all[1].n_granted > 0;
}

/* Keys come page by page, at one revision, then changes, however their bytes are cut. */
static void test_pages(void **state)
{
    (void)state;
    const struct node *node = nodes_start(&world.nodes, 1);
    assert_true(nodes_until(&world.nodes, is_following, KEYS));
    assert_int_equal(world.n_ranges, KEYS);
    assert_int_equal(world.n_watches, 1);
    assert_int_equal(world.n_grants, 1);
    assert_int_equal(world.n_puts, 1);
    assert_true(node->is_up && node->bound == MAP_BOUND && node->n_down == 0);
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(node->at_url[i], 1);
}

/* Whatever ends a watch, all keys are read again, and a new watch begins. */
static void test_watch_ends(void **state)
{
    (void)state;
    atomic_bool *const ways[] = {&world.compacts, &world.no_leader, &world.garbage};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        *ways[i] = true;
        world.n_watches = world.n_ranges = 0;
        nodes_start(&world.nodes, 1);
        assert_true(nodes_until(&world.nodes, is_following, 2 * KEYS));
        assert_int_equal(world.n_ranges, 2 * KEYS);
        assert_int_equal(world.n_watches, 2);
        nodes_stop(&world.nodes, 1);
        *ways[i] = false;
    }
}

static bool has_lost(const struct nodes *nodes, uint32_t value)
{
    return nodes->all[1].n_lost > 0 && world.n_puts >= value;
}

/* A keepalive's answer without a time to live: a lease is granted anew, and the key put again. */
static void test_dead_lease(void **state)
{
    (void)state;
    world.kept = false;
    nodes_start(&world.nodes, 1);
    assert_true(nodes_until(&world.nodes, has_lost, 2));
    assert_true(world.n_grants >= 2);
}

static bool has_failed(const struct nodes *nodes, uint32_t value)
{
    return nodes->all[1].n_failed >= value;
}

/* A lease that is never found is granted anew once in an attempt, not for ever. */
static void test_put_refused(void **state)
{
    (void)state;
    world.put_refused = true;
    nodes_start(&world.nodes, 1);
    assert_true(nodes_until(&world.nodes, has_failed, 2));
    assert_in_range(world.n_grants, 2, 3); /* at most one of a third attempt */
    world.put_refused = false;
    assert_true(nodes_until(&world.nodes, is_following, KEYS));
}

/* A daemon of another format does not join: it lists nobody and puts no key. */
static void test_format(void **state)
{
    (void)state;
    world.config = "{\"header\":{\"revision\":\"9\"},\"responses\":[{\"response_range\":{\"kvs\":[{\"value\":"
                   "\"eyJmb3JtYXQiOjIsImJvdW5kIjoxMDV9\"}]}}]}"; /* {"format":2,"bound":105} */
    struct node *node = nodes_start(&world.nodes, 1);
    assert_true(nodes_until(&world.nodes, has_failed, 1));
    assert_int_equal(node->n_listed + node->bound, 0);
    assert_int_equal(world.n_ranges + world.n_grants + world.n_puts, 0);
}

/* What others have agreed on counts, not one's own proposal. */
static void test_bound(void **state)
{
    (void)state;
    world.config = "{\"header\":{\"revision\":\"9\"},\"responses\":[{\"response_range\":{\"kvs\":[{\"value\":"
                   "\"eyJmb3JtYXQiOjEsImJvdW5kIjoxMjB9\"}]}}]}"; /* {"format":1,"bound":120} */
    struct node *node = nodes_start(&world.nodes, 1);
    assert_true(nodes_until(&world.nodes, is_following, KEYS));
    assert_int_equal(node->bound, 120);
}

/* Endpoints that are not there, or are no etcd, or have trouble, are passed over; nothing is down as long as one
 * answers. */
static void test_endpoints(void **state)
{
    (void)state;
    char urls[2][64];
    int found = 200, trouble = 503;
    struct fake_server *no_etcd = fake_start(0, NULL, answer_nonsense, &found);
    struct fake_server *troubled = fake_start(0, NULL, answer_nonsense, &trouble);
    snprintf(urls[0], sizeof urls[0], "http://127.0.0.1:%u", fake_port(no_etcd));
    snprintf(urls[1], sizeof urls[1], "http://127.0.0.1:%u", fake_port(troubled));
    endpoints[3] = endpoints[0];
    endpoints[0] = "http://127.0.0.1:1"; /* nobody may listen there but root */
    endpoints[1] = urls[0];
    endpoints[2] = urls[1];
    world.nodes.n_endpoints = 4;
    struct node *node = nodes_start(&world.nodes, 1);
    assert_true(nodes_until(&world.nodes, is_following, KEYS));
    assert_int_equal(node->n_down, 0);
    nodes_stop(&world.nodes, 1);
    world.nodes.n_endpoints = 3;
    nodes_start(&world.nodes, 1);
    assert_true(nodes_until(&world.nodes, nodes_are_down, 0));
    nodes_stop(&world.nodes, 1);
    fake_stop(no_etcd);
    fake_stop(troubled);
}

static bool has_moved(const struct nodes *nodes, uint32_t value)
{
    return world.n_watches == value && world.n_ranges == value * KEYS && nodes->all[1].n_vanished == value;
}

/* A member that hangs keeps its connections: the watch there would be silent for ever. It goes to another member along
 * with the requests. */
static void test_hangs(void **state)
{
    (void)state;
    char url[64];
    world.second = fake_start(0, NULL, answer, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", fake_port(world.second));
    endpoints[1] = url;
    world.nodes.n_endpoints = 2;
    struct node *node = nodes_start(&world.nodes, 1);
    assert_true(nodes_until(&world.nodes, is_following, KEYS));
    world.first_hangs = true;
    assert_true(nodes_until(&world.nodes, has_moved, 2));
    assert_int_equal(node->n_down + node->n_failed + node->n_lost, 0);
    nodes_stop(&world.nodes, 1);
    fake_stop(world.second);
}

/* A node logs in before anything else, and again when its token is refused. */
static void test_token(void **state)
{
    (void)state;
    world.wants_token = true;
    world.nodes.user = "me";
    world.nodes.password = "secret";
    struct node *node = nodes_start(&world.nodes, 1);
    assert_true(nodes_until(&world.nodes, is_following, KEYS));
    assert_int_equal(world.n_logins, 2);
    assert_true(world.n_tokens_refused >= 1);
    assert_int_equal(node->n_down, 0);
}

static void ignore(void *arg, const struct discovery_event *event)
{
    (void)arg, (void)event;
}

/* Settings that cannot work are refused at the start, with a reason. */
static void test_settings(void **state)
{
    (void)state;
    struct net_client *client;
    struct etcd *etcd;
    struct error err;
    const char *const good[] = {"http://h:2379"}, *const bad[] = {"h:2379"}, *const tls[] = {"https://h:2379"};
    const struct etcd_config all[] = {
        {good, 0, NULL, NULL, NULL, "c", 15, 105, ignore, NULL},
        {bad, 1, NULL, NULL, NULL, "c", 15, 105, ignore, NULL},
        {tls, 1, NULL, NULL, NULL, "c", 15, 105, ignore, NULL},
        {good, 1, NULL, NULL, NULL, "", 15, 105, ignore, NULL},
        {good, 1, NULL, NULL, NULL, "a/b", 15, 105, ignore, NULL},
        {good, 1, NULL, NULL, NULL, "a\n", 15, 105, ignore, NULL},
        {good, 1, NULL, NULL, NULL, "c", 1, 105, ignore, NULL},
        {good, 1, NULL, "me", NULL, "c", 15, 105, ignore, NULL},
    };
    assert_int_equal(net_client_start(1, &client, NULL), 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        err.text[0] = 0;
        assert_int_equal(etcd_start(&all[i], client, &etcd, &err), LARDER_EINVAL);
        assert_true(strncmp(err.text, "cluster.", 8) == 0);
    }
    net_client_stop(client);
    etcd_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_watch_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dead_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_put_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_format, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_endpoints, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hangs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_token, set_up, tear_down),
        cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
