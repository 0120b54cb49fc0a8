/* loader_priv.h: a loader's state, for the files of this folder.
 *
 * Life: opening (open.c) → idle → streaming an epoch ⇄ ended (stream.c) → closed. The first failure that is for good
 * sets `broken`, and every later call gives the same code and text. Then the connection is closed, unless the
 * program holds batches: the connection is their lease. It is closed with the last of them, and until then they can
 * be read, copied and released.
 *
 * Credits: `outstanding` batches of the running epoch are asked for and not yet here. `stale` batches may still come
 * from epochs before. `held` batches are in the program's hands. outstanding ≤ prefetch, and outstanding + held ≤
 * held_max. What the daemon sends beyond that is refused, so that it cannot make the client grow. */
#ifndef LARDER_CLIENT_LOADER_PRIV_H
#define LARDER_CLIENT_LOADER_PRIV_H

#include <larder/larder.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client/connection_priv.h"

#define LOADER_MAGIC UINT32_C(0x4c44524c)
#define BATCH_MAGIC UINT32_C(0x4c445242)
#define SEND_TIMEOUT_MS 10000 /* how long a daemon may not read */

struct larder_batch {
    uint32_t magic;
    struct larder_loader *loader;
    struct larder_batch *previous, *next;
    uint64_t number; /* the daemon's number for it */
    uint32_t epoch, index, count;
    size_t bytes; /* of all samples together */
    struct wire_entry entries[];
};

/* What the program asked for in larder_open. */
struct loader_asked {
    uint32_t batch_size, prefetch, epochs;
};

/* The daemon's arena, mapped read-only from arena_map to loader_destroy; NULL before. */
struct loader_arena {
    const uint8_t *data;
    uint64_t bytes;
};

/* The names of the job's classes; NULL without. */
struct loader_classes {
    char *texts;   /* NUL-terminated names one behind the other */
    size_t *start; /* n_classes offsets into texts */
};

/* Where the loader is in its epochs, and what is on its way to it. */
struct loader_stream {
    bool started, ended;
    uint32_t epoch;
    uint32_t outstanding; /* batches of this epoch */
    uint64_t stale;       /* batches of epochs before */
    uint32_t lost;        /* samples of the epoch that were bad so far */
};

struct larder_loader {
    uint32_t magic;
    pid_t pid;
    int broken;
    struct connection connection;
    struct error error;
    struct loader_arena arena;
    struct wire_registered job; /* job.name is in job_name */
    char job_name[WIRE_NAME_MAX + 1];
    struct loader_asked asked;
    uint32_t seq; /* of the last request */
    struct loader_classes classes;
    struct loader_stream stream;
    struct larder_batch *batches; /* those that the program holds … */
    uint32_t held;                /* … and so many are they */
};

/* loader_enter begins every call. It gives 0 when the loader is usable, else the code; where there is a loader, its
 * text is set. */
int loader_enter(struct larder_loader *loader);

/* loader_break makes the failure in loader->error final, and closes the connection unless batches are held. It gives
 * the failure's code. */
int loader_break(struct larder_loader *loader);

/* loader_lost is called when the daemon has closed the connection. Its last ERROR, where it sent one, becomes the
 * failure. It gives the failure's code. */
int loader_lost(struct larder_loader *loader);

/* loader_daemon_error copies an ERROR message's code and text to err, and gives the code. */
int loader_daemon_error(const struct wire_error *message, struct error *err);

/* loader_release gives a batch back by its number. */
int loader_release(struct larder_loader *loader, uint64_t number);

/* loader_ask asks for as many batches as there is room for. It gives 0 also when there is no room. */
int loader_ask(struct larder_loader *loader, uint64_t deadline_ns);

/* loader_destroy frees everything, however far larder_open got. */
void loader_destroy(struct larder_loader *loader);

/* arena_map, in arena.c, maps the descriptor that came with WELCOME, and closes it. */
int arena_map(struct larder_loader *loader, int fd, uint64_t arena_bytes, struct error *err);
/* arena_check gives 0 when a batch's entry lies in the arena and has size and alignment of the job's samples.
 * LARDER_EFORMAT. */
int arena_check(const struct larder_loader *loader, const struct wire_entry *entry, struct error *err);

#endif
