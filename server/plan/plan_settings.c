/* plan_settings.c: which settings are tried, what their figures are, and which is worth its price. Pure. */
#include "server/plan/plan.h"

#include "server/engine/engine.h"

#define NEAR 1.02      /* a row within so much of the best epoch is as good */
#define WORTH 0.05     /* the least part of an epoch's time that is worth a change */
#define THRIFTY 0.1    /* the least part of the time of processors that is worth one */
#define NO_STALL 0.02  /* jobs that wait less are limited by their own training */
#define NO_READING 0.1 /* bytes read per byte and epoch: next to nothing */

enum { STEPS = 4 }; /* steps of memory, up to the whole dataset */

/* Memory for forms is a little more than what they take on the mean. */
static const double FORMS_MORE = 1.1;

void plan_curve_add(struct plan_curve *curve, double at_once, double per_s)
{
    double last = curve->count ? curve->at[curve->count - 1].at_once : 0;
    if (curve->count == PLAN_POINTS || !(per_s > 0) || at_once <= last)
        return;
    curve->at[curve->count].at_once = at_once;
    curve->at[curve->count++].per_s = per_s;
}

double plan_curve_at(const struct plan_curve *curve, double at_once)
{
    uint32_t above = 0;
    while (above < curve->count && curve->at[above].at_once < at_once)
        above++;
    if (above == 0 || above == curve->count)
        return curve->count ? curve->at[above ? above - 1 : 0].per_s : 0;
    double low = curve->at[above - 1].at_once, high = curve->at[above].at_once;
    double low_rate = curve->at[above - 1].per_s, high_rate = curve->at[above].per_s;
    return low_rate + (at_once - low) / (high - low) * (high_rate - low_rate);
}

static bool rises(const struct plan_curve *curve)
{
    for (uint32_t i = 0; i < curve->count; i++) {
        if (!(curve->at[i].per_s > 0) || curve->at[i].at_once < 1 ||
            (i > 0 && curve->at[i].at_once <= curve->at[i - 1].at_once))
            return false;
    }
    return curve->count <= PLAN_POINTS;
}

int plan_fail_case(const struct plan_case *plan, struct error *err)
{
    if (plan->samples == 0 || plan->played == 0 || plan->played > plan->samples || plan->dataset_bytes == 0 ||
        plan->chunk == 0)
        return error_set(err, LARDER_EINVAL, "there are no samples, or all of them are empty");
    if (plan->jobs == 0 || plan->jobs > PLAN_JOBS_MAX || plan->epochs < 2 || plan->epochs > PLAN_EPOCHS_MAX)
        return error_set(err, LARDER_EINVAL, "a plan is for 1 to %d jobs of 2 to %d epochs", PLAN_JOBS_MAX,
                         PLAN_EPOCHS_MAX);
    if (plan->batch == 0 || plan->batch > PLAN_BATCH_MAX || plan->prefetch == 0 || plan->prefetch > PLAN_PREFETCH_MAX ||
        plan->workers == 0 || !(plan->step_s >= 0) || !(plan->apart >= 0) || plan->runs == 0)
        return error_set(err, LARDER_EINVAL, "batch, prefetch, workers, step, apart or runs is out of bounds");
    if (plan->source.count == 0 || plan->preparing.count == 0 || !rises(&plan->source) || !rises(&plan->class) ||
        !rises(&plan->preparing) || (plan->class.count && !(plan->class_writes_per_s > 0)))
        return error_set(err, LARDER_EINVAL, "what was measured is no rate");
    return 0;
}

/* ── what to try ── */

struct settings {
    struct plan_setting *rows;
    uint32_t count;
};

static void add(struct settings *settings, struct plan_setting row)
{
    if (settings->count < PLAN_ROWS_MAX)
        settings->rows[settings->count++] = row;
}

static uint64_t prepared_bytes(const struct plan_case *plan)
{
    return plan->slot_bytes ? plan->slot_bytes * plan->samples : plan->dataset_bytes;
}

/* encoded_for returns the encoded memory with which a part of the dataset stays: beside it there are the records of
 * what is prepared, and what jobs look ahead. */
static uint64_t encoded_for(const struct plan_case *plan, uint64_t arena_bytes, double part)
{
    uint64_t slot = plan->slot_bytes ? plan->slot_bytes : plan->dataset_bytes / plan->samples;
    uint64_t samples = (uint64_t)plan->jobs * plan->batch * (plan->prefetch + ENGINE_ROWS_MIN);
    uint64_t ahead = samples * (plan->dataset_bytes / plan->samples);
    ahead = ahead < plan->dataset_bytes / STEPS ? ahead : plan->dataset_bytes / STEPS;
    uint64_t bytes = (uint64_t)(part * (double)plan->dataset_bytes) + ahead;
    uint64_t records = arena_bytes / (slot ? slot : 1) * ENGINE_INSTANCE_BYTES;
    uint64_t most = bytes / (ENGINE_RECORDS_PART - 1); /* then they are one part in ENGINE_RECORDS_PART of all */
    return bytes + (records < most ? records : most);
}

static void add_encoded(struct settings *settings, const struct plan_case *plan, const struct plan_machine *machine)
{
    for (int step = 1; step <= STEPS; step++) {
        struct plan_setting row = machine->now;
        row.encoded_bytes = encoded_for(plan, row.arena_bytes, (double)step / STEPS);
        if (row.encoded_bytes > machine->now.encoded_bytes &&
            row.encoded_bytes + row.arena_bytes <= machine->room_bytes)
            add(settings, row);
    }
    for (int half = 1; plan->forms.ratio > 1 && half <= 2; half++) { /* and for forms of half of them, and of all */
        struct plan_setting row = machine->now;
        double forms = (plan->forms.ratio - 1) * FORMS_MORE * (double)plan->dataset_bytes * half / 2;
        row.encoded_bytes = encoded_for(plan, row.arena_bytes, 1) + (uint64_t)forms;
        if (row.encoded_bytes > machine->now.encoded_bytes &&
            row.encoded_bytes + row.arena_bytes <= machine->room_bytes)
            add(settings, row);
    }
}

/* Prepared samples are of use later where other jobs come for them, or their own job again. */
static void add_prepared(struct settings *settings, const struct plan_case *plan, const struct plan_machine *machine)
{
    bool of_use = plan->repeatable || (plan->jobs > 1 && plan->apart > 0);
    for (int step = 2; of_use && step <= STEPS; step += 2) {
        struct plan_setting row = machine->now;
        row.arena_bytes = prepared_bytes(plan) / STEPS * (uint64_t)step;
        row.arena_bytes += row.arena_bytes / 50; /* space lost between slots */
        if (row.arena_bytes <= machine->now.arena_bytes)
            continue;
        uint64_t encoded = encoded_for(plan, row.arena_bytes, 0); /* the records need their room */
        row.encoded_bytes = encoded > row.encoded_bytes ? encoded : row.encoded_bytes;
        if (row.encoded_bytes + row.arena_bytes <= machine->room_bytes)
            add(settings, row);
    }
}

uint32_t plan_settings(const struct plan_case *plan, const struct plan_machine *machine, const uint64_t *asked_bytes,
                       uint32_t count, struct plan_setting out[PLAN_ROWS_MAX])
{
    struct settings settings = {.rows = out};
    add(&settings, machine->now);
    for (uint32_t i = 0; i < count; i++) {
        struct plan_setting row = machine->now;
        row.encoded_bytes = asked_bytes[i];
        add(&settings, row);
    }
    if (count == 0)
        add_encoded(&settings, plan, machine);
    for (uint32_t part = 2; plan->class.count && part > 0; part--) {
        struct plan_setting row = machine->now;
        row.class_bytes = plan->dataset_bytes / part + (uint64_t)plan->samples / part * PLAN_RECORD_BYTES;
        row.class_bytes += row.class_bytes / 10; /* the samples that are largest may come first */
        if (row.class_bytes > machine->now.class_bytes)
            add(&settings, row);
    }
    add_prepared(&settings, plan, machine);
    return settings.count;
}

/* ── figures ── */

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

struct plan_rates plan_rates(const struct plan_case *plan, const struct plan_part *part)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->played; i++)
        bytes += plan->sizes[i];
    double all = (double)bytes * part->epochs, delivered = (double)part->delivered;
    return (
        struct plan_rates){.source = ratio((double)part->source_bytes, all),
                           .class = ratio((double)part->class_bytes, all),
                           .decoded = ratio((double)part->decoded, delivered),
                           .prepared = ratio((double)part->prepared, delivered),
                           .of_forms = ratio((double)part->from_decoded, (double)(part->decoded + part->from_decoded)),
                           .core_ms = 1e3 * ratio(part->work / plan_curve_at(&plan->preparing, 1), delivered),
                           .stall = ratio(part->stall_s, part->stall_s + part->train_s),
                           .epoch_s = ratio(part->took_s, part->epochs) * plan->samples / plan->played,
                           .samples_per_s = ratio(delivered, part->took_s)};
}

enum plan_limit plan_limit(const struct plan_case *plan, const struct plan_row *row)
{
    const struct plan_part *part = &row->later;
    double reads = plan->loaders + plan->workers;
    double read_s = ratio((double)part->source_bytes, plan_curve_at(&plan->source, reads)) +
                    ratio((double)part->class_bytes, plan_curve_at(&plan->class, reads));
    double prepare_s = ratio(part->work, plan_curve_at(&plan->preparing, plan->workers));
    if (plan->step_s > 0 && plan_rates(plan, part).stall < NO_STALL)
        return PLAN_TRAINING;
    return read_s > prepare_s ? PLAN_READING : PLAN_PREPARING;
}

static bool spares(const struct plan_case *plan, const struct plan_row *row)
{
    return plan_rates(plan, &row->later).source <= NO_READING;
}

/* find_thrifty returns the first row that comes near the least time of processors, unless `row` does. */
static uint32_t find_thrifty(const struct plan_case *plan, const struct plan_row *rows, uint32_t count, uint32_t row)
{
    double least_ms = plan_rates(plan, &rows[row].later).core_ms * (1 - THRIFTY);
    uint32_t thrifty = row;
    for (uint32_t i = 0; i < count; i++) {
        double core_ms = plan_rates(plan, &rows[i].later).core_ms;
        if (core_ms < least_ms) {
            thrifty = i;
            least_ms = core_ms / NEAR;
        }
    }
    return thrifty;
}

struct plan_advice plan_advise(const struct plan_case *plan, const struct plan_row *rows, uint32_t count)
{
    struct plan_advice advice = {.now = plan_limit(plan, &rows[0])};
    double now = plan_rates(plan, &rows[0].later).epoch_s, best = now;
    for (uint32_t i = 1; i < count; i++) {
        double epoch_s = plan_rates(plan, &rows[i].later).epoch_s;
        best = epoch_s < best ? epoch_s : best;
    }
    if (best < now * (1 - WORTH)) {
        while (plan_rates(plan, &rows[advice.row].later).epoch_s > best * NEAR)
            advice.row++;
    }
    advice.saved = 1 - ratio(plan_rates(plan, &rows[advice.row].later).epoch_s, now);
    advice.then = plan_limit(plan, &rows[advice.row]);
    advice.sparing = advice.row;
    for (uint32_t i = 0; i < count && !spares(plan, &rows[advice.sparing]); i++)
        advice.sparing = spares(plan, &rows[i]) ? i : advice.row;
    advice.thrifty = find_thrifty(plan, rows, count, advice.row);
    return advice;
}
