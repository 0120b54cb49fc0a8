/* ledger.c: the books of one training run. */
#include "tests/simulation/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"

struct page {
    sample_id *turns; /* those that it has; repeats have none */
    uint32_t n_turns, count;
    uint32_t due; /* of the rank, with this batch */
};

struct rank {
    struct page *pages;
    uint32_t n_pages;
    size_t cap;
    uint32_t n_taken;
};

struct ledger {
    const struct scenario *scenario;
    struct model *model;
    const struct client_plan *plan; /* of the leg */
    uint32_t epoch, base_batches, whole_epochs;
    uint64_t begun_step; /* what has failed since may be missing */
    uint64_t last_step;  /* of the last batch */
    bool abandoned, unknown;
    struct base_read base;
    uint8_t *over; /* by sample id: turns of it, those of the base included */
    struct rank *ranks;
};

static void free_ranks(struct ledger *ledger)
{
    for (uint32_t i = 0; i < ledger->plan->world_size; i++) {
        while (ledger->ranks[i].n_pages > 0)
            free(ledger->ranks[i].pages[--ledger->ranks[i].n_pages].turns);
        free(ledger->ranks[i].pages);
    }
    free(ledger->ranks);
}

/* The epoch begins, from a record's base or whole. */
static void begin(struct ledger *ledger, const struct client_plan *plan, uint32_t epoch, const struct record *record)
{
    base_free(&ledger->base);
    ledger->plan = plan;
    ledger->epoch = epoch;
    ledger->abandoned = ledger->unknown = false;
    ledger->base_batches = record ? record->batches : 0;
    ledger->ranks = xcalloc(plan->world_size, sizeof *ledger->ranks);
    base_read(ledger->scenario, plan, record, epoch, &ledger->base);
    memcpy(ledger->over, ledger->base.over, ledger->scenario->n_samples);
}

struct ledger *ledger_create(const struct scenario *scenario, const struct client_plan *plan, struct model *model)
{
    struct ledger *ledger = xcalloc(1, sizeof *ledger);
    ledger->scenario = scenario;
    ledger->model = model;
    ledger->over = xcalloc(scenario->n_samples + (size_t)1, 1);
    ledger->begun_step = ledger->last_step = 1;
    begin(ledger, plan, 0, NULL);
    return ledger;
}

void ledger_destroy(struct ledger *ledger)
{
    free_ranks(ledger);
    base_free(&ledger->base);
    free(ledger->over);
    free(ledger);
}

bool ledger_is_known(const struct ledger *ledger)
{
    return !ledger->unknown;
}

uint32_t ledger_epoch(const struct ledger *ledger)
{
    return ledger->epoch;
}

uint32_t ledger_whole_epochs(const struct ledger *ledger)
{
    return ledger->whole_epochs;
}

static bool has_failed(const struct ledger *ledger, sample_id id)
{
    return model_failed_since(ledger->model, ledger->plan, id, ledger->begun_step);
}

/* ── the end of an epoch ── */

static uint32_t steps_of(const struct rank *rank, uint64_t *samples)
{
    uint32_t steps = 0;
    *samples = 0;
    for (uint32_t i = 0; i < rank->n_pages; i++) {
        steps += rank->pages[i].count > 0;
        *samples += rank->pages[i].count;
    }
    return steps;
}

static void check_steps(struct ledger *ledger)
{
    uint64_t first_samples, samples;
    uint32_t first = steps_of(&ledger->ranks[0], &first_samples);
    for (uint32_t i = 0; i < ledger->plan->world_size; i++) {
        uint32_t steps = steps_of(&ledger->ranks[i], &samples);
        if (steps != first || samples != first_samples)
            model_break(ledger->model, RULE_BATCH,
                        "'%s': rank %u had %u steps and %llu samples of epoch %u, rank 0 had %u and %llu",
                        ledger->plan->name, i, steps, (unsigned long long)samples, ledger->epoch, first,
                        (unsigned long long)first_samples);
        if (ledger->ranks[i].n_taken < ledger->ranks[i].n_pages &&
            ledger->ranks[i].pages[ledger->ranks[i].n_taken].count > 0)
            model_break(ledger->model, RULE_EXACTLY_ONCE, "'%s': epoch %u ended before rank %u had taken all of it",
                        ledger->plan->name, ledger->epoch, i);
    }
}

/* A rank has a repeat in the place of a sample that was bad. With the next daemon that one may be good: then there is
 * one sample too many for shares that are equal. */
static uint32_t count_displaced(const struct ledger *ledger)
{
    uint32_t repeats = 0;
    bool failed = false;
    for (uint32_t i = 0; i < ledger->plan->n_view; i++)
        failed = failed || has_failed(ledger, ledger->plan->view[i]);
    for (uint32_t i = 0; i < ledger->plan->world_size; i++) {
        for (uint32_t k = 0; k < ledger->ranks[i].n_pages; k++)
            repeats += ledger->ranks[i].pages[k].count - ledger->ranks[i].pages[k].n_turns;
    }
    return failed ? repeats : 0;
}

/* With drop_last a rest of less than a batch for each rank may be missing, else only what is bad. */
static void end_epoch(struct ledger *ledger)
{
    const struct client_plan *plan = ledger->plan;
    uint32_t missing = 0, allowed = plan->drop_last ? plan->world_size * plan->batch_size - 1 : 0;
    sample_id example = SAMPLE_NONE;
    if (ledger->abandoned || ledger->unknown)
        return;
    allowed += count_displaced(ledger);
    for (uint32_t i = 0; i < plan->n_view; i++) {
        sample_id id = plan->view[i];
        if (ledger->over[id] || has_failed(ledger, id))
            continue;
        missing++;
        example = id;
    }
    if (missing > allowed)
        model_break(ledger->model, RULE_EXACTLY_ONCE,
                    "'%s' trained epoch %u without %u samples that are not bad, sample %u among them", plan->name,
                    ledger->epoch, missing, example);
    check_steps(ledger);
    ledger->whole_epochs++;
}

void ledger_anew(struct ledger *ledger)
{
    bool any = ledger->epoch > 0 || ledger->base_batches > 0;
    for (uint32_t i = 0; i < ledger->plan->world_size; i++)
        any = any || ledger->ranks[i].n_pages > 0;
    ledger->unknown = any;
}

void ledger_finish(struct ledger *ledger)
{
    if (ledger->epoch < ledger->plan->run_epochs)
        end_epoch(ledger);
}

void ledger_break(struct ledger *ledger, uint32_t epoch)
{
    ledger->abandoned = ledger->abandoned || epoch == ledger->epoch;
}

void ledger_cut(struct ledger *ledger, const struct client_plan *plan, const struct record *token)
{
    uint32_t epoch = token ? token->epoch : 0;
    if (epoch > ledger->epoch)
        end_epoch(ledger);
    free_ranks(ledger);
    begin(ledger, plan, epoch, token);
}

/* ── batches ── */

/* In a fixed order the rank's part comes in order, and what is passed over is bad. Gives false where it is not so. */
static bool is_due(const struct ledger *ledger, uint32_t number, uint32_t *due, sample_id turn)
{
    const struct base_read *base = &ledger->base;
    uint64_t at;
    if (base->rest == NULL)
        return true;
    while ((at = number + (uint64_t)*due * ledger->plan->world_size) < base->n_rest) {
        ++*due;
        if (base->rest[at] == turn)
            return true;
        if (!has_failed(ledger, base->rest[at]))
            return false;
    }
    return false;
}

static void check_entry(struct ledger *ledger, uint32_t number, struct page *page, const struct engine_entry *entry)
{
    const struct client_plan *plan = ledger->plan;
    if (entry->turn == SAMPLE_NONE) {
        if (plan->world_size == 1)
            model_break(ledger->model, RULE_EXACTLY_ONCE, "'%s', alone, is given sample %u in nobody's turn",
                        plan->name, entry->id);
        return;
    }
    if (entry->turn >= ledger->scenario->n_samples ||
        (entry->turn != entry->id && (plan->bad_policy != BAD_REPLACE || !has_failed(ledger, entry->turn)))) {
        model_break(ledger->model, RULE_EXACTLY_ONCE,
                    "'%s' is given sample %u in the turn of sample %u, which is not bad", plan->name, entry->id,
                    entry->turn);
        return;
    }
    if (ledger->over[entry->turn]++)
        model_break(ledger->model, RULE_EXACTLY_ONCE,
                    "rank %u of '%s' is given the turn of sample %u again in epoch %u", number, plan->name, entry->turn,
                    ledger->epoch);
    if (!is_due(ledger, number, &page->due, entry->turn))
        model_break(ledger->model, RULE_ORDER,
                    "rank %u of '%s' is given the turn of sample %u of epoch %u, which is not due", number, plan->name,
                    entry->turn, ledger->epoch);
    page->turns[page->n_turns++] = entry->turn;
}

void ledger_deliver(struct ledger *ledger, const struct engine_action *action)
{
    uint32_t number = action->rank;
    if (ledger->unknown)
        return;
    if (action->deliver.epoch < ledger->epoch) {
        if (action->deliver.count > 0)
            model_break(ledger->model, RULE_CREDIT, "rank %u of '%s' is given samples of epoch %u, others were in %u",
                        number, ledger->plan->name, action->deliver.epoch, ledger->epoch);
        return;
    }
    if (action->deliver.epoch > ledger->epoch) {
        end_epoch(ledger);
        free_ranks(ledger);
        begin(ledger, ledger->plan, action->deliver.epoch, NULL);
        ledger->begun_step = ledger->last_step;
    }
    ledger->last_step = model_step(ledger->model);
    struct rank *rank = &ledger->ranks[number];
    rank->pages = xgrow(rank->pages, sizeof *rank->pages, &rank->cap, rank->n_pages + (size_t)1);
    struct page *page = &rank->pages[rank->n_pages];
    *page = (struct page){.count = action->deliver.count,
                          .due = rank->n_pages ? page[-1].due : ledger->base.first[number],
                          .turns = xcalloc(action->deliver.count + (size_t)1, sizeof *page->turns)};
    rank->n_pages++;
    for (uint32_t i = 0; i < action->deliver.count; i++)
        check_entry(ledger, number, page, &action->deliver.entries[i]);
}

void ledger_take(struct ledger *ledger, uint32_t number, uint32_t epoch)
{
    struct rank *rank = &ledger->ranks[number];
    if (epoch < ledger->epoch || ledger->unknown)
        return;
    CHECK(epoch == ledger->epoch && rank->n_taken < rank->n_pages);
    rank->n_taken++;
}

void ledger_lose(struct ledger *ledger, uint32_t number)
{
    struct rank *rank = &ledger->ranks[number];
    while (rank->n_pages > rank->n_taken) {
        struct page *page = &rank->pages[--rank->n_pages];
        for (uint32_t k = 0; k < page->n_turns; k++)
            ledger->over[page->turns[k]]--;
        free(page->turns);
    }
}

void ledger_crash(struct ledger *ledger)
{
    for (uint32_t i = 0; i < ledger->plan->world_size; i++)
        ledger_lose(ledger, i);
}

/* ── states ── */

/* Of a set exactly; of an order, bad ones that lie before what was had may be over as well. */
void ledger_check_token(struct ledger *ledger, const struct record *token, uint32_t n)
{
    const struct client_plan *plan = ledger->plan;
    struct base_read said;
    if (ledger->unknown)
        return;
    uint8_t *over = xcalloc(ledger->scenario->n_samples + (size_t)1, 1);
    memcpy(over, ledger->base.over, ledger->scenario->n_samples);
    for (uint32_t i = 0; i < plan->world_size; i++) {
        const struct rank *rank = &ledger->ranks[i];
        if (n > rank->n_pages)
            model_break(ledger->model, RULE_STATE, "'%s' gets a state of %u batches, rank %u has had %u", plan->name, n,
                        i, rank->n_pages);
        for (uint32_t k = 0; k < n && k < rank->n_pages; k++) {
            for (uint32_t turn = 0; turn < rank->pages[k].n_turns; turn++)
                over[rank->pages[k].turns[turn]] = 1;
        }
    }
    if (token->epoch != ledger->epoch || token->batches != ledger->base_batches + n)
        model_break(ledger->model, RULE_STATE, "'%s' gets a state of batch %u of epoch %u, it asked for %u of %u",
                    plan->name, token->batches, token->epoch, ledger->base_batches + n, ledger->epoch);
    base_read(ledger->scenario, plan, token, token->epoch, &said);
    for (sample_id id = 0; id < ledger->scenario->n_samples; id++) {
        bool bad = said.over[id] && plan->shuffle != SHUFFLE_DEPENDENT && has_failed(ledger, id);
        if (said.over[id] != over[id] && !bad)
            model_break(ledger->model, RULE_STATE, "a state of '%s' says that the turn of sample %u %s", plan->name, id,
                        over[id] ? "is not over" : "is over");
    }
    base_free(&said);
    free(over);
}
