/* crew.c: a few threads that do the parts of one work. See crew.h.
 *
 * The caller's thread is one of them. All parts before one that was taken have been taken as well, so the error of the
 * first part that fails is the one that a single thread would have met. */
#include "cache/source/crew.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/aside.h"
#include "common/thread.h"

#define THREADS_LEAST 4 /* but one a part at most: a disk or a server answers several at once */
#define THREADS_MOST 16

struct crew {
    const struct crew_work *work;
    atomic_size_t next; /* the part that is taken next; relaxed, since nothing is handed over with it */
    atomic_bool failed; /* relaxed, as above */
};

struct crew_member {
    struct crew *crew;
    pthread_t thread;
    size_t part; /* the part that failed */
    struct error err;
};

static void do_some(void *arg)
{
    struct crew_member *member = arg;
    struct crew *crew = member->crew;
    const struct crew_work *work = crew->work;
    void *own = calloc(1, work->own_bytes);
    if (!own)
        error_set(&member->err, LARDER_ENOMEM, "out of memory while indexing");
    while (!member->err.code && !atomic_load_explicit(&crew->failed, memory_order_relaxed)) {
        size_t part = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed);
        if (part >= work->count)
            break;
        member->part = part;
        work->one(work->context, own, part, &member->err);
    }
    if (member->err.code)
        atomic_store_explicit(&crew->failed, true, memory_order_relaxed);
    if (own && work->own_free)
        work->own_free(own);
    free(own);
}

static void *run(void *arg)
{
    const struct crew_member *member = arg;
    if (aside_suits(member->crew->work->device))
        aside_run(do_some, arg);
    else
        do_some(arg);
    return NULL;
}

static size_t threads_wanted(size_t parts)
{
    cpu_set_t set;
    size_t cores = sched_getaffinity(0, sizeof set, &set) ? 1 : (size_t)CPU_COUNT(&set);
    size_t wanted = cores < THREADS_LEAST ? THREADS_LEAST : cores > THREADS_MOST ? THREADS_MOST : cores;
    return wanted < parts ? wanted : parts;
}

int crew_run(const struct crew_work *work, struct error *err)
{
    struct crew crew = {.work = work};
    struct crew_member members[THREADS_MOST] = {{.crew = &crew}};
    const struct crew_member *first = NULL;
    size_t wanted = threads_wanted(work->count), started = 1;
    for (; started < wanted; started++) { /* fewer threads do as well */
        members[started].crew = &crew;
        if (thread_start(&members[started].thread, "catalog", run, &members[started]))
            break;
    }
    run(&members[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(members[i].thread, NULL);
    for (size_t i = 0; i < started; i++) {
        if (members[i].err.code && (!first || members[i].part < first->part))
            first = &members[i];
    }
    return first ? error_set(err, first->err.code, "%s", first->err.text) : 0;
}
