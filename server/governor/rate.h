/* rate.h: what the governor knows of speeds: robust means of times, and rates against thread counts.
 *
 * The values have no pointers: they may be copied and kept anywhere. One thread owns each of them. */
#ifndef LARDER_SERVER_GOVERNOR_RATE_H
#define LARDER_SERVER_GOVERNOR_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define GOVERNOR_WINDOW 32 /* number of last times in a moving estimate */
#define GOVERNOR_THREADS_MAX 1024
#define GOVERNOR_KNOTS 112 /* thread counts told apart: each count up to 32, then 16 in each octave */

/* The last times of something. It is zeroed to begin with. */
struct governor_times {
    double value[GOVERNOR_WINDOW];
    uint32_t count, next;
};

void governor_times_add(struct governor_times *times, double seconds);
/* governor_times_mean returns the mean of the window, in which each time counts as at least 1/8 and at most 8 times the
 * median. It is a mean because slow reads cost capacity too; the bounds keep a single hiccup from deciding. 0: there is
 * no time yet. */
double governor_times_mean(const struct governor_times *times);

/* The rate of one kind of task, in tasks a second, against the number of threads that run such tasks. It is piecewise
 * linear between thread counts that were seen (Lobster 4.2). It is zeroed to begin with and learned in windows: the
 * caller notes each task, then folds. */
struct governor_curve {
    double rate[GOVERNOR_KNOTS];    /* 0: never seen */
    bool stale[GOVERNOR_KNOTS];     /* not seen since the tasks changed, or for long: worth another look */
    uint32_t age[GOVERNOR_KNOTS];   /* windows since the count was seen */
    double seconds[GOVERNOR_KNOTS]; /* sum over this window's tasks */
    uint32_t count[GOVERNOR_KNOTS]; /* tasks of this window */
};

/* governor_curve_note notes that a task took so long while `threads` (≥ 1) threads were busy with such tasks. */
void governor_curve_note(struct governor_curve *curve, uint32_t threads, double seconds);
/* governor_curve_fold ends a window.
 *
 * A thread count at which a quarter of the window's tasks ran counts as seen. If there is no such count, the mean of
 * all counts as seen. If most tasks ran at one count and its rate differs from before, the tasks have become other
 * tasks. Then what is known of the counts that the window did not see is scaled by the same factor, so that a shape
 * once learned lasts, and is stale until it is seen again.
 *
 * A window is not steady when the number of threads changed shortly before: some of its tasks ran beside more or fewer
 * others than they were noted for. Then neither the mean is taken nor anything scaled. */
void governor_curve_fold(struct governor_curve *curve, bool steady);
/* A rate at a number of threads. */
struct governor_point {
    uint32_t threads; /* 1 … GOVERNOR_THREADS_MAX */
    double rate;      /* > 0 */
};

/* governor_curve_guess makes a rate known that was seen in an earlier run. It is stale. */
void governor_curve_guess(struct governor_curve *curve, struct governor_point point);
/* governor_curve_points returns the rates that are known, by ascending threads, and how many they are. */
uint32_t governor_curve_points(const struct governor_curve *curve, struct governor_point out[GOVERNOR_KNOTS]);
/* governor_curve_seen tells whether the rate at this thread count is known and not stale. */
bool governor_curve_seen(const struct governor_curve *curve, uint32_t threads);
/* governor_curve_at returns the rate at a thread count, interpolated linearly between measured counts. Below the first
 * it is interpolated to 0. Above the last it is extrapolated with the last slope, at most the mean gain per thread. 0:
 * nothing is known. */
double governor_curve_at(const struct governor_curve *curve, uint32_t threads);
/* governor_curve_hope returns the most that the rate at a thread count can be. If the count was seen, it is the rate
 * seen there. Else it is `threads` times the rate of one thread at the next lower count that was seen and is not stale.
 * If there is none, it is a little more than the rate at the next higher one. */
double governor_curve_hope(const struct governor_curve *curve, uint32_t threads);

#endif
