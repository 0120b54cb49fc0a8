/* pool_fixture.h: a pool whose tasks wait at a gate, feed it, or meet at a barrier, and that counts what was done. */
#ifndef LARDER_TESTS_UNIT_SERVER_WORKERS_POOL_FIXTURE_H
#define LARDER_TESTS_UNIT_SERVER_WORKERS_POOL_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/workers/pool.h"

enum { CAPACITY = 4096 }; /* tasks of each kind that may wait */

/* What a thread does. */
struct task {
    uint32_t number;
    bool gated; /* waits for the gate to open */
    bool feeds; /* submits a load before it ends */
    pthread_barrier_t *barrier;
};

struct fixture {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    uint32_t gated_now[POOL_KINDS];
    uint32_t order[64], n_order;
    uint32_t discarded[POOL_KINDS];
    _Atomic uint32_t runs[CAPACITY * 4];
    _Atomic uint32_t locals, failing;
    struct pool *pool;      /* to feed */
    _Atomic uint32_t taken; /* loads that threads took which prepare */
    _Atomic uint32_t idled; /* times that a thread said that it finds no task */
};

struct fixture *make_fixture(void);
struct pool_config config_of(struct fixture *fixture, uint32_t workers, uint32_t loaders, uint32_t extra);
struct pool *make_pool(struct fixture *fixture, uint32_t workers, uint32_t loaders, uint32_t extra);
void submit(struct pool *pool, enum pool_kind kind, struct task task);
/* wait_gated waits until so many tasks of each kind are at the gate. */
void wait_gated(struct fixture *fixture, uint32_t loads, uint32_t prepares);
void set_gate(struct fixture *fixture, bool open);
/* wait_done waits until so many tasks have ended. */
void wait_done(struct pool *pool, uint64_t tasks);

#endif
