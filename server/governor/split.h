/* split.h: the governor's decisions as functions of numbers: how many threads prepare, how a source's reads at once are
 * dealt to the queues, and how many a straggler needs (Lobster 4.3 and 4.4; the reads at once are the paper's loaders).
 * The functions are pure; any thread may call them. */
#ifndef LARDER_SERVER_GOVERNOR_SPLIT_H
#define LARDER_SERVER_GOVERNOR_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/governor/rate.h"

/* The inputs of the predicted rates. */
struct governor_balance {
    uint32_t workers;                    /* threads that prepare, ≥ 1 */
    uint32_t loaders;                    /* reads at once of all origins */
    double load_s;                       /* time of reading that one prepared sample costs; 0: nothing is loaded */
    const struct governor_curve *curves; /* prepared samples a second, by class; borrowed */
    const double
        *parts; /* each class's part of the prepared samples; sum 1 over classes with a known curve; borrowed */
    size_t n_classes;
};

/* governor_prepare_rate returns the preparing rate of `preparers` threads in samples per second, over the mixture of
 * classes. 0: not known. */
double governor_prepare_rate(const struct governor_balance *balance, uint32_t preparers);
/* governor_load_rate returns the samples a second that the reads bring. 0: nothing is loaded. */
double governor_load_rate(const struct governor_balance *balance);
/* governor_preparers returns the fewest preparers with which the most is delivered (within 1 %). It returns `now` if
 * that count would not bring a part `gain` (0.02: 2 %) more than `now` does. *probe becomes a count that was not seen
 * lately and that may be better, between counts that were seen: it is worth a try for one window. 0: there is none. */
uint32_t governor_preparers(const struct governor_balance *balance, uint32_t now, double gain, uint32_t *probe);

/* governor_preparers_most returns the most threads that may prepare at once when they have nothing else to do. It goes
 * up from `preparers` as long as one thread more does not make preparing slower. */
uint32_t governor_preparers_most(const struct governor_balance *balance, uint32_t preparers);

/* How many loaders a queue wants. */
struct governor_claim {
    double pressure;  /* seconds of loading that wait, times the job's weight */
    double weight;    /* > 0: this queue's share of the job's weight */
    uint32_t most;    /* the loaders that it can use, at most one for each of its pending reads */
    uint32_t skipped; /* decisions in a row in which it wanted a loader and got none */
};

/* governor_guaranteed fills in the loaders that each queue which wants any always keeps: the fraction `share` (0 … 1)
 * of its share by weight, and at least one. A queue that wants none gets 0. out has n places. */
void governor_guaranteed(const struct governor_claim *claims, size_t n, uint32_t loaders, double share, uint32_t *out);
/* governor_deal deals loaders to queues in proportion to their pressure. Each queue that wants any gets its guaranteed
 * part if there are enough loaders. If not, each gets one, and the queue that was skipped for longest comes first.
 * Loaders that no queue can use are dealt to none. out has n places. */
void governor_deal(const struct governor_claim *claims, size_t n, uint32_t loaders, double share, uint32_t *out);

/* The prediction for a queue's next batch. */
struct governor_forecast {
    double load_s; /* loading time of the batch with one loader */
    double rest_s; /* preparing time, less the training that goes on meanwhile */
};

/* governor_late returns how many seconds the batch comes too late: load_s / loaders + rest_s. Below 0: it comes
 * early. */
double governor_late(const struct governor_forecast *forecast, uint32_t loaders);
/* governor_bisect returns the fewest loaders from low to high with which the batch is at most tau_s late, by halving
 * the interval until it is empty (algorithm 1). If none is enough, it returns high. */
uint32_t governor_bisect(const struct governor_forecast *forecast, double tau_s, uint32_t low, uint32_t high);
/* governor_relieve moves loaders to the queues that are predicted to be later than tau_s. The latest queue comes first,
 * and each gets as many as the bisection says. They come from queues that stay in time without them and keep floor[i].
 * It ends when no queue is late or none can give. */
void governor_relieve(const struct governor_forecast *forecasts, size_t n, double tau_s, const uint32_t *floor,
                      uint32_t *loaders);

#endif
