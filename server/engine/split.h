/* split.h: how much of memory instances may have, and how much encoded samples; split.c says by which rule.
 *
 * Invariant: prepared.growth.most_bytes is at most the arena's budget, and is all of it without config.lent_bytes.
 * Owner: split.c owns prepared.growth.most_bytes, through prepared_set_most. */
#ifndef LARDER_SERVER_ENGINE_SPLIT_H
#define LARDER_SERVER_ENGINE_SPLIT_H

#include "server/engine/quota.h"
#include "server/engine/residents.h"
#include "server/engine/tasks.h"

struct split {
    struct engine_env *env;
    struct jobs *jobs;
    struct prepared *prepared;
    const struct encoded_store *encoded;
    struct residents *residents;
    const struct quota *quota;
    const struct tasks *tasks;
    /* Since the last step: all workers have had enough to do; else some read was under way. */
    bool working, reading;
    /* What follows counts from since_ns on, when samples_before samples had been delivered. */
    uint64_t since_ns, samples_before;
    uint64_t read_ns, work_ns; /* how long clients stood still because of reads, and because of preparations */
};

/* split_step_ends notes what goes on until the next step. split_lost notes that a client has stood still for so long
 * since the last one. */
void split_step_ends(struct split *split);
void split_lost(struct split *split, uint64_t ns);
/* split_keep chooses anew what encoded memory keeps over all epochs. It is called when other chunks may be worth
 * keeping. split_divided does so if jobs look further ahead than room is for: the arena was divided again. */
void split_keep(struct split *split);
void split_divided(struct split *split);
/* split_epoch moves room, if enough is known since it did so last. It is called when an epoch of the job begins. */
void split_epoch(struct split *split, const struct job *job);

#endif
