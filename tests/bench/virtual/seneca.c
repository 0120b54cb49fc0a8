/* seneca.c: Seneca's opportunistic sampling (ODS), with the times of the scenario's machine.
 *
 * A job has as many batches on their way as the engine's look-ahead has, and gets them in order. What a batch takes is
 * read, decoded and augmented as far as its form in the cache asks for. What was read is cached if there is room. */
#include "tests/bench/virtual/seneca.h"

#include <stdlib.h>

#include "common/check.h"
#include "server/plan/agenda.h"
#include "tests/bench/virtual/bound.h"
#include "tests/bench/virtual/seneca_priv.h"

enum { KEY_DRAWS = 7, LOOK_AHEAD_MAX = ENGINE_PREFETCH_MAX + 2 };

enum happens { IS_READ, IS_MADE, REFILL_IS_READ, REFILL_IS_MADE, ASKS, ENDS };

struct row {
    struct due due;
    enum happens happens;
    uint32_t job, batch, id;
};

struct player {
    const struct sharing_job *desc;
    bool joined, asks;
    uint32_t epochs;            /* that have begun to be drawn */
    uint32_t issued, delivered; /* batches */
    struct {
        uint32_t count, pending; /* samples; those that are not made yet */
    } batches[LOOK_AHEAD_MAX];   /* by number, modulo the look-ahead */
    uint64_t samples, trains_until_ns;
};

struct seneca {
    const struct sharing_scenario *scenario;
    struct seneca_cache cache;
    struct costs_machine machine;
    struct agenda agenda;
    struct rng rng;
    struct player *players;
    uint64_t now_ns, prepared;
    uint8_t *refilling; /* by sample */
};

static void put(struct seneca *seneca, uint64_t at_ns, struct row row)
{
    row.due.at_ns = at_ns;
    agenda_put(&seneca->agenda, &row);
}

static void read_sample(struct seneca *seneca, struct row then)
{
    double place = (double)then.id / seneca->scenario->samples;
    put(seneca, costs_read(&seneca->machine, seneca->now_ns, place), then);
}

/* augment has a core make an augmented sample, of its decoded form or of its encoded bytes. */
static void augment(struct seneca *seneca, bool decoded, struct row then)
{
    const struct costs *costs = &seneca->scenario->costs;
    seneca->machine.decodes += !decoded;
    seneca->prepared++;
    double core_s = (decoded ? 0 : costs->decode_s) + costs->prepare_s;
    put(seneca, costs_work(&seneca->machine, seneca->now_ns, core_s), then);
}

/* refill begins to read a sample that is not cached, in the place of one that all jobs have had. */
static void refill(struct seneca *seneca)
{
    uint32_t samples = seneca->scenario->samples, first = (uint32_t)random_below(&seneca->rng, samples);
    for (uint32_t i = 0; i < samples; i++) {
        uint32_t id = (first + i) % samples;
        if (seneca->cache.form[id] != SENECA_NONE || seneca->refilling[id])
            continue;
        seneca->refilling[id] = 1;
        read_sample(seneca, (struct row){.happens = REFILL_IS_READ, .id = id});
        return;
    }
}

/* begin has a sample made for a batch. It returns false if it is there already. */
static bool begin(struct seneca *seneca, struct row row)
{
    struct seneca_cache *cache = &seneca->cache;
    static const enum costs_hit hits[] = {[SENECA_NONE] = COSTS_READ,
                                          [SENECA_ENCODED] = COSTS_ENCODED,
                                          [SENECA_DECODED] = COSTS_DECODED,
                                          [SENECA_AUGMENTED] = COSTS_PREPARED};
    enum seneca_form form = cache->form[row.id];
    seneca->machine.hits[hits[form]]++;
    row.happens = form == SENECA_NONE ? IS_READ : IS_MADE;
    if (form == SENECA_NONE) {
        read_sample(seneca, row);
    } else if (form != SENECA_AUGMENTED) {
        augment(seneca, form == SENECA_DECODED, row);
    } else if (++cache->uses[row.id] >= seneca_running(cache)) {
        seneca_evict(cache, row.id);
        refill(seneca);
    }
    return form != SENECA_AUGMENTED;
}

static uint32_t look_ahead(const struct seneca *seneca)
{
    return seneca->scenario->prefetch + 2;
}

/* issue begins batches of a job, as far as its look-ahead has room. */
static void issue(struct seneca *seneca, uint32_t job)
{
    struct player *player = &seneca->players[job];
    const struct seneca_set *left = &seneca->cache.views[job].left;
    while (player->issued - player->delivered < look_ahead(seneca)) {
        if (left->count == 0 && player->epochs == player->desc->epochs)
            return;
        if (left->count == 0) {
            player->epochs++;
            seneca_epoch_begins(&seneca->cache, job);
        }
        uint32_t number = player->issued++, at = number % look_ahead(seneca);
        uint32_t count = left->count < seneca->scenario->batch ? left->count : seneca->scenario->batch;
        player->batches[at].count = count;
        player->batches[at].pending = 0;
        for (uint32_t i = 0; i < count; i++) {
            struct row row = {.job = job, .batch = number};
            row.id = seneca_draw(&seneca->cache, job, &seneca->rng);
            player->batches[at].pending += begin(seneca, row);
        }
    }
}

/* deliver gives a job its next batch, if it asks and that is made. */
static void deliver(struct seneca *seneca, uint32_t job)
{
    struct player *player = &seneca->players[job];
    uint32_t at = player->delivered % look_ahead(seneca);
    if (!player->asks || player->issued == player->delivered || player->batches[at].pending > 0)
        return;
    uint64_t begins_ns = player->trains_until_ns > seneca->now_ns ? player->trains_until_ns : seneca->now_ns;
    player->trains_until_ns = begins_ns + costs_ns(player->batches[at].count * player->desc->train_s);
    player->samples += player->batches[at].count;
    player->delivered++;
    player->asks = false;
    bool all = player->samples == (uint64_t)player->desc->epochs * seneca->scenario->samples;
    put(seneca, all ? player->trains_until_ns : begins_ns, (struct row){.happens = all ? ENDS : ASKS, .job = job});
    issue(seneca, job);
}

static void made(struct seneca *seneca, const struct row *row)
{
    struct player *player = &seneca->players[row->job];
    player->batches[row->batch % look_ahead(seneca)].pending--;
    deliver(seneca, row->job);
}

static void happen(struct seneca *seneca, const struct row *row)
{
    struct row then = *row;
    switch (row->happens) {
    case IS_READ:
        seneca_admit(&seneca->cache, row->id, 1, false);
        then.happens = IS_MADE;
        augment(seneca, false, then);
        break;
    case IS_MADE: made(seneca, row); break;
    case REFILL_IS_READ:
        then.happens = REFILL_IS_MADE;
        augment(seneca, false, then);
        break;
    case REFILL_IS_MADE:
        seneca->refilling[row->id] = 0;
        seneca_admit(&seneca->cache, row->id, 0, true);
        break;
    case ASKS:
        seneca->players[row->job].asks = true;
        deliver(seneca, row->job);
        break;
    case ENDS: seneca->cache.views[row->job].runs = false; break;
    }
}

/* join has the jobs begin that are to run now. It returns when the next one is to; UINT64_MAX: none, or no place. */
static uint64_t join(struct seneca *seneca)
{
    const struct sharing_scenario *scenario = seneca->scenario;
    uint32_t places = scenario->costs.at_once ? scenario->costs.at_once : SHARING_JOBS_MAX;
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < scenario->n_jobs && seneca_running(&seneca->cache) < places; i++) {
        struct player *player = &seneca->players[i];
        uint64_t start_ns = costs_ns(player->desc->start);
        if (player->joined)
            continue;
        if (start_ns > seneca->now_ns) {
            next_ns = start_ns < next_ns ? start_ns : next_ns;
            continue;
        }
        player->joined = player->asks = true;
        player->trains_until_ns = seneca->now_ns;
        issue(seneca, i);
        deliver(seneca, i);
    }
    return seneca_running(&seneca->cache) < places ? next_ns : UINT64_MAX;
}

static void play(struct seneca *seneca)
{
    for (;;) {
        uint64_t join_ns = join(seneca), next_ns = agenda_next_ns(&seneca->agenda);
        seneca->now_ns = join_ns < next_ns ? join_ns : next_ns;
        if (seneca->now_ns == UINT64_MAX)
            return;
        if (join_ns < next_ns)
            continue;
        struct row row;
        agenda_take(&seneca->agenda, &row);
        happen(seneca, &row);
    }
}

static json_t *report(const struct seneca *seneca, const struct seneca_split *split)
{
    uint64_t delivered = 0;
    for (uint32_t i = 0; i < seneca->scenario->n_jobs; i++)
        delivered += seneca->players[i].samples;
    return json_pack("{s:s, s:{s:i, s:i, s:i}, s:I, s:I, s:f, s:o}", "rule", "seneca", "split", "encoded",
                     (int)split->encoded, "decoded", (int)split->decoded, "augmented", (int)split->augmented,
                     "delivered", (json_int_t)delivered, "prepared", (json_int_t)seneca->prepared,
                     "prepared_per_delivered", (double)seneca->prepared / (double)delivered, "costs",
                     bound_report(seneca->scenario, &seneca->machine));
}

void seneca_run(const struct sharing_scenario *scenario, const struct seneca_split *split, json_t **out)
{
    struct seneca seneca = {.scenario = scenario,
                            .machine.costs = &scenario->costs,
                            .agenda.row_bytes = sizeof(struct row),
                            .players = xcalloc(scenario->n_jobs, sizeof *seneca.players),
                            .refilling = xcalloc(scenario->samples, 1)};
    random_seed_keys(&seneca.rng, scenario->seed, KEY_DRAWS, 0, 0);
    seneca_cache_create(&seneca.cache, scenario, split);
    for (uint32_t i = 0; i < scenario->n_jobs; i++)
        seneca.players[i].desc = &scenario->jobs[i];
    play(&seneca);
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        const struct player *player = &seneca.players[i];
        CHECK(player->samples == (uint64_t)player->desc->epochs * scenario->samples);
        if (player->trains_until_ns > seneca.machine.makespan_ns)
            seneca.machine.makespan_ns = player->trains_until_ns;
    }
    *out = report(&seneca, split);
    CHECK(*out);
    seneca_cache_free(&seneca.cache);
    agenda_free(&seneca.agenda);
    free(seneca.players);
    free(seneca.refilling);
}
