/* test_peering_hostile.c: what is no message of this cluster is refused, whoever sends it, and never becomes an event
 * with a message; and what etcd says of the nodes is followed. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <cmocka.h>

#include "common/check.h"
#include "server/discovery/base64.h"
#include "server/discovery/node_value.h"
#include "sides.h"
#include "tests/unit/common/net/asking.h"
#include "tests/unit/common/net/fake_server.h"

#define ANSWER_MAX 4096
#define OTHER 50 /* the number of the node that the test plays */

/* ── requests ── */

static struct asking asking = ASKING_INIT;

static int post(struct net_client *client, const struct side *side, const char *path, const void *body, size_t bytes)
{
    uint8_t answer[ANSWER_MAX];
    char url[128];
    snprintf(url, sizeof url, "http://%s%s", side->address, path);
    struct net_request request = {
        .url = url, .body = body, .body_bytes = bytes, .answer = answer, .answer_max = sizeof answer};
    struct net_result result = asking_ask(&asking, client, &request);
    assert_int_equal(result.code, 0);
    return result.status;
}

static size_t encode(const struct peer_message *message, uint8_t *out)
{
    size_t len = 0;
    CHECK(peer_encode(message, out, ANSWER_MAX, &len) == 0);
    return len;
}

/* Requests of other clusters, of other versions, by other paths and such that are none are refused with a status. */
static void test_requests(void **state)
{
    (void)state;
    struct side *side = side_begin(1);
    struct peering_config config = side_config(side);
    struct net_client *client;
    uint8_t body[ANSWER_MAX], wrong[ANSWER_MAX];
    struct peer_message message = {.type = PEER_PROBE, .node = {OTHER}, .boot = 5};
    side_start(side, &config);
    assert_int_equal(net_client_start(4, &client, NULL), 0);

    message.cluster = XXH3_64bits(SIDES_CLUSTER, strlen(SIDES_CLUSTER));
    size_t len = encode(&message, body);
    assert_int_equal(post(client, side, "/1/probe", body, len), 200);
    assert_int_equal(side->n_probes, 1);
    assert_int_equal(post(client, side, "/1/next", body, len), 404);
    assert_int_equal(post(client, side, "/1/nothing", body, len), 404);
    assert_int_equal(post(client, side, "/", body, len), 404);
    assert_int_equal(post(client, side, "/1/probe", body, len - 1), 400);
    assert_int_equal(post(client, side, "/1/probe", "", 0), 400);
    assert_int_equal(post(client, side, "/1/probe", "LDRP", 4), 400);
    memcpy(wrong, body, len);
    wrong[4]++; /* the version */
    assert_int_equal(post(client, side, "/1/probe", wrong, len), 400);
    message.cluster ^= 1;
    assert_int_equal(post(client, side, "/1/probe", wrong, encode(&message, wrong)), 400);
    message = (struct peer_message){.type = PEER_DONE};
    assert_int_equal(post(client, side, "/1/probe", wrong, encode(&message, wrong)), 400);
    assert_int_equal(post(client, side, "/1/probe", body, len), 200);
    assert_int_equal(side->n_probes, 2);
    assert_int_equal(mailbox_length(side->asked), 0);
    net_client_stop(client);
    side_end(side);
}

/* ── answers ── */

enum trick {
    SHORT_PAYLOAD,
    LONG_PAYLOAD,
    CUT_HEAD,
    GARBAGE,
    EMPTY_BODY,
    VERSION,
    A_REQUEST,
    STATUS,
    FORBIDDEN,
    STRANGER
};

static struct {
    enum trick trick;
    struct side side; /* of the node that is played; only its id and boot */
    uint8_t answer[ANSWER_MAX];
} world;

static size_t make_batch(uint8_t *out)
{
    uint8_t entries[2 * PEER_ENTRY_BYTES];
    static const uint8_t payload[10] = {1, 2, 3};
    for (uint32_t i = 0; i < 2; i++)
        peer_entry_put(entries, i, &(struct peer_entry){i, 5, XXH3_64bits(payload + 5 * i, 5)});
    struct peer_message batch = {.type = PEER_BATCH};
    batch.batch = (struct peer_batch){.guest = 1, .seq = 1, .count = 2, .entries = {entries, sizeof entries}};
    size_t len = encode(&batch, out);
    memcpy(out + len, payload, sizeof payload);
    return len + sizeof payload;
}

static size_t make_alive(uint8_t *out, uint8_t id)
{
    struct peer_message alive = {.type = PEER_ALIVE, .boot = world.side.boot, .alive.node = {id}};
    return encode(&alive, out);
}

static size_t make_trick(uint8_t *out, int *status)
{
    static const char garbage[] = "<html>no daemon here</html>";
    struct peer_message request = {.type = PEER_PROBE};
    size_t len = make_batch(out);
    switch (world.trick) {
    case SHORT_PAYLOAD: return len - 1;
    case LONG_PAYLOAD: out[len] = 0; return len + 1;
    case CUT_HEAD: return 40;
    case GARBAGE: memcpy(out, garbage, sizeof garbage); return sizeof garbage;
    case EMPTY_BODY: return 0;
    case VERSION: out[0]++; return len;
    case A_REQUEST: return encode(&request, out);
    case STATUS: *status = 500; return len;
    case FORBIDDEN: *status = 403; return len;
    case STRANGER: return make_alive(out, OTHER + 1);
    }
    return 0;
}

/* Probes of discovery are answered well; all that peering_ask sends, with the trick. */
static void play(void *arg, struct fake_exchange *exchange)
{
    static _Thread_local uint8_t answer[ANSWER_MAX];
    (void)arg;
    bool is_found = strcmp(exchange->path, "/1/probe") == 0 && world.trick != STRANGER;
    size_t len = is_found ? make_alive(answer, OTHER) : make_trick(answer, &exchange->status);
    const char *type = exchange->header(exchange, "Content-Type");
    if (!type || strcmp(type, "application/x-larder") != 0)
        exchange->status = 415;
    exchange->text = len ? (const char *)answer : "";
    exchange->text_bytes = len;
}

static int code_of(struct side *side, enum peer_type type)
{
    struct peer_message request = {.type = type};
    if (type == PEER_NEXT)
        request.next = (struct peer_next){.guest = 1, .seq = 1, .n = 2};
    assert_int_equal(peering_ask(side->peering, world.side.id, &request, 3, false, 60000, NULL), 0);
    return side_code(side, 3);
}

/* Whatever comes instead of an answer has a code and no message. */
static void test_answers(void **state)
{
    static const struct {
        enum trick trick;
        int code;
    } tricks[] = {{SHORT_PAYLOAD, LARDER_EFORMAT}, {LONG_PAYLOAD, LARDER_EFORMAT}, {CUT_HEAD, LARDER_EFORMAT},
                  {GARBAGE, LARDER_EVERSION},      {EMPTY_BODY, LARDER_EFORMAT},   {VERSION, LARDER_EVERSION},
                  {A_REQUEST, LARDER_EFORMAT},     {STATUS, LARDER_EIO},           {FORBIDDEN, LARDER_EPERM}};
    (void)state;
    world.side.id[0] = OTHER;
    world.side.boot = 5;
    world.trick = GARBAGE;
    struct fake_server *server = fake_start(0, NULL, play, NULL);
    struct side *side = side_begin(2);
    struct peering_config config = side_config(side);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", fake_port(server));
    config.nodes = &(const char *){address};
    config.n_nodes = 1;
    side_start(side, &config);
    side_wait_listed(side, &world.side);
    assert_int_equal(code_of(side, PEER_PROBE), 0);
    for (size_t i = 0; i < sizeof tricks / sizeof *tricks; i++) {
        world.trick = tricks[i].trick;
        int code = code_of(side, PEER_NEXT);
        if (code != tricks[i].code)
            fail_msg("trick %zu: %s", i, larder_err_name(code));
    }
    world.trick = STRANGER;
    assert_int_equal(code_of(side, PEER_PROBE), LARDER_EGONE);
    side_end(side);
    fake_stop(server);
}

/* ── etcd ── */

static struct {
    struct fake_server *server;
    char *page;
    char own_url[64];
    atomic_uint n_puts, n_kept, n_revoked;
    atomic_bool wrong_key;
} etcd;

/* A key of the cluster's nodes, as etcd's gateway shows it. */
static char *key_of(uint8_t id, const char *url)
{
    struct discovery_node node = {.id = {id}, .boot = 100u + id, .weight = 1};
    char digits[NODE_ID_DIGITS + 1], key[128], *value, *text;
    snprintf(node.name, sizeof node.name, "node");
    snprintf(node.url, sizeof node.url, "%s", url);
    node_id_write(node.id, digits);
    snprintf(key, sizeof key, "/larder/1/" SIDES_CLUSTER "/nodes/%s", digits);
    CHECK(node_value_write(&node, &value, NULL) == 0);
    char *key_text = base64_encode(key, strlen(key)), *value_text = base64_encode(value, strlen(value));
    CHECK(asprintf(&text, "{\"key\":\"%s\",\"value\":\"%s\"}", key_text, value_text) > 0);
    free(value);
    free(key_text);
    free(value_text);
    return text;
}

/* Whether a put has this node's address, version, roots and preparation. */
static bool is_own_key(const char *body)
{
    struct discovery_node node = {.url = ""};
    const char *at = strstr(body, "\"value\":\"");
    if (!at)
        return false;
    at += strlen("\"value\":\"");
    size_t len = 0;
    char *value = NULL;
    bool same = base64_decode(at, strcspn(at, "\""), &value, &len) == 0 &&
                node_value_read(value, len, &node, NULL) == 0 && strcmp(node.url, etcd.own_url) == 0 &&
                node.n_roots == 2 && strcmp(node.roots, "/data") == 0 && strcmp(node.roots + 6, "/more") == 0 &&
                node.prep_id == 77 && strcmp(node.version, LARDER_VERSION) == 0 && node.leaving == (etcd.n_puts > 0);
    free(value);
    return same;
}

static long nothing_more(void *arg, char *at, size_t cap)
{
    (void)arg, (void)at, (void)cap;
    return fake_wait(etcd.server, 600000) ? -1 : 0;
}

static void answer_etcd(void *arg, struct fake_exchange *exchange)
{
    const char *path = exchange->path;
    (void)arg;
    if (strcmp(path, "/v3/kv/txn") == 0) {
        exchange->text = "{\"header\":{\"revision\":\"1\"},\"succeeded\":true}";
    } else if (strcmp(path, "/v3/kv/range") == 0) {
        exchange->text = etcd.page;
    } else if (strcmp(path, "/v3/watch") == 0) {
        exchange->more = nothing_more;
    } else if (strcmp(path, "/v3/lease/grant") == 0) {
        exchange->text = "{\"ID\":\"77\",\"TTL\":\"2\"}";
    } else if (strcmp(path, "/v3/kv/put") == 0) {
        etcd.wrong_key = etcd.wrong_key || !is_own_key(exchange->body);
        etcd.n_puts++;
        exchange->text = "{\"header\":{\"revision\":\"41\"}}";
    } else if (strcmp(path, "/v3/lease/keepalive") == 0) {
        etcd.n_kept++;
        exchange->text = "{\"result\":{\"ID\":\"77\",\"TTL\":\"2\"}}";
    } else {
        etcd.n_revoked += strcmp(path, "/v3/lease/revoke") == 0;
        exchange->text = "{\"header\":{\"revision\":\"42\"}}";
    }
}

static void wait_for(struct side *side, enum members_event_type type)
{
    struct peering_event *event = side_take(side->members);
    assert_int_equal(event->members.type, type);
    peering_event_free(event);
}

/* Nodes of etcd are listed with their addresses, this one among them, but for one that talks otherwise. This node's
 * key has all that others need, and is gone when a peering that leaves has stopped. */
static void test_etcd(void **state)
{
    (void)state;
    struct side *other = side_begin(1), *side = side_begin(2);
    struct peering_config config = side_config(other);
    char url[128], endpoint[64];
    side_start(other, &config);
    etcd.server = fake_start(0, NULL, answer_etcd, NULL);
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", fake_port(etcd.server));
    snprintf(url, sizeof url, "http://%s", other->address);
    snprintf(etcd.own_url, sizeof etcd.own_url, "http://node-2.invalid:9451");
    char *secure = key_of(3, "https://127.0.0.1:1"), *first = key_of(1, url), *own = key_of(2, etcd.own_url);
    CHECK(asprintf(&etcd.page, "{\"header\":{\"revision\":\"40\"},\"kvs\":[%s,%s,%s]}", secure, first, own) > 0);
    config = side_config(side);
    config.discovery = PEERING_ETCD;
    config.advertise = "node-2.invalid:9451";
    config.nodes = &(const char *){endpoint};
    config.n_nodes = 1;
    config.lease_s = 10;
    config.roots = (const char *const[]){"/data", "/more"};
    config.n_roots = 2;
    side_start(side, &config);
    side_wait_listed(side, other);
    side_wait_listed(side, side);
    struct peer_message probe = {.type = PEER_PROBE};
    assert_int_equal(peering_ask(side->peering, other->id, &probe, 1, false, 60000, NULL), 0);
    assert_int_equal(side_code(side, 1), 0);
    assert_int_equal(peering_ask(side->peering, (const uint8_t[PEER_NODE_BYTES]){3}, &probe, 1, false, 1000, NULL),
                     LARDER_EGONE);
    peering_register(side->peering, false);
    wait_for(side, MEMBERS_LEASE_GRANTED);
    peering_keepalive(side->peering);
    wait_for(side, MEMBERS_LEASE_GRANTED);
    peering_register(side->peering, true);
    wait_for(side, MEMBERS_LEASE_GRANTED);
    assert_true(etcd.n_puts == 2 && etcd.n_kept == 1 && !etcd.wrong_key && etcd.n_revoked == 0);
    peering_leave(side->peering);
    peering_stop(side->peering);
    assert_int_equal(etcd.n_revoked, 1);
    peering_register(side->peering, false);
    peering_keepalive(side->peering);
    peering_leave(side->peering);
    peering_register(other->peering, false); /* a list has no keys */
    peering_keepalive(other->peering);
    peering_leave(other->peering);
    side_end(side);
    side_end(other);
    fake_stop(etcd.server);
    free(etcd.page);
    free(secure);
    free(first);
    free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_etcd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
