/* question.c: asks the daemon something while batches may come: what all ranks have taken, or a column. See
 * loader_priv.h. */
#include "client/loader_priv.h"
#include "common/clock.h"

#define ANSWER_GRACE_MS 5000 /* time that a daemon may answer a STATE_GET later than its time-out */

static int send_question(struct larder_loader *loader, const char *column, uint64_t deadline_ns)
{
    struct loader_question *question = &loader->question;
    uint64_t now = clock_now_ns(), left_ms = deadline_ns > now ? (deadline_ns - now) / CLOCK_NS_PER_MS : 0;
    struct wire_message msg = {.type = column ? WIRE_COLUMN_GET : WIRE_STATE_GET};
    if (column)
        msg.column_get.name = text_of(column);
    else
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

/* The daemon takes one question of a kind at a time, so the answer to one that was given up comes first. */
int question_ask(struct larder_loader *loader, const char *column, int64_t timeout_ms)
{
    struct loader_question *question = &loader->question;
    uint64_t deadline_ns = deadline_after(timeout_ms), grace_ns = column ? 0 : ANSWER_GRACE_MS * CLOCK_NS_PER_MS;
    uint64_t answer_ns = deadline_ns < DEADLINE_NONE - grace_ns ? deadline_ns + grace_ns : DEADLINE_NONE;
    int rc;
    do {
        rc = link_mend(loader, deadline_ns);
        if (rc == 0)
            rc = wait_for_answer(loader, answer_ns);
        question->answered = false;
        if (rc == 0 && loader->link.state == LINK_UP)
            rc = send_question(loader, column, deadline_ns);
        if (rc == 0)
            rc = wait_for_answer(loader, answer_ns);
    } while (rc == 0 && !question->answered);
    if (rc == 0 && question->answer.code)
        loader->error = question->answer;
    return rc ? rc : question->answer.code;
}

void question_over(struct larder_loader *loader)
{
    if (!loader->broken && loader->link.state == LINK_UP) { /* a daemon that came meanwhile has not been asked yet */
        struct error said = loader->error;
        loader_ask(loader, 0); /* a failure shows with the next call */
        loader->error = said;
    }
    if (loader->stream.waiting && loader->link.state == LINK_UP)
        connection_alarm(&loader->connection, ALARM_NOW);
}

int larder_column_open(struct larder_loader *loader, const char *name, int64_t timeout_ms, struct larder_column **out)
{
    int rc = loader_enter(loader);
    if (rc)
        return rc;
    if (!out || !name || !*name || strlen(name) > WIRE_COLUMN_MAX)
        return error_set(&loader->error, LARDER_EINVAL,
                         "larder_column_open was called without a place for the column, or without a name of 1 to %d "
                         "bytes",
                         WIRE_COLUMN_MAX);
    rc = question_ask(loader, name, timeout_ms);
    question_over(loader);
    if (rc)
        return rc;
    *out = loader->question.column;
    loader->question.column = NULL;
    return 0;
}
