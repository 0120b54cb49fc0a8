/* registered.c: makes a job, or a rank of one, of a registration that comes from the registrar, or refuses it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "server/driver/driver_priv.h"
#include "server/registration/chunk_key.h"
#include "server/registration/ranks.h"
#include "server/registration/text_hash.h"
#include "server/sharing/sharing.h"

/* pipeline_number returns the number of a pipeline that means the same, or a new number. ENGINE_PIPELINES_MAX: all are
 * in use. For a new number the table takes a reference of its own. */
static uint32_t pipeline_number(struct driver *driver, struct pipeline *pipeline)
{
    uint32_t unused = ENGINE_PIPELINES_MAX, idle = ENGINE_PIPELINES_MAX;
    for (uint32_t number = 0; number < ENGINE_PIPELINES_MAX; number++) {
        struct driver_pipeline *row = &driver->tables.pipelines[number];
        if (row->pipeline && strcmp(pipeline_canonical(row->pipeline), pipeline_canonical(pipeline)) == 0)
            return number;
        if (!row->pipeline && unused == ENGINE_PIPELINES_MAX)
            unused = number;
        if (row->pipeline && row->jobs == 0)
            idle = number;
    }
    uint32_t number = unused;
    if (number == ENGINE_PIPELINES_MAX && idle != ENGINE_PIPELINES_MAX) { /* take the number of an idle pipeline */
        struct engine_event event = {.type = ENGINE_PIPELINE_GONE, .pipeline_gone = {.pipeline = idle}};
        driver_step(driver, &event, 1);
        pipeline_unref(&driver->tables.pipelines[idle].pipeline);
        number = idle;
    }
    if (number != ENGINE_PIPELINES_MAX) {
        driver->tables.pipelines[number].pipeline = pipeline_ref(pipeline);
        driver->tables.pipelines[number].seed = text_hash(pipeline_canonical(pipeline));
        governor_live_pipeline(driver->governor, number, driver->tables.pipelines[number].seed);
    }
    return number;
}

static void refuse(struct driver *driver, const struct registration *reg, int code, const char *why)
{
    struct error err = driver_placed(driver, code, why);
    log_warn_limited("msg=\"job refused\" job=\"%s\" dataset=\"%s\" code=%s err=\"%s\"", reg->name, reg->asked.source,
                     larder_err_name(code), err.text);
    session_send_error(driver->session, reg->client, reg->seq, code, true, err.text);
}

static void name_job(struct driver *driver, struct registration *reg)
{
    if (reg->name[0])
        return;
    char name[32];
    do {
        snprintf(name, sizeof name, "job-%llu", (unsigned long long)++driver->named);
    } while (tables_find_job(&driver->tables, name) < JOBS_MAX); /* a client has chosen the same name */
    free(reg->name);
    reg->name = xstrdup(name);
}

/* variant_of returns a number: jobs with the same number may share augmented samples. 0: the job shares with everybody.
 * The augmentations of a strict job depend on its seed, its dataset and the epoch alone. Those of a private job depend
 * on the daemon's boot too, as shared ones do. A pipeline that draws nothing at random is always shared. */
static uint64_t variant_of(const struct driver *driver, const struct registration *reg)
{
    const struct registration_asked *asked = &reg->asked;
    uint64_t fingerprint[2];
    if (!pipeline_is_random(reg->found.pipeline))
        return 0;
    if (asked->shuffle == SHUFFLE_STRICT) {
        dataset_fingerprint(reg->found.dataset, fingerprint);
        return random_mix64(random_mix64(asked->seed + 1) ^ fingerprint[0] ^ random_mix64(fingerprint[1])) | 1;
    }
    if (!(asked->flags & WIRE_PRIVATE_AUGMENT))
        return 0;
    return random_mix64(text_hash(reg->name) ^ random_mix64(asked->seed ^ random_mix64(driver->config.boot))) | 1;
}

/* mismatch names what a rank asked for otherwise than the job's first rank, or gives NULL. It compares what the engine
 * cannot: another dataset with the same files has the same ids, but may have other labels. */
static const char *mismatch(const struct registration *first, const struct registration *reg)
{
    uint64_t a[2], b[2];
    dataset_fingerprint(first->found.dataset, a);
    dataset_fingerprint(reg->found.dataset, b);
    uint32_t differ = first->asked.flags ^ reg->asked.flags;
    return memcmp(a, b, sizeof a) != 0     ? "dataset"
           : differ & WIRE_RELABEL         ? "relabel"
           : differ & WIRE_PRIVATE_AUGMENT ? "augment (C: private_augment)"
                                           : NULL;
}

static void try_to_add(struct driver *driver, struct engine_job_desc *desc)
{
    const struct registration *reg = driver->adding.reg;
    struct engine_event event = {.type = ENGINE_JOB_ADD, .job_add = desc};
    if (reg->guest.number)
        sharing_guest_desc(reg, desc);
    desc->homes = (struct engine_homes){0};
    if (!reg->guest.number)
        sharing_anchor(driver->sharing, reg, desc);
    driver_step(driver, &event, 1);
}

/* add_job gives the job to the engine and takes reg over. When the engine accepts a new job, the job owns reg. */
static void add_job(struct driver *driver, struct registration *reg, uint32_t pipeline)
{
    const struct registration_asked *asked = &reg->asked;
    const struct registration_found *found = &reg->found;
    struct engine_job_desc desc = {.client = reg->client,
                                   .name = reg->name,
                                   .dataset = found->dataset,
                                   .pipeline = pipeline,
                                   .program = found->pipeline,
                                   .slot_bytes = found->slot_bytes,
                                   .mean_slot_bytes = found->mean_slot_bytes,
                                   .repeatable = !pipeline_is_random(found->pipeline),
                                   .raw = pipeline_layout(found->pipeline)->bytes == 0,
                                   .sized = pipeline_is_ragged(found->pipeline),
                                   .needs_encoded = pipeline_needs_encoded(found->pipeline),
                                   .batch_size = asked->batch_size,
                                   .prefetch = asked->prefetch,
                                   .hold = asked->flags & WIRE_HOLD ? asked->prefetch + 1 : 0,
                                   .epochs = asked->epochs,
                                   .drop_last = asked->flags & WIRE_DROP_LAST,
                                   .bad_policy = asked->bad_policy,
                                   .own_labels = asked->flags & WIRE_OWN_LABELS,
                                   .variant = variant_of(driver, reg),
                                   .sampled = {.shuffle = asked->shuffle,
                                               .seed = asked->seed,
                                               .view = found->selection->view.ids,
                                               .order = found->selection->view.order,
                                               .multiset = found->multiset},
                                   .chunks = {.places = found->selection->places,
                                              .count = dataset_chunk_count(found->dataset),
                                              .samples = dataset_chunk_size(found->dataset),
                                              .touched = found->selection->touched},
                                   .rank = asked->rank,
                                   .world_size = asked->world_size,
                                   .part = {.world_size = asked->all_ranks,
                                            .first = asked->first_rank,
                                            .share = ranks_share,
                                            .deal = reg,
                                            .rule = ranks_rule(reg),
                                            .home = found->home},
                                   .weight = asked->weight,
                                   .ordered = asked->flags & WIRE_ORDERED,
                                   .resume = found->restore ? &found->restore->engine : NULL};
    desc.part.draws = ranks_draws;
    if (found->multiset && asked->all_ranks) /* copies of a sample in two parts here get draws of their own */
        desc.family = ranks_training(reg);
    chunk_key(found->dataset, desc.chunks.key);
    driver->adding = (struct driver_adding){.reg = reg, .pipeline = pipeline, .last = !driver->sharing};
    try_to_add(driver, &desc);
    if (driver->adding.again) {
        sharing_end_guests(driver->sharing); /* jobs of this node come first */
        driver->adding = (struct driver_adding){.reg = reg, .pipeline = pipeline, .last = true};
        try_to_add(driver, &desc);
    }
    registration_destroy(driver->adding.reg); /* NULL when a job has taken reg over */
    driver->adding.reg = NULL;
}

/* clashing returns a job with ranks of the same launch whose part overlaps with this one's; NULL: there is none. */
static const struct registration *clashing(const struct driver *driver, const struct registration *reg)
{
    for (uint32_t place = 0; place < JOBS_MAX && !reg->code; place++) {
        const struct driver_job *job = &driver->tables.jobs[place];
        if (job->reg && job->attached && ranks_clash(job->reg, reg))
            return job->reg;
    }
    return NULL;
}

/* guest_registered adds another node's job to the engine, or refuses it. */
static void guest_registered(struct driver *driver, struct registration *reg)
{
    char name[64];
    uint32_t pipeline = ENGINE_PIPELINES_MAX;
    const char *why = reg->code ? reg->err.text : sharing_guest_mismatch(driver->sharing, reg);
    int code = reg->code ? reg->code : LARDER_ECHANGED;
    snprintf(name, sizeof name, "guest-%016llx", (unsigned long long)reg->guest.number);
    free(reg->name);
    reg->name = xstrdup(name);
    if (!why && (pipeline = pipeline_number(driver, reg->found.pipeline)) == ENGINE_PIPELINES_MAX) {
        why = "too many different pipelines are in use";
        code = LARDER_ELIMIT;
    }
    if (!why) {
        add_job(driver, reg, pipeline);
        return;
    }
    log_warn_limited("msg=\"another node's job is refused\" dataset=\"%s\" code=%s err=\"%s\"", reg->asked.source,
                     larder_err_name(code), why);
    sharing_guest_refused(driver->sharing, reg, code);
    registration_destroy(reg);
}

void driver_registered(struct driver *driver, struct registration *reg)
{
    if (reg->guest.number) {
        guest_registered(driver, reg);
        return;
    }
    const struct registration *other = clashing(driver, reg);
    bool gone = tables_client_came(&driver->tables, reg->client);
    name_job(driver, reg);
    uint32_t pipeline = ENGINE_PIPELINES_MAX;
    bool ranks = reg->asked.world_size > 1;
    uint32_t place = ranks ? tables_find_job(&driver->tables, reg->name) : JOBS_MAX;
    const struct driver_job *known = place < JOBS_MAX ? &driver->tables.jobs[place] : NULL;
    /* A job that nobody is at makes room, but not in a daemon that takes no new ones. */
    bool begins = known && reg->found.restore && !known->attached && !driver->drain.asked;
    const char *field = known && !begins && !reg->code ? mismatch(known->reg, reg) : NULL;
    char text[256];
    if (gone) {
        log_info_limited("msg=\"client left before its job was ready\" job=\"%s\" dataset=\"%s\"", reg->name,
                         reg->asked.source);
    } else if (reg->code) {
        refuse(driver, reg, reg->code, reg->err.text);
    } else if (other) {
        snprintf(text, sizeof text,
                 "rank %u says that ranks %u to %u are here, and rank %u that %u to %u are: the ranks of a node have "
                 "neighbouring numbers, and all of them say the same (docs/reference/ranks.md)",
                 reg->asked.first_rank + reg->asked.rank, reg->asked.first_rank,
                 reg->asked.first_rank + reg->asked.world_size - 1, other->asked.first_rank + other->asked.rank,
                 other->asked.first_rank, other->asked.first_rank + other->asked.world_size - 1);
        refuse(driver, reg, LARDER_EINVAL, text);
    } else if (known && known->cancelled) {
        refuse(driver, reg, LARDER_EGONE,
               "the job was cancelled, and ends when its ranks have gone: start all of them again");
    } else if (field) {
        snprintf(text, sizeof text,
                 "rank %u has another %s than the job's first rank: all ranks of a job give the same",
                 reg->asked.first_rank + reg->asked.rank, field);
        refuse(driver, reg, LARDER_EINVAL, text);
    } else if (!known && tables_count_jobs(&driver->tables, false) >= driver->config.jobs_max) {
        snprintf(text, sizeof text, "%u jobs are running already, which is %s", driver->config.jobs_max,
                 driver->config.jobs_max < JOBS_MAX ? "limits.jobs: stop one, or raise limits.jobs"
                                                    : "the limit: stop one first");
        refuse(driver, reg, LARDER_ELIMIT, text);
    } else if ((pipeline = pipeline_number(driver, reg->found.pipeline)) == ENGINE_PIPELINES_MAX) {
        refuse(driver, reg, LARDER_ELIMIT, "too many different pipelines are in use: stop a job first");
    } else {
        add_job(driver, reg, pipeline);
        return;
    }
    registration_destroy(reg);
}
