/* split.h: the governor's decisions as functions of numbers: how many threads prepare, how the rest is dealt
 * to the queues, and how many loaders a straggler needs (Lobster 4.3 and 4.4). Pure; any thread. */
#ifndef LARDER_SERVER_GOVERNOR_SPLIT_H
#define LARDER_SERVER_GOVERNOR_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/governor/rate.h"

/* What a split is judged by. */
struct governor_balance {
    uint32_t workers;                    /* ≥ 1: prepare or load */
    uint32_t extra_loaders;              /* load only */
    double load_s;                       /* loader time that one prepared sample costs; 0: nothing is loaded */
    uint32_t enough;                     /* loaders beyond which more bring nothing; 0: there is no such number */
    const struct governor_curve *curves; /* prepared samples a second, by class */
    const double *parts;                 /* of the prepared samples, by class; sum 1 over classes with a known curve */
    size_t n_classes;
};

/* governor_prepare_rate: all classes in their mixture, at so many preparers; 0: not known. */
double governor_prepare_rate(const struct governor_balance *balance, uint32_t preparers);
/* governor_load_rate: samples a second that so many loaders bring; 0: nothing is loaded. */
double governor_load_rate(const struct governor_balance *balance, uint32_t loaders);
/* governor_deliver_rate: samples a second that can be both loaded and prepared with so many preparers. */
double governor_deliver_rate(const struct governor_balance *balance, uint32_t preparers);
/* governor_preparers gives the fewest preparers with which the most is delivered (within 1 %), `now` where they would
 * bring less than `gain` (0.02: 2 %) more than `now` does. *probe is a count that nobody has seen lately and that may
 * be better, halfway between counts that were seen: worth a try for one window; 0: none. */
uint32_t governor_preparers(const struct governor_balance *balance, uint32_t now, double gain, uint32_t *probe);

/* governor_preparers_most gives the most threads that may prepare at once when they have nothing else to do: from
 * `preparers` up as far as more do not make it slower. */
uint32_t governor_preparers_most(const struct governor_balance *balance, uint32_t preparers);

struct governor_claim {
    double pressure;  /* seconds of loading that wait, times the job's weight */
    double weight;    /* > 0: what of the job's weight is this queue's */
    uint32_t most;    /* more loaders than this it cannot use: its pending reads */
    uint32_t skipped; /* decisions in a row in which it wanted a loader and got none */
};

/* governor_guaranteed: what each queue that wants any keeps whatever the others want: `share` (0 … 1) of what its
 * weight alone would give it, and at least one. 0 for who wants none. out has n places. */
void governor_guaranteed(const struct governor_claim *claims, size_t n, uint32_t loaders, double share, uint32_t *out);
/* governor_deal deals loaders to queues in proportion to pressure. Each that wants any gets its guaranteed
 * part, as far as there are loaders enough; where not, each gets one, the longest skipped first. Loaders
 * that nobody can use are dealt to nobody. out has n places. */
void governor_deal(const struct governor_claim *claims, size_t n, uint32_t loaders, double share, uint32_t *out);

/* What is predicted of a queue's next batch. */
struct governor_forecast {
    double load_s; /* loading time of the batch with one loader */
    double rest_s; /* preparing, less the training that goes on meanwhile */
};

/* governor_late gives load / loaders + rest: seconds that the batch comes too late; below 0: too early. */
double governor_late(const struct governor_forecast *forecast, uint32_t loaders);
/* governor_bisect gives the fewest loaders from low to high with which the batch is at most tau_s late (algorithm 1):
 * the interval is halved until it is empty; high where none is enough. */
uint32_t governor_bisect(const struct governor_forecast *forecast, double tau_s, uint32_t low, uint32_t high);
/* governor_relieve moves loaders to queues that are predicted later than tau_s, the latest first, each as many as the
 * bisection says, from those that stay in time without and keep floor[i]. Ends when no queue is late or nobody can
 * give. */
void governor_relieve(const struct governor_forecast *forecasts, size_t n, double tau_s, const uint32_t *floor,
                      uint32_t *loaders);

#endif
