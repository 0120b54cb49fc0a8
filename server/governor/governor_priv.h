/* governor_priv.h: the governor's state: governor.c has what is measured, decide.c what follows from it. */
#ifndef LARDER_SERVER_GOVERNOR_GOVERNOR_PRIV_H
#define LARDER_SERVER_GOVERNOR_GOVERNOR_PRIV_H

#include "server/governor/governor.h"
#include "server/governor/rate.h"
#include "server/governor/source.h"

#define GOVERNOR_MAGIC 0x676f7665u

struct queue {
    bool there;
    struct governor_queue desc;
    struct governor_times read; /* seconds a read */
    struct governor_times size; /* samples a read */
    struct governor_times prepare, train;
    /* at the last decision; load_s: a sample, as a read brings them together */
    double load_s, read_s, prepare_s, train_s;
    double pressure;
    uint32_t skipped;
    uint64_t loads; /* samples of this window */
};

struct prepare_class {
    uint32_t pipeline, size; /* size: binary logarithm of the encoded bytes */
    uint64_t window;         /* tasks */
    uint32_t away;           /* windows since the last task */
};

struct governor {
    uint32_t magic;
    struct governor_limits limits;
    struct queue queues[GOVERNOR_QUEUES_MAX];
    struct governor_source sources[GOVERNOR_SOURCES_MAX];
    struct prepare_class classes[GOVERNOR_CLASSES_MAX];
    struct governor_curve curves[GOVERNOR_CLASSES_MAX];
    double parts[GOVERNOR_CLASSES_MAX];
    size_t n_classes;
    double loads_per_prepare; /* smoothed; what sharing and redirection save */
    bool decided;
    bool steady;      /* the last decision left the number of preparers, and the most there may be, as they were */
    uint64_t busy;    /* threads that prepared when each of this window's tasks began: their sum, */
    double preparing; /* and the mean of the last window's */
    uint32_t full;    /* windows in a row with nearly all threads at work, */
    uint32_t pressed; /* and with nearly all preparers */
    uint32_t settled; /* preparers, apart from probes */
    struct governor_decision decision;
};

/* governor_fold ends a window: what was measured in it is part of the estimates from now on. */
void governor_fold(struct governor *governor);

#endif
