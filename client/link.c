/* link.c: what happens when the daemon goes: the loader waits for one to come, presents what was taken, and goes on.
 * loader_priv.h has the states.
 *
 * Nothing here waits longer than the call of the program that it happens in. While there is no daemon, the alarm says
 * when the next attempt is due: the program that polls is woken for it, and not before. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/loader_priv.h"
#include "common/clock.h"

#define PAUSE_FIRST_NS (10 * CLOCK_NS_PER_MS)
#define PAUSE_MAX_NS (250 * CLOCK_NS_PER_MS)
#define COMEBACKS_MAX 32 /* without a batch in between */

/* ── going down ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* retry_later hangs up and sets the time of the next attempt. The first one after a batch was handed out is made at
 * once. */
static void retry_later(struct larder_loader *loader)
{
    struct loader_link *link = &loader->link;
    connection_hang_up(&loader->connection);
    arena_unref(&loader->arena);
    link->state = LINK_DOWN;
    link->retry_ns = clock_now_ns() + link->pause_ns;
    link->pause_ns = link->pause_ns ? 2 * link->pause_ns : PAUSE_FIRST_NS;
    if (link->pause_ns > PAUSE_MAX_NS)
        link->pause_ns = PAUSE_MAX_NS;
    connection_alarm(&loader->connection, link->retry_ns);
}

/* may_come_back tells whether the loader waits for a daemon: the program wants it, and what was taken is known. */
static bool may_come_back(struct larder_loader *loader)
{
    if (loader->asked.reconnect_ms == 0 || loader->broken)
        return false;
    if (loader->taken.known)
        return true;
    error_prefix(&loader->error, LARDER_EGONE,
                 "this rank came into epoch %u in its middle without a state, so it cannot go on",
                 loader->taken.base.epoch);
    return false;
}

/* go_down forgets what the daemon owed. Batches that were received and not handed out were not taken. */
static void go_down(struct larder_loader *loader)
{
    struct loader_stream *stream = &loader->stream;
    loader->arena->state = ARENA_KEPT;
    waiting_drop(loader);
    stream->last_came = stream->ended;
    stream->next_index = taken_next(&loader->taken, stream->epoch);
    stream->outstanding = 0;
    stream->standing = false;
    stream->stale = 0;
    loader->question.open = loader->question.answered = false;
    loader->link.why = loader->error;
    loader->link.window_end_ns = deadline_after(loader->asked.reconnect_ms);
    retry_later(loader);
}

int link_going(struct larder_loader *loader)
{
    if (!may_come_back(loader))
        return loader_break(loader);
    go_down(loader);
    return 0;
}

int link_lost(struct larder_loader *loader)
{
    struct wire_message msg;
    int rc, fd = -1;
    do { /* read the rest of the socket: at most the requested batches, then perhaps an ERROR, then the end */
        rc = connection_receive(&loader->connection, &msg, &fd, 0, &loader->error);
        if (rc == 0 && msg.type == WIRE_DONE)
            token_done(loader, &msg.done, fd); /* a wrong message is useless, and the link is lost anyway */
        else if (rc == 0 && fd >= 0)
            close(fd);
    } while (rc == 0 && msg.type != WIRE_ERROR);
    bool going = rc == LARDER_EGONE; /* without a word */
    if (rc == 0)
        going = connection_daemon_error(&msg.error, &loader->error) == LARDER_EGONE && msg.error.fatal;
    return going ? link_going(loader) : loader_break(loader);
}

/* ── coming up ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* is_passing tells whether another attempt may go better: the next daemon is not there yet, the last one's rank, name
 * or memory is not free yet, or this process has no descriptor free at this moment. */
static bool is_passing(const struct larder_loader *loader, int code)
{
    return code == LARDER_EGONE || code == LARDER_EBUSY || code == LARDER_EQUOTA ||
           (code == LARDER_ELIMIT && loader->connection.no_descriptor);
}

/* go_to moves on to a state in which a message is awaited, and sets the alarm for when that takes too long. If the
 * message could not be sent at once, to an empty socket, another daemon is tried. */
static int go_to(struct larder_loader *loader, enum link_state state, int rc, uint64_t end_ns)
{
    if (rc == LARDER_ETIMEOUT)
        return LARDER_EGONE;
    if (rc == 0) {
        loader->link.state = state;
        connection_alarm(&loader->connection, end_ns);
    }
    return rc;
}

static int dial(struct larder_loader *loader)
{
    struct loader_link *link = &loader->link;
    int rc = connection_dial(&loader->connection, 0, &loader->error);
    if (rc == 0)
        rc = join_greet(loader, 0, &link->seq);
    return go_to(loader, LINK_GREETING, rc, link->window_end_ns);
}

static int take_welcome(struct larder_loader *loader, uint64_t deadline_ns)
{
    struct loader_link *link = &loader->link;
    const char *name = loader->asked.job ? loader->asked.job : link->nameless ? NULL : loader->job_name;
    int rc = join_take_welcome(loader, link->seq, deadline_ns);
    if (rc)
        return rc;
    struct record record = taken_record(&loader->taken);
    rc = join_register(loader, &record, name, 0, &link->seq);
    link->answer_end_ns = deadline_after(loader->asked.open_timeout_ms);
    return go_to(loader, LINK_REGISTERING, rc, link->answer_end_ns);
}

static int refuse_layout(struct larder_loader *loader, const struct wire_registered *job)
{
    const struct wire_registered *was = &loader->job;
    char now[SAMPLE_LAYOUT_TEXT_MAX], before[SAMPLE_LAYOUT_TEXT_MAX];
    sample_layout_text(&job->layout, now);
    sample_layout_text(&was->layout, before);
    return error_set(&loader->error, LARDER_ECHANGED,
                     "the daemon that came back at %s prepares other samples: %s, in %llu bytes; it was %s, in %llu",
                     loader->connection.path, now, (unsigned long long)job->sample_bytes, before,
                     (unsigned long long)was->sample_bytes);
}

/* check_same says whether the job is unchanged, and goes on where it stopped. */
static int check_same(struct larder_loader *loader, const struct wire_registered *job)
{
    const struct wire_registered *was = &loader->job;
    const struct taken *taken = &loader->taken;
    const char *path = loader->connection.path;
    if (memcmp(job->fingerprint, was->fingerprint, sizeof job->fingerprint) != 0 ||
        job->dataset_samples != was->dataset_samples)
        return error_set(&loader->error, LARDER_ECHANGED,
                         "the daemon that came back at %s has another dataset at %s than the job began with "
                         "(fingerprint %016" PRIx64 ", was %016" PRIx64
                         "): put the old one back and go on from a state, or begin anew",
                         path, loader->asked.dataset, job->fingerprint[0], was->fingerprint[0]);
    if (!dataset_version_agrees(&job->version, &was->version))
        return error_set(&loader->error, LARDER_ECHANGED,
                         "the daemon that came back at %s has other files at %s than the job began with: they have the "
                         "same names and sizes, and were rewritten: put the old ones back and go on from a state, or "
                         "begin anew",
                         path, loader->asked.dataset);
    if (memcmp(job->view, was->view, sizeof job->view) != 0 || job->n_samples != was->n_samples ||
        job->n_classes != was->n_classes)
        return error_set(&loader->error, LARDER_ECHANGED,
                         "the daemon that came back at %s takes another subset of %s than the job began with (%u "
                         "samples, %u classes; was %u, %u)",
                         path, loader->asked.dataset, job->n_samples, job->n_classes, was->n_samples, was->n_classes);
    if (!sample_layout_same(&job->layout, &was->layout) || job->sample_bytes != was->sample_bytes)
        return refuse_layout(loader, job);
    uint32_t epoch = taken_epoch(taken);
    if (job->epoch != epoch || job->batch != taken_next(taken, epoch))
        return error_set(&loader->error, LARDER_EFORMAT,
                         "the daemon that came back at %s goes on at batch %u of epoch %u, and %u of epoch %u is due",
                         path, job->batch, job->epoch, taken_next(taken, epoch), epoch);
    return 0;
}

static int take_registered(struct larder_loader *loader, uint64_t deadline_ns)
{
    struct loader_link *link = &loader->link;
    struct wire_registered job;
    int rc = join_take_registered(loader, link->seq, deadline_ns, &job);
    if (rc == LARDER_EBUSY && !loader->asked.job && !link->nameless) {
        link->nameless = true;
        return rc;
    }
    if (rc == 0)
        rc = check_same(loader, &job);
    if (rc)
        return rc;
    loader->job.job = job.job;
    loader->job.version = loader->taken.base.version = job.version;
    if (job.held_max < loader->job.held_max) /* a program with room for held_max batches may not have room for more */
        loader->job.held_max = job.held_max;
    join_name(loader, &job.name);
    link->state = LINK_UP;
    link->nameless = false;
    link->comebacks++;
    link->reconnects++;
    connection_alarm(&loader->connection, ALARM_OFF);
    return 0;
}

static int step(struct larder_loader *loader, uint64_t deadline_ns)
{
    switch (loader->link.state) {
    case LINK_DOWN: return dial(loader);
    case LINK_GREETING: return take_welcome(loader, deadline_ns);
    case LINK_REGISTERING: return take_registered(loader, deadline_ns);
    default: return 0;
    }
}

/* step_end is the time at which the step has taken too long. */
static uint64_t step_end(const struct loader_link *link)
{
    return link->state == LINK_REGISTERING ? link->answer_end_ns : link->window_end_ns;
}

static void wait_until(uint64_t at_ns)
{
    int left_ms;
    while ((left_ms = deadline_left_ms(at_ns)) > 0)
        poll(NULL, 0, left_ms);
}

/* give_up makes the failure final. loader->error has the last one. */
static int give_up(struct larder_loader *loader, int rc)
{
    const char *path = loader->connection.path;
    if (loader->link.comebacks >= COMEBACKS_MAX)
        rc = error_set(&loader->error, LARDER_EGONE,
                       "the daemon at %s went %d times without having sent a batch (its log says why, unless it was "
                       "killed)",
                       path, COMEBACKS_MAX);
    else if (is_passing(loader, rc) || rc == LARDER_ETIMEOUT)
        error_prefix(&loader->error, rc, "the daemon at %s has gone, and none took this job over within %lld ms", path,
                     (long long)loader->asked.reconnect_ms);
    else
        error_prefix(&loader->error, rc, "the daemon at %s has gone, and the job cannot go on in the next one", path);
    connection_hang_up(&loader->connection);
    arena_unref(&loader->arena);
    return loader_break(loader);
}

static int still_waiting(struct larder_loader *loader)
{
    return error_set(&loader->error, LARDER_ETIMEOUT, "waiting for the daemon at %s to come back: %.300s",
                     loader->connection.path, loader->link.why.text);
}

int link_mend(struct larder_loader *loader, uint64_t deadline_ns)
{
    struct loader_link *link = &loader->link;
    while (link->state != LINK_UP) {
        uint64_t end_ns = step_end(link), until_ns = deadline_first(deadline_ns, end_ns);
        if (link->comebacks >= COMEBACKS_MAX)
            return give_up(loader, LARDER_EGONE);
        if (link->state == LINK_DOWN && link->retry_ns > clock_now_ns()) {
            wait_until(deadline_first(link->retry_ns, until_ns));
            if (link->retry_ns > clock_now_ns() && clock_now_ns() < end_ns)
                return still_waiting(loader);
        }
        int rc = step(loader, until_ns);
        if (rc == 0)
            continue;
        if (rc == LARDER_ETIMEOUT && clock_now_ns() < end_ns)
            return still_waiting(loader);
        if (!is_passing(loader, rc) || clock_now_ns() >= link->window_end_ns)
            return give_up(loader, rc);
        link->why = loader->error;
        retry_later(loader);
    }
    return 0;
}
