/* engine.h: the heart of the daemon, a pure state machine. Events go in and actions come out. It does no I/O, and has
 * no clock and no thread of its own.
 *
 * The thread that calls engine_step owns all shared state: jobs, queues, remaining sets, residents, leases. The daemon
 * feeds the engine from sessions, loaders and preparers; the simulator feeds it from virtual ones. The same events at
 * the same times give the same actions.
 *
 * Life of a sample for a queue:
 *
 *   pick ──▶ resident instance nobody in S has had ──────────────────────────────▶ ready ─▶ batch ─▶ DELIVER ─▶ RELEASE
 *        └─▶ instance being made ── joined ────────────────────────────────────────▲ │
 *        └─▶ new instance: slot reserved ─▶ LOAD (when not in memory) ─▶ PREPARE ──┘ └─ bad: the job's policy
 *                                             └─ its source does not answer: tried again, sources.c
 *
 * Memory. An instance is pinned while it is planned, being made, ready or leased, and counts against its job's quota.
 * Quotas sum up to at most the arena. What each job keeps has slots of its size (prepared_zones.c), so no job can take
 * another's room. Everything else in memory is cache. Cache goes when room is needed, the least wanted first. Quotas
 * are divided again when a job comes, goes, or needs more or less. Each job keeps at least two batches a rank, or what
 * its clients may hold (quota.c).
 *
 * Ranks. A job of world_size W has W queues, each with a W-th of its quota. The first rank that registers makes the
 * job. The others attach to it by name, each from a client of its own. The job ends when the last rank has gone. Before
 * that it waits rank_timeout_ns for its ranks if some have not come yet, or if only some have received their share of
 * the epoch: ranks that miss each other must not become jobs of their own. It does not wait if a client died that had
 * received its share: a script that begins anew is to get all.
 *
 * - An epoch gives every rank the same number of samples, and so of batches. That is N / W of the view's N, rounded
 *   down under drop_last and up otherwise. When it is rounded up, the few missing samples are repeats of samples of the
 *   view, as in torch's DistributedSampler. Nothing else comes twice. With W > 1, a bad sample that is skipped leaves
 *   no hole either: its rank gets another sample of the epoch, or a repeat when there is none.
 * - `dependent`: A pick is planned for the rank whose queue is emptiest, up to its share. A sample that is ready goes
 *   to the rank that will run dry first, and that rank gives one that it waits for in exchange (queue_exchange.c). So
 *   nobody waits for a slow rank or a slow read, and a slow rank's share stays its own. Picks of `ordered` jobs stay
 *   where they were planned.
 * - `strict` and `none`: The order's sample i is rank i mod W's, as with DistributedSampler. Rank and order do not
 *   depend on who is fast.
 * - An epoch begins with the first rank that asks for it. It is over when every rank has finished and taken it. A rank
 *   has finished it when it has received its share, or has left the epoch by asking for a later one. It has taken the
 *   epoch when it has released everything, or has asked for a later one. A rank that asks for a later epoch before that
 *   waits for the others. If one rank leaves an epoch early, the others should too: nobody else gets the samples that
 *   it leaves behind, and the next epoch begins only when all ranks have finished this one.
 * - A rank that goes away is missed, not replaced. Samples that it received and did not release are put back. They and
 *   the rest of its share are kept for the client that comes with its rank number. A rank is needed while its share is
 *   open, or while somebody waits for the next epoch. If it is needed and away for rank_timeout_ns, the job fails, and
 *   every other rank gets an error that names it.
 *
 * Going on in an epoch. A rank may bring a record of what it received of an epoch from an earlier daemon, or while the
 * job had another number of ranks (engine_job_desc.resume). A job whose first rank does so is restoring until all of
 * its ranks are there, each with the same base. Until then nothing is drawn, and requests of ranks are kept.
 * rank_timeout_ns applies to a rank that somebody waits for.
 *
 * - The job goes on in the highest epoch that a rank has told of. A rank that told of an earlier one gets nothing more
 *   of that one: an empty LAST answers its request. If all ranks ask for a later epoch, that one begins, whole.
 * - The epoch now has N' = N - |base| samples, and each rank's share is a W-th of these, as above. What a rank received
 *   since the base is part of its share. So with as many ranks as before, each gets the batches that were left. If
 *   nothing of the epoch is left, each rank gets an empty LAST.
 * - `dependent`: R_j begins as the view, less the base and less all samples that the ranks received since.
 * - `strict` and `none`: The rest of the order after the base is dealt round-robin to the present ranks. Each rank goes
 *   on in its part where it stopped.
 * - A sample that was skipped because it was bad does not count as received. In `dependent` order it is found bad
 *   again.
 * - A rank that brings a record ends a job of its name that has no rank attached. If one is attached, the rank may come
 *   back only if its record has exactly what the job counts as released by it.
 *
 * Turns. Under contention, work is done for jobs in proportion to their weights, and for all ranks of a job together;
 * see tasks_turns.c.
 *
 * Batches. A batch takes what is ready first: the first batch_size samples that are ready among the first 2 ×
 * batch_size planned. So one slow sample delays itself and not the batch. A sample is overtaken by no more samples than
 * the queue looks ahead, or 2 × batch_size if that is more. `ordered` jobs, and `strict` and `none` always, keep the
 * planned order. */
#ifndef LARDER_SERVER_ENGINE_ENGINE_H
#define LARDER_SERVER_ENGINE_ENGINE_H

#include "server/engine/events.h"

struct engine;

/* engine_create makes an engine and copies the configuration. The caller owns *out and destroys it with engine_destroy.
 * Errors: LARDER_EINVAL when a limit is zero, and the code of extents_create when the arena cannot be divided. */
int engine_create(const struct engine_config *config, struct engine **out, struct error *err);
/* engine_destroy frees the engine, whatever is under way; NULL is accepted. It calls `drop` with each encoded handle
 * that the engine still holds, so no PREPARE may be reading any. Bytes that a LOAD brings later stay the caller's.
 * `drop` may be NULL when handles need no dropping. */
void engine_destroy(struct engine *engine, void (*drop)(void *encoded));

/* engine_step takes the events that happened by now_ns, which never goes back. It handles all of them, and plans once
 * after that, so that queues that got room together pick together and share. It sets *actions to what the events lead
 * to, in order, and returns how many actions there are. The engine owns the actions; they are valid until the next
 * step. The function cannot fail: a JOB_ADD that fails is an action. */
size_t engine_step(struct engine *engine, uint64_t now_ns, const struct engine_event *events, size_t count,
                   const struct engine_action **actions);

/* engine_segments_left returns how many of a sequence of `samples` the segments leave for the next sequence.
 * engine_segment_delivered is for the last segment of a resume whose ranks go on in their parts, of a sequence of
 * `samples`. It returns what engine_resume.delivered counts for that segment: the samples that each rank was given,
 * which is the same number for all of them. `through` counts bad samples too, so the rank with the lowest decides. */
uint64_t engine_segments_left(const struct engine_segment *segments, uint32_t n_segments, uint64_t samples);
uint64_t engine_segment_delivered(const struct engine_segment *segment, uint64_t samples);

/* engine_check goes through all state and CHECKs every invariant: budgets, quotas, pins, want counts against the
 * remaining sets, and that nothing is lost. Its work is linear in what is resident. It is for the simulator and for
 * tests. */
void engine_check(const struct engine *engine);

/* ── what it knows ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* The level that a queue's entry got its sample from: an instance that was prepared or being prepared, here or at
 * another node; encoded bytes in memory; or a read. */
enum engine_level { ENGINE_FROM_PREPARED, ENGINE_FROM_ENCODED, ENGINE_FROM_READ };
#define ENGINE_LEVELS 3

/* The engine's counters since it was made. They only grow. */
struct engine_counts {
    uint64_t samples_loaded, loaded_bytes, reads;
    uint64_t redirected_prepared, redirected_encoded; /* picks that another sample of their fiber served */
    uint64_t samples_decoded;                         /* tasks that made an instance of pixels */
    uint64_t samples_from_forms;                      /* tasks that made one of a decoded form instead */
    uint64_t instances_prepared;
    /* samples that other nodes gave, bad ones included; and those that the job was not to have */
    uint64_t samples_arrived, arrivals_refused;
    uint64_t samples_delivered;
    uint64_t delivered_from[ENGINE_LEVELS]; /* the same, by level when they were planned */
    uint64_t bad_samples[BAD_REASONS];      /* indexed by enum bad_reason */
    uint64_t evicted_prepared, evicted_encoded;
    uint64_t ahead_shortened; /* counts jobs that had to give look-ahead back */
    uint64_t unknown_releases;
    /* Loads that their source did not answer. Such a load is tried again if somebody waits for it. */
    uint64_t source_retries;
};

/* How much of the arena is taken: by all instances in it, by those that are pinned, and by the quotas of all jobs
 * together. */
struct engine_arena_use {
    uint64_t used_bytes, pinned_bytes, quota_bytes;
    uint64_t reserved_bytes; /* bytes of the arena that are reserved */
};

/* How much of encoded memory is taken, and how much of it the look-ahead of all jobs would take at once. */
struct engine_encoded_use {
    uint64_t used_bytes, ahead_bytes;
    uint64_t budget_bytes; /* what they may take: room moves between them and instances */
    uint64_t form_bytes;   /* what decoded forms take of it */
    uint32_t forms;        /* their number */
};

/* The engine's counts, and what is there at this moment. */
struct engine_totals {
    struct engine_counts counts;
    struct engine_arena_use arena;
    struct engine_encoded_use encoded;
    uint32_t jobs, loads_inflight, prepares_inflight;
    uint32_t source_waits; /* jobs that wait for their source at this moment */
};

/* A rank's deliveries, and its client's waits. For a job: the sum over its ranks. */
struct engine_delivery {
    uint64_t samples, batches; /* delivered since the rank came */
    uint64_t epoch_samples;    /* delivered in this epoch */
    uint64_t held_slots;
    uint32_t ready_batches, leased_batches, credits;
    double wait_s; /* seconds with credits outstanding and nothing ready */
    /* Seconds that the client stood still, by enum engine_stall. Their sum is at most wait_s, except for waits for
     * other ranks. It is exact for clients that ask when their program asks for a batch, as the Python package does. */
    double stall_s[ENGINE_STALLS];
    double lease_s; /* age of the oldest batch that the client holds; 0: it holds none */
};

/* A job's present epoch, and how far it is. */
struct engine_progress {
    bool started; /* an epoch has begun */
    bool done;    /* all ranks have received their share of it, or have left it */
    uint32_t epoch;
    uint64_t remaining; /* samples of this epoch that are not picked yet, or are in a reserve */
    uint64_t lost;      /* bad samples of this epoch that were left out */
};

/* How far each rank of a job looks ahead, in batches. */
struct engine_look_ahead {
    /* asked for by the job */
    uint32_t asked;
    uint32_t allowed; /* allowed by its quota now */
    uint32_t needed;  /* needed now by the rank that needs most; at most `allowed` */
};

/* Whether a job waits for its source, which does not answer, and for how many seconds it has waited. */
struct engine_source_wait {
    bool waits;
    double wait_s;
};

/* One job, as the status shows it. */
struct engine_job_status {
    char name[ENGINE_NAME_MAX];
    uint32_t job;
    uint32_t world_size, attached; /* ranks that have a client now */
    uint64_t client;
    uint32_t pipeline, batch_size, epochs;
    uint32_t held_max; /* batches that a rank's client may hold unreleased; 0: it copies them, and holds none */
    double weight;
    uint64_t view_samples, quota_bytes;
    uint64_t epoch_samples; /* samples of an epoch for the ranks here: the view, or their share of it */
    struct engine_progress progress;
    struct engine_look_ahead ahead;
    struct engine_delivery delivery; /* all ranks together */
    uint64_t samples_shared, bad_samples;
    uint64_t instances_prepared; /* made because this job wanted them first */
    struct engine_source_wait source;
};

/* engine_waits_for_room tells whether some job waits until free room that lies in pieces is given back. Such a job
 * needs a TICK now and then. */
bool engine_waits_for_room(const struct engine *engine);

/* engine_needed returns how many samples a queue delivers before the one that waits until this sample is made: the
 * least over all queues. UINT64_MAX: nothing waits for it. */
uint64_t engine_needed(const struct engine *engine, sample_id id);

/* engine_wakes_ns returns the latest time at which the engine needs a TICK; UINT64_MAX when it needs none. At that time
 * it asks a source that did not answer again, fails a job that has waited too long for its source, tries a refused
 * RESERVE again, or makes more room for a new job. */
uint64_t engine_wakes_ns(const struct engine *engine);

/* One rank's queue. */
struct engine_queue_status {
    uint32_t rank;
    bool attached;
    bool done; /* The rank has received its share of the epoch, or has left it. */
    uint64_t client;
    struct engine_delivery delivery;
};

/* engine_prepare_s returns the seconds of one core that preparing one of the job's samples takes, as measured; 0: not
 * measured yet. */
double engine_prepare_s(const struct engine *engine, uint32_t job);
/* engine_lacks returns how many entries of the job's queues have no sample yet while a client of it stands still;
 * 0: none does. */
uint64_t engine_lacks(const struct engine *engine, uint32_t job);
/* engine_totals fills *out. This and the statuses go by jobs and ranks: they take no longer when more is in memory. */
void engine_totals(const struct engine *engine, struct engine_totals *out);
/* engine_job_statuses fills up to max rows, in order of the jobs' numbers, and returns how many jobs there are. Waits
 * that still go on count up to now_ns. */
size_t engine_job_statuses(const struct engine *engine, uint64_t now_ns, struct engine_job_status *out, size_t max);
/* engine_queue_statuses fills up to max rows of a job that is there, in order of rank, and returns its world size.
 * Waits that still go on count up to now_ns. */
size_t engine_queue_statuses(const struct engine *engine, uint32_t job, uint64_t now_ns,
                             struct engine_queue_status *out, size_t max);

/* engine_copy_left copies what a dependent job has still to draw, and its name. The time is that of copying a bit an
 * id. LARDER_ENOENT: there is no such job, or it has begun no epoch; else as sampler_copy_left. The caller clears
 * *out with sampler_left_clear. */
int engine_copy_left(const struct engine *engine, uint32_t job, char name[ENGINE_NAME_MAX], struct sampler_left *out);

#endif
