/* engine.h: the heart: a pure state machine. Events in, actions out; no I/O, no clock, no thread of its own.
 *
 * All shared state (jobs, queues, remaining sets, residents, leases) belongs to whoever calls engine_step, one thread.
 * The daemon feeds it from sessions, loaders and preparers; the simulator feeds it from virtual ones. The same events
 * at the same times give the same actions.
 *
 * Life of a sample for a queue:
 *
 *   pick ──▶ resident instance nobody in S has had ──────────────────────────────▶ ready ─▶ batch ─▶ DELIVER ─▶ RELEASE
 *        └─▶ instance being made ── joined ────────────────────────────────────────▲ │
 *        └─▶ new instance: slot reserved ─▶ LOAD (when not in memory) ─▶ PREPARE ──┘ └─ bad: the job's policy
 *                                             └─ its source does not answer: tried again, sources.c
 *
 * What is planned, being made, ready or leased is pinned and counts against the job's quota; quotas sum up to at most
 * the arena, and what each job keeps has slots of its size (prepared_zones.c), so that no job can take another's room.
 * Everything else in memory is cache, and goes when room is needed, least wanted first. Quotas are divided again when a
 * job comes or goes or needs more or less; each keeps at least two batches a rank, or what its clients may hold
 * (quota.c).
 *
 * Ranks. A job of world_size W has W queues, each with a W-th of its quota. The first rank that registers makes the
 * job, the others attach to it by name, each from a client of its own; the job ends when the last one has gone. (While
 * ranks are still to come, or some have had their share of the epoch and others not, it waits rank_timeout_ns for them:
 * ranks that miss each other must not become jobs of their own.)
 *
 * - An epoch gives every rank the same number of samples, and so of batches: N / W of the view's N, rounded down under
 *   drop_last and up otherwise, where the few that are then missing are repeats of samples of the view, as torch's
 *   DistributedSampler has them. Nothing else comes twice. With W > 1 a bad sample that is skipped leaves no hole
 *   either: its rank gets another of the epoch or, when there is none, a repeat.
 * - `dependent`: a pick is planned for the rank whose queue is emptiest, up to its share, and what is ready goes to the
 *   rank that will run dry first, which gives one it waits for in exchange (queue_exchange.c): nobody waits for a slow
 *   rank or a slow read, and a slow rank's share stays its own. `ordered` jobs' picks stay where they were planned.
 *   `strict` and `none`: the order's sample i is rank i mod W's, as with DistributedSampler; rank and order do not
 *   depend on who is fast.
 * - An epoch begins with the first rank that asks for it and is over when every rank has had its share, or has left it
 *   by asking for a later one; and has released it, or taken it all by asking for a later one. Who asks for a later
 *   epoch before that waits for the others. All ranks must leave an epoch early or none: what one leaves behind is
 *   nobody else's, and the next epoch begins only when the rest is through too.
 * - A rank that goes away is missed, not replaced: what it was given and did not release is put back, and with the rest
 *   of its share is kept for who comes under its number. While it is needed (its share is open, or somebody waits for
 *   the next epoch) and away for rank_timeout_ns, the job fails, and every other rank gets an error that names it.
 *
 * Under contention work is done for jobs in proportion to their weights, for ranks together; see tasks_turns.c.
 *
 * A batch takes what is ready first: it is made of the first batch_size samples that are ready among the first
 * 2 × batch_size planned, so that one slow sample delays itself and not the batch; a sample is overtaken by no more
 * than the queue looks ahead, or 2 × batch_size. `ordered` jobs, and `strict` and `none` always, keep the planned
 * order. */
#ifndef LARDER_SERVER_ENGINE_ENGINE_H
#define LARDER_SERVER_ENGINE_ENGINE_H

#include "server/engine/events.h"

struct engine;

int engine_create(const struct engine_config *config, struct engine **out, struct error *err);
void engine_destroy(struct engine *engine); /* accepts NULL. Encoded handles still held are the caller's to drop. */

/* engine_step takes one event at time now_ns (never going back) and gives the actions it leads to, in order; they are
 * the engine's and valid until the next step. A JOB_ADD that fails is an action, not a failure: the function cannot
 * fail. */
size_t engine_step(struct engine *engine, uint64_t now_ns, const struct engine_event *event,
                   const struct engine_action **actions);
/* engine_step_all takes several events that happened by now_ns as one step: all of them, then one round of planning.
 * Queues that got room together pick together, which is what lets them share. */
size_t engine_step_all(struct engine *engine, uint64_t now_ns, const struct engine_event *events, size_t count,
                       const struct engine_action **actions);

/* engine_forget_chunks: the dataset's chunks are where they were no more; between steps. Samples that have their places
 * there have none from now on: until a job comes that places them anew each is loaded alone. Jobs that are there keep
 * their samples. Nothing when no job came with the key. */
void engine_forget_chunks(struct engine *engine, const uint64_t chunk_key[ENGINE_CHUNK_KEY]);

/* engine_check goes through all state and CHECKs every invariant: budgets, quotas, pins, want counts against the
 * remaining sets, and that nothing is lost. Linear in what is resident: for the simulator, and for tests. */
void engine_check(const struct engine *engine);

/* ── what it knows ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* What the engine has counted since it was made: nothing of it goes down. */
struct engine_counts {
    uint64_t samples_loaded, loaded_bytes, reads;
    uint64_t redirected_prepared, redirected_encoded; /* picks served by another sample of their fiber */
    uint64_t samples_decoded;                         /* tasks that made an instance of pixels */
    uint64_t instances_prepared;
    uint64_t samples_delivered;
    uint64_t bad_samples[BAD_REASONS]; /* by enum bad_reason */
    uint64_t evicted_prepared, evicted_encoded;
    uint64_t ahead_shortened; /* times that a job had to give look-ahead back */
    uint64_t unknown_releases;
    uint64_t source_retries; /* loads that their source did not answer: tried again, where somebody waits for them */
};

/* How much of the arena is taken: by all that lies there, by what is pinned, and by the quotas of all jobs together. */
struct engine_arena_use {
    uint64_t used_bytes, pinned_bytes, quota_bytes;
};

/* How much of encoded memory is taken, and what all that jobs look ahead would take of it at once. */
struct engine_encoded_use {
    uint64_t used_bytes, ahead_bytes;
};

struct engine_totals {
    struct engine_counts counts;
    struct engine_arena_use arena;
    struct engine_encoded_use encoded;
    uint32_t jobs, loads_inflight, prepares_inflight;
    uint32_t source_waits; /* jobs that wait for their source now */
};

/* What a rank was given and what lies there for it; of a job, all its ranks together. */
struct engine_delivery {
    uint64_t samples, batches; /* delivered since it came */
    uint64_t epoch_samples;    /* delivered in this epoch */
    uint64_t held_slots;
    uint32_t ready_batches, leased_batches, credits;
    double wait_s; /* credits outstanding and nothing ready */
};

/* Where a job is in its epochs. */
struct engine_progress {
    bool started; /* an epoch has begun */
    uint32_t epoch;
    uint64_t remaining; /* samples of this epoch that are not picked yet */
    uint64_t lost;      /* samples of this epoch that were left out, because they are bad */
};

/* How far each rank of a job looks ahead, in batches. */
struct engine_look_ahead {
    uint32_t asked;
    uint32_t allowed; /* by its quota, now */
    uint32_t needed;  /* by the rank with most use for it, now; at most what is allowed */
};

/* Whether a job waits for its source, which does not answer, and for how long already. */
struct engine_source_wait {
    bool waits;
    double wait_s;
};

struct engine_job_status {
    char name[ENGINE_NAME_MAX];
    uint32_t job;
    uint32_t world_size, attached; /* ranks that are there now */
    uint64_t client;
    uint32_t pipeline, batch_size, epochs;
    double weight;
    uint64_t view_samples, quota_bytes;
    struct engine_progress progress;
    struct engine_look_ahead ahead;
    struct engine_delivery delivery; /* all ranks together */
    uint64_t samples_shared, bad_samples;
    struct engine_source_wait source;
};

/* engine_waits_for_room: some job waits until room that lies in pieces is given back: it needs a TICK now and then. */
bool engine_waits_for_room(const struct engine *engine);

/* engine_wakes_ns: when it needs a TICK at the latest, so that a source that does not answer is asked again;
 * UINT64_MAX: none does. */
uint64_t engine_wakes_ns(const struct engine *engine);

/* One rank's queue. */
struct engine_queue_status {
    uint32_t rank;
    bool attached;
    bool done; /* has had its share of the epoch, or left it */
    uint64_t client;
    struct engine_delivery delivery;
};

/* engine_totals and the statuses take no longer for what is in memory: their work goes by jobs and ranks. */
void engine_totals(const struct engine *engine, struct engine_totals *out);
/* engine_job_statuses fills up to max rows in order of place; returns how many jobs there are.
 * now_ns closes open waits. */
size_t engine_job_statuses(const struct engine *engine, uint64_t now_ns, struct engine_job_status *out, size_t max);
/* engine_queue_statuses fills up to max rows of a job that is there, by rank; returns its world size. */
size_t engine_queue_statuses(const struct engine *engine, uint32_t job, uint64_t now_ns,
                             struct engine_queue_status *out, size_t max);

#endif
