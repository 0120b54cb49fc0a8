/* asking.h: a request of the client's from a test, waited for. */
#ifndef LARDER_TESTS_ASKING_H
#define LARDER_TESTS_ASKING_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "common/check.h"
#include "common/net/client.h"

struct asking {
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint32_t n_done;
    struct net_result result; /* the last one; without its text, which is below */
    char text[512];
};

#define ASKING_INIT                                                            \
    {                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER, \
    }

static inline void asking_done(void *arg, const struct net_result *result)
{
    struct asking *asking = arg;
    pthread_mutex_lock(&asking->lock);
    asking->n_done++;
    asking->result = *result;
    strncpy(asking->text, result->text, sizeof asking->text - 1);
    asking->result.text = asking->text;
    pthread_cond_broadcast(&asking->change);
    pthread_mutex_unlock(&asking->lock);
}

/* asking_wait waits until so many results have come. */
static inline void asking_wait(struct asking *asking, uint32_t n_done)
{
    pthread_mutex_lock(&asking->lock);
    while (asking->n_done < n_done)
        pthread_cond_wait(&asking->change, &asking->lock);
    pthread_mutex_unlock(&asking->lock);
}

/* asking_ask submits the request, whose done and arg it sets, and waits for the result. */
static inline struct net_result asking_ask(struct asking *asking, struct net_client *client,
                                           struct net_request *request)
{
    struct error err = {0};
    request->done = asking_done;
    request->arg = request->arg ? request->arg : asking;
    uint32_t before = asking->n_done;
    CHECK(net_submit(client, request, NULL, &err) == 0);
    asking_wait(asking, before + 1);
    return asking->result;
}

#endif
