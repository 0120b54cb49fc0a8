/* split.c: room moves between instances and encoded samples, to what saves more of what clients wait for.
 *
 * An instance in memory saves a preparation, and an encoded sample a read. While workers have more to do than they can,
 * a client that stands still waits for them, and more instances would help it. Otherwise it waits for reads, if any are
 * under way. What clients lost in an epoch is compared with what the epoch would have taken without. The loss to
 * preparations is the part of what instances lack that they get, and the loss to reads the part of what they have that
 * they give. So it comes to rest where both weigh the same. Where nobody waits nothing moves.
 *
 * Jobs always have room for their look-ahead. Instances beyond that are of use only to jobs that share a pipeline, or
 * may have an instance again. To other jobs more encoded samples are of use, or decoded ones, whatever they wait
 * for. */
#include "server/engine/split.h"

#include <math.h>

#include "server/engine/encoded.h"

void split_step_ends(struct split *split)
{
    split->working = split->tasks->busy;
    split->reading = !split->working && split->encoded->loading > 0;
}

void split_lost(struct split *split, uint64_t ns)
{
    split->work_ns += split->working ? ns : 0;
    split->read_ns += split->reading ? ns : 0;
}

/* is_shared tells whether some job may get an instance that was made for another one, or that it had before. */
static bool is_shared(const struct split *split)
{
    for (const struct job *job = jobs_first(split->jobs); job; job = jobs_after(split->jobs, job)) {
        if (job->terms.repeatable)
            return true;
        for (const struct job *other = jobs_first(split->jobs); other != job; other = jobs_after(split->jobs, other)) {
            if (other->terms.pipeline == job->terms.pipeline && other->terms.dataset == job->terms.dataset)
                return true;
        }
    }
    return false;
}

/* passed_ns returns how much time has passed for all clients together. */
static uint64_t passed_ns(const struct split *split)
{
    uint64_t ns = 0;
    for (const struct job *job = jobs_first(split->jobs); job; job = jobs_after(split->jobs, job)) {
        uint64_t since_ns = job->tallies.came_ns > split->since_ns ? job->tallies.came_ns : split->since_ns;
        ns += (split->env->now_ns - since_ns) * job->attached;
    }
    return ns;
}

/* moved returns the room of instances as it is to be from now on. */
static uint64_t moved(const struct split *split)
{
    const struct engine_config *config = &split->env->config;
    double all = (double)config->arena_bytes;
    double least = fmax((double)split->quota->promised_bytes, all - (double)config->lent_bytes);
    double now = (double)split->prepared->growth.most_bytes, passed = (double)passed_ns(split);
    double work = (double)split->work_ns, read = (double)split->read_ns;
    if (!is_shared(split)) {
        read += work;
        work = 0;
    }
    double needed = fmax(passed - work - read, work + read);
    if (needed > 0)
        now += work / needed * (all - now) - read / needed * (now > least ? now - least : 0);
    return (uint64_t)(now > least ? now : least);
}

void split_keep(struct split *split)
{
    if (split->prepared->growth.most_bytes < split->quota->promised_bytes)
        prepared_set_most(split->prepared, split->quota->promised_bytes);
    residents_keep(split->residents, quota_ahead_encoded_bytes(split->quota));
}

void split_divided(struct split *split)
{
    if (split->prepared->growth.most_bytes < split->quota->promised_bytes)
        split_keep(split);
}

void split_epoch(struct split *split, const struct job *job)
{
    const struct engine_env *env = split->env;
    if (!env->config.lent_bytes || env->counts.samples_delivered - split->samples_before < job->shape.epoch_samples)
        return;
    uint64_t most = moved(split), before = split->prepared->growth.most_bytes;
    split->since_ns = env->now_ns;
    split->samples_before = env->counts.samples_delivered;
    split->read_ns = split->work_ns = 0;
    prepared_set_most(split->prepared, most);
    if (split->prepared->growth.most_bytes != before)
        split_keep(split);
}
