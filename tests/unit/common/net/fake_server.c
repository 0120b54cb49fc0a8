#include "fake_server.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/check.h"

struct fake_server {
    struct MHD_Daemon *daemon;
    void (*answer)(void *arg, struct fake_exchange *exchange);
    void *arg;
    bool mutual;
    char *pems[3];
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool stopping;
    uint32_t connections, open, most;
};

struct upload {
    char *body;
    size_t len_bytes, cap;
};

static const char *request_header(struct fake_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

static bool has_certificate(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    unsigned status = 1;
    return info && gnutls_certificate_verify_peers2(info->tls_session, &status) == 0 && status == 0;
}

static ssize_t read_more(void *arg, uint64_t at, char *buf, size_t cap)
{
    struct fake_exchange *exchange = arg;
    (void)at;
    long got = exchange->more(exchange->more_arg, buf, cap);
    return got == 0 ? MHD_CONTENT_READER_END_OF_STREAM : got < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : got;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct fake_exchange *exchange)
{
    struct MHD_Response *response;
    if (exchange->more) {
        struct fake_exchange *copy = xmalloc(sizeof *copy);
        *copy = *exchange;
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 65536, read_more, copy, free);
    } else {
        const char *text = exchange->text ? exchange->text : "";
        size_t len_bytes = exchange->text_bytes ? exchange->text_bytes : strlen(text);
        response = MHD_create_response_from_buffer(len_bytes, (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    }
    enum MHD_Result queued = MHD_queue_response(connection, (unsigned)exchange->status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *len_bytes, void **state)
{
    struct fake_server *server = arg;
    struct upload *upload = *state;
    (void)method, (void)version;
    if (!upload) {
        *state = xcalloc(1, sizeof *upload);
        return MHD_YES;
    }
    if (*len_bytes > 0) {
        upload->body = xgrow(upload->body, 1, &upload->cap, upload->len_bytes + *len_bytes + 1);
        memcpy(upload->body + upload->len_bytes, data, *len_bytes);
        upload->len_bytes += *len_bytes;
        upload->body[upload->len_bytes] = 0;
        *len_bytes = 0;
        return MHD_YES;
    }
    struct fake_exchange exchange = {.path = url,
                                     .body = upload->body ? upload->body : "",
                                     .body_bytes = upload->len_bytes,
                                     .header = request_header,
                                     .connection = connection,
                                     .status = 200};
    if (server->mutual && !has_certificate(connection))
        exchange.status = 403;
    else
        server->answer(server->arg, &exchange);
    return send_answer(connection, &exchange);
}

static void completed(void *arg, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode how)
{
    struct upload *upload = *state;
    (void)arg, (void)connection, (void)how;
    if (upload)
        free(upload->body);
    free(upload);
}

static void connection_changed(void *arg, struct MHD_Connection *connection, void **state,
                               enum MHD_ConnectionNotificationCode how)
{
    struct fake_server *server = arg;
    (void)connection, (void)state;
    pthread_mutex_lock(&server->lock);
    if (how == MHD_CONNECTION_NOTIFY_STARTED) {
        server->connections++;
        server->open++;
        server->most = server->open > server->most ? server->open : server->most;
    } else {
        server->open--;
    }
    pthread_mutex_unlock(&server->lock);
}

static char *load(const char *path)
{
    gnutls_datum_t data = {0};
    CHECK(gnutls_load_file(path, &data) == 0);
    char *text = xcalloc(1, data.size + 1);
    memcpy(text, data.data, data.size);
    gnutls_free(data.data);
    return text;
}

struct fake_server *fake_start(uint16_t port, const struct fake_tls *tls,
                               void (*answer)(void *arg, struct fake_exchange *exchange), void *arg)
{
    struct fake_server *server = xcalloc(1, sizeof *server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct MHD_OptionItem options[8] = {{MHD_OPTION_SOCK_ADDR, 0, &address},
                                        {MHD_OPTION_LISTENING_ADDRESS_REUSE, 1, NULL}};
    unsigned n = 2, flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL;
    server->answer = answer;
    server->arg = arg;
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->change, NULL);
    if (tls) {
        flags |= MHD_USE_TLS;
        options[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, server->pems[0] = load(tls->cert)};
        options[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, server->pems[1] = load(tls->key)};
        if (tls->ca)
            options[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, server->pems[2] = load(tls->ca)};
        server->mutual = tls->ca != NULL;
    }
    options[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    server->daemon = MHD_start_daemon(flags, port, NULL, NULL, handle, server, MHD_OPTION_NOTIFY_COMPLETED, completed,
                                      NULL, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, server, MHD_OPTION_ARRAY,
                                      options, MHD_OPTION_END);
    CHECK(server->daemon);
    return server;
}

uint16_t fake_port(const struct fake_server *server)
{
    return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

uint32_t fake_connections(struct fake_server *server, uint32_t *most)
{
    pthread_mutex_lock(&server->lock);
    uint32_t connections = server->connections;
    if (most)
        *most = server->most;
    pthread_mutex_unlock(&server->lock);
    return connections;
}

bool fake_wait(struct fake_server *server, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&server->lock);
    while (!server->stopping && pthread_cond_timedwait(&server->change, &server->lock, &until) == 0)
        ;
    bool stopping = server->stopping;
    pthread_mutex_unlock(&server->lock);
    return stopping;
}

void fake_stop(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    pthread_cond_broadcast(&server->change);
    pthread_mutex_unlock(&server->lock);
    MHD_stop_daemon(server->daemon);
    for (size_t i = 0; i < sizeof server->pems / sizeof *server->pems; i++)
        free(server->pems[i]);
    free(server);
}

/* ── raw ── */

struct fake_raw {
    int listen_fd, fd;
    const void *bytes;
    size_t len_bytes;
    bool keep_open;
    pthread_t thread;
};

static void *run_raw(void *arg)
{
    struct fake_raw *raw = arg;
    char heard[4096];
    raw->fd = accept(raw->listen_fd, NULL, NULL);
    if (raw->fd >= 0 && read(raw->fd, heard, sizeof heard) > 0)
        for (size_t sent = 0; sent < raw->len_bytes;) {
            ssize_t wrote = send(raw->fd, (const char *)raw->bytes + sent, raw->len_bytes - sent, MSG_NOSIGNAL);
            if (wrote <= 0)
                break;
            sent += (size_t)wrote;
        }
    if (raw->fd >= 0 && !raw->keep_open)
        shutdown(raw->fd, SHUT_WR);
    while (raw->fd >= 0 && read(raw->fd, heard, sizeof heard) > 0)
        ; /* until the client closes */
    return NULL;
}

struct fake_raw *fake_raw_start(const void *bytes, size_t len_bytes, bool keep_open)
{
    struct fake_raw *raw = xcalloc(1, sizeof *raw);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    *raw = (struct fake_raw){.fd = -1, .bytes = bytes, .len_bytes = len_bytes, .keep_open = keep_open};
    raw->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(raw->listen_fd >= 0 && bind(raw->listen_fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(raw->listen_fd, 8) == 0);
    CHECK(pthread_create(&raw->thread, NULL, run_raw, raw) == 0);
    return raw;
}

uint16_t fake_raw_port(const struct fake_raw *raw)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    CHECK(getsockname(raw->listen_fd, (struct sockaddr *)&address, &len) == 0);
    return ntohs(address.sin_port);
}

void fake_raw_stop(struct fake_raw *raw)
{
    shutdown(raw->listen_fd, SHUT_RDWR);
    pthread_join(raw->thread, NULL);
    close(raw->listen_fd);
    if (raw->fd >= 0)
        close(raw->fd);
    free(raw);
}
