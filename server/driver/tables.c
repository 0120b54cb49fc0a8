#include "server/driver/tables.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"

/* ── clients ── */

static struct driver_clients *bucket_of(const struct tables *tables, uint64_t client)
{
    return (struct driver_clients *)&tables->clients[random_mix64(client) % TABLES_BUCKETS];
}

struct driver_client *tables_client(const struct tables *tables, uint64_t client)
{
    struct driver_client *row;
    LIST_FOREACH(row, bucket_of(tables, client), link)
    {
        if (row->client == client)
            return row;
    }
    return NULL;
}

static void add_client(struct tables *tables, const struct driver_client *client)
{
    struct driver_client *row = xmalloc(sizeof *row);
    CHECK(!tables_client(tables, client->client));
    *row = *client;
    LIST_INSERT_HEAD(bucket_of(tables, client->client), row, link);
}

static void remove_client(struct driver_client *client)
{
    LIST_REMOVE(client, link);
    free(client);
}

void tables_client_comes(struct tables *tables, uint64_t client)
{
    add_client(tables, &(struct driver_client){.client = client, .phase = CLIENT_COMING});
    tables->n_coming++;
}

bool tables_client_came(struct tables *tables, uint64_t client)
{
    struct driver_client *row = tables_client(tables, client);
    CHECK(row && row->phase != CLIENT_SEATED);
    bool left = row->phase == CLIENT_LEFT;
    tables->n_coming--;
    remove_client(row);
    return left;
}

/* ── jobs ── */

void tables_job_begin(struct tables *tables, uint32_t place, struct registration *reg, uint32_t pipeline)
{
    struct driver_job *job = &tables->jobs[place];
    CHECK(!job->reg);
    *job = (struct driver_job){.reg = reg,
                               .pipeline = pipeline,
                               .ranks = xcalloc(reg->asked.world_size, sizeof *job->ranks),
                               .weight = reg->asked.weight};
    tables->pipelines[pipeline].jobs++;
}

void tables_job_end(struct tables *tables, uint32_t place)
{
    struct driver_job *job = &tables->jobs[place];
    CHECK(job->reg);
    for (uint32_t rank = 0; rank < job->reg->asked.world_size; rank++) {
        if (job->ranks[rank].there)
            remove_client(tables_client(tables, job->ranks[rank].client));
        free(job->ranks[rank].client_name);
    }
    tables->pipelines[job->pipeline].jobs--;
    free(job->ranks);
    given_clear(&job->given);
    free(job->source_said);
    free(job->last);
    registration_destroy(job->reg);
    *job = (struct driver_job){.reg = NULL};
}

void tables_seat(struct tables *tables, uint32_t place, const struct registration *reg)
{
    struct driver_job *job = &tables->jobs[place];
    struct driver_rank *rank = &job->ranks[reg->asked.rank];
    CHECK(!rank->there);
    free(rank->client_name);
    *rank = (struct driver_rank){.there = true,
                                 .hears_done = reg->asked.flags & WIRE_HEARS_DONE,
                                 .client = reg->client,
                                 .pid = reg->pid,
                                 .client_name = xstrdup(reg->client_name)};
    job->attached++;
    add_client(tables, &(struct driver_client){
                           .client = reg->client, .phase = CLIENT_SEATED, .job = place, .rank = reg->asked.rank});
}

void tables_unseat(struct tables *tables, struct driver_client *client, bool bye)
{
    struct driver_job *job = &tables->jobs[client->job];
    CHECK(client->phase == CLIENT_SEATED && job->attached > 0);
    job->ranks[client->rank].there = false;
    job->ranks[client->rank].lost = !bye;
    job->attached--;
    remove_client(client);
}

uint32_t tables_find_job(const struct tables *tables, const char *name)
{
    uint32_t place = 0;
    while (place < JOBS_MAX && !(tables->jobs[place].reg && strcmp(tables->jobs[place].reg->name, name) == 0))
        place++;
    return place;
}

size_t tables_count_jobs(const struct tables *tables, bool live)
{
    size_t count = 0;
    for (uint32_t place = 0; place < JOBS_MAX; place++)
        count += tables->jobs[place].reg && !tables->jobs[place].reg->guest.number &&
                 !(live && tables->jobs[place].cancelled);
    return count;
}

void tables_note_source(struct tables *tables, const void *dataset, char *text)
{
    for (uint32_t place = 0; text && place < JOBS_MAX; place++) {
        struct driver_job *job = &tables->jobs[place];
        if (!job->reg || job->reg->found.dataset != dataset)
            continue;
        free(job->source_said);
        job->source_said = xstrdup(text);
    }
    free(text);
}

const char *tables_source_said(const struct tables *tables, const void *dataset)
{
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        const struct driver_job *job = &tables->jobs[place];
        if (job->reg && job->reg->found.dataset == dataset && job->source_said)
            return job->source_said;
    }
    return "?";
}

void tables_clear(struct tables *tables)
{
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        if (tables->jobs[place].reg)
            tables_job_end(tables, place);
    }
    for (size_t i = 0; i < TABLES_BUCKETS; i++) {
        while (!LIST_EMPTY(&tables->clients[i]))
            remove_client(LIST_FIRST(&tables->clients[i]));
    }
    for (uint32_t number = 0; number < ENGINE_PIPELINES_MAX; number++)
        pipeline_unref(&tables->pipelines[number].pipeline);
    tables->n_coming = 0;
}
