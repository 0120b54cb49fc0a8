/* limits.c: compares limits that two modules state. Each states its own in its header, because neither knows the other;
 * this file sees all of them. */
#include "cache/catalog/catalog.h"
#include "common/record.h"
#include "common/wire.h"
#include "preprocess/prepare.h"
#include "sampler/view.h"
#include "server/config/config.h"
#include "server/engine/engine.h"
#include "server/governor/governor.h"
#include "server/governor/rate.h"
#include "server/governor/reads.h"
#include "server/session/session.h"
#include "server/workers/pool.h"

/* The engine takes whatever a client may ask for. */
_Static_assert(ENGINE_BATCH_MAX == WIRE_BATCH_MAX, "the largest batch");
_Static_assert(ENGINE_PREFETCH_MAX == WIRE_CREDITS_MAX, "batches asked for ahead");
_Static_assert(ENGINE_HOLD_MAX == WIRE_CREDITS_MAX + 1, "a client holds prefetch + 1 batches");
_Static_assert(ENGINE_HOLD_MAX <= SESSION_HELD_MAX, "a connection has a place for each batch that its client may hold");
_Static_assert(ENGINE_NAME_MAX == WIRE_NAME_MAX + 1, "a job's name, and its end");
_Static_assert(ENGINE_SEGMENTS_MAX == RECORD_SEGMENTS_MAX, "segments of a fixed order");
_Static_assert(ENGINE_RANKS_MAX == RECORD_RANKS_MAX, "ranks of a job, and of a segment");
_Static_assert(ENGINE_ALL_RANKS_MAX == RECORD_ALL_RANKS_MAX, "ranks over all nodes, and of a history");
_Static_assert(VIEW_TEXT_MAX >= WIRE_SPEC_MAX, "a subset that a message may carry can be read");

/* The modules can do whatever the configuration allows. */
_Static_assert(READS_MOST + READS_ORIGINS <= WORKER_READERS_MAX, "a thread for each read under way");
_Static_assert(WORKER_READERS_MAX <= POOL_THREADS_MAX, "the pool takes all readers");
_Static_assert(2 * CONFIG_THREADS_MAX == GOVERNOR_READS_MAX, "a source may have all workers and all loaders");
_Static_assert(CONFIG_THREADS_MAX == GOVERNOR_THREADS_MAX, "the governor knows each thread");
_Static_assert(CONFIG_WIDTH_MAX == CHUNK_SAMPLES_MAX, "as wide as the largest chunk");

/* The other modules can carry out and show whatever the engine decides. */
_Static_assert(ENGINE_OUTPUTS_MAX <= PREPARE_OUTPUTS_MAX, "a worker prepares all outputs of a task at once");
_Static_assert(GOVERNOR_AHEAD_MAX == ENGINE_PREFETCH_MAX, "batches that a queue may be ahead");
