/* loader_priv.h: a loader's state, for the files of this folder.
 *
 * Life: opening (open.c) → idle → streaming an epoch ⇄ ended (stream.c) → closed. The first permanent failure sets
 * `broken`, and every later call returns the same code and text. Then the connection is closed, unless the program
 * holds batches: the connection is their lease. It is closed with the last of them, and until then they can be read,
 * copied and released.
 *
 * The end of a daemon is no failure, unless options.reconnect_ms is 0. The link is then down, and link.c brings it up
 * again, step by step, in the program's next calls. A call with no time waits for nothing.
 *
 *   UP ──the daemon is gone──▶ DOWN ──HELLO──▶ GREETING ──REGISTER and the record──▶ REGISTERING ──▶ UP
 *                               ▲ nobody answers, or goes again: a pause ▼ ▼          the window is over: broken
 *
 * Credits: `outstanding` batches of the running epoch are asked for and not yet here. `stale` batches may still come
 * from epochs before. `waiting` batches are here and not yet handed out. `held` batches are in the program's hands.
 * outstanding + waiting ≤ prefetch, and these and held ≤ held_max. What the daemon sends beyond that is refused, so
 * that it cannot make the client grow. */
#ifndef LARDER_CLIENT_LOADER_PRIV_H
#define LARDER_CLIENT_LOADER_PRIV_H

#include <larder/larder.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "client/connection_priv.h"
#include "client/taken_priv.h"

#define LOADER_MAGIC UINT32_C(0x4c44524c)
#define BATCH_MAGIC UINT32_C(0x4c445242)
#define SEND_TIMEOUT_MS 10000  /* longest time that a daemon may not read */
#define SETTLE_TIMEOUT_MS 5000 /* time that a daemon has, at the end, to see what was sent */

/* The guarantee for the bytes in an arena. */
enum arena_state {
    ARENA_LEASED, /* the loader's connection */
    ARENA_KEPT,   /* nothing: its daemon is gone, so nobody writes there any more */
    ARENA_LOST    /* nothing: the connection is closed, and the daemon may have put other samples there */
};

/* A daemon's memory, mapped read-only. The loader refers to the one of its connection, and each batch to its own. */
struct arena {
    uint32_t refs;
    enum arena_state state;
    const uint8_t *data;
    uint64_t bytes;
};

struct larder_batch {
    uint32_t magic;
    struct larder_loader *loader;
    struct arena *arena;
    struct larder_batch *previous, *next; /* among the held ones; waiting ones have next alone */
    uint64_t number;                      /* the daemon's number for it */
    uint32_t epoch, index, count, lost, through;
    bool last;       /* it ends its epoch */
    size_t bytes;    /* bytes of all samples together */
    uint32_t *turns; /* dependent: n_turns indices, behind the entries */
    uint32_t n_turns;
    struct wire_entry entries[];
};

/* The names of the job's classes; NULL without. */
struct loader_classes {
    char *texts;   /* NUL-terminated names one behind the other */
    size_t *start; /* n_classes offsets into texts */
};

/* The loader's present epoch, and the batches on their way to it. */
struct loader_stream {
    bool started;
    bool last_came; /* the epoch's last batch is here */
    bool ended;     /* the last batch was handed out, or was empty */
    bool told;      /* the program knows that no more batches come */
    uint32_t epoch;
    uint32_t outstanding; /* batches of this epoch */
    bool standing;        /* the daemon was told that the program stands still until the next of them comes */
    uint64_t stale;       /* batches of epochs before */
    uint32_t next_index;  /* index of the next batch to come */
    uint32_t lost;        /* samples of the epoch that were bad up to the last batch handed out */
    struct larder_batch *first_waiting, *last_waiting;
    uint32_t waiting;
    struct wire_turn *turns; /* turns from TURNS, for the next batch; room for batch_size */
    uint32_t n_turns;        /* 0: no TURNS has come */
    uint64_t turns_of;       /* the batch's number */
};

enum link_state { LINK_UP, LINK_DOWN, LINK_GREETING, LINK_REGISTERING };

struct loader_link {
    enum link_state state;
    uint32_t seq;           /* seq of the request that waits for its answer */
    uint64_t window_end_ns; /* a daemon must answer until then */
    uint64_t answer_end_ns; /* REGISTERING: and must have registered the job until then */
    uint64_t retry_ns;      /* DOWN: not before */
    uint64_t pause_ns;      /* the last pause; 0: none yet since a batch was handed out */
    uint32_t comebacks;     /* since a batch was handed out */
    uint32_t reconnects;    /* reconnects in all */
    bool nameless;          /* the name that a daemon made is taken: come without one */
    struct error why;       /* why there is no daemon */
};

/* The question STATE_GET. */
struct loader_question {
    uint32_t seq;
    bool open;                    /* its answer is still to come */
    bool given_up;                /* nobody waits for its answer any more */
    bool answered;                /* its answer is here: the token or column, or what went wrong */
    struct larder_column *column; /* the answer to larder_column_open, which takes it as soon as it is here */
    struct error answer;
};

struct larder_loader {
    uint32_t magic;
    pid_t pid;
    int broken;           /* code of the permanent failure */
    struct error failure; /* its text */
    struct error error;   /* error of the last failed call */
    struct connection connection;
    struct arena *arena;        /* NULL: none yet, or the link is down */
    struct wire_registered job; /* the job as it was opened; its name is in job_name */
    char job_name[WIRE_NAME_MAX + 1];
    uint32_t missed;             /* batches of its first epoch that another process of this rank had */
    struct larder_options asked; /* texts are in asked_texts; without socket and state */
    char *asked_texts;
    uint32_t seq; /* seq of the last request */
    struct loader_classes classes;
    struct loader_stream stream;
    struct loader_link link;
    struct taken taken;
    struct loader_question question;
    uint8_t *token; /* the last result of larder_state */
    size_t token_bytes;
    struct larder_batch *batches; /* batches that the program holds */
    uint32_t held;                /* number of these batches */
};

/* ── loader.c ── */

/* loader_enter begins every call. It returns 0 when the loader is usable, else the code; where there is a loader, its
 * text is set. */
int loader_enter(struct larder_loader *loader);

/* loader_failed tells, where loader_enter gave a code, whether that is only because of a failure that is for good: what
 * needs no daemon can go on. */
bool loader_failed(const struct larder_loader *loader);

/* loader_close closes the connection for good. The batches that it leased are lost. */
void loader_close(struct larder_loader *loader);

/* loader_break makes the failure in loader->error final, and closes the connection unless batches are held. It returns
 * the failure's code. */
int loader_break(struct larder_loader *loader);

/* loader_destroy frees everything, however far larder_open got. */
void loader_destroy(struct larder_loader *loader);

static inline struct wire_text text_of(const char *value) /* borrowed; NULL: empty */
{
    return (struct wire_text){.data = value, .len_bytes = value ? (uint32_t)strlen(value) : 0};
}

/* ── options.c ── */

/* options_read copies and checks the program's options. Options that the program's version of the struct lacks get
 * their defaults. */
int options_read(const struct larder_options *given, struct larder_options *out, struct error *err);
/* options_keep copies the options into the loader, the dataset's path made absolute: the daemon runs elsewhere. */
int options_keep(struct larder_loader *loader, const struct larder_options *options);

/* ── arena.c ── */

/* arena_map maps the descriptor that came with WELCOME, and closes it. The caller has the one reference. */
int arena_map(const struct larder_loader *loader, int fd, uint64_t arena_bytes, struct arena **out, struct error *err);
struct arena *arena_ref(struct arena *arena);
/* arena_unref sets *arena to NULL. It accepts NULL. */
void arena_unref(struct arena **arena);
/* arena_check returns 0 when a batch's entry lies in the arena and has size and alignment of the job's samples.
 * LARDER_EFORMAT. */
int arena_check(const struct larder_loader *loader, const struct wire_entry *entry, struct error *err);

/* ── join.c: the conversation up to REGISTERED. Those that take give LARDER_ETIMEOUT, and can be called again. ── */

/* join_ask sends msg with a number of its own, which goes to *seq. It returns 0 also when the daemon has gone: it may
 * have said why. join_take waits for the answer of type `wanted`, or the ERROR that refuses. */
int join_ask(struct larder_loader *loader, struct wire_message *msg, int passed_fd, uint64_t deadline_ns,
             uint32_t *seq);
int join_take(struct larder_loader *loader, enum wire_type wanted, uint32_t seq, uint64_t deadline_ns,
              struct wire_message *answer, int *passed_fd);

int join_greet(struct larder_loader *loader, uint64_t deadline_ns, uint32_t *seq);
int join_take_welcome(struct larder_loader *loader, uint32_t seq, uint64_t deadline_ns);
/* join_register presents the record, unless that is NULL. */
int join_register(struct larder_loader *loader, const struct record *record, const char *name, uint64_t deadline_ns,
                  uint32_t *seq);
/* join_take_registered checks what the daemon says of the job. *out's name is in the connection's buffer. */
int join_take_registered(struct larder_loader *loader, uint32_t seq, uint64_t deadline_ns, struct wire_registered *out);
/* join_settle waits until the daemon has seen all that was sent, for SETTLE_TIMEOUT_MS at most. If the rank has
 * finished its epoch, other ranks are then told what it received, so that a later daemon need not wait for it. */
void join_settle(struct larder_loader *loader);
/* join_name takes over the job's name. */
void join_name(struct larder_loader *loader, const struct wire_text *name);

/* ── link.c ── */

/* link_lost is called when the daemon has closed the connection. If the loader is to wait for another daemon, the link
 * is then down, and link_lost returns 0. Otherwise the failure is permanent, with the daemon's last ERROR if it sent
 * one; link_lost returns its code. */
int link_lost(struct larder_loader *loader);

/* link_going is link_lost for a daemon that has said that it stops: loader->error has its text. */
int link_going(struct larder_loader *loader);

/* link_mend brings the link up. LARDER_ETIMEOUT at the deadline: the next call goes on. Anything else is for good. */
int link_mend(struct larder_loader *loader, uint64_t deadline_ns);

/* ── ask.c ── */

/* loader_ask asks for as many batches as there is room for. It returns 0 also when there is no room, or the link went
 * down. */
int loader_ask(struct larder_loader *loader, uint64_t deadline_ns);
/* loader_ask_ahead is loader_ask where a daemon that is too busy to take the request now, or not there, can have it
 * with a later call. */
int loader_ask_ahead(struct larder_loader *loader);

/* loader_stand tells the daemon, where it has not been told, that the program stands still: it has asked for a batch
 * that is not there. It never waits, and never fails: only what the daemon says of its waiting depends on it. */
void loader_stand(struct larder_loader *loader);

/* loader_release gives a batch back by its number. 0 also when the link went down. */
int loader_release(struct larder_loader *loader, uint64_t number);

/* ── receive.c ── */

/* receive_one waits for one message and deals with it: batches line up, the answer to a question goes there. 0 also
 * when the link went down. LARDER_ETIMEOUT; anything else is for good. */
int receive_one(struct larder_loader *loader, uint64_t deadline_ns);

/* ── question.c ── */

/* question_ask has the daemon answer a question, and waits for that, timeout_ms at most (below 0: for ever): a column
 * by its name, which question.column has then; NULL: what all ranks have taken, of which token_answer makes the state.
 * The link is mended as often as it may be. It fails as link_mend does, with LARDER_ETIMEOUT, and with what the daemon
 * says in the answer's place. */
int question_ask(struct larder_loader *loader, const char *column, int64_t timeout_ms);
/* question_over sees to batches again after a question, whatever came of that. */
void question_over(struct larder_loader *loader);

/* ── column.c ── */

/* column_answer makes a column of what came with COLUMN, and closes the descriptor. The question then has its answer.
 */
void column_answer(struct larder_loader *loader, const struct wire_column *msg, int fd);

/* ── waiting.c ── */

void waiting_add(struct loader_stream *stream, struct larder_batch *batch);
/* waiting_take removes the first waiting batch and returns it; NULL when none waits. */
struct larder_batch *waiting_take(struct larder_loader *loader);
/* waiting_drop frees all, and forgets the TURNS of the one that would have come next. */
void waiting_drop(struct larder_loader *loader);
/* waiting_free frees a batch that is in no line. */
void waiting_free(struct larder_batch *batch);

/* ── token.c ── */

/* token_read takes over options.state: checked, as the base of what is taken. */
int token_read(struct larder_loader *loader, const void *state, size_t state_bytes);
/* token_identify completes the base with what REGISTERED says; a state is then checked against it. */
int token_identify(struct larder_loader *loader);
/* token_keep makes the state that larder_state returns, from a record without history; token_keep_start makes that of
 * an epoch's start. */
int token_keep(struct larder_loader *loader, const struct record *record);
int token_keep_start(struct larder_loader *loader, uint32_t epoch);
/* token_done keeps what came with DONE, and closes the descriptor. */
int token_done(struct larder_loader *loader, const struct wire_done *done, int fd);
/* token_answer makes a state of the token that came with STATE, and closes the descriptor. The question then has its
 * answer. */
void token_answer(struct larder_loader *loader, const struct wire_state *state, int fd);

#endif
