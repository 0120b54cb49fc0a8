/* state.c: larder_state. In a job of one rank this loader itself knows what was taken. In a larger job only the daemon
 * knows what all ranks took up to this rank's last batch: in `dependent` order it gives each rank what is ready. */
#include "client/loader_priv.h"
#include "common/clock.h"

#define ANSWER_GRACE_MS 5000 /* time that a daemon may answer later than its time-out */

static int send_question(struct larder_loader *loader, uint64_t deadline_ns)
{
    struct loader_question *question = &loader->question;
    uint64_t now = clock_now_ns(), left_ms = deadline_ns > now ? (deadline_ns - now) / CLOCK_NS_PER_MS : 0;
    struct wire_message msg = {.type = WIRE_STATE_GET};
    msg.state_get = (struct wire_state_get){.epoch = loader->taken.base.epoch,
                                            .batches = loader->taken.n_batches,
                                            .timeout_ms = left_ms < UINT32_MAX ? (uint32_t)left_ms : UINT32_MAX};
    int rc = join_ask(loader, &msg, -1, deadline_after(SEND_TIMEOUT_MS), &question->seq);
    if (rc)
        return rc == LARDER_ETIMEOUT ? rc : loader_break(loader);
    question->open = true;
    question->answered = question->given_up = false;
    return 0;
}

static int wait_for_answer(struct larder_loader *loader, uint64_t deadline_ns)
{
    int rc = 0;
    while (rc == 0 && loader->question.open) /* a link that goes down closes it */
        rc = receive_one(loader, deadline_ns);
    loader->question.given_up = rc != 0;
    return rc;
}

/* ask has the daemon say what all ranks have taken. The daemon takes one question at a time, so the answer to one that
 * was given up comes first. */
static int ask(struct larder_loader *loader, int64_t timeout_ms)
{
    struct loader_question *question = &loader->question;
    uint64_t deadline_ns = deadline_after(timeout_ms), grace_ns = ANSWER_GRACE_MS * CLOCK_NS_PER_MS;
    uint64_t answer_ns = deadline_ns < DEADLINE_NONE - grace_ns ? deadline_ns + grace_ns : DEADLINE_NONE;
    int rc;
    do {
        rc = link_mend(loader, deadline_ns);
        if (rc == 0)
            rc = wait_for_answer(loader, answer_ns);
        question->answered = false;
        if (rc == 0 && loader->link.state == LINK_UP)
            rc = send_question(loader, deadline_ns);
        if (rc == 0)
            rc = wait_for_answer(loader, answer_ns);
    } while (rc == 0 && !question->answered);
    if (rc == 0 && question->answer.code)
        loader->error = question->answer;
    return rc ? rc : question->answer.code;
}

static int make_state(struct larder_loader *loader, int64_t timeout_ms)
{
    const struct loader_stream *stream = &loader->stream;
    const struct taken *taken = &loader->taken;
    struct record token;
    uint8_t through[4];
    bool apart = loader->asked.local_world_size && loader->asked.local_world_size < loader->asked.world_size;
    if (stream->told || (apart && stream->ended)) /* all ranks train in step */
        return token_keep_start(loader, stream->epoch + 1);
    if (stream->started && stream->epoch != taken->base.epoch)
        return token_keep_start(loader, stream->epoch);
    if (!taken->known)
        return error_set(&loader->error, LARDER_EINVAL,
                         "this rank came into epoch %u after %u batches that it was not told of: give it the state in "
                         "options.state, or save one in the next epoch",
                         taken->base.epoch, taken->base.batches);
    if (taken->world_size > 1 && taken->n_batches)
        return loader->broken ? loader->broken : ask(loader, timeout_ms);
    int rc = taken_token(taken, through, &token, &loader->error);
    return rc ? rc : token_keep(loader, &token);
}

int larder_state(struct larder_loader *loader, int64_t timeout_ms, const void **state, size_t *state_bytes)
{
    int rc = loader_enter(loader);
    if (rc && !loader_failed(loader))
        return rc;
    if (!state || !state_bytes)
        return error_set(&loader->error, LARDER_EINVAL, "larder_state was called without a place for the state");
    rc = make_state(loader, timeout_ms);
    if (!loader->broken && loader->link.state == LINK_UP) { /* a daemon that came meanwhile has not been asked yet */
        struct error said = loader->error;
        loader_ask(loader, 0); /* a failure shows with the next call */
        loader->error = said;
    }
    if (loader->stream.waiting && loader->link.state == LINK_UP)
        connection_alarm(&loader->connection, ALARM_NOW);
    if (rc)
        return rc;
    *state = loader->token;
    *state_bytes = loader->token_bytes;
    return 0;
}
