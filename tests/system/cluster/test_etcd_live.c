/* test_etcd_live.c: nodes that find each other in a real etcd: they come and go, etcd dies and comes back, hangs for
 * longer than the leases last, is compacted, wants a login. What is asserted is who sees whom, not when. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/log.h"
#include "tests/unit/common/net/asking.h"
#include "tests/unit/common/net/certs.h"
#include "tests/unit/server/discovery/nodes.h"

#define TTL_S 2

static struct {
    char folder[64], client_url[64], peer_url[64], log[128];
    pid_t pid;
    struct nodes nodes;
} world;

/* A port that nobody has, and that no test gets as long as this process lives: as free_port of
 * tests/system/python/system.py. */
static uint16_t free_port(void)
{
    for (unsigned i = 0; i < 12000; i++) {
        uint16_t port = (uint16_t)(20000 + ((unsigned)getpid() * 7919 + i) % 12000);
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "larder-test-port-%u", port);
        int taken = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_free = bind(taken, (struct sockaddr *)&name,
                            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) == 0 &&
                       bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        if (is_free)
            return port;
        close(taken);
    }
    fail_msg("no free port");
    return 0;
}

/* PEM files of the folder, for etcd and for the nodes. */
static const char *pem(const char *name)
{
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", world.folder, name);
    return path;
}

static void start_etcd(void)
{
    char cluster[128];
    snprintf(cluster, sizeof cluster, "default=%s", world.peer_url);
    const char *arguments[32] = {"etcd",           "--data-dir",
                                 pem("data"),      "--listen-client-urls",
                                 world.client_url, "--advertise-client-urls",
                                 world.client_url, "--listen-peer-urls",
                                 world.peer_url,   "--initial-advertise-peer-urls",
                                 world.peer_url,   "--initial-cluster",
                                 cluster,          "--log-level",
                                 "error"};
    const char *const tls[] = {"--client-cert-auth", "--cert-file",       pem("etcd.pem"),   "--key-file",
                               pem("etcd.key"),      "--trusted-ca-file", pem("ours.ca.pem")};
    if (world.nodes.tls)
        memcpy(arguments + 15, tls, sizeof tls);
    world.pid = fork();
    assert_true(world.pid >= 0);
    if (world.pid > 0)
        return;
    if (!freopen(world.log, "a", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        _exit(126);
    execvp("etcd", (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static void kill_etcd(void)
{
    if (world.pid <= 0)
        return;
    kill(world.pid, SIGKILL);
    waitpid(world.pid, NULL, 0);
    world.pid = 0;
}

static int set_up(void **state)
{
    static const char *endpoints[1];
    (void)state;
    snprintf(world.folder, sizeof world.folder, "%s/larder-etcd-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    assert_non_null(mkdtemp(world.folder));
    snprintf(world.log, sizeof world.log, "%s/log", world.folder);
    snprintf(world.client_url, sizeof world.client_url, "http://127.0.0.1:%u", free_port());
    snprintf(world.peer_url, sizeof world.peer_url, "http://127.0.0.1:%u", free_port());
    endpoints[0] = world.client_url;
    nodes_init(&world.nodes, endpoints, 1);
    world.nodes.lease_s = TTL_S;
    start_etcd();
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    nodes_free(&world.nodes);
    kill_etcd();
    snprintf(command, sizeof command, "rm -r %s", world.folder);
    return system(command);
}

/* Asks etcd directly, as its administrator would. */
static void ask(const char *path, const char *body)
{
    struct asking asking = ASKING_INIT;
    struct net_client *client;
    char url[128], room[4096];
    assert_int_equal(net_client_start(1, &client, NULL), 0);
    snprintf(url, sizeof url, "%s/v3/%s", world.client_url, path);
    struct net_request request = {
        .url = url, .body = body, .body_bytes = strlen(body), .answer = room, .answer_max = sizeof room};
    struct net_result result = asking_ask(&asking, client, &request);
    net_client_stop(client);
    if (result.code || result.status != 200)
        fail_msg("%s: %d %.*s", asking.text, result.status, (int)result.len_bytes, room);
}

static void start_nodes(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        nodes_start(&world.nodes, i);
    assert_true(nodes_until(&world.nodes, nodes_see, count));
}

static bool is_gone(const struct nodes *nodes, uint32_t value)
{
    return members_state(&nodes->all[0].members, nodes->all[value].self.id) == MEMBER_LOST;
}

static bool has_left(const struct nodes *nodes, uint32_t value)
{
    return nodes->all[value].has_left;
}

/* Nodes see each other with all that they say of themselves, and the config that the first of them put; one that leaves
 * is gone, and one that is killed is gone when its lease is over. */
static void test_come_and_go(void **state)
{
    (void)state;
    struct nodes *nodes = &world.nodes;
    start_nodes(4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(nodes->all[i].bound, MAP_BOUND);
        for (uint32_t j = 0; j < 4; j++)
            assert_int_equal(nodes->all[i].members.view.nodes[j].weight, 1 + j);
        for (uint32_t j = 0; j < 4; j++)
            assert_true(nodes->all[i].at_url[j] > 0);
    }
    nodes->all[3].answers = false;
    assert_int_equal(etcd_leave(nodes->all[3].etcd), 0);
    assert_true(nodes_until(nodes, has_left, 3));
    assert_true(nodes_until(nodes, is_gone, 3));
    nodes->all[2].answers = false;
    nodes_stop(nodes, 2);
    assert_true(nodes_until(nodes, is_gone, 2));
    assert_true(nodes_until(nodes, nodes_see, 2));
}

/* While etcd is dead nothing changes; when it is back so is everybody, without a new key. */
static void test_killed(void **state)
{
    (void)state;
    struct nodes *nodes = &world.nodes;
    start_nodes(3);
    for (uint32_t i = 0; i < 3; i++)
        nodes->all[i].least_view = UINT32_MAX, nodes->all[i].n_down = 0;
    kill_etcd();
    assert_true(nodes_until(nodes, nodes_are_down, 0));
    nodes_start(nodes, 3);
    nodes->all[3].least_view = 0;
    start_etcd();
    assert_true(nodes_until(nodes, nodes_are_up, 0));
    assert_true(nodes_until(nodes, nodes_see, 4));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(nodes->all[i].least_view, 3);
        assert_int_equal(nodes->all[i].n_down, 1);
    }
}

static bool all_vanished(const struct nodes *nodes, uint32_t value)
{
    for (uint32_t i = 0; i < value; i++)
        if (nodes->all[i].n_vanished < value)
            return false;
    return true;
}

static bool all_listed_anew(const struct nodes *nodes, uint32_t value)
{
    for (uint32_t i = 0; i < value; i++) {
        const struct members *members = &nodes->all[i].members;
        for (uint32_t j = 1; j < members->n_members; j++)
            if (!members->members[j].listed)
                return false;
        if (members->n_members != value || members->lease != MEMBERS_LEASE_HELD)
            return false;
    }
    return true;
}

/* etcd hangs until every lease is dead: all keys vanish at once, and no node that answers leaves any view. Then all are
 * there again. */
static void test_stopped(void **state)
{
    (void)state;
    struct nodes *nodes = &world.nodes;
    start_nodes(3);
    for (uint32_t i = 0; i < 3; i++) {
        nodes->all[i].least_view = UINT32_MAX;
        nodes->all[i].n_vanished = 0;
    }
    kill(world.pid, SIGSTOP);
    nodes_for(nodes, 3 * TTL_S * 1000);
    kill(world.pid, SIGCONT);
    assert_true(nodes_until(nodes, all_vanished, 3));
    assert_true(nodes_until(nodes, all_listed_anew, 3));
    assert_true(nodes_until(nodes, nodes_are_up, 0));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(nodes->all[i].least_view, 3);
        assert_true(nodes->all[i].n_probes > 0);
    }
}

/* etcd forgets everything: config and keys are there again. */
static void test_wiped(void **state)
{
    (void)state;
    char command[128];
    struct nodes *nodes = &world.nodes;
    start_nodes(3);
    for (uint32_t i = 0; i < 3; i++)
        nodes->all[i].least_view = UINT32_MAX, nodes->all[i].n_vanished = 0;
    kill_etcd();
    assert_true(nodes_until(nodes, nodes_are_down, 0));
    snprintf(command, sizeof command, "rm -r %s/data", world.folder);
    assert_int_equal(system(command), 0);
    start_etcd();
    assert_true(nodes_until(nodes, nodes_are_up, 0));
    assert_true(nodes_until(nodes, all_listed_anew, 3));
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(nodes->all[i].least_view, 3);
    nodes_start(nodes, 3);
    assert_true(nodes_until(nodes, nodes_see, 4));
}

/* A compaction takes nothing from who follows, nor from who comes later. */
static void test_compacted(void **state)
{
    (void)state;
    struct nodes *nodes = &world.nodes;
    start_nodes(2);
    ask("kv/compaction", "{\"revision\":\"3\",\"physical\":true}");
    nodes_start(nodes, 2);
    assert_true(nodes_until(nodes, nodes_see, 3));
    kill_etcd();
    assert_true(nodes_until(nodes, nodes_are_down, 0));
    start_etcd();
    nodes_start(nodes, 3);
    assert_true(nodes_until(nodes, nodes_see, 4));
}

/* With etcd's own users each node logs in; a wrong password shows nothing. */
static void test_login(void **state)
{
    (void)state;
    struct nodes *nodes = &world.nodes;
    start_nodes(1);
    assert_true(nodes_until(nodes, nodes_are_up, 0)); /* etcd is there */
    nodes_stop(nodes, 0);
    ask("auth/user/add", "{\"name\":\"root\",\"password\":\"secret\"}");
    ask("auth/role/add", "{\"name\":\"root\"}");
    ask("auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
    ask("auth/enable", "{}");
    nodes->user = "root";
    nodes->password = "wrong";
    nodes_start(nodes, 1);
    assert_true(nodes_until(nodes, nodes_are_down, 0));
    nodes_stop(nodes, 1);
    nodes->password = "secret";
    nodes_start(nodes, 2);
    nodes_start(nodes, 3);
    assert_true(nodes_until(nodes, nodes_are_up, 0));
    assert_true(nodes_until(nodes, nodes_see, 2));
}

/* Over TLS with certificates both ways; a node with a foreign one stays outside. */
static void test_tls(void **state)
{
    (void)state;
    struct nodes *nodes = &world.nodes;
    struct net_tls tls = {pem("ours.ca.pem"), pem("node.pem"), pem("node.key"), false}, foreign = tls;
    kill_etcd();
    certs_authority(world.folder, "ours");
    certs_authority(world.folder, "foreign");
    certs_issue(world.folder, "ours", "etcd", false);
    certs_issue(world.folder, "ours", "node", false);
    certs_issue(world.folder, "foreign", "stranger", false);
    foreign.cert = pem("stranger.pem");
    foreign.key = pem("stranger.key");
    memmove(world.client_url + strlen("https"), world.client_url + strlen("http"), 40);
    world.client_url[strlen("http")] = 's';
    nodes->tls = &tls;
    start_etcd();
    start_nodes(2);
    assert_true(nodes_until(nodes, nodes_are_up, 0));
    nodes->tls = &foreign;
    nodes_start(nodes, 2);
    nodes_stop(nodes, 0);
    nodes_stop(nodes, 1);
    assert_true(nodes_until(nodes, nodes_are_down, 0));
    assert_int_equal(nodes->all[2].n_up, 0);
    nodes_stop(nodes, 2);
}

int main(void)
{
    if (system("etcd --version >/dev/null 2>&1") != 0) {
        printf("skipped: there is no etcd here: install etcd-server\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_come_and_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wiped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_compacted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_login, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
