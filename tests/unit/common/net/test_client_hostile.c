/* test_client_hostile.c: what a server may do wrong, and who may talk to whom over TLS: each is told with the code that
 * the header names. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "asking.h"
#include "certs.h"
#include "fake_server.h"

static char folder[] = "/tmp/larder-net-XXXXXX";

static struct net_result ask_raw(const char *bytes, size_t len_bytes, bool keep_open, uint32_t stall_ms, char *text)
{
    struct fake_raw *raw = fake_raw_start(bytes, len_bytes, keep_open);
    struct asking asking = ASKING_INIT;
    struct net_client *client;
    char url[64], room[64];
    assert_int_equal(net_client_start(1, &client, NULL), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/x", fake_raw_port(raw));
    struct net_request request = {.url = url, .answer = room, .answer_max = sizeof room, .stall_ms = stall_ms};
    struct net_result result = asking_ask(&asking, client, &request);
    strcpy(text, asking.text);
    net_client_stop(client);
    fake_raw_stop(raw);
    return result;
}

static void check_raw(const char *bytes, bool keep_open, int code)
{
    char text[512];
    uint32_t stall_ms = code == LARDER_ETIMEOUT ? 300 : 60000; /* a busy machine takes its time */
    struct net_result result = ask_raw(bytes, strlen(bytes), keep_open, stall_ms, text);
    if (result.code != code)
        fail_msg("%s instead of %s for '%s': %s", larder_err_name(result.code), larder_err_name(code), bytes, text);
}

static void test_wrong_answers(void **state)
{
    (void)state;
    check_raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true, 0);
    check_raw("HTTP/1.1 200 OK\r\n\r\nok", false, 0);
    check_raw("", false, LARDER_EIO);
    check_raw("SSH-2.0-OpenSSH\r\n", false, LARDER_EIO);
    check_raw("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", false, LARDER_EIO);
    check_raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok", false, LARDER_EIO);
    check_raw("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", true, LARDER_ETIMEOUT);
    check_raw("HTTP/1.1 200 OK\r\nContent-Le", true, LARDER_ETIMEOUT);
    check_raw("", true, LARDER_ETIMEOUT);
    check_raw("HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", true, 0);
}

/* A server that sends headers without end is cut off. */
static void test_headers(void **state)
{
    (void)state;
    char text[512], *bytes = xmalloc(4 * NET_HEADER_BYTES_MAX);
    size_t len = (size_t)sprintf(bytes, "HTTP/1.1 200 OK\r\n");
    while (len < 3 * NET_HEADER_BYTES_MAX)
        len += (size_t)sprintf(bytes + len, "X-%zu: a header\r\n", len);
    assert_int_equal(ask_raw(bytes, len, true, 60000, text).code, LARDER_ELIMIT);
    free(bytes);
}

/* A port of which nobody else can be given the number meanwhile: it is bound, and not listened on. */
static int closed_port(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void test_nobody(void **state)
{
    (void)state;
    struct asking asking = ASKING_INIT;
    struct net_client *client;
    struct error err = {0};
    char url[64];
    uint16_t port;
    int fd = closed_port(&port);
    assert_int_equal(net_client_start(1, &client, NULL), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/x", port);
    struct net_request request = {.url = url};
    assert_int_equal(asking_ask(&asking, client, &request).code, LARDER_EGONE);
    assert_non_null(strstr(asking.text, url));
    request.done = asking_done;
    const char *const wrong[] = {"file:///etc/passwd", "ftp://127.0.0.1/", "127.0.0.1:80", "", "https://127.0.0.1/"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        request.url = wrong[i];
        assert_int_equal(net_submit(client, &request, NULL, &err), LARDER_EINVAL);
    }
    assert_int_equal(asking.n_done, 1);
    net_client_stop(client);
    net_client_stop(NULL);
    close(fd);
}

/* ── TLS ── */

struct parties {
    const char *server_name, *server_ca; /* whose certificate the server has, and which it believes */
    const char *name, *ca;               /* the client's; name NULL: none */
    bool check_names;
    int code, status;
};

static const char *path_of(char *at, const char *name, const char *ending)
{
    if (name)
        sprintf(at, "%s/%s%s", folder, name, ending);
    return name ? at : NULL;
}

static void answer(void *arg, struct fake_exchange *exchange)
{
    (void)arg;
    exchange->text = "ok";
}

static void meet(const struct parties *who)
{
    char paths[6][128], url[64], room[16];
    struct fake_tls theirs = {path_of(paths[0], who->server_name, ".pem"), path_of(paths[1], who->server_name, ".key"),
                              path_of(paths[2], who->server_ca, ".ca.pem")};
    struct net_tls ours = {path_of(paths[3], who->ca, ".ca.pem"), path_of(paths[4], who->name, ".pem"),
                           path_of(paths[5], who->name, ".key"), who->check_names};
    struct fake_server *server = fake_start(0, &theirs, answer, NULL);
    struct asking asking = ASKING_INIT;
    struct net_client *client;
    assert_int_equal(net_client_start(2, &client, NULL), 0);
    snprintf(url, sizeof url, "https://127.0.0.1:%u/x", fake_port(server));
    struct net_request request = {.url = url, .tls = &ours, .answer = room, .answer_max = sizeof room};
    struct net_result result = asking_ask(&asking, client, &request);
    net_client_stop(client);
    fake_stop(server);
    if (result.code != who->code || result.status != who->status)
        fail_msg("server %s, client %s with CA %s: %s, status %d: %s", who->server_name, who->name ? who->name : "none",
                 who->ca, larder_err_name(result.code), result.status, asking.text);
}

static void test_tls(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    certs_authority(folder, "ours");
    certs_authority(folder, "foreign");
    certs_issue(folder, "ours", "node", false);
    certs_issue(folder, "ours", "old", true);
    certs_issue(folder, "foreign", "stranger", false);
    const struct parties all[] = {
        {"node", "ours", "node", "ours", false, 0, 200},
        {"node", "ours", "node", "ours", true, LARDER_EPERM, 0}, /* 127.0.0.1 is not the certificate's host */
        {"node", NULL, NULL, "ours", false, 0, 200},
        {"node", "ours", NULL, "ours", false, 0, 403},
        {"node", "ours", "stranger", "ours", false, 0, 403},
        {"node", "ours", "old", "ours", false, 0, 403},
        {"stranger", "ours", "node", "ours", false, LARDER_EPERM, 0},
        {"old", "ours", "node", "ours", false, LARDER_EPERM, 0},
        {"node", "ours", "missing", "ours", false, LARDER_EPERM, 0},
        {"node", "ours", "node", "missing", false, LARDER_EPERM, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        meet(&all[i]);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_answers),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
