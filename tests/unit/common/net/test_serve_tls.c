/* test_serve_tls.c: with TLS only those are served who show a good certificate of the cluster, over TLS 1.3. */
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "asking.h"
#include "certs.h"
#include "common/net/identity.h"
#include "serving.h"

#define MANY 1000
#define HOUR_S 3600

static char folder[] = "/tmp/larder-serve-XXXXXX";

static char *path_of(const char *name, const char *ending)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    return xstrdup(path);
}

static char *load(const char *name, const char *ending)
{
    char *path = path_of(name, ending);
    gnutls_datum_t data = {0};
    CHECK(gnutls_load_file(path, &data) == 0);
    char *text = xcalloc(1, data.size + 1);
    memcpy(text, data.data, data.size);
    gnutls_free(data.data);
    free(path);
    return text;
}

static int set_up(void **state)
{
    (void)state;
    certs_authority(mkdtemp(folder), "ours");
    certs_authority(folder, "foreign");
    static const struct {
        const char *authority, *name;
        struct certs_wish wish;
    } all[] = {
        {"ours", "node", {HOUR_S, "c1", NULL}},      {"ours", "other", {HOUR_S, "c1", GNUTLS_KP_TLS_WWW_CLIENT}},
        {"ours", "expired", {-HOUR_S, "c1", NULL}},  {"ours", "server", {HOUR_S, "c1", GNUTLS_KP_TLS_WWW_SERVER}},
        {"ours", "elsewhere", {HOUR_S, "c2", NULL}}, {"ours", "prefix", {HOUR_S, "c1.example", NULL}},
        {"ours", "nowhere", {HOUR_S, NULL, NULL}},   {"foreign", "stranger", {HOUR_S, "c1", NULL}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        certs_issue_as(folder, all[i].authority, all[i].name, &all[i].wish);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

struct tls_server {
    struct serving *serving;
    char *cert, *key, *ca;
};

static struct tls_server start_server(const char *name, const char *cluster)
{
    struct tls_server server = {.cert = load(name, ".pem"), .key = load(name, ".key"), .ca = load("ours", ".ca.pem")};
    server.serving = serving_start((struct net_serve_options){
        .cert = server.cert, .key = server.key, .ca = server.ca, .cluster = cluster, .body_max = 1 << 20});
    return server;
}

static void stop_server(struct tls_server *server)
{
    serving_stop(server->serving);
    free(server->cert);
    free(server->key);
    free(server->ca);
}

/* name NULL: the client shows no certificate. */
static struct net_result ask_as(struct net_client *client, struct asking *asking, const struct tls_server *server,
                                const char *name)
{
    char url[64], room[8];
    char *paths[3] = {path_of("ours", ".ca.pem"), path_of(name ? name : "", ".pem"), path_of(name ? name : "", ".key")};
    struct net_tls tls = {paths[0], name ? paths[1] : NULL, name ? paths[2] : NULL, false};
    snprintf(url, sizeof url, "https://" SERVING_HOST ":%u/echo", net_serve_port(server->serving->serve));
    struct net_request request = {
        .url = url, .tls = &tls, .body = "hello", .body_bytes = 5, .answer = room, .answer_max = sizeof room};
    struct net_result result = asking_ask(asking, client, &request);
    if (result.status == 200)
        assert_memory_equal(room, "hello", 5);
    for (int i = 0; i < 3; i++)
        free(paths[i]);
    return result;
}

/* Each certificate that is not ours, not good, not for clients or of another cluster gets 403, and on_request sees none
 * of it. */
static void test_certificates(void **state)
{
    (void)state;
    static const struct {
        const char *name, *cluster;
        int status;
    } all[] = {
        {"node", "c1", 200},     {"other", "c1", 200},   {NULL, "c1", 403},        {"expired", "c1", 403},
        {"stranger", "c1", 403}, {"server", "c1", 403},  {"elsewhere", "c1", 403}, {"prefix", "c1", 403},
        {"nowhere", "c1", 403},  {"node", NULL, 200},    {"elsewhere", NULL, 200}, {"nowhere", NULL, 200},
        {NULL, NULL, 403},       {"expired", NULL, 403}, {"stranger", NULL, 403},  {"server", NULL, 403},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tls_server server = start_server("node", all[i].cluster);
        struct asking asking = ASKING_INIT;
        struct net_client *client;
        assert_int_equal(net_client_start(1, &client, NULL), 0);
        struct net_result result = ask_as(client, &asking, &server, all[i].name);
        net_client_stop(client);
        if (result.code != 0 || result.status != all[i].status)
            fail_msg("%s at %s: %s, status %d: %s", all[i].name ? all[i].name : "none",
                     all[i].cluster ? all[i].cluster : "any", larder_err_name(result.code), result.status, asking.text);
        uint32_t served = all[i].status == 200;
        struct net_serve_counts counts = serving_count(server.serving);
        assert_int_equal(server.serving->n_requests, served);
        assert_int_equal(counts.refused_peer, !served);
        if (served) {
            char names[128];
            bool nowhere = strcmp(all[i].name, "nowhere") == 0, elsewhere = strcmp(all[i].name, "elsewhere") == 0;
            snprintf(names, sizeof names, "%s: %s node.invalid",
                     nowhere     ? "none"
                     : elsewhere ? "c2"
                                 : "c1",
                     all[i].name);
            assert_string_equal(server.serving->names, names);
        }
        stop_server(&server);
    }
}

/* A certificate that expires while its connection is kept is refused from then on. */
static void test_expiry(void **state)
{
    (void)state;
    struct tls_server server = start_server("node", "c1");
    struct asking asking = ASKING_INIT;
    struct net_client *client;
    time_t end_s = 0;
    int status = 0;
    assert_int_equal(net_client_start(1, &client, NULL), 0);
    for (int lasts_s = 2; status != 200; lasts_s *= 4) { /* longer where it has expired before it was shown */
        assert_true(lasts_s < 1000);
        end_s = time(NULL) + lasts_s; /* at the earliest */
        certs_issue_as(folder, "ours", "short", &(struct certs_wish){lasts_s, "c1", NULL});
        status = ask_as(client, &asking, &server, "short").status;
    }
    while ((status = ask_as(client, &asking, &server, "short").status) == 200)
        usleep(20000);
    assert_int_equal(status, 403);
    assert_true(time(NULL) >= end_s);
    assert_int_equal(serving_count(server.serving).connections, 1);
    uint64_t n_served = serving_count(server.serving).requests;
    assert_int_equal(ask_as(client, &asking, &server, "short").status, 403);
    assert_int_equal(serving_count(server.serving).requests, n_served);
    net_client_stop(client);
    stop_server(&server);
}

struct many {
    struct asking asking;
    uint32_t bodies[MANY], rooms[MANY];
};

/* A thousand requests over TLS share few connections, and each gets its own answer. */
static void test_many(void **state)
{
    (void)state;
    struct tls_server server = start_server("node", "c1");
    struct many *many = xcalloc(1, sizeof *many);
    struct net_client *client;
    char url[64], *paths[3] = {path_of("ours", ".ca.pem"), path_of("other", ".pem"), path_of("other", ".key")};
    struct net_tls tls = {paths[0], paths[1], paths[2], false};
    many->asking = (struct asking)ASKING_INIT;
    snprintf(url, sizeof url, "https://" SERVING_HOST ":%u/later", net_serve_port(server.serving->serve));
    assert_int_equal(net_client_start(4, &client, NULL), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        many->bodies[i] = i * 2654435761u;
        struct net_request request = {.url = url,
                                      .tls = &tls,
                                      .body = &many->bodies[i],
                                      .body_bytes = sizeof many->bodies[i],
                                      .answer = &many->rooms[i],
                                      .answer_max = sizeof many->rooms[i],
                                      .done = asking_done,
                                      .arg = &many->asking};
        assert_int_equal(net_submit(client, &request, NULL, NULL), 0);
    }
    asking_wait(&many->asking, MANY);
    net_client_stop(client);
    assert_memory_equal(many->rooms, many->bodies, sizeof many->bodies);
    struct net_serve_counts counts = serving_count(server.serving);
    assert_in_range(counts.connections, 1, 4);
    assert_int_equal(counts.requests, MANY);
    assert_int_equal(server.serving->n_peers, MANY);
    stop_server(&server);
    for (int i = 0; i < 3; i++)
        free(paths[i]);
    free(many);
}

/* A body of a megabyte goes there and back, and a client that leaves while it waits is told of. */
static void test_big_and_drop(void **state)
{
    (void)state;
    struct tls_server server = start_server("node", NULL);
    struct serving *serving = server.serving;
    struct asking asking = ASKING_INIT;
    struct net_client *client;
    uint64_t ticket;
    char url[64], *paths[3] = {path_of("ours", ".ca.pem"), path_of("other", ".pem"), path_of("other", ".key")};
    struct net_tls tls = {paths[0], paths[1], paths[2], false};
    size_t len_bytes = 1 << 20;
    char *body = xmalloc(len_bytes), *room = xmalloc(len_bytes);
    for (size_t i = 0; i < len_bytes; i++)
        body[i] = (char)(i * 31 + i / 256);
    assert_int_equal(net_client_start(4, &client, NULL), 0);
    snprintf(url, sizeof url, "https://" SERVING_HOST ":%u/later", net_serve_port(serving->serve));
    struct net_request request = {
        .url = url, .tls = &tls, .body = body, .body_bytes = len_bytes, .answer = room, .answer_max = len_bytes};
    assert_int_equal(asking_ask(&asking, client, &request).status, 200);
    assert_int_equal(asking.result.len_bytes, len_bytes);
    assert_memory_equal(room, body, len_bytes);
    snprintf(url, sizeof url, "https://" SERVING_HOST ":%u/hold", net_serve_port(serving->serve));
    assert_int_equal(net_submit(client, &request, &ticket, NULL), 0);
    serving_wait(serving, &serving->n_held, 1);
    net_cancel(client, ticket);
    serving_wait(serving, &serving->n_dropped, 1);
    assert_int_equal(serving->dropped[0], serving->held[0]);
    net_client_stop(client);
    stop_server(&server);
    for (int i = 0; i < 3; i++)
        free(paths[i]);
    free(body);
    free(room);
}

/* ── versions ── */

static int connect_to(const struct serving *serving)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(net_serve_port(serving->serve)),
                                  .sin_addr = {inet_addr(SERVING_HOST)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

/* Whether a client with a good certificate and these priorities gets through its handshake. */
static bool shakes_hands(const struct serving *serving, const char *priorities)
{
    gnutls_certificate_credentials_t who;
    gnutls_session_t session;
    char *cert = path_of("node", ".pem"), *key = path_of("node", ".key");
    int fd = connect_to(serving), rc;
    assert_int_equal(gnutls_certificate_allocate_credentials(&who), 0);
    assert_int_equal(gnutls_certificate_set_x509_key_file(who, cert, key, GNUTLS_X509_FMT_PEM), 0);
    assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), 0);
    assert_int_equal(gnutls_priority_set_direct(session, priorities, NULL), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, who), 0);
    gnutls_transport_set_int(session, fd);
    while ((rc = gnutls_handshake(session)) < 0 && !gnutls_error_is_fatal(rc))
        ;
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(who);
    close(fd);
    free(cert);
    free(key);
    return rc == 0;
}

/* A client that knows TLS 1.2 alone is refused, as is one that speaks no TLS; the same with 1.3 is served. */
static void test_versions(void **state)
{
    (void)state;
    struct tls_server server = start_server("node", "c1");
    assert_true(shakes_hands(server.serving, "NORMAL:-VERS-ALL:+VERS-TLS1.3"));
    assert_true(shakes_hands(server.serving, "NORMAL"));
    assert_false(shakes_hands(server.serving, "NORMAL:-VERS-ALL:+VERS-TLS1.2"));
    assert_false(shakes_hands(server.serving, "NORMAL:-VERS-ALL:+VERS-TLS1.0:+VERS-TLS1.1:+VERS-TLS1.2"));
    int fd = connect_to(server.serving);
    static const char plain[] = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    char heard[64];
    assert_int_equal(send(fd, plain, sizeof plain - 1, MSG_NOSIGNAL), sizeof plain - 1);
    ssize_t got = read(fd, heard, sizeof heard); /* an alert at most */
    assert_true(got < 5 || memcmp(heard, "HTTP/", 5) != 0);
    close(fd);
    while (serving_count(server.serving).silent < 5)
        usleep(1000);
    assert_int_equal(server.serving->n_requests, 0);
    struct asking asking = ASKING_INIT;
    struct net_client *client;
    assert_int_equal(net_client_start(1, &client, NULL), 0);
    assert_int_equal(ask_as(client, &asking, &server, "node").status, 200);
    net_client_stop(client);
    stop_server(&server);
}

/* ── bundles ── */

static int ask_bundle(const char *bundle, uint16_t port, bool check_names)
{
    struct asking asking = ASKING_INIT;
    struct net_client *client;
    char url[64];
    struct net_tls tls = {bundle, bundle, bundle, check_names};
    snprintf(url, sizeof url, "https://" SERVING_HOST ":%u/echo", port);
    struct net_request request = {.url = url, .tls = &tls, .body = ""};
    assert_int_equal(net_client_start(1, &client, NULL), 0);
    struct net_result result = asking_ask(&asking, client, &request);
    net_client_stop(client);
    return result.code ? result.code : result.status;
}

/* Nodes with bundles of one authority talk, each file serving as CA, certificate and key. One of another authority is
 * refused on both sides, though its cluster has the same name. */
static void test_bundles(void **state)
{
    (void)state;
    struct error err = {0};
    char *authority[2] = {path_of("first", ".authority"), path_of("second", ".authority")};
    char *bundle[3] = {path_of("a", ".bundle"), path_of("b", ".bundle"), path_of("c", ".bundle")};
    for (int i = 0; i < 2; i++)
        assert_int_equal(net_identity_found("c1", authority[i], &err), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(net_identity_issue(authority[i / 2], i == 1 ? "node-b" : "node-a", 30, bundle[i], &err), 0);
    struct net_identity identity[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(net_identity_load(bundle[i], &identity[i], &err), 0);
    struct serving *serving[2];
    for (int i = 0; i < 2; i++)
        serving[i] = serving_start((struct net_serve_options){.cert = identity[2 * i].text,
                                                              .key = identity[2 * i].text,
                                                              .ca = identity[2 * i].ca,
                                                              .cluster = identity[2 * i].cluster});
    uint16_t port = net_serve_port(serving[0]->serve);
    assert_int_equal(ask_bundle(bundle[0], port, false), 200);
    assert_int_equal(ask_bundle(bundle[1], port, false), 200);
    assert_string_equal(serving[0]->names, "c1: node-b node-b");
    assert_int_equal(ask_bundle(bundle[1], port, true), LARDER_EPERM); /* the address is not in the certificate */
    assert_int_equal(ask_bundle(bundle[2], port, false), LARDER_EPERM);
    assert_int_equal(ask_bundle(bundle[0], net_serve_port(serving[1]->serve), false), LARDER_EPERM);
    assert_int_equal(ask_bundle(bundle[2], net_serve_port(serving[1]->serve), false), 200);
    assert_int_equal(serving[0]->n_requests, 2);
    assert_int_equal(serving[1]->n_requests, 1);
    for (int i = 0; i < 2; i++) {
        serving_stop(serving[i]);
        free(authority[i]);
    }
    for (int i = 0; i < 3; i++) {
        net_identity_clear(&identity[i]);
        free(bundle[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certificates), cmocka_unit_test(test_expiry),   cmocka_unit_test(test_many),
        cmocka_unit_test(test_big_and_drop), cmocka_unit_test(test_versions), cmocka_unit_test(test_bundles),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
