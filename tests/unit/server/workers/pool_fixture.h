/* pool_fixture.h: a pool whose tasks wait at a gate or meet at a barrier, and that counts what was done. */
#ifndef LARDER_TESTS_UNIT_SERVER_WORKERS_POOL_FIXTURE_H
#define LARDER_TESTS_UNIT_SERVER_WORKERS_POOL_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/workers/pool.h"

enum { CAPACITY = 4096 }; /* tasks that may wait */

/* What a thread does. */
struct task {
    uint32_t number;
    bool gated; /* waits for the gate to open */
    pthread_barrier_t *barrier;
};

struct fixture {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    uint32_t gated_now;
    uint32_t order[64], n_order;
    uint32_t discarded;
    _Atomic uint32_t runs[CAPACITY * 4];
    _Atomic uint32_t locals, failing;
    _Atomic uint32_t idled; /* times that a thread said that it finds no task */
};

struct fixture *make_fixture(void);
struct pool_config config_of(struct fixture *fixture, uint32_t threads, uint32_t begin);
struct pool *make_pool(struct fixture *fixture, uint32_t threads, uint32_t begin);
void submit(struct pool *pool, struct task task);
/* wait_gated waits until so many tasks are at the gate. */
void wait_gated(struct fixture *fixture, uint32_t tasks);
void set_gate(struct fixture *fixture, bool open);
/* wait_done waits until so many tasks have ended. */
void wait_done(struct pool *pool, uint64_t tasks);

#endif
