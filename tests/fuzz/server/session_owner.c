/* session_owner.c: the owner of fuzz_session. It notes what the session tells it, and answers only what it is asked. */
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "tests/fuzz/server/session_play.h"

static struct party *party_of(struct play *play, uint64_t id)
{
    for (uint32_t i = 0; i < play->n_parties; i++) {
        if (play->parties[i].id == id)
            return &play->parties[i];
    }
    CHECK(!"a client that is known");
    return NULL;
}

static struct party *registered(struct play *play, uint64_t id)
{
    struct party *party = party_of(play, id);
    CHECK(party->registered && !party->gone);
    return party;
}

static void on_register(void *ctx, uint64_t client, uint32_t seq, const struct session_peer *peer,
                        const struct wire_register *reg, int file_fd)
{
    (void)seq;
    struct party *party = party_of(ctx, client);
    CHECK(!party->told && !party->gone && peer->pid == getpid());
    CHECK((file_fd >= 0) == ((reg->flags & WIRE_WITH_FILE) != 0));
    if (file_fd >= 0)
        CHECK(close(file_fd) == 0);
    party->told = true;
}

/* Whether a question is open that has this number. */
static bool is_open(const struct party *party, uint32_t seq)
{
    return (party->classes && party->classes_seq == seq) || (party->state && party->state_seq == seq) ||
           (party->column && party->column_seq == seq);
}

static void on_classes(void *ctx, uint64_t client, uint32_t seq, uint32_t first)
{
    (void)first;
    struct party *party = registered(ctx, client);
    CHECK(!party->classes && !is_open(party, seq));
    party->classes = true;
    party->classes_seq = seq;
}

static void on_next(void *ctx, uint64_t client, const struct wire_next *next)
{
    struct party *party = registered(ctx, client);
    bool begins = !party->begun || next->epoch > party->epoch;
    CHECK(begins || (next->epoch == party->epoch && !party->over));
    CHECK(next->credits > 0 || (!begins && next->awaited > 0 && next->awaited <= WIRE_CREDITS_MAX));
    if (begins) {
        party->begun = true;
        party->over = false;
        party->epoch = next->epoch;
        party->credits = 0;
    }
    party->credits += next->credits;
    CHECK(party->credits <= WIRE_CREDITS_MAX);
}

static void on_release(void *ctx, uint64_t client, uint64_t batch)
{
    struct play *play = ctx;
    struct party *party = registered(ctx, client);
    CHECK(batch < play->n_batches && play->holder_of[batch] == (uint32_t)(party - play->parties) + 1);
    play->holder_of[batch] = 0;
}

static void on_state_get(void *ctx, uint64_t client, uint32_t seq, const struct wire_state_get *get)
{
    (void)get;
    struct party *party = registered(ctx, client);
    CHECK(!party->state && seq != 0 && party->version > 4 && !is_open(party, seq));
    party->state = true;
    party->state_seq = seq;
}

static void on_column_get(void *ctx, uint64_t client, uint32_t seq, const struct wire_text *name)
{
    struct party *party = registered(ctx, client);
    CHECK(!party->column && seq != 0 && party->version > 9 && !is_open(party, seq));
    CHECK(name->len_bytes > 0 && name->len_bytes <= WIRE_COLUMN_MAX && !memchr(name->data, 0, name->len_bytes));
    party->column = true;
    party->column_seq = seq;
}

static void on_gone(void *ctx, uint64_t client, bool bye)
{
    (void)bye;
    struct party *party = party_of(ctx, client);
    CHECK(party->told && !party->gone);
    party->gone = true;
}

static void answer_registration(struct play *play, struct party *party, uint8_t how)
{
    if (!party->told || party->answered)
        return;
    party->answered = true;
    struct wire_message msg = {.type = WIRE_REGISTERED, .registered = {.job = 1, .view = {1, 2}}};
    if (how % 4 == 3)
        session_send_error(play->session, party->id, 0, LARDER_ENOENT, true, "no such folder");
    else
        party->registered = session_send(play->session, party->id, &msg) == 0;
}

static void answer_classes(struct play *play, struct party *party)
{
    if (!party->classes)
        return;
    party->classes = false;
    struct wire_message msg = {
        .type = WIRE_CLASSES, .seq = party->classes_seq, .classes = {1, 1, 2, {.data = "\3\0cat", .len_bytes = 5}}};
    session_send(play->session, party->id, &msg);
}

static void answer_state(struct play *play, struct party *party, uint8_t how)
{
    if (!party->state)
        return;
    party->state = false;
    struct wire_message msg = {.type = WIRE_STATE, .seq = party->state_seq, .state = {.n_bytes = 9}};
    if (how % 4 == 3)
        session_send_error(play->session, party->id, party->state_seq, LARDER_ETIMEOUT, false, "not in time");
    else
        session_send_fd(play->session, party->id, &msg, dup(play->memory_fd));
}

static void answer_column(struct play *play, struct party *party, uint8_t how)
{
    if (!party->column)
        return;
    party->column = false;
    struct wire_message msg = {.type = WIRE_COLUMN, .seq = party->column_seq, .column = {WIRE_COLUMN_TEXT, 1, 0, 8}};
    if (how % 4 == 3)
        session_send_error(play->session, party->id, party->column_seq, LARDER_ENOENT, false, "no such column");
    else
        session_send_fd(play->session, party->id, &msg, dup(play->memory_fd));
}

static void send_batch(struct play *play, struct party *party, uint8_t how)
{
    static const uint32_t counts[] = {0, 1, 3, WIRE_BATCH_MAX};
    static uint8_t entries[WIRE_BATCH_MAX * WIRE_ENTRY_BYTES];
    uint8_t turn[WIRE_TURN_BYTES] = {0};
    if (!party->registered || play->n_batches == BATCHES_MAX)
        return;
    struct wire_message msg = {.type = WIRE_BATCH,
                               .batch = {.batch = play->n_batches++,
                                         .epoch = party->epoch,
                                         .flags = how & 4 ? WIRE_BATCH_LAST : 0,
                                         .count = counts[how % 4],
                                         .entries = entries}};
    struct wire_message turns = {.type = WIRE_TURNS, .turns = {msg.batch.batch, 1, turn}};
    if (how & 8)
        session_send(play->session, party->id, &turns);
    if (session_send(play->session, party->id, &msg) != 0)
        return;
    play->holder_of[msg.batch.batch] = (uint32_t)(party - play->parties) + 1;
    if (!party->begun)
        return;
    party->credits -= party->credits > 0;
    if (how & 4) {
        party->over = true;
        party->credits = 0;
    }
}

struct session_handlers play_handlers(struct play *play)
{
    return (struct session_handlers){.ctx = play,
                                     .on_register = on_register,
                                     .on_classes = on_classes,
                                     .on_next = on_next,
                                     .on_release = on_release,
                                     .on_state_get = on_state_get,
                                     .on_column_get = on_column_get,
                                     .on_gone = on_gone};
}

/* The owner may hear late that a client has gone, and answer it all the same. */
void play_owner(struct play *play, struct party *party, uint8_t what, uint8_t how)
{
    switch (what % 7) {
    case 0: answer_registration(play, party, how); break;
    case 1: answer_classes(play, party); break;
    case 2: answer_state(play, party, how); break;
    case 6: answer_column(play, party, how); break;
    case 3: session_send_error(play->session, party->id, 0, LARDER_EIO, how == 255, "a job's own failure"); break;
    default:
        /* Once in a while more than a client may hold. */
        for (uint32_t n = how == 255 ? SESSION_HELD_MAX + 1 : how / 32 + 1; n > 0; n--)
            send_batch(play, party, how);
    }
}
