#include "server/driver/states.h"

#include "common/check.h"
#include "common/clock.h"
#include "server/driver/done.h"
#include "server/driver/token.h"

/* job_record returns a record of the job, with nothing taken. */
static struct record job_record(const struct registration *reg, uint32_t epoch)
{
    struct record record = {.view = {reg->found.view_fingerprint[0], reg->found.view_fingerprint[1]},
                            .seed = reg->asked.seed,
                            .shuffle = (uint32_t)reg->asked.shuffle,
                            .epoch = epoch,
                            .samples = dataset_count(reg->found.dataset)};
    dataset_fingerprint(reg->found.dataset, record.dataset);
    return record;
}

/* ── answers ── */

static void close_ask(struct driver_ask *ask)
{
    LIST_REMOVE(ask, link);
    ask->open = false;
}

static void answer_error(struct driver *driver, struct driver_ask *ask, const struct error *err)
{
    session_send_error(driver->session, ask->client, ask->seq, err->code, false, err->text);
    close_ask(ask);
}

static void answer(struct driver *driver, struct driver_ask *ask, const struct record *token)
{
    struct error err;
    struct wire_message message = {.type = WIRE_STATE, .seq = ask->seq};
    int fd, rc = token_memfd(token, &fd, &message.state.n_bytes, &err);
    if (rc) {
        answer_error(driver, ask, &err);
        return;
    }
    session_send_fd(driver->session, ask->client, &message, fd);
    close_ask(ask);
}

/* last_rank returns the rank that has received the fewest batches. */
static uint32_t last_rank(const struct history *history, uint32_t world_size)
{
    uint32_t last = 0;
    for (uint32_t rank = 1; rank < world_size; rank++) {
        if (history_has(history, rank) < history_has(history, last))
            last = rank;
    }
    return last;
}

/* epoch_batches returns the batches that each rank of a job with ranks at other nodes has in an epoch. */
static uint32_t epoch_batches(const struct registration *reg)
{
    uint32_t count = reg->found.samples, ranks = reg->asked.all_ranks, batch = reg->asked.batch_size;
    return reg->asked.flags & WIRE_DROP_LAST ? count / ranks / batch
                                             : ((count + ranks - 1) / ranks + batch - 1) / batch;
}

/* is_between tells whether the ask is about no batch of an epoch, or about all of it, of a job with ranks at other
 * nodes. They train in step: an epoch that one has finished, all have finished. */
static bool is_between(const struct driver_job *job, const struct driver_ask *ask)
{
    return job->reg->asked.all_ranks && (!ask->batches || ask->batches >= epoch_batches(job->reg));
}

/* refusal finds why the ask has no answer, neither now nor later. 0: it has one. */
static int refusal(const struct driver_job *job, const struct driver_ask *ask, struct error *err)
{
    const struct history *history = given_find(&job->given, ask->epoch);
    uint32_t running;
    bool runs = given_running(&job->given, &running);
    if (ask->batches && ask->epoch == WIRE_EPOCHS_MAX)
        return error_set(err, LARDER_EINVAL, "the state is asked for in epoch %u, which no job has", ask->epoch);
    if (is_between(job, ask))
        return 0;
    if (job->reg->asked.all_ranks && job->reg->found.multiset)
        return error_set(err, LARDER_EINVAL,
                         "the job has a sampler, and ranks at several nodes: save the state between two epochs");
    if (job->reg->asked.world_size == 1 && !job->reg->asked.all_ranks)
        return error_set(err, LARDER_EINVAL, "a job of one rank knows its state itself and need not ask for it");
    if (!job->given.now)
        return error_set(err, LARDER_ENOMEM,
                         "there was no memory to keep what the ranks get: free memory, and start all ranks again");
    if (!history && (ask->batches || (runs && ask->epoch < running)))
        return runs ? error_set(err, LARDER_EINVAL, "the state is asked for in epoch %u, and the job is in epoch %u",
                                ask->epoch, running)
                    : error_set(err, LARDER_EINVAL, "the state is asked for after %u batches, and no epoch has begun",
                                ask->batches);
    if (history && history_has(history, ask->rank) < ask->batches)
        return error_set(err, LARDER_EINVAL,
                         "the state is asked for after %u batches of epoch %u, and rank %u has had %u", ask->batches,
                         ask->epoch, ask->rank, history_has(history, ask->rank));
    return 0;
}

/* try_answer answers the ask if it can be answered now. */
static void try_answer(struct driver *driver, struct driver_ask *ask)
{
    const struct driver_job *job = &driver->tables.jobs[ask->job];
    struct history *history = given_find(&job->given, ask->epoch);
    struct error err;
    struct record token;
    int rc = refusal(job, ask, &err);
    if (!rc && is_between(job, ask))
        token = job_record(job->reg, ask->epoch + (ask->batches > 0));
    else if (!rc && !history)
        token = job_record(job->reg, ask->epoch); /* nothing of that epoch was delivered */
    else if (!rc && history_has(history, last_rank(history, job->reg->asked.world_size)) < ask->batches)
        return;
    else if (!rc)
        rc = history_token(history, ask->batches, &token, &err);
    if (rc)
        answer_error(driver, ask, &err);
    else
        answer(driver, ask, &token);
}

static void try_answers(struct driver *driver, uint32_t place)
{
    for (struct driver_ask *ask = LIST_FIRST(&driver->asks), *next; ask; ask = next) {
        next = LIST_NEXT(ask, link);
        if (ask->job == place)
            try_answer(driver, ask);
    }
}

/* too_late says which rank has not had its batches in time. */
static void too_late(struct driver *driver, struct driver_ask *ask)
{
    const struct driver_job *job = &driver->tables.jobs[ask->job];
    const struct history *history = given_find(&job->given, ask->epoch);
    uint32_t world_size = job->reg->asked.world_size;
    struct error err;
    if (refusal(job, ask, &err)) { /* the job has left that epoch behind */
        answer_error(driver, ask, &err);
        return;
    }
    uint32_t last = last_rank(history, world_size), all = job->reg->asked.all_ranks;
    error_set(&err, LARDER_ETIMEOUT, "rank %u of %u has had %u batches of epoch %u and not %u within %g s: %s",
              job->reg->asked.first_rank + last, all ? all : world_size, history_has(history, last), ask->epoch,
              ask->batches, ask->timeout_ms / 1000.0,
              job->ranks[last].there ? "it is slower, or its script hangs; ask again later, or wait longer"
                                     : "it is not connected; ask again when it has come back");
    answer_error(driver, ask, &err);
}

/* ── questions ── */

/* stale refuses a rank that asks for a position before one that it has given back. To go back there would take the
 * engine's thread a time in proportion to the epoch. 0: the position is allowed. */
static int stale(const struct driver_job *job, const struct driver_ask *ask, struct error *err)
{
    const struct history *history = given_find(&job->given, ask->epoch);
    if (!history || is_between(job, ask) || ask->batches >= history_kept(history, ask->rank))
        return 0;
    return error_set(err, LARDER_EINVAL,
                     "the state is asked for after %u batches of epoch %u, and rank %u has gone on and given back %u",
                     ask->batches, ask->epoch, ask->rank, history_kept(history, ask->rank));
}

void states_asked(struct driver *driver, const struct driver_client *row, uint32_t seq,
                  const struct wire_state_get *get)
{
    struct driver_ask *ask = &driver->tables.jobs[row->job].ranks[row->rank].ask;
    CHECK(!ask->open); /* the session lets a client ask one at a time */
    *ask = (struct driver_ask){.open = true,
                               .client = row->client,
                               .job = row->job,
                               .rank = row->rank,
                               .seq = seq,
                               .epoch = get->epoch,
                               .batches = get->batches,
                               .timeout_ms = get->timeout_ms,
                               .deadline_ns = clock_now_ns() + get->timeout_ms * CLOCK_NS_PER_MS};
    LIST_INSERT_HEAD(&driver->asks, ask, link);
    struct error err;
    if (stale(&driver->tables.jobs[row->job], ask, &err))
        answer_error(driver, ask, &err);
    else
        try_answer(driver, ask);
    if (ask->open && get->timeout_ms == 0)
        too_late(driver, ask);
}

int64_t states_wait_ms(const struct driver *driver)
{
    const struct driver_ask *ask;
    uint64_t first_ns = UINT64_MAX, now_ns = clock_now_ns();
    LIST_FOREACH(ask, &driver->asks, link)
    {
        first_ns = ask->deadline_ns < first_ns ? ask->deadline_ns : first_ns;
    }
    if (first_ns == UINT64_MAX)
        return -1;
    return first_ns > now_ns ? (int64_t)((first_ns - now_ns) / CLOCK_NS_PER_MS + 1) : 0;
}

void states_expire(struct driver *driver)
{
    uint64_t now_ns = clock_now_ns();
    for (struct driver_ask *ask = LIST_FIRST(&driver->asks), *next; ask; ask = next) {
        next = LIST_NEXT(ask, link);
        if (now_ns >= ask->deadline_ns)
            too_late(driver, ask);
    }
}

/* ── what happens to a job ── */

void states_begin(struct driver *driver, uint32_t place, const struct registration *reg)
{
    struct record record = job_record(reg, 0);
    struct given *given = &driver->tables.jobs[place].given;
    const struct multiset *multiset = reg->found.multiset;
    uint32_t copies = multiset && multiset_is_together(multiset) ? reg->asked.copies : 0;
    if (reg->asked.all_ranks)
        record.part = (struct record_part){reg->asked.first_rank, reg->asked.world_size, reg->asked.all_ranks};
    if ((reg->asked.world_size > 1 || reg->asked.all_ranks) &&
        (given_begin(given, reg->asked.world_size, &record) || (multiset && given_count_turns(given, copies))))
        log_warn_limited(
            "msg=\"no memory to keep what the ranks get: this job's state cannot be asked for\" job=\"%s\"", reg->name);
}

void states_came(struct driver *driver, uint32_t place, const struct registration *reg)
{
    if (!reg->found.restore) {
        given_forgotten(&driver->tables.jobs[place].given, reg->asked.rank);
        return;
    }
    struct record presented = reg->found.restore->record, done;
    presented.rank -= presented.world_size ? reg->asked.first_rank : 0;
    given_presented(&driver->tables.jobs[place].given, &presented, reg->found.selection->view.indices,
                    reg->found.selection->view.count);
    for (size_t at = 0; record_done_next(&presented, &at, &done);) {
        done.rank -= reg->asked.first_rank;
        given_done(&driver->tables.jobs[place].given, &done);
    }
    try_answers(driver, place);
}

void states_delivered(struct driver *driver, const struct engine_action *action, const uint32_t *over, uint32_t n_over)
{
    struct history *history = given_turn(&driver->tables.jobs[action->job].given, action->deliver.epoch);
    if (!history)
        return;
    struct history_batch batch = {.number = action->deliver.batch,
                                  .delivered = action->deliver.count,
                                  .through = action->deliver.through,
                                  .turns = over,
                                  .n_turns = n_over};
    if (batch.delivered)
        history_delivered(history, action->rank, &batch); /* a history without memory says so when it is asked */
    if (action->deliver.last)
        history_last(history, action->rank);
    done_look(driver, action->job, action->rank);
    if (batch.delivered)
        try_answers(driver, action->job);
}

void states_wanted(struct driver *driver, const struct driver_client *row, uint32_t epoch)
{
    struct driver_job *job = &driver->tables.jobs[row->job];
    uint32_t epochs = job->reg->asked.epochs ? job->reg->asked.epochs : WIRE_EPOCHS_MAX;
    if (epoch < epochs) /* the engine refuses the others */
        given_asked(&job->given, row->rank, epoch);
    done_look(driver, row->job, row->rank);
    done_asked(driver, row);
}

void states_released(struct driver *driver, const struct driver_client *row, uint64_t batch)
{
    given_released(&driver->tables.jobs[row->job].given, row->rank, batch);
    done_look(driver, row->job, row->rank);
}

void states_gone(struct driver *driver, const struct driver_client *row)
{
    struct driver_job *job = &driver->tables.jobs[row->job];
    if (job->ranks[row->rank].ask.open)
        close_ask(&job->ranks[row->rank].ask);
    given_gone(&job->given, row->rank);
}

void states_end(struct driver *driver, uint32_t place)
{
    struct driver_job *job = &driver->tables.jobs[place];
    for (uint32_t rank = 0; rank < job->reg->asked.world_size; rank++) {
        if (job->ranks[rank].ask.open)
            close_ask(&job->ranks[rank].ask);
    }
}
