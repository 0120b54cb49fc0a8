/* rate.h: what the governor knows of speeds: robust means of times, and rates against thread counts.
 *
 * Plain values without pointers: copy them, keep them anywhere. One thread. */
#ifndef LARDER_SERVER_GOVERNOR_RATE_H
#define LARDER_SERVER_GOVERNOR_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define GOVERNOR_WINDOW 32 /* times a moving estimate looks at */
#define GOVERNOR_THREADS_MAX 1024
#define GOVERNOR_KNOTS 112 /* thread counts told apart: each up to 32, then 16 an octave */

/* The last times of something. */
struct governor_times {
    double value[GOVERNOR_WINDOW];
    uint32_t count, next;
};

void governor_times_add(struct governor_times *times, double seconds);
/* governor_times_mean is the mean of the window with each time held within 1/8 and 8 times the median: a mean, because
 * capacity is what slow reads cost too, but no single hiccup decides. 0 before the first. */
double governor_times_mean(const struct governor_times *times);

/* Tasks a second against the threads that run them, for one kind of task: piecewise linear between thread counts that
 * were seen (Lobster 4.2). Learned in windows: note each task, then fold. */
struct governor_curve {
    double rate[GOVERNOR_KNOTS];  /* 0: never seen */
    bool stale[GOVERNOR_KNOTS];   /* not seen since the tasks changed, or for long: worth another look */
    uint32_t age[GOVERNOR_KNOTS]; /* windows since it was seen */
    double seconds[GOVERNOR_KNOTS];
    uint32_t count[GOVERNOR_KNOTS]; /* of this window */
};

/* governor_curve_note: a task took so long while `threads` (≥ 1) were busy with such tasks. */
void governor_curve_note(struct governor_curve *curve, uint32_t threads, double seconds);
/* governor_curve_fold ends a window: counts at which a quarter of its tasks ran are seen, or, where there is no such
 * count, the mean of all. Where the thread count that most tasks of the window ran at has another rate than
 * before, the tasks have become other tasks: what is known of counts that the window did not see is scaled alike, so
 * that a shape once learned lasts, and is stale until it is seen again. Neither mean nor scaling in a window that is
 * not steady, because the number of threads was another one shortly before: some of its tasks ran beside more or
 * fewer others than they were noted for. */
void governor_curve_fold(struct governor_curve *curve, bool steady);
/* governor_curve_seen: the rate at this count is known, and not stale. */
bool governor_curve_seen(const struct governor_curve *curve, uint32_t threads);
/* governor_curve_at gives the rate at a thread count: between two that were seen on the line between them, below the
 * first on the line through 0, above the last as if more threads helped as they do there. 0 when nothing is known. */
double governor_curve_at(const struct governor_curve *curve, uint32_t threads);
/* governor_curve_hope is the most that the rate at a thread count can be: what was seen there, else threads times the
 * rate of one thread at the next lower count that was seen and is not stale; where there is none, a little more than at
 * the next higher one. */
double governor_curve_hope(const struct governor_curve *curve, uint32_t threads);

#endif
