/* actions.c: carries out what the engine asks for: gives tasks to the workers and sends messages to the clients. */
#include <string.h>

#include "common/blocks.h"
#include "common/check.h"
#include "common/clock.h"
#include "server/driver/states.h"
#include "server/sharing/sharing.h"
#include "server/storage/origins.h"

/* takes_as_read tells whether a job of the dataset, or of any if that is NULL, takes samples as they were read. */
static bool takes_as_read(const struct driver *driver, const struct dataset *dataset)
{
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        const struct registration *reg = driver->tables.jobs[place].reg;
        if (reg && (!dataset || reg->found.dataset == dataset) && pipeline_needs_encoded(reg->found.pipeline))
            return true;
    }
    return false;
}

/* want_datasets says which datasets have jobs now. */
static void want_datasets(const struct driver *driver)
{
    const struct dataset *datasets[JOBS_MAX];
    uint32_t count = 0;
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        if (driver->tables.jobs[place].reg)
            datasets[count++] = driver->tables.jobs[place].reg->found.dataset;
    }
    if (driver->config.origins)
        origins_want(driver->config.origins, datasets, count, takes_as_read(driver, NULL));
}

static uint64_t device_of(const struct driver *driver, const struct engine_action *action)
{
    const struct registration *reg = driver->tables.jobs[action->job].reg;
    return reg && reg->found.dataset == action->load.dataset ? reg->found.device : 0;
}

/* job_added answers the client of driver->adding. The job takes over the registration of its first rank; that of any
 * other rank stays driver->adding's. */
static void job_added(struct driver *driver, const struct engine_action *action)
{
    struct registration *reg = driver->adding.reg;
    CHECK(reg && !driver->tables.jobs[action->job].reg == !action->job_added.attached);
    if (!action->job_added.attached) {
        driver->adding.reg = NULL;
        tables_job_begin(&driver->tables, action->job, reg, driver->adding.pipeline);
        states_begin(driver, action->job, reg);
        want_datasets(driver);
        governor_live_job_begin(driver->governor, &(struct reads_job){.job = action->job,
                                                                      .world_size = reg->asked.world_size,
                                                                      .batch_size = reg->asked.batch_size,
                                                                      .device = reg->found.device,
                                                                      .weight = reg->asked.weight});
    }
    if (!action->job_added.attached)
        sharing_job_added(driver->sharing, action, reg);
    else
        sharing_job_refused(driver->sharing, reg, 0);
    if (reg->guest.number) {
        driver->tables.jobs[action->job].ranks[0].client_name = xstrdup(reg->client_name);
        registration_drop_found(reg);
        return;
    }
    tables_seat(&driver->tables, action->job, reg);
    if (action->job_added.restoring) /* a running job: the driver knows what its ranks were given */
        states_came(driver, action->job, reg);

    struct wire_message message = {
        .type = WIRE_REGISTERED,
        .seq = reg->seq,
        .registered = {.job = action->job,
                       .n_samples = reg->found.samples,
                       .n_batches = action->job_added.n_batches,
                       .n_classes = registration_classes(reg),
                       .held_max = action->job_added.held_max,
                       .epoch = action->job_added.epoch,
                       .batch = action->job_added.batch,
                       .sample_bytes = reg->found.sample_bytes,
                       .view = {reg->found.view_fingerprint[0], reg->found.view_fingerprint[1]},
                       .dataset_samples = dataset_count(reg->found.dataset),
                       .version = reg->found.version,
                       .layout = *pipeline_layout(reg->found.pipeline),
                       .name = {reg->name, (uint32_t)strlen(reg->name)}}};
    dataset_fingerprint(reg->found.dataset, message.registered.fingerprint);
    session_send(driver->session, reg->client, &message);
    if (!action->job_added.attached) /* the engine has copied what it needs */
        registration_drop_found(reg);
}

static void job_refused(struct driver *driver, const struct engine_action *action)
{
    const struct registration *reg = driver->adding.reg;
    CHECK(reg);
    sharing_job_refused(driver->sharing, reg, action->error.error.code);
    if (reg->guest.number)
        return;
    int code = action->error.error.code;
    driver->adding.again = !driver->adding.last && (code == LARDER_EQUOTA || code == LARDER_ELIMIT);
    if (driver->adding.again)
        return;
    struct error err = driver_placed(driver, code, action->error.error.text);
    session_send_error(driver->session, reg->client, reg->seq, err.code, true, err.text);
}

static void job_error(struct driver *driver, const struct engine_action *action)
{
    struct error err = driver_job_error(driver, action);
    if (driver->tables.jobs[action->job].reg->guest.number) {
        sharing_guest_failed(driver->sharing, action->job);
        return;
    }
    session_send_error(driver->session, action->client, 0, err.code, false, err.text);
}

/* belongs_to_read tells whether the read being gathered goes on with the action. The LOADs of one read become one task.
 * Between them the engine may drop encoded samples to make room. */
static bool belongs_to_read(const struct driver *driver, const struct engine_action *action)
{
    return action->type == ENGINE_DROP_ENCODED ||
           (action->type == ENGINE_LOAD && action->load.read == driver->reading.number);
}

static void load(struct driver *driver, const struct engine_action *action)
{
    struct driver_reading *reading = &driver->reading;
    struct worker_load *task = &reading->load;
    if (task->count == 0) {
        *task = (struct worker_load){.dataset = dataset_ref((struct dataset *)action->load.dataset),
                                     .needed = engine_needed(driver->engine, action->load.id),
                                     .apart = dataset_apart(action->load.dataset),
                                     .as_read = takes_as_read(driver, action->load.dataset),
                                     .device = device_of(driver, action),
                                     .queue = governor_live_queue(driver->governor, action->job, action->rank)};
        reading->number = action->load.read;
        reading->cap = 0;
    }
    task->samples = xgrow(task->samples, sizeof *task->samples, &reading->cap, task->count + 1);
    task->samples[task->count++] = (struct worker_sample){.id = action->load.id, .bytes = action->load.bytes};
}

static void load_end(struct driver *driver)
{
    if (driver->reading.load.count)
        governor_live_load(driver->governor, &driver->reading.load);
    driver->reading.load.count = 0;
}

/* worker_output gives an output its place and the key of its random draws. The key of a job's own instance (a variant)
 * has the sample's index in its dataset, which is the same in every daemon; a sample's id is not. Shared instances
 * are counted from 0 in every daemon. Their keys have the daemon's boot, so that no other daemon draws the same. */
static struct worker_output worker_output(struct driver *driver, const struct engine_output *output, sample_id id)
{
    const struct driver_pipeline *row = &driver->tables.pipelines[output->pipeline];
    uint32_t index = id;
    if (output->variant)
        CHECK(dataset_index(output->dataset, id, &index));
    return (struct worker_output){.pipeline = pipeline_ref(row->pipeline),
                                  .key = {row->seed ^ (output->variant ? output->variant : driver->config.boot), index,
                                          output->instance},
                                  .offset = output->offset,
                                  .bytes = output->bytes};
}

/* copy does a PREPARE that only copies bytes. That takes less than handing it to a worker. Observers hear what it took,
 * as of a worker's. */
static void copy(struct driver *driver, const struct engine_action *action)
{
    struct driver_copies *copies = &driver->copies;
    uint64_t began_ns = clock_now_ns();
    char *base = arena_base(driver->config.arena);
    for (uint32_t i = 0; i < action->prepare.n_outputs; i++)
        memcpy(base + action->prepare.outputs[i].offset, action->prepare.encoded, action->prepare.encoded_bytes);
    uint64_t took_ns = clock_now_ns() - began_ns + 1;
    struct worker_cost cost = {.pipeline = action->prepare.outputs[0].pipeline,
                               .queue = governor_live_queue(driver->governor, action->job, action->rank),
                               .busy = 1,
                               .encoded_bytes = action->prepare.encoded_bytes,
                               .took_ns = took_ns,
                               .core_ns = took_ns};
    OBSERVERS_TELL(driver, on_prepared, &cost);
    CHECK(copies->count < ENGINE_COPIES_MAX);
    copies->done[copies->filling][copies->count++] = (struct engine_event){.type = ENGINE_PREPARED,
                                                                           .prepared = {.task = action->prepare.task}};
}

static void prepare(struct driver *driver, const struct engine_action *action)
{
    if (action->prepare.copy) {
        copy(driver, action);
        return;
    }
    struct worker_prepare task = {.task = action->prepare.task,
                                  .dataset = dataset_ref((struct dataset *)action->prepare.dataset),
                                  .id = action->prepare.id,
                                  .encoded = action->prepare.encoded,
                                  .bytes = action->prepare.encoded_bytes,
                                  .decoded = action->prepare.decoded,
                                  .form_bytes = action->prepare.form_bytes,
                                  .pipeline = action->prepare.outputs[0].pipeline,
                                  .queue = governor_live_queue(driver->governor, action->job, action->rank),
                                  .n_outputs = action->prepare.n_outputs};
    for (uint32_t i = 0; i < task.n_outputs; i++)
        task.outputs[i] = worker_output(driver, &action->prepare.outputs[i], action->prepare.id);
    driver->preparing.all = xgrow(driver->preparing.all, sizeof task, &driver->preparing.cap,
                                  driver->preparing.count + 1);
    driver->preparing.all[driver->preparing.count++] = task;
}

/* prepare_all gives the workers what a step has them prepare. */
static void prepare_all(struct driver *driver)
{
    if (driver->preparing.count)
        workers_prepare(driver->workers, driver->preparing.all, driver->preparing.count);
    driver->preparing.count = 0;
}

/* reserve asks for the arena's memory from its start up to `bytes`. */
static void reserve(struct driver_reserve *reserve, uint64_t bytes)
{
    CHECK(reserve->reserver); /* otherwise all of the arena is there from the start */
    reserver_reserve(reserve->reserver, reserve->there_bytes < bytes ? reserve->there_bytes : bytes, bytes);
}

/* give_back takes the memory of a range of the arena away. */
static void give_back(struct driver_reserve *reserve, uint64_t from, uint64_t to)
{
    reserver_return(reserve->reserver, from, to);
    reserve->there_bytes = from < reserve->there_bytes ? from : reserve->there_bytes;
}

static void carry_out(struct driver *driver, const struct engine_action *action)
{
    switch (action->type) {
    case ENGINE_JOB_ADDED: job_added(driver, action); break;
    case ENGINE_JOB_REFUSED: job_refused(driver, action); break;
    case ENGINE_LOAD: load(driver, action); break;
    case ENGINE_PREPARE: prepare(driver, action); break;
    case ENGINE_DROP_ENCODED: blocks_give(action->drop.encoded); break;
    case ENGINE_DELIVER:
        if (driver->tables.jobs[action->job].reg->guest.number)
            sharing_guest_batch(driver->sharing, action);
        else
            driver_deliver(driver, action);
        break;
    case ENGINE_JOB_ERROR: job_error(driver, action); break;
    case ENGINE_JOB_ENDED:
        sharing_job_ended(driver->sharing, action->job);
        states_end(driver, action->job);
        tables_job_end(&driver->tables, action->job);
        want_datasets(driver);
        break;
    case ENGINE_RESERVE: reserve(&driver->reserve, action->reserve.bytes); break;
    case ENGINE_RETURN: give_back(&driver->reserve, action->give_back.from, action->give_back.to); break;
    case ENGINE_EXPECT: sharing_expect(driver->sharing, action); break;
    case ENGINE_AHEAD: /* only observers need these two */
    case ENGINE_SOURCE: break;
    }
}

/* measured_step has the engine take the step, and counts how long it took: the engine has no clock. */
static size_t measured_step(struct driver *driver, const struct engine_event *events, size_t count,
                            const struct engine_action **actions)
{
    uint64_t now_ns = clock_now_ns();
    size_t n = engine_step(driver->engine, now_ns, events, count, actions);
    histogram_add(&driver->steps, (double)(clock_now_ns() - now_ns) / (double)CLOCK_NS_PER_S);
    return n;
}

void driver_step(struct driver *driver, const struct engine_event *events, size_t count)
{
    const struct engine_action *actions;
    for (size_t i = 0; i < count; i++)
        OBSERVERS_TELL(driver, on_event, &events[i]);
    size_t n = count ? measured_step(driver, events, count, &actions) : 0;
    for (size_t i = 0; i < n; i++) {
        if (!belongs_to_read(driver, &actions[i]))
            load_end(driver);
        OBSERVERS_TELL(driver, on_action, &actions[i]);
        carry_out(driver, &actions[i]);
    }
    load_end(driver);
    prepare_all(driver);
}

void driver_step_copies(struct driver *driver)
{
    struct driver_copies *copies = &driver->copies;
    const struct engine_event *done = copies->done[copies->filling];
    size_t count = copies->count;
    copies->filling = !copies->filling;
    copies->count = 0;
    driver_step(driver, done, count);
}
