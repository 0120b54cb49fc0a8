#include "client/cli/explain.h"

#include <math.h>
#include <string.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"
#include "client/cli/explain_priv.h"

#define THROTTLED 0.1    /* the part of the periods from which on a quota is to blame */
#define CROWDED 0.75     /* if it has a smaller fraction of its cores, or none would be idle, others are in its way */
#define IDLE_CORES 0.7   /* if a smaller fraction of its cores is busy, the job does not wait for cores */
#define MEMORY_FULL 0.9  /* the part of a cgroup's memory that budgets may take */
#define THREADS_MAX 1024 /* most of threads.workers, and of threads.loaders */
#define NO_STEP_MS 1     /* a shorter step is none */
#define NO_STEP 0.05     /* nor is one that is a smaller part of the time from one batch to the next */
#define ROUNDING 1e-6
#define WAITS_MOST 0.95 /* what is left of the time from there on is too little to judge by */

enum { RATES_BYTES = 160, RAISE_BYTES = 80 };

/* The job's measurements over the time between the two statuses. 0: not known. */
struct measured {
    const json_t *job, *before;
    double elapsed_s;
    struct cli_state state;
    double batch, load_ms, prepare_ms, train_ms;
    double per_s;       /* samples that it gets */
    double wants_per_s; /* samples that its ranks would train on if they never waited; 0: not known, or no_step */
    bool no_step;       /* its script does too little between batches to tell what it would take */
    double busy_cores;
    double idle_cores; /* of the machine; < 0: not known */
    double part;       /* 0 … 1: of the threads' time, what samples take that the job gets, whoever prepared them */
    /* The settings, and not what the governor makes of them at the moment. 0: a daemon of an earlier release. */
    double workers, loaders, quota; /* quota: 0 … 1, of the arena */
    double cores;                   /* cores that larderd may use, by the machine and its cgroup's quota */
    double spare_bytes;             /* further memory that larderd might use */
};

static double setting(const struct explain_facts *facts, const char *name)
{
    return cells_number(cells_at(facts->now, "daemon", "settings", name));
}

static double cores_of(const struct cli_machine *machine)
{
    bool limited = machine->quota_cores > 0 && machine->quota_cores < machine->cores;
    return limited ? fmax(1, floor(machine->quota_cores)) : machine->cores;
}

/* spare_of returns the memory that budgets might be raised by: half of what is free, within the cgroup's limit. */
static double spare_of(const struct explain_facts *facts)
{
    const struct cli_machine *machine = &facts->machine_now;
    double spare = machine->available_bytes ? (double)machine->available_bytes / 2 : INFINITY;
    if (machine->limit_bytes)
        spare = fmin(spare, MEMORY_FULL * (double)machine->limit_bytes - cli_budgets(facts->now));
    return spare;
}

static struct measured measure(const struct explain_facts *facts, const json_t *job)
{
    struct measured m = {.job = job,
                         .before = cli_find_job(facts->before, json_string_value(json_object_get(job, "name"))),
                         .elapsed_s = cli_elapsed_s(facts->now, facts->before),
                         .batch = cells_field(job, "batch_size"),
                         .load_ms = explain_mean(job, "load_ms"),
                         .prepare_ms = explain_mean(job, "prepare_ms"),
                         .train_ms = explain_mean(job, "train_ms"),
                         .workers = setting(facts, "threads.workers"),
                         .loaders = setting(facts, "threads.loaders"),
                         .quota = setting(facts, "jobs.quota"),
                         .cores = cores_of(&facts->machine_now),
                         .spare_bytes = spare_of(facts)};
    if (!m.before)
        m.elapsed_s = 0; /* it has come meanwhile */
    m.state = cli_state_of(job, m.before, m.elapsed_s);
    m.busy_cores = cells_rate(cells_number(cells_at(facts->now, "daemon", "cpu_s", NULL)),
                              cells_number(cells_at(facts->before, "daemon", "cpu_s", NULL)), m.elapsed_s);
    m.idle_cores = facts->machine_before.idle_s > 0
                       ? cells_rate(facts->machine_now.idle_s, facts->machine_before.idle_s, m.elapsed_s)
                       : -1;
    m.per_s = cells_rate(cells_field(job, "delivered"), cells_field(m.before, "delivered"), m.elapsed_s);
    if (m.train_ms > 0)
        m.wants_per_s = m.batch * (double)json_array_size(json_object_get(job, "queues")) / m.train_ms * 1e3;
    m.no_step = m.train_ms > 0 && (m.train_ms < NO_STEP_MS || (m.per_s > 0 && m.per_s < NO_STEP * m.wants_per_s));
    if (m.no_step)
        m.wants_per_s = 0;
    else if (m.train_ms > 0 && m.per_s > 0 && m.state.known && m.state.waits < WAITS_MOST)
        m.wants_per_s = m.per_s / (1 - m.state.waits); /* of the same time as what the job gets, and as its waiting */
    double threads = explain_threads(facts);
    m.part = threads > 0 ? fmin(1, fmax(0, m.per_s) * m.prepare_ms / 1e3 / threads) : 1;
    return m;
}

/* cores_needed returns how many cores would do what `cores` do now as fast as the job takes it, where all of them are
 * busy, and other jobs go on as they do. For a job that gets nothing at the moment it goes by the time that a sample
 * takes. 0: not known. */
static double cores_needed(const struct measured *m, double cores)
{
    double mine = cores * m->part;
    if (m->wants_per_s <= 0)
        return 0;
    return ceil(m->per_s > 0 ? cores - mine + mine * m->wants_per_s / m->per_s - ROUNDING
                             : m->wants_per_s * m->prepare_ms / 1e3 - ROUNDING);
}

/* rounded_up gives the next number of bytes that is eight to fifteen of a power of two: a look a moment later advises
 * the same. */
static double rounded_up(double bytes)
{
    int exponent;
    frexp(bytes, &exponent);
    return bytes > 0 ? ceil(ldexp(bytes, 4 - exponent)) * ldexp(1, exponent - 4) : 0;
}

/* ── the causes ────────────────────────────────────────────────────────────────────────────────────────────────── */

static void say_storage(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES], path[CELL_BYTES];
    out->cause = "storage";
    SAY(out->why, "%s waits for storage that does not answer", explain_name(m->job, name));
    SAY(out->change, "see that %s can be read; the job goes on by itself then",
        cells_printable(json_object_get(m->job, "dataset"), 80, path));
    SAY(out->figure, "no answer for %.0f s", cells_field(m->job, "source_wait_s"));
}

/* is_full tells whether the rank's script has all batches that it may have at once, and has got none since `before`.
 * They may be such as it has not taken yet. */
static bool is_full(const json_t *job, const json_t *queue, const json_t *before)
{
    double most = cells_field(job, "held_max");
    return most > 0 && before && cells_field(queue, "leased_batches") >= most &&
           cells_field(queue, "batches") == cells_field(before, "batches");
}

static const json_t *full_queue(const struct measured *m)
{
    const json_t *queues = json_object_get(m->job, "queues"), *queue;
    size_t i;
    json_array_foreach((json_t *)queues, i, queue) {
        const json_t *before = json_array_get(json_object_get(m->before, "queues"), i);
        if (is_full(m->job, queue, before))
            return queue;
    }
    return NULL;
}

/* say_full says of a script that asks for nothing that it has all batches that it may have. */
static void say_full(const struct measured *m, const json_t *queue, struct explanation *out)
{
    char name[CELL_BYTES], lasted[CELL_BYTES], rank[32] = "", pid[48] = "its process";
    if (json_array_size(json_object_get(m->job, "queues")) > 1)
        SAY(rank, ", rank %.0f,", cells_field(queue, "rank"));
    if (cells_field(queue, "pid") > 0)
        SAY(pid, "process %.0f", cells_field(queue, "pid"));
    out->cause = "script";
    SAY(out->why,
        "the script of %s%s has %.0f of the %.0f batches that it may have at once, and gets no other before it gives "
        "one back: it keeps them, or trains on one for long",
        explain_name(m->job, name), rank, cells_field(queue, "leased_batches"), cells_field(m->job, "held_max"));
    SAY(out->change,
        "if it keeps batches of zero_copy in a list: drop older ones, release() them, or leave zero_copy out; else "
        "look what %s does",
        pid);
    SAY(out->figure, "the oldest batch is with it for %s",
        cells_duration(cells_field(queue, "oldest_lease_s"), lasted));
}

/* say_script says what has become of the script of a rank that asks for nothing any more. */
static void say_script(const struct measured *m, const json_t *queue, struct explanation *out)
{
    char name[CELL_BYTES], lasted[CELL_BYTES], rank[32] = "", pid[48] = "its process";
    const char *process = json_string_value(json_object_get(queue, "process"));
    double held_s = cells_field(queue, "oldest_lease_s"), number = cells_field(queue, "pid");
    explain_name(m->job, name);
    if (json_array_size(json_object_get(m->job, "queues")) > 1)
        SAY(rank, ", rank %.0f,", cells_field(queue, "rank"));
    if (number > 0)
        SAY(pid, "process %.0f", number);
    out->cause = "script";
    if (held_s > 0)
        SAY(out->figure, "it has held a batch for %s", cells_duration(held_s, lasted));
    else
        SAY(out->figure, "it holds no batch");
    if (process && strcmp(process, "stopped") == 0) {
        SAY(out->why, "the script of %s%s is stopped (%s, by a signal or a debugger), and asks for nothing", name, rank,
            pid);
        SAY(out->change, "let it go on: kill -CONT %.0f", number);
    } else if (process && strcmp(process, "gone") == 0) {
        SAY(out->why, "the script of %s%s is gone (%s), and a process that it left keeps its connection open", name,
            rank, pid);
        SAY(out->change, "end the job: larder cancel %s", name);
    } else {
        SAY(out->why, "the script of %s%s asks for nothing: it is busy with something else, or hangs%s", name, rank,
            process ? "" : ", or is stopped or gone");
        SAY(out->change, "nothing in Larder; look what %s does", pid);
    }
}

static void say_idle(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES];
    out->cause = "idle";
    SAY(out->why, "%s has begun no epoch: its script has asked for no batch yet", explain_name(m->job, name));
    SAY(out->change, "nothing in Larder; look at the script");
    SAY(out->figure, "0 samples delivered");
}

static void say_training(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES];
    out->cause = "training";
    SAY(out->why, "%s hardly waits for Larder: its script sets its pace", explain_name(m->job, name));
    SAY(out->change, "nothing in Larder; only a shorter time from one batch to the next makes it faster");
    if (m->train_ms > 0 && m->train_ms < NO_STEP_MS)
        SAY(out->figure,
            "its script asks for the next batch at once; what is left is the copy that it gets of a batch, "
            "which zero_copy=True spares");
    else if (m->train_ms > 0)
        SAY(out->figure, "its script takes %.*f ms from one batch of %.0f samples to the next",
            m->train_ms < 10 ? 1 : 0, m->train_ms, m->batch);
    else
        SAY(out->figure, "a batch is ready whenever it asks");
}

/* list_ranks writes the ranks that have not finished their epoch and are away, or else those that are there. It returns
 * their number. */
static size_t list_ranks(const json_t *job, bool away, char *text, size_t cap)
{
    const json_t *queues = json_object_get(job, "queues"), *queue;
    size_t i, count = 0, len = 0;
    text[0] = '\0';
    json_array_foreach((json_t *)queues, i, queue) {
        bool there = json_is_true(json_object_get(queue, "attached"));
        if (there == away || json_is_true(json_object_get(queue, "done")))
            continue;
        if (count++ < 8)
            len += (size_t)snprintf(text + len, cap - len, "%s%.0f", count > 1 ? ", " : "", cells_field(queue, "rank"));
    }
    if (count > 8)
        snprintf(text + len, cap - len, ", …");
    return count;
}

/* say_gone tells of a job that the daemon keeps for its ranks, of which none is there. */
static void say_gone(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES], ranks[CELL_BYTES];
    size_t all = json_array_size(json_object_get(m->job, "queues"));
    list_ranks(m->job, true, ranks, sizeof ranks);
    out->cause = "gone";
    SAY(out->why, "no script of %s is there: all that were have ended, and the daemon keeps it for limits.rank_timeout",
        explain_name(m->job, name));
    SAY(out->change, "start rank%s %s", strchr(ranks, ',') ? "s" : "", *ranks ? ranks : "0");
    SAY(out->figure, "0 of %zu ranks are there", all);
}

static void say_new(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES];
    out->cause = "new";
    SAY(out->why, "%s has come just now, and nothing is measured yet", explain_name(m->job, name));
    SAY(out->change, "ask again in some seconds");
    SAY(out->figure, "%.0f samples delivered", cells_field(m->job, "delivered"));
}

/* say_rank tells of ranks that are away or late. `share` is the job's row of the cluster's status: it has a spread if
 * the scripts have said that other ranks are at other nodes. */
static void say_rank(const struct measured *m, const json_t *share, struct explanation *out)
{
    char name[CELL_BYTES], ranks[CELL_BYTES];
    size_t all = json_array_size(json_object_get(m->job, "queues"));
    size_t away = list_ranks(m->job, true, ranks, sizeof ranks);
    out->cause = "rank";
    if (away) {
        SAY(out->why, "%s waits for ranks that are not there: %s", explain_name(m->job, name), ranks);
        SAY(out->change, "start rank%s %s", away > 1 ? "s" : "", ranks);
        if (!json_is_string(json_object_get(share, "spread")))
            SAY(out->change, "start rank%s %s; if %s on another machine, give local_world_size=", away > 1 ? "s" : "",
                ranks, away > 1 ? "they run" : "it runs");
        SAY(out->figure, "%zu of %zu ranks are missing", away, all);
        return;
    }
    size_t late = list_ranks(m->job, false, ranks, sizeof ranks);
    SAY(out->why, "ranks of %s wait for others that are not through with the epoch: %s", explain_name(m->job, name),
        ranks);
    SAY(out->change, "look what rank %s does: all ranks end an epoch together", ranks);
    SAY(out->figure, "%zu of %zu ranks are late", late, all);
}

static void say_quota(const struct measured *m, const struct explain_facts *facts, struct explanation *out)
{
    char name[CELL_BYTES];
    double quota = facts->machine_now.quota_cores;
    double needs = fmin(cores_needed(m, quota), facts->machine_now.cores);
    out->cause = "quota";
    SAY(out->why, "%s waits for its samples, because the cgroup of larderd may not use more processor time",
        explain_name(m->job, name));
    if (needs > quota)
        SAY(out->change, "raise the cgroup's CPU quota from %.1f to %.0f cores", quota, needs);
    else
        SAY(out->change, "raise the cgroup's CPU quota of %.1f cores", quota);
    SAY(out->figure, "the quota was used up in %.0f %% of its periods",
        100 * cli_throttled(&facts->machine_before, &facts->machine_now));
}

static void say_memory(const struct measured *m, const struct explain_facts *facts, struct explanation *out)
{
    char name[CELL_BYTES], a[CELL_BYTES], b[CELL_BYTES], holder[EXPLAIN_OTHER_BYTES];
    double arena = cells_number(cells_at(facts->now, "memory", "arena", "budget_bytes"));
    double pinned = cells_number(cells_at(facts->now, "memory", "arena", "pinned_bytes"));
    double allowed = cells_field(m->job, "prefetch"), asked = cells_field(m->job, "prefetch_asked");
    bool alone = json_array_size(json_object_get(facts->now, "jobs")) == 1, shortened = asked > allowed;
    /* Besides the look-ahead, two batches are in a client's hands or being filled. */
    double times = shortened ? (asked + 2) / (allowed + 2) : 2;
    out->cause = "memory";
    SAY(out->why, "%s waits, because the arena has no room to prepare enough ahead", explain_name(m->job, name));
    if (alone && m->quota > 0 && m->quota < 1)
        SAY(out->change, "raise jobs.quota from %.0f%% to %.0f%%: this job is alone, and may have no more of the arena",
            100 * m->quota, fmin(100, ceil(100 * m->quota * times)));
    else if ((times - 1) * arena <= m->spare_bytes)
        SAY(out->change, "raise memory.arena from %s to %s", cells_bytes(arena, a), cells_bytes(times * arena, b));
    else
        SAY(out->change, "lower %s: there is no memory for an arena of %s", shortened ? "batch_size" : "prefetch",
            cells_bytes(times * arena, b));
    SAY(out->figure, "it may look %.0f %s ahead where it asked for %.0f, and %.0f %% of the arena is pinned%s", allowed,
        allowed == 1 ? "batch" : "batches", asked, arena > 0 ? 100 * pinned / arena : 0,
        explain_holder(facts, m->job, holder));
}

/* reads_of_source returns how many reads at once the settings allow a source; if an older daemon does not tell them,
 * how many it lets run. */
static double reads_of_source(const struct measured *m, const struct explain_facts *facts)
{
    return m->workers > 0 && m->loaders > 0 ? m->workers + m->loaders
                                            : cells_number(cells_at(facts->now, "governor", "loaders", NULL));
}

/* lets_all_read tells whether jobs have as many reads at once as a source may have. If not, more would change nothing:
 * the governor has found that fewer bring as much. */
static bool lets_all_read(const struct explain_facts *facts, double reads)
{
    const json_t *jobs = json_object_get(facts->now, "jobs"), *job;
    double dealt = 0;
    size_t i;
    json_array_foreach((json_t *)jobs, i, job)
        dealt += cells_field(job, "loaders");
    return dealt == 0 || dealt + 1 >= reads;
}

/* rates_text says what the job gets, and what it would take if its training step can tell that. */
static const char *rates_text(const struct measured *m, char buf[RATES_BYTES])
{
    double per_s = fmax(0, m->per_s);
    if (m->no_step)
        snprintf(buf, RATES_BYTES, "the job gets %.0f samples/s: its script works on a batch for only %.2g ms", per_s,
                 m->train_ms);
    else if (m->wants_per_s > 0)
        snprintf(buf, RATES_BYTES, "the job gets %.0f samples/s and would take %.0f", per_s, m->wants_per_s);
    else
        snprintf(buf, RATES_BYTES, "the job gets %.0f samples/s", per_s);
    return buf;
}

/* look_ahead_of returns what the jobs look ahead, if encoded memory is smaller: then reads wait for room. 0: it is
 * not. */
static double look_ahead_of(const struct explain_facts *facts)
{
    double ahead = cells_number(cells_at(facts->now, "memory", "encoded", "look_ahead_bytes"));
    return ahead > cells_number(cells_at(facts->now, "memory", "encoded", "budget_bytes")) ? ahead : 0;
}

/* raise_encoded says which setting gives encoded samples so many bytes. */
static const char *raise_encoded(const struct explain_facts *facts, double wanted, char buf[RAISE_BYTES])
{
    char a[CELL_BYTES], b[CELL_BYTES];
    double from = cells_number(cells_at(facts->now, "memory", "encoded", "budget_bytes")), to = wanted;
    bool moves = json_is_true(cells_at(facts->now, "memory", "samples", "moves"));
    if (moves) {
        to += cells_number(cells_at(facts->now, "memory", "samples", "budget_bytes")) - from;
        from = cells_number(cells_at(facts->now, "memory", "samples", "budget_bytes"));
    }
    snprintf(buf, RAISE_BYTES, "raise memory.%s from %s to %s", moves ? "samples" : "encoded", cells_bytes(from, a),
             cells_bytes(to, b));
    return buf;
}

/* say_room is of a job that waits for reads, which wait for room. */
static void say_room(const struct measured *m, const struct explain_facts *facts, struct explanation *out)
{
    char name[CELL_BYTES], a[CELL_BYTES], b[CELL_BYTES], raised[RAISE_BYTES];
    double budget = cells_number(cells_at(facts->now, "memory", "encoded", "budget_bytes"));
    double ahead = look_ahead_of(facts), wanted = rounded_up(2 * ahead);
    out->cause = "encoded";
    SAY(out->why, "%s waits for its files to be read: reads wait for room in encoded memory",
        explain_name(m->job, name));
    if (wanted - budget < m->spare_bytes)
        SAY(out->change, "%s", raise_encoded(facts, wanted, raised));
    else
        SAY(out->change, "lower prefetch, or batch_size: there is no memory for %s", cells_bytes(wanted, b));
    SAY(out->figure, "jobs look %s ahead, and encoded memory has %s", cells_bytes(ahead, a), cells_bytes(budget, b));
}

static void say_source(const struct measured *m, const struct explain_facts *facts, struct explanation *out)
{
    char name[CELL_BYTES], raised[RAISE_BYTES], rates[RATES_BYTES];
    double loaded = cells_number(cells_at(facts->now, "samples", "loaded", NULL));
    double each = loaded > 0 ? cells_number(cells_at(facts->now, "samples", "loaded_bytes", NULL)) / loaded : 0;
    double all = rounded_up(1.05 * each * cells_field(m->job, "view_samples"));
    double budget = cells_number(cells_at(facts->now, "memory", "encoded", "budget_bytes"));
    double reads = reads_of_source(m, facts);
    double needs = m->wants_per_s > 0 ? ceil(m->wants_per_s * m->load_ms / 1e3) : reads + m->loaders;
    double most = fmin(m->loaders + needs - reads, THREADS_MAX);
    bool again = cells_field(m->job, "epoch") > 0 || cells_field(m->job, "epochs") != 1;
    bool packed = json_is_object(json_object_get(m->job, "store"));
    bool classes = json_array_size(cells_at(facts->now, "storage", "classes", NULL)) > 0;
    out->cause = "source";
    SAY(out->why, "%s waits for its files to be read: its storage is slower than its training",
        explain_name(m->job, name));
    if (again && all > budget && all - budget < m->spare_bytes)
        SAY(out->change, "%s: then each file is read once, and not again in every epoch",
            raise_encoded(facts, all, raised));
    else if (m->loaders > 0 && most > m->loaders && lets_all_read(facts, reads))
        SAY(out->change,
            "raise threads.loaders from %.0f to %.0f: more reads at once, where the storage can serve them", m->loaders,
            most);
    else if (again && !classes)
        SAY(out->change, "a storage class on a fast disk: what an epoch has read, the next one reads there");
    else
        SAY(out->change, "%s", packed ? "faster storage" : "a chunk store, which is read in large pieces: larder pack");
    SAY(out->figure, "a sample takes %.1f ms to load, its storage may have %.0f reads at once, and %s", m->load_ms,
        reads, rates_text(m, rates));
}

/* encoded_for_forms returns the memory for encoded samples with which all images of the job's may stay decoded, if
 * there is memory for it. 0: there is none, or nothing is decoded in memory, so that nobody knows what that takes, or
 * would be kept. */
static double encoded_for_forms(const struct measured *m, const struct explain_facts *facts)
{
    double forms = cells_number(cells_at(facts->now, "memory", "encoded", "decoded_samples"));
    double bytes = cells_number(cells_at(facts->now, "memory", "encoded", "decoded_bytes"));
    double budget = cells_number(cells_at(facts->now, "memory", "encoded", "budget_bytes"));
    bool again = cells_field(m->job, "epoch") > 0 || cells_field(m->job, "epochs") != 1;
    double all = forms > 0 ? rounded_up(1.05 * bytes / forms * cells_field(m->job, "view_samples")) : 0;
    return again && all > budget && all - budget < m->spare_bytes ? all : 0;
}

/* is_crowded tells whether other programs, training scripts among them, have cores that larderd might have: it gets
 * much less than its cores, and what it does not get is not idle. */
static bool is_crowded(const struct measured *m)
{
    return m->busy_cores >= 0 && m->idle_cores >= 0 && m->busy_cores + m->idle_cores < CROWDED * m->cores;
}

/* storage_rests tells whether on average less than half a read is under way: then who waits for one waits for something
 * else than the storage. */
static bool storage_rests(const struct measured *m, const struct explain_facts *facts)
{
    double per_s = cells_rate(cells_number(cells_at(facts->now, "samples", "loaded", NULL)),
                              cells_number(cells_at(facts->before, "samples", "loaded", NULL)), m->elapsed_s);
    return per_s >= 0 && per_s * m->load_ms / 1e3 < 0.5;
}

/* say_crowd is of a job that waits for cores which other programs have. */
static void say_crowd(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES], rates[RATES_BYTES];
    out->cause = "crowd";
    SAY(out->why, "%s waits for its samples to be decoded and augmented, while other programs have the cores",
        explain_name(m->job, name));
    SAY(out->change, "fewer other programs, or more cores; training scripts that compute on the CPU count as well");
    SAY(out->figure, "larderd got %.1f of the %.0f cores, %.1f were idle, and %s", m->busy_cores, m->cores,
        m->idle_cores, rates_text(m, rates));
}

static void say_cores(const struct measured *m, const struct explain_facts *facts, struct explanation *out)
{
    char name[CELL_BYTES], rates[RATES_BYTES], raised[RAISE_BYTES], held[64] = "", got[128] = "";
    double forms = cells_number(cells_at(facts->now, "memory", "encoded", "decoded_samples"));
    double for_forms = encoded_for_forms(m, facts);
    double needs = cores_needed(m, m->cores);
    double preparers = cells_number(cells_at(facts->now, "governor", "preparers", NULL));
    bool limited = m->cores < facts->machine_now.cores;
    out->cause = "cores";
    SAY(out->why, "%s waits for its samples to be decoded and augmented: that is slower than its training",
        explain_name(m->job, name));
    if (m->workers > 0 && m->workers < m->cores)
        SAY(out->change, "raise threads.workers from %.0f to %.0f, as many as %s", m->workers,
            fmin(m->cores, THREADS_MAX), limited ? "its cgroup may use cores" : "there are cores");
    else if (for_forms > 0)
        SAY(out->change, "%s: then its images stay there decoded, and are not read and decoded again in every epoch",
            raise_encoded(facts, for_forms, raised));
    else if (m->workers == 0)
        SAY(out->change, "as many threads.workers as there are cores");
    else if (needs > m->cores && m->cores > 0)
        SAY(out->change, "about %.0f cores instead of %.0f", needs, m->cores);
    else
        SAY(out->change, "more cores than %.0f", fmax(m->cores, preparers));
    if (forms > 0)
        snprintf(held, sizeof held, ", memory holds %.0f decoded images", forms);
    if (m->busy_cores >= 0)
        SAY(got, "; larderd got %.1f of the %.0f cores", m->busy_cores, m->cores);
    SAY(out->figure, "a sample takes %.1f ms of a thread, %.0f %s%s, and %s%s", m->prepare_ms, preparers,
        preparers == 1 ? "thread prepares" : "threads prepare", held, rates_text(m, rates), got);
}

/* lacks_memory tells whether a job waits though cores are idle, because it may not look as far ahead as it asked. */
static bool lacks_memory(const struct measured *m)
{
    double cores = m->workers > 0 ? fmin(m->workers, m->cores) : m->cores;
    bool shortened = cells_field(m->job, "prefetch") < cells_field(m->job, "prefetch_asked");
    return strcmp(m->state.cause, "room") == 0 ||
           (shortened && m->busy_cores >= 0 && m->busy_cores < IDLE_CORES * cores &&
            strcmp(m->state.cause, "prepare") == 0);
}

/* lacks_quota tells whether a job waits for a quota: one that can be raised, and of which larderd uses much itself. */
static bool lacks_quota(const struct measured *m, const struct explain_facts *facts)
{
    double quota = facts->machine_now.quota_cores;
    return cli_throttled(&facts->machine_before, &facts->machine_now) >= THROTTLED &&
           quota < facts->machine_now.cores && m->busy_cores >= IDLE_CORES * quota;
}

/* say_place puts behind the advice where the setting stands that it names. */
static void say_place(const json_t *status, struct explanation *out)
{
    const json_t *places = cells_at(status, "daemon", "places", NULL), *place;
    const char *setting;
    char text[CELL_BYTES];
    size_t len = strlen(out->change);
    json_object_foreach((json_t *)places, setting, place) {
        if (strstr(out->change, setting) && len < sizeof out->change) {
            snprintf(out->change + len, sizeof out->change - len, " (%s: %s)", setting,
                     cells_printable(place, 200, text));
            return;
        }
    }
}

void cli_explain(const struct explain_facts *facts, const json_t *job, struct explanation *out)
{
    struct measured m = measure(facts, job);
    const char *cause = m.state.cause;
    char other[EXPLAIN_OTHER_BYTES];
    const json_t *full = full_queue(&m);
    *out = (struct explanation){.waits = m.state.waits, .known = m.state.known};
    const json_t *share = explain_share(facts->now, job);
    explain_where(job, share, out);
    if (strcmp(cause, "storage") == 0)
        say_storage(&m, out);
    else if (strcmp(cause, "gone") == 0)
        say_gone(&m, out);
    else if (strcmp(cause, "rank") == 0)
        say_rank(&m, share, out);
    else if (full && (strcmp(cause, "script") == 0 || strcmp(cause, "training") == 0))
        say_full(&m, full, out);
    else if (strcmp(cause, "script") == 0)
        say_script(&m, m.state.silent, out);
    else if (strcmp(cause, "idle") == 0)
        say_idle(&m, out);
    else if (strcmp(cause, "new") == 0)
        say_new(&m, out);
    else if (strcmp(cause, "training") == 0)
        say_training(&m, out);
    else if (lacks_quota(&m, facts))
        say_quota(&m, facts, out);
    else if (lacks_memory(&m))
        say_memory(&m, facts, out);
    else if (strcmp(cause, "load") == 0 && look_ahead_of(facts) > 0)
        say_room(&m, facts, out);
    else if (strcmp(cause, "load") == 0 && !(is_crowded(&m) && storage_rests(&m, facts)))
        say_source(&m, facts, out);
    else if (is_crowded(&m))
        say_crowd(&m, out);
    else
        say_cores(&m, facts, out);
    say_place(facts->now, out);
    if (strcmp(out->cause, "cores") == 0 &&
        strlen(out->change) + strlen(explain_neighbour(facts, job, other)) < sizeof out->change)
        strcat(out->change, other);
}
