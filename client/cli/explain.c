#include "client/cli/explain.h"

#include <math.h>
#include <string.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"

#define WAITS 0.05     /* the part of the time from which on a job waits for Larder */
#define THROTTLED 0.1  /* the part of the periods from which on a quota is to blame */
#define IDLE_CORES 0.7 /* with a smaller part of its threads at work, it is not the threads that a job waits for */

#define SAY(where, ...) snprintf(where, sizeof(where), __VA_ARGS__)

/* What is known of the job over the time between the two statuses. 0: not known. */
struct measured {
    const json_t *job, *before;
    double elapsed_s, waits;
    const char *worst; /* the worst cause of its stalls */
    double batch, load_ms, prepare_ms, train_ms;
    double wants_per_s; /* samples that its ranks would train on if they never waited */
    double threads, busy_cores;
};

/* mean gives the mean of what the governor knows of the job's queues. */
static double mean(const json_t *job, const char *key)
{
    const json_t *queues = json_object_get(job, "queues"), *queue;
    double sum = 0;
    size_t i, known = 0;
    json_array_foreach((json_t *)queues, i, queue) {
        double value = cells_number(cells_at(queue, "governor", key, NULL));
        sum += value;
        known += value > 0;
    }
    return known ? sum / (double)known : 0;
}

static struct measured measure(const struct explain_facts *facts, const json_t *job)
{
    struct measured m = {.job = job,
                         .before = cli_find_job(facts->before, json_string_value(json_object_get(job, "name"))),
                         .elapsed_s = cli_elapsed_s(facts->now, facts->before),
                         .batch = cells_field(job, "batch_size"),
                         .load_ms = mean(job, "load_ms"),
                         .prepare_ms = mean(job, "prepare_ms"),
                         .train_ms = mean(job, "train_ms")};
    const json_t *threads = cells_at(facts->now, "daemon", "threads", NULL), *count;
    const char *role;
    json_object_foreach((json_t *)threads, role, count)
        m.threads += cells_number(count);
    if (!m.before)
        m.elapsed_s = 0; /* it has come meanwhile */
    m.worst = cli_worst_stall(job, m.before, m.elapsed_s, &m.waits);
    m.busy_cores = cells_rate(cells_number(cells_at(facts->now, "daemon", "cpu_s", NULL)),
                              cells_number(cells_at(facts->before, "daemon", "cpu_s", NULL)), m.elapsed_s);
    if (m.train_ms > 0)
        m.wants_per_s = m.batch * (double)json_array_size(json_object_get(job, "queues")) / m.train_ms * 1e3;
    return m;
}

static const char *name_of(const json_t *job, char buf[CELL_BYTES])
{
    return cells_printable(json_object_get(job, "name"), 60, buf);
}

/* ── the causes ────────────────────────────────────────────────────────────────────────────────────────────────── */

static void say_storage(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES], path[CELL_BYTES];
    out->cause = "storage";
    SAY(out->why, "%s waits for storage that does not answer", name_of(m->job, name));
    SAY(out->change, "see that %s can be read; the job goes on by itself then",
        cells_printable(json_object_get(m->job, "dataset"), 80, path));
    SAY(out->figure, "no answer for %.0f s", cells_field(m->job, "source_wait_s"));
}

static void say_idle(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES];
    out->cause = "idle";
    SAY(out->why, "%s has begun no epoch: its script has asked for no batch yet", name_of(m->job, name));
    SAY(out->change, "nothing in Larder; look at the script");
    SAY(out->figure, "0 samples delivered");
}

static void say_training(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES];
    out->cause = "training";
    SAY(out->why, "%s hardly waits for Larder: it is as fast as its training step", name_of(m->job, name));
    SAY(out->change, "nothing in Larder; only a faster training step makes it faster");
    if (m->train_ms > 0)
        SAY(out->figure, "a step takes %.0f ms for %.0f samples", m->train_ms, m->batch);
    else
        SAY(out->figure, "a batch is ready whenever it asks");
}

/* list_ranks writes the ranks that are away, or else those that are there and not through with their epoch. It gives
 * how many there are. */
static size_t list_ranks(const json_t *job, bool away, char *text, size_t cap)
{
    const json_t *queues = json_object_get(job, "queues"), *queue;
    size_t i, count = 0, len = 0;
    text[0] = '\0';
    json_array_foreach((json_t *)queues, i, queue) {
        bool there = json_is_true(json_object_get(queue, "attached"));
        if (away ? there : !there || json_is_true(json_object_get(queue, "done")))
            continue;
        if (count++ < 8)
            len += (size_t)snprintf(text + len, cap - len, "%s%.0f", count > 1 ? ", " : "", cells_field(queue, "rank"));
    }
    if (count > 8)
        snprintf(text + len, cap - len, ", …");
    return count;
}

static void say_rank(const struct measured *m, struct explanation *out)
{
    char name[CELL_BYTES], ranks[CELL_BYTES];
    size_t all = json_array_size(json_object_get(m->job, "queues"));
    size_t away = list_ranks(m->job, true, ranks, sizeof ranks);
    out->cause = "rank";
    if (away) {
        SAY(out->why, "%s waits for ranks that are not there: %s", name_of(m->job, name), ranks);
        SAY(out->change, "start rank %s, or look why it ended", ranks);
        SAY(out->figure, "%zu of %zu ranks are missing", away, all);
        return;
    }
    size_t late = list_ranks(m->job, false, ranks, sizeof ranks);
    SAY(out->why, "ranks of %s wait for others that are not through with the epoch: %s", name_of(m->job, name), ranks);
    SAY(out->change, "look what rank %s does: all ranks end an epoch together", ranks);
    SAY(out->figure, "%zu of %zu ranks are late", late, all);
}

static void say_quota(const struct measured *m, const struct explain_facts *facts, struct explanation *out)
{
    char name[CELL_BYTES];
    /* What a sample takes is measured under the quota, too, and so longer than it would take without. */
    double needs = fmin(ceil(m->wants_per_s * m->prepare_ms / 1e3), facts->machine_now.cores);
    out->cause = "quota";
    SAY(out->why, "%s waits for its samples, because the cgroup of larderd may not use more processor time",
        name_of(m->job, name));
    if (needs > facts->machine_now.quota_cores)
        SAY(out->change, "raise the cgroup's CPU quota from %.1f to %.0f cores", facts->machine_now.quota_cores, needs);
    else
        SAY(out->change, "raise the cgroup's CPU quota of %.1f cores", facts->machine_now.quota_cores);
    SAY(out->figure, "the quota was used up in %.0f %% of its periods",
        100 * cli_throttled(&facts->machine_before, &facts->machine_now));
}

static void say_memory(const struct measured *m, const struct explain_facts *facts, struct explanation *out)
{
    char name[CELL_BYTES], a[CELL_BYTES], b[CELL_BYTES];
    double arena = cells_number(cells_at(facts->now, "memory", "arena", "budget_bytes"));
    double pinned = cells_number(cells_at(facts->now, "memory", "arena", "pinned_bytes"));
    double allowed = cells_field(m->job, "prefetch"), asked = cells_field(m->job, "prefetch_asked");
    /* Two batches more than the look-ahead are in a client's hands or being filled. */
    double needs = asked > allowed ? arena * (asked + 2) / (allowed + 2) : 2 * arena;
    out->cause = "memory";
    SAY(out->why, "%s waits, because the arena has no room to prepare enough ahead", name_of(m->job, name));
    SAY(out->change, "raise memory.arena from %s to %s, or lower prefetch or batch_size", cells_bytes(arena, a),
        cells_bytes(needs, b));
    SAY(out->figure, "it may look %.0f batches ahead where it asked for %.0f, and %.0f %% of the arena is pinned",
        allowed, asked, arena > 0 ? 100 * pinned / arena : 0);
}

static void say_source(const struct measured *m, const struct explain_facts *facts, struct explanation *out)
{
    char name[CELL_BYTES], a[CELL_BYTES], b[CELL_BYTES];
    double loaded = cells_number(cells_at(facts->now, "samples", "loaded", NULL));
    double each = loaded > 0 ? cells_number(cells_at(facts->now, "samples", "loaded_bytes", NULL)) / loaded : 0;
    double all = each * cells_field(m->job, "view_samples");
    double budget = cells_number(cells_at(facts->now, "memory", "encoded", "budget_bytes"));
    double loaders = cells_number(cells_at(facts->now, "governor", "loaders", NULL));
    double needs = ceil(m->wants_per_s * m->load_ms / 1e3);
    bool again = cells_field(m->job, "epoch") > 0 || cells_field(m->job, "epochs") != 1;
    out->cause = "source";
    SAY(out->why, "%s waits for its files to be read: its storage is slower than its training", name_of(m->job, name));
    if (again && all > budget && all < (double)facts->machine_now.available_bytes / 2)
        SAY(out->change,
            "raise memory.encoded from %s to %s: then each file is read once, and not again in every epoch",
            cells_bytes(budget, a), cells_bytes(1.05 * all, b));
    else if (needs > loaders)
        SAY(out->change, "faster storage, or more reads at once if it can serve them: raise threads.loaders by %.0f",
            needs - loaders);
    else
        SAY(out->change, "faster storage, a chunk store (larder pack), or more reads at once (threads.loaders)");
    SAY(out->figure,
        "a sample takes %.1f ms to load, %.0f reads may run at once, and the job would take %.0f samples/s", m->load_ms,
        loaders, m->wants_per_s);
}

static void say_cores(const struct measured *m, const struct explain_facts *facts, struct explanation *out)
{
    char name[CELL_BYTES];
    double needs = ceil(m->wants_per_s * m->prepare_ms / 1e3), cores = facts->machine_now.cores;
    double preparers = cells_number(cells_at(facts->now, "governor", "preparers", NULL));
    out->cause = "cores";
    SAY(out->why, "%s waits for its samples to be decoded and augmented: that takes all threads there are for it",
        name_of(m->job, name));
    if (cores > preparers + 0.5)
        SAY(out->change, "raise threads.workers from %.0f to %.0f, as many as there are cores", preparers, cores);
    else if (needs > preparers)
        SAY(out->change, "%.0f cores instead of %.0f, smaller stored images, or a cheaper pipeline", needs, preparers);
    else
        SAY(out->change, "more cores than %.0f, smaller stored images, or a cheaper pipeline", preparers);
    SAY(out->figure, "a sample takes %.1f ms of a thread, %.0f threads prepare, and the job would take %.0f samples/s",
        m->prepare_ms, preparers, m->wants_per_s);
}

/* lacks_memory tells whether a job waits though threads are idle, because it may not look as far ahead as it asked. */
static bool lacks_memory(const struct measured *m)
{
    bool shortened = cells_field(m->job, "prefetch") < cells_field(m->job, "prefetch_asked");
    return strcmp(m->worst, "room") == 0 ||
           (shortened && m->busy_cores >= 0 && m->threads > 0 && m->busy_cores < IDLE_CORES * m->threads &&
            strcmp(m->worst, "prepare") == 0);
}

void cli_explain(const struct explain_facts *facts, const json_t *job, struct explanation *out)
{
    struct measured m = measure(facts, job);
    *out = (struct explanation){.waits = m.waits};
    if (json_is_true(json_object_get(job, "waits_for_source")))
        say_storage(&m, out);
    else if (m.waits >= WAITS && strcmp(m.worst, "rank") == 0)
        say_rank(&m, out);
    else if (!json_is_true(json_object_get(job, "started")))
        say_idle(&m, out);
    else if (m.waits < WAITS)
        say_training(&m, out);
    else if (cli_throttled(&facts->machine_before, &facts->machine_now) >= THROTTLED)
        say_quota(&m, facts, out);
    else if (lacks_memory(&m))
        say_memory(&m, facts, out);
    else if (strcmp(m.worst, "load") == 0)
        say_source(&m, facts, out);
    else
        say_cores(&m, facts, out);
}
