/* status.h: what the daemon says about itself. A snapshot is shown as JSON (`larder status --json`, /api/v1/status) and
 * as Prometheus metrics (/metrics). Over HTTP it is up to a second old (status_cache.h).
 *
 * The following keys of the JSON stay, and others may come. Counters count from the daemon's start; sizes are bytes.
 *
 *   v         1
 *   daemon    version, pid, state ("running", "draining"), socket, page (where the live page and the metrics
 *             are: a URL, or the path of a unix socket; null: nowhere), uptime_s, start_time_s (Unix time), time_s
 *             (monotonic: two snapshots give a rate), rss_bytes, cpu_s, open_fds and max_fds (descriptors; null:
 *             not known), sessions, datasets, threads {role: count}, settings {"threads.workers", "threads.loaders",
 *             "jobs.quota" (0 … 1), "storage" (classes)} (as they are set, or follow from the machine by default),
 *             places {setting: where it stands: file and line} (of those that are worth changing)
 *   samples   loaded, loaded_bytes, reads, decoded, from_decoded (samples prepared from decoded forms), prepared,
 *             delivered, prepared_per_delivered (null before the first), redirected {prepared, encoded} (picks that
 *             another sample served, by the level that had it),
 *             delivered_from {prepared, encoded, read} (samples delivered, by where memory had them when they
 *             were planned), bad {reason: count}, prepare_s (seconds that threads have prepared)
 *   memory    samples {budget_bytes (of the next two together), moves (room moves between them)},
 *             arena {budget_bytes, reserved_bytes (memory taken at the moment), used_bytes, pinned_bytes,
 *             quota_bytes}, encoded {budget_bytes, used_bytes, decoded_bytes, decoded_samples (of which the
 *             decoded forms are in memory), look_ahead_bytes}, scratch {budget_bytes, used_bytes,
 *             waiting (threads), waits (images)}, evicted {prepared, encoded}, history {budget_bytes} (what the daemon
 *             remembers, at most)
 *   storage   source {samples, bytes} (read from sources), classes[], fastest first: {path, state ("filling", "full",
 *             "read_only", "off"), form ("as_read", "planes"), size_bytes, used_bytes, samples, planes (samples in
 *             planes), planes_left (samples to be tried yet; 0 for as_read), segments, read {samples, bytes}, written
 *             {samples, bytes}, waiting_bytes (to be written), skipped (samples not written, because too many
 *             waited), corrupt (samples dropped), given_up (segments that gave place), left_alone (it is slower than
 *             sources), mb_per_s (with one read under way; null: not known)}
 *   engine    loads_inflight, prepares_inflight, source_retries (reads that storage did not answer),
 *             source_waits (jobs that wait for their storage now), unknown_releases, steps (of the engine), step_ms
 *             {longest, mean (null before the first)} (how long they took: nobody is delivered to meanwhile)
 *   governor  preparers (threads), loaders (reads at once), prepare_rate, load_rate (samples/s predicted; null: not
 *             known), moves
 *   jobs[]    name, job (its place), id (its number in history, another for each job; null: not yet), pid, client,
 *             dataset, dataset_samples, store, pipeline, weight, batch_size, prefetch (batches each rank may be ahead
 *             now), prefetch_asked, look_ahead (of prefetch, what it needs), epoch (from 0), epochs (0: no end),
 *             started, view_samples, epoch_samples (of them, the share of the ranks here), remaining, epoch_delivered,
 *             delivered, batches, shared, bad_samples, epoch_lost (bad samples left out of this epoch),
 *             waits_for_source (its storage does not answer), source_wait_s, held_slots, held_max (batches that a
 *             rank's script may hold in the arena; null: it copies them), quota_bytes (of the arena, kept for it),
 *             prepared
 *             (instances that were made because this job wanted them first), sharing_factor (delivered / prepared; null
 *             before the first), stall_s {load, prepare, room, rank} (seconds in which its clients stood still, by
 *             cause), queues[], one a rank: {rank, ready_batches, leased_batches, oldest_lease_s (null: none), credits,
 *             stall_s, attached, done, epoch_delivered, batches, pid, process ("runs", "stopped" or "gone": the
 *             client's, once it has held a batch for some seconds; null: not looked at, or not known), governor};
 *             mix (of a job dealt at home, the part of the chunks that each epoch deals anew; else null)
 *   jobs[].store  null for a folder; how a store was packed: max_side and quality (null: no image was to be shrunk),
 *             shrunk (samples that were), undecoded (samples that could not be decoded for that), restart_rows
 *             (samples that were given restart rows; null: none was to be), planes (samples in bit planes; null: none
 *             was to be)
 *   queues[].governor  null, or what the governor knows of the queue: line (its number), loaders, reading (reads under
 *             way), pending_reads, pending_samples, load_ms and prepare_ms (thread time a sample), train_ms (a batch),
 *             late_ms (predicted of the next batch; below 0: in time); null: not known
 *   cluster   not there where the daemon is in none: name, node (this one's name), id (hex), nodes[], this one first,
 *             guests (other nodes' jobs here, which are not in jobs), requests (sent to other nodes, but probes),
 *             probes (sent to them: do they live), given (samples sent to them), received (samples that jobs here took
 *             from them), refused (samples that came and that no job took), moved (samples asked of one node, and then
 *             of another), back (samples asked of others, and then drawn here), jobs[]
 *   cluster.nodes[]  id, name and url (null: not known; a node of a list is known by its address), state ("UP",
 *             "LEAVING", "LOST", "UNKNOWN": listed, and not heard of), self, asked (this node asks it for samples now)
 *   cluster.jobs[]   those to which other nodes may give: name, received, refused, moved, back, homes (others give
 *             now), trainings (that want the same), spread (cluster.spread, if other nodes have ranks of the job; else
 *             null), parts[], which others have still to give: {node (its id), left, asked, waiting (samples), open
 *             (that node has said yes)}
 *
 * pid, client, dataset and pipeline are null where the daemon does not know them. */
#ifndef LARDER_SERVER_CONTROL_STATUS_H
#define LARDER_SERVER_CONTROL_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/histogram.h"
#include "common/types.h"
#include "preprocess/scratch_budget.h"
#include "server/engine/engine.h"
#include "server/past/past.h"

#define STATUS_ROLES_MAX 8
#define STATUS_CLASSES_MAX 8

/* The names of enum engine_stall. */
extern const char *const status_stalls[ENGINE_STALLS];
extern const char *const status_levels[ENGINE_LEVELS]; /* the names of enum engine_level */
/* The states of a node of the cluster. */
enum status_node_state { STATUS_NODE_UNKNOWN, STATUS_NODE_UP, STATUS_NODE_LEAVING, STATUS_NODE_LOST };
#define STATUS_NODE_STATES 4
extern const char *const status_node_states[STATUS_NODE_STATES];

/* The governor's view of a rank's queue. A time of 0 seconds is not known. */
struct status_queue {
    uint32_t line; /* the queue's number; some ranks share a queue where there are very many */
    uint32_t loaders, ahead;
    uint32_t reading, pending_reads, pending_samples; /* pending includes what is being read */
    double load_s, prepare_s;                         /* thread time that a sample takes */
    double train_s;                                   /* training time of a batch */
    double late_s;                                    /* predicted delay of its next batch; negative: in time */
};

/* How the dataset was packed; all is 0 for a folder. */
struct status_store {
    bool packed, restart_rows, planes;
    uint32_t max_side, quality; /* 0: no image was shrunk */
    uint32_t samples_shrunk, samples_undecoded, samples_restart_rows, samples_planes;
};

/* The process of a rank's client. pid: 0 if it is not known, or in another container that hides it. state: "runs",
 * "stopped" or "gone"; NULL: not looked at, because its batches come and go, or not known. */
struct status_client {
    uint32_t pid;
    const char *state;
};

struct status_job {
    struct engine_job_status engine;
    uint32_t id;                /* the job's number in history (past.h); 0: not known yet */
    uint32_t pid;               /* pid of the first rank's client; 0: not known */
    uint32_t loaders;           /* loaders that the governor gives the job */
    uint32_t ahead;             /* batches of look-ahead that cover its latency; 0: not known */
    struct histogram waits;     /* times that its clients stood still for a batch */
    struct histogram intervals; /* times from one batch of a rank to its next */
    /* The status owns the following, which are malloc'ed. Each may be NULL. */
    char *client;                       /* name and version of the first rank's client, such as "python/0.1" */
    char *dataset;                      /* the path of its dataset */
    uint32_t dataset_samples;           /* samples in it */
    struct status_store store;          /* how it was packed */
    char *pipeline;                     /* its pipeline in normal form */
    struct engine_queue_status *queues; /* by rank */
    struct status_queue *governed;      /* by rank */
    struct status_client *clients;      /* by rank */
    struct past_giver *givers;          /* who prepared samples that it got */
    size_t n_givers;
    size_t n_queues;
    uint32_t first_rank; /* first of the ranks at this node, whose queues these are */
    double mix;          /* of a job dealt at home (deal.h): the part that is not, 0 … 1; below 0: it is none */
};

/* The governor's decision and predictions. */
struct status_governor {
    uint32_t preparers, loaders; /* threads */
    double prepare_rate,
        load_rate;  /* predicted samples a second, prepared and read, with these threads; 0: not known */
    uint64_t moves; /* changes of the number of preparers */
};

/* Settings beside which what the governor decided is read. */
struct status_settings {
    uint32_t workers, loaders; /* threads.workers, threads.loaders */
    double job_quota;          /* jobs.quota, 0 … 1 */
    uint32_t classes;          /* storage classes; those that were left out are not in the status's storage */
};

#define STATUS_PLACES_MAX 7
#define STATUS_PLACE_BYTES 256

/* Where a setting stands, such as "in /etc/larder/larder.yaml:3". */
struct status_place {
    const char *setting; /* static */
    char place[STATUS_PLACE_BYTES];
};

struct status_read {
    uint64_t samples, bytes;
};

/* A storage class. */
struct status_class {
    const char *path;  /* lives as long as the daemon */
    const char *state; /* static */
    bool in_planes;    /* JPEGs are written in planes */
    uint64_t size_bytes, used_bytes, samples, planes, planes_left;
    uint32_t segments;
    struct status_read read, written;
    uint64_t waiting_bytes, skipped, corrupt, given_up;
    bool left_alone;
    double bytes_per_s; /* bandwidth with one read under way; 0: not known */
};

struct status_storage {
    struct status_read source; /* reads from all sources */
    struct status_class classes[STATUS_CLASSES_MAX];
    uint32_t n_classes;
    const char *const *states; /* names of all states, NULL at the end; static */
};

struct status_role {
    const char *name; /* "load", "prepare", …: static */
    uint32_t count;
};

#define STATUS_NODE_ID_BYTES 16

/* A node of the cluster. */
struct status_node {
    uint8_t id[STATUS_NODE_ID_BYTES];
    const char *state; /* one of status_node_states */
    bool self, asked;
    char *name, *url; /* malloc'ed, the status's own; NULL: not known */
};
/* The samples that another node has still to give to a job. */
struct status_part {
    uint8_t node[STATUS_NODE_ID_BYTES];
    uint64_t left;           /* samples */
    uint32_t asked, waiting; /* those of them in requests; those waited for and in no request */
    bool open;
};
/* Counts of samples that other nodes have given, or failed to give. */
struct status_shared {
    uint64_t received, refused, moved, back;
};
/* A job to which other nodes may give. */
struct status_share {
    char name[ENGINE_NAME_MAX];
    struct status_shared samples;
    bool homes;                /* Homes give to it in this epoch; else it is prepared here alone. */
    uint32_t trainings;        /* that want the same, itself included */
    const char *spread;        /* static: cluster.spread, if its ranks are at several nodes; else NULL */
    struct status_part *parts; /* malloc'ed, the status's own */
    size_t n_parts;
};
struct status_cluster {
    char *name; /* malloc'ed, as are the arrays: the status's own */
    uint32_t guests;
    uint64_t requests, probes, given;
    struct status_shared samples; /* all jobs, ended ones included */
    struct status_node *nodes;    /* this one first */
    size_t n_nodes;
    struct status_share *jobs;
    size_t n_jobs;
};

/* The daemon's process and its use of the machine. */
struct status_process {
    uint32_t pid;
    double start_time_s; /* Unix time */
    double time_s;       /* monotonic, now */
    double uptime_s;
    uint64_t rss_bytes;
    double cpu_s;
    uint32_t open_fds, max_fds;                 /* 0: not known */
    struct status_role roles[STATUS_ROLES_MAX]; /* its threads */
    uint32_t n_roles;
};

#define STATUS_PAGE_BYTES 128 /* a URL of a loopback address, or the path of a unix socket */

/* One snapshot. One thread fills it, then another may read it: it has no pointer to anything that changes. */
struct daemon_status {
    const char *version, *decoders, *socket; /* live as long as the daemon; decoders may be NULL */
    char page[STATUS_PAGE_BYTES];            /* empty: there is none */
    bool draining;
    struct status_process process;
    struct status_settings settings;
    const struct status_place *places; /* live as long as the daemon */
    uint32_t n_places;
    uint32_t sessions, datasets;
    uint64_t arena_budget_bytes, samples_budget_bytes; /* the second with what encoded samples have beside the first */
    bool room_moves;
    uint64_t history_bytes; /* memory of what the daemon remembers, at most, and of its last statuses */
    uint64_t columns_bytes; /* memory of the datasets' columns */
    struct {
        uint64_t budget_bytes, samples_bytes, paths_bytes, identities_bytes; /* as catalog.h has them */
    } catalogs;
    struct scratch_budget_stats scratch;
    struct status_storage storage;
    struct engine_totals totals;
    struct status_governor governor;
    struct histogram loads, preparations; /* durations of reads, and of preparing samples */
    struct histogram steps;               /* durations of the engine's steps */
    const char *bad_reasons[BAD_REASONS]; /* names for totals.counts.bad_samples; NULL: no such reason. Static. */
    struct status_job *jobs;              /* malloc'ed, the status's own */
    size_t n_jobs;
    struct status_cluster *cluster; /* malloc'ed, the status's own; NULL: the daemon is in none */
};

/* The dependent sampling tree (sampler.h, sampler_tree), of jobs that ascend by what is left to them. */
struct status_vertex {
    char name[ENGINE_NAME_MAX]; /* name of job i */
    uint64_t left;
    uint64_t shared; /* samples that job i and all that follow have in common, and job i - 1 has not */
    uint64_t own;    /* samples in its leaf */
};
struct status_tree {
    size_t count;
    struct status_vertex jobs[JOBS_MAX];
};

/* status_bytes returns the memory that the status takes, with all that it owns. */
size_t status_bytes(const struct daemon_status *status);
/* status_clear frees what the status owns and zeroes it. */
void status_clear(struct daemon_status *status);

/* status_read_process fills pid, rss_bytes, cpu_s and the descriptors for this process, and time_s, from /proc/self,
 * getrusage and getrlimit. A value that cannot be read stays 0. */
void status_read_process(struct status_process *process);

/* status_read_clients fills in what has become of the processes of clients that hold a batch for long, or none. */
void status_read_clients(struct daemon_status *status);

/* status_to_json and status_to_metrics return a text that the caller frees. NULL: out of memory. Texts that are not
 * UTF-8 (job names are a client's bytes) come out with '?' for each wrong byte. Pure; any thread. */
char *status_to_json(const struct daemon_status *status);
/* [{"job":"a","left":3,"shared":1,"own":2},…] */
char *status_tree_to_json(const struct status_tree *tree);
char *status_to_metrics(const struct daemon_status *status, size_t *len_bytes);

#endif
