/* client.c: the thread that moves the bytes of all requests.
 *
 * Other threads leave orders under the lock (new calls, tickets to cancel, stop) and wake the thread. Everything else
 * is the thread's own. Orders are carried out between two rounds of libcurl's, so that no callback changes a list that
 * is being walked. */
#include "common/net/client.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/net/client_priv.h"
#include "common/thread.h"

#define CLIENT_MAGIC 0x6e657463u
#define CONNECTIONS_MAX 1024L /* open at a time, to all peers together */
#define WAIT_MAX_MS 60000

struct net_client {
    uint32_t magic;
    CURLM *multi;
    pthread_t thread;
    pthread_mutex_t lock;
    struct call_list arrived; /* this field and those below are under the lock */
    uint64_t *cancels;
    size_t n_cancels, cancels_cap;
    uint32_t n_requests, n_alarms;
    uint64_t last_ticket;
    bool stopping;
    struct call_list calls; /* the thread's own */
};

/* Alarms are counted apart: a client that is full of requests can still wait for its time to ask again. */
static uint32_t *count_of(struct net_client *client, const struct call *call)
{
    return call->easy ? &client->n_requests : &client->n_alarms;
}

static void forget(struct net_client *client, struct call *call)
{
    TAILQ_REMOVE(&client->calls, call, link);
    if (call->easy)
        curl.multi_remove_handle(client->multi, call->easy);
    pthread_mutex_lock(&client->lock);
    (*count_of(client, call))--;
    pthread_mutex_unlock(&client->lock);
}

static void finish(struct net_client *client, struct call *call, int code, const char *text)
{
    forget(client, call);
    call_finish(call, code, text);
}

/* ── rounds ── */

static void adopt(struct net_client *client, struct call_list *arrived)
{
    struct call *call;
    while ((call = TAILQ_FIRST(arrived))) {
        TAILQ_REMOVE(arrived, call, link);
        TAILQ_INSERT_TAIL(&client->calls, call, link);
        if (call->easy && curl.multi_add_handle(client->multi, call->easy) != CURLM_OK)
            finish(client, call, LARDER_ENOMEM, "libcurl has no memory for a request");
    }
}

static void cancel(struct net_client *client, uint64_t ticket)
{
    struct call *call;
    TAILQ_FOREACH(call, &client->calls, link) {
        if (call->ticket == ticket) {
            finish(client, call, LARDER_EEND, "cancelled");
            return;
        }
    }
}

/* Carries out the orders, and says whether the client goes on. */
static bool take_orders(struct net_client *client)
{
    struct call_list arrived = TAILQ_HEAD_INITIALIZER(arrived);
    pthread_mutex_lock(&client->lock);
    TAILQ_CONCAT(&arrived, &client->arrived, link);
    uint64_t *cancels = client->cancels;
    size_t n_cancels = client->n_cancels;
    client->cancels = NULL;
    client->n_cancels = client->cancels_cap = 0;
    bool stopping = client->stopping;
    pthread_mutex_unlock(&client->lock);
    adopt(client, &arrived);
    for (size_t i = 0; i < n_cancels; i++)
        cancel(client, cancels[i]);
    free(cancels);
    return !stopping;
}

static void take_results(struct net_client *client)
{
    CURLMsg *message;
    int left;
    while ((message = curl.multi_info_read(client->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode result = message->data.result; /* libcurl owns the message: it goes with the handle */
        struct call *call = NULL;
        CHECK(curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call) == CURLE_OK && call);
        finish(client, call, call_code(call, result), call->why[0] ? call->why : curl.easy_strerror(result));
    }
}

/* Ends late calls, and returns the next moment at which one is late; UINT64_MAX: never. */
static uint64_t look_at_all(struct net_client *client)
{
    uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;
    struct call *call = TAILQ_FIRST(&client->calls), *next;
    for (; call; call = next) {
        next = TAILQ_NEXT(call, link);
        uint64_t late_ns = call_look(call, now_ns);
        if (late_ns > now_ns) {
            next_ns = late_ns < next_ns ? late_ns : next_ns;
        } else if (!call->easy) {
            finish(client, call, 0, NULL);
        } else if (call->deadline_ns <= now_ns) {
            finish(client, call, LARDER_ETIMEOUT, "no whole answer within its time");
        } else {
            finish(client, call, LARDER_ETIMEOUT, "nothing moved for too long");
        }
    }
    return next_ns;
}

static int wait_ms(uint64_t until_ns)
{
    uint64_t now_ns = clock_now_ns();
    if (until_ns <= now_ns)
        return 0;
    uint64_t ms = (until_ns - now_ns) / CLOCK_NS_PER_MS + 1;
    return ms < WAIT_MAX_MS ? (int)ms : WAIT_MAX_MS;
}

static void *run(void *arg)
{
    struct net_client *client = arg;
    int running;
    while (take_orders(client)) {
        CHECK(curl.multi_perform(client->multi, &running) == CURLM_OK);
        take_results(client);
        int ms = wait_ms(look_at_all(client));
        CHECK(curl.multi_poll(client->multi, NULL, 0, ms, NULL) == CURLM_OK);
    }
    struct call *call;
    while ((call = TAILQ_FIRST(&client->calls)))
        finish(client, call, LARDER_EEND, "the client stops");
    return NULL;
}

/* ── orders ── */

static int order(struct net_client *client, struct call *call, uint64_t *ticket)
{
    pthread_mutex_lock(&client->lock);
    int rc = client->stopping ? LARDER_EGONE : *count_of(client, call) >= NET_CALLS_MAX ? LARDER_ELIMIT : 0;
    if (rc == 0) {
        call->ticket = ++client->last_ticket;
        if (ticket)
            *ticket = call->ticket;
        (*count_of(client, call))++;
        TAILQ_INSERT_TAIL(&client->arrived, call, link);
    }
    pthread_mutex_unlock(&client->lock);
    if (rc == 0)
        curl.multi_wakeup(client->multi);
    else
        call_destroy(call);
    return rc;
}

int net_submit(struct net_client *client, const struct net_request *request, uint64_t *ticket, struct error *err)
{
    CHECK_MAGIC(client, CLIENT_MAGIC);
    CHECK(request->done && (request->take || request->answer || request->answer_max == 0));
    struct call *call;
    int rc = call_create(request, clock_now_ns(), &call, err);
    if (rc)
        return rc;
    rc = order(client, call, ticket);
    if (rc == LARDER_ELIMIT)
        return error_set(err, rc, "%s: %d requests are under way already", request->url, NET_CALLS_MAX);
    return rc ? error_set(err, rc, "%s: the client stops", request->url) : 0;
}

int net_after(struct net_client *client, uint64_t delay_ms, void (*done)(void *arg, const struct net_result *result),
              void *arg, uint64_t *ticket)
{
    CHECK_MAGIC(client, CLIENT_MAGIC);
    struct call *call = xcalloc(1, sizeof *call);
    call->done = done;
    call->arg = arg;
    call->deadline_ns = clock_now_ns() + delay_ms * CLOCK_NS_PER_MS;
    return order(client, call, ticket);
}

void net_cancel(struct net_client *client, uint64_t ticket)
{
    CHECK_MAGIC(client, CLIENT_MAGIC);
    pthread_mutex_lock(&client->lock);
    client->cancels = xgrow(client->cancels, sizeof *client->cancels, &client->cancels_cap, client->n_cancels + 1);
    client->cancels[client->n_cancels++] = ticket;
    pthread_mutex_unlock(&client->lock);
    curl.multi_wakeup(client->multi);
}

/* ── life ── */

int net_client_start(uint32_t peer_connections, struct net_client **out, struct error *err)
{
    int rc = net_curl_load(err);
    if (rc)
        return rc;
    struct net_client *client = xcalloc(1, sizeof *client);
    client->magic = CLIENT_MAGIC;
    TAILQ_INIT(&client->arrived);
    TAILQ_INIT(&client->calls);
    pthread_mutex_init(&client->lock, NULL);
    client->multi = curl.multi_init();
    if (!client->multi ||
        curl.multi_setopt(client->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)peer_connections) != CURLM_OK ||
        curl.multi_setopt(client->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, CONNECTIONS_MAX) != CURLM_OK ||
        curl.multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_MAX) != CURLM_OK)
        rc = error_set(err, LARDER_ENOMEM, "libcurl has no memory for a client");
    else if (thread_start(&client->thread, "network", run, client) != 0)
        rc = error_set(err, LARDER_ELIMIT, "no thread for the network's client: raise the limit of threads");
    if (rc) {
        if (client->multi)
            curl.multi_cleanup(client->multi);
        pthread_mutex_destroy(&client->lock);
        free(client);
        return rc;
    }
    *out = client;
    return 0;
}

void net_client_stop(struct net_client *client)
{
    if (!client)
        return;
    CHECK_MAGIC(client, CLIENT_MAGIC);
    pthread_mutex_lock(&client->lock);
    client->stopping = true;
    pthread_mutex_unlock(&client->lock);
    curl.multi_wakeup(client->multi);
    pthread_join(client->thread, NULL);
    curl.multi_cleanup(client->multi);
    pthread_mutex_destroy(&client->lock);
    free(client->cancels);
    client->magic = 0;
    free(client);
}
