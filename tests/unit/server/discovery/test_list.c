/* test_list.c: nodes found by their addresses, or by a name in DNS: those that answer the probe of this cluster are
 * told, and nobody else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/check.h"
#include "common/mailbox.h"
#include "server/cluster/peer_wire.h"
#include "server/discovery/dns.h"
#include "server/discovery/hosts.h"
#include "server/discovery/list.h"
#include "tests/unit/common/net/fake_server.h"

#define CLUSTER 0x1234u
#define PATIENCE_MS 60000

struct letter {
    enum discovery_event_type type;
    struct members_event members;
    struct discovery_node node;
};

static struct mailbox *inbox;
static struct net_client *client;
static struct list *list;

static void tell(void *arg, const struct discovery_event *event)
{
    static struct letter letter;
    (void)arg;
    letter = (struct letter){.type = event->type, .members = event->members};
    if (event->node)
        letter.node = *event->node;
    CHECK(mailbox_push(inbox, &letter) == 0);
}

/* A node that answers probes; arg is the first byte of its id. */
static void answer(void *arg, struct fake_exchange *exchange)
{
    static _Thread_local uint8_t answer_bytes[512];
    struct peer_message message;
    size_t len = 0;
    bool ok = peer_decode((const uint8_t *)exchange->body, exchange->body_bytes, &message, NULL) == 0 &&
              message.type == PEER_PROBE && message.cluster == CLUSTER && message.node[0] == 99 && message.boot == 5;
    struct peer_message alive = {.type = PEER_ALIVE, .boot = 70};
    alive.alive = (struct peer_alive){.node = {*(uint8_t *)arg, 1}, .prep_id = 3, .revision = 8};
    alive.alive.version = (struct peer_blob){(const uint8_t *)"1.2.3", 5};
    CHECK(peer_encode(&alive, answer_bytes, sizeof answer_bytes, &len) == 0);
    exchange->status = ok && strcmp(exchange->path, "/1/probe") == 0 ? 200 : 403;
    exchange->text = (const char *)answer_bytes;
    exchange->text_bytes = len;
}

static void answer_wrong(void *arg, struct fake_exchange *exchange)
{
    (void)arg;
    exchange->text = "no node";
}

static int set_up(void **state)
{
    struct list_config config = {.cluster = CLUSTER, .self = {99}, .boot = 5, .tell = tell};
    (void)state;
    assert_int_equal(mailbox_create(1024, sizeof(struct letter), &inbox), 0);
    assert_int_equal(net_client_start(4, &client, NULL), 0);
    assert_int_equal(list_start(&config, client, &list, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    net_client_stop(client);
    list_destroy(list);
    mailbox_destroy(inbox);
    return 0;
}

static const struct letter *next(void)
{
    static struct letter letter;
    assert_int_equal(mailbox_pop(inbox, &letter, PATIENCE_MS), 0);
    return &letter;
}

static void expect_listed(uint8_t id, const struct fake_server *server)
{
    const struct letter *letter = next();
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u", fake_port(server));
    assert_int_equal(letter->type, DISCOVERY_MEMBERS);
    assert_int_equal(letter->members.type, MEMBERS_LISTED);
    assert_int_equal(letter->members.id[0], id);
    assert_memory_equal(letter->members.id, letter->node.id, sizeof letter->node.id);
    assert_true(letter->members.boot == 70 && letter->members.weight == 1 && letter->node.prep_id == 3);
    assert_string_equal(letter->node.url, url);
    assert_string_equal(letter->node.name, url + strlen("http://"));
    assert_string_equal(letter->node.version, "1.2.3");
}

static void expect_vanished(uint8_t id)
{
    const struct letter *letter = next();
    assert_int_equal(letter->members.type, MEMBERS_VANISHED);
    assert_int_equal(letter->members.id[0], id);
}

/* Whoever answers as a node of this cluster is listed, and vanishes with its address; one that comes late is found. */
static void test_addresses(void **state)
{
    (void)state;
    uint8_t ids[] = {1, 2};
    char texts[3][32];
    const char *const all[] = {texts[0], texts[1], texts[2]};
    struct fake_server *first = fake_start(0, NULL, answer, &ids[0]), *wrong = fake_start(0, NULL, answer_wrong, NULL);
    struct fake_server *late = fake_start(0, NULL, answer, &ids[1]);
    uint16_t late_port = fake_port(late);
    fake_stop(late);
    sprintf(texts[0], "127.0.0.1:%u", fake_port(first));
    sprintf(texts[1], "127.0.0.1:%u", fake_port(wrong));
    sprintf(texts[2], "127.0.0.1:%u", late_port);
    assert_int_equal(next()->type, DISCOVERY_UP);
    assert_int_equal(list_set(list, all, 3), 0);
    expect_listed(1, first);
    late = fake_start(late_port, NULL, answer, &ids[1]);
    expect_listed(2, late);
    assert_int_equal(list_set(list, all + 1, 2), 0);
    expect_vanished(1);
    assert_int_equal(list_set(list, all, 0), 0);
    expect_vanished(2);
    fake_stop(first);
    fake_stop(wrong);
    fake_stop(late);
}

/* A name in DNS stands for its addresses; one that is unknown is told as such. */
static void test_dns(void **state)
{
    (void)state;
    uint8_t id = 3;
    char text[32];
    struct dns *dns;
    struct fake_server *server = fake_start(0, NULL, answer, &id);
    sprintf(text, "127.0.0.1:%u", fake_port(server));
    assert_int_equal(next()->type, DISCOVERY_UP);
    assert_int_equal(dns_start(text, list, &dns, NULL), 0);
    expect_listed(3, server);
    dns_stop(dns);
    assert_int_equal(dns_start("nobody.invalid:9451", list, &dns, NULL), 0);
    assert_int_equal(next()->type, DISCOVERY_DOWN);
    dns_stop(dns);
    dns_stop(NULL);
    struct error err;
    assert_int_equal(dns_start("nobody", list, &dns, &err), LARDER_EINVAL);
    fake_stop(server);
}

static void test_hosts(void **state)
{
    (void)state;
    const char *const good[] = {"a:1", "a-b.c_d:65535", "10.0.0.1:9451", "[::1]:9451", "[fe80::1.2.3.4]:1"};
    const char *const bad[] = {"",      "a",    "a:",  ":1",    "a:0",   "a:65536", "a:123456", "a:1x",
                               "::1:1", "[]:1", "[:1", "a/b:1", "a b:1", "a:-1",    "a@b:1",    "http://a:1"};
    struct slurm_hosts hosts;
    struct error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(hosts_check(good[i], &err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hosts_check(bad[i], &err) != LARDER_EINVAL)
            fail_msg("'%s' was taken", bad[i]);
    const char *const entries[] = {"m1:7", "slurm"};
    assert_int_equal(hosts_list(entries, 2, "n[01-02]", 9451, &hosts, &err), 0);
    assert_int_equal(hosts.count, 3);
    assert_string_equal(hosts.names[0], "m1:7");
    assert_string_equal(hosts.names[2], "n02:9451");
    slurm_free(&hosts);
    assert_int_equal(hosts_list(entries, 2, NULL, 9451, &hosts, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "SLURM_JOB_NODELIST"));
    assert_int_equal(hosts_list(entries, 2, "n[", 9451, &hosts, &err), LARDER_EINVAL);
    assert_int_equal(hosts_list(bad + 1, 1, NULL, 9451, &hosts, &err), LARDER_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_addresses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dns, set_up, tear_down),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
