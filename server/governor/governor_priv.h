/* governor_priv.h: the governor's state. governor.c takes measurements in, guess.c those of earlier runs,
 * and decide.c makes decisions of them. */
#ifndef LARDER_SERVER_GOVERNOR_GOVERNOR_PRIV_H
#define LARDER_SERVER_GOVERNOR_GOVERNOR_PRIV_H

#include "server/governor/governor.h"
#include "server/governor/rate.h"
#include "server/governor/source.h"

#define GOVERNOR_MAGIC 0x676f7665u

struct queue {
    bool there;
    struct governor_queue desc;
    struct governor_times read; /* seconds of each read of the source */
    struct governor_times size; /* samples that each of them brought */
    struct governor_times prepare, train;
    /* Means at the last decision. load_s is the loading time of one sample; a read brings several together. Both are
     * means over origins, by the queue's shares. */
    double load_s, read_s, prepare_s, train_s;
    double pressure;                     /* seconds of loading that wait, smoothed over decisions */
    uint32_t skipped;                    /* decisions in a row that gave it no loader though reads waited */
    uint64_t loads[GOVERNOR_TIERS_MAX];  /* samples loaded in this window, by origin */
    double parts[GOVERNOR_TIERS_MAX];    /* each origin's share of the loaded samples, smoothed */
    double sample_s[GOVERNOR_TIERS_MAX]; /* loading time of one sample, by origin; 0: not known */
};

/* A storage class. All queues share it. */
struct tier {
    struct governor_times read, size; /* seconds of each read, and samples that it brought */
    double read_s, sample_s;          /* means at the last decision */
};

/* Preparations of one kind: one pipeline on encoded samples of about one size. */
struct prepare_class {
    uint32_t pipeline, size; /* size: binary logarithm of the encoded bytes */
    uint64_t window;         /* its tasks in this window */
    uint32_t away;           /* windows since its last task */
};

struct governor {
    uint32_t magic;
    struct governor_limits limits;
    struct queue queues[GOVERNOR_QUEUES_MAX];
    struct governor_source sources[GOVERNOR_SOURCES_MAX];
    struct tier tiers[GOVERNOR_TIERS_MAX]; /* [0] is not used: each queue's source has its own times */
    struct prepare_class classes[GOVERNOR_CLASSES_MAX];
    struct governor_curve curves[GOVERNOR_CLASSES_MAX];
    double parts[GOVERNOR_CLASSES_MAX];
    size_t n_classes;
    bool guessed;             /* the parts are those of an earlier run */
    double loads_per_prepare; /* smoothed; sharing and redirection make it smaller */
    bool decided;             /* the last deal of loaders may stay; false if a queue's weight changed since */
    bool steady;              /* the last decision changed neither the number of preparers nor its upper bound */
    uint64_t busy;            /* sum over this window's tasks of the threads that prepared when the task began */
    double preparing;         /* threads that prepared in the last window, on average */
    uint32_t full[GOVERNOR_SOURCES_MAX]; /* windows in a row with nearly all reads at once that a source may have */
    uint32_t pressed;                    /* windows in a row with nearly all preparers at work */
    uint32_t settled;                    /* the number of preparers, leaving probes aside */
    struct governor_decision decision;
};

/* governor_fold ends a window: it makes what was measured in the window part of the estimates. */
void governor_fold(struct governor *governor);

#endif
