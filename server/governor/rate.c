#include "server/governor/rate.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"

enum { EXACT = 32, STEPS = 16, LEAST_TASKS = 4, OLD = 150 /* windows */ };
#define FAR 8.0      /* each time is clamped to between 1/8 and 8 times the median */
#define CHANGED 0.15 /* when a rate differs by more than this part, the tasks have become other tasks */
#define CROWDED 1.05 /* fewer threads than were ever seen may be so much faster: more may be in each other's way */
#define NEW_PART 0.5 /* the part of the latest window's rate in a knot's rate */

/* ── times ── */

void governor_times_add(struct governor_times *times, double seconds)
{
    times->value[times->next] = seconds;
    times->next = (times->next + 1) % GOVERNOR_WINDOW;
    if (times->count < GOVERNOR_WINDOW)
        times->count++;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double governor_times_mean(const struct governor_times *times)
{
    if (!times->count)
        return 0;
    double sorted[GOVERNOR_WINDOW], sum = 0;
    memcpy(sorted, times->value, times->count * sizeof *sorted);
    qsort(sorted, times->count, sizeof *sorted, by_value);
    double median = sorted[times->count / 2];
    for (uint32_t i = 0; i < times->count; i++) {
        double value = sorted[i] > median * FAR ? median * FAR : sorted[i];
        sum += value < median / FAR ? median / FAR : value;
    }
    return sum / times->count;
}

/* ── curves ── */

static uint32_t knot_of(uint32_t threads)
{
    CHECK(threads > 0 && threads <= GOVERNOR_THREADS_MAX);
    if (threads <= EXACT)
        return threads - 1;
    uint32_t octave = 0;
    while (threads > (uint32_t)EXACT << (octave + 1))
        octave++;
    return EXACT + octave * STEPS + (threads - ((uint32_t)EXACT << octave) - 1) / ((EXACT / STEPS) << octave);
}

static uint32_t threads_of(uint32_t knot)
{
    if (knot < EXACT)
        return knot + 1;
    uint32_t octave = (knot - EXACT) / STEPS, step = (knot - EXACT) % STEPS;
    return ((uint32_t)EXACT << octave) + (step + 1) * ((EXACT / STEPS) << octave);
}

void governor_curve_note(struct governor_curve *curve, uint32_t threads, double seconds)
{
    uint32_t knot = knot_of(threads);
    curve->seconds[knot] += seconds;
    curve->count[knot]++;
}

/* window_rate returns the window's rate at a thread count. 0: too few of its tasks ran at that count to tell. These few
 * are mostly the longest tasks, which were left over when the split changed. */
static double window_rate(const struct governor_curve *curve, uint32_t knot, uint32_t tasks)
{
    bool enough = curve->count[knot] >= LEAST_TASKS && curve->count[knot] >= tasks / 4 && curve->seconds[knot] > 0;
    return enough ? threads_of(knot) * curve->count[knot] / curve->seconds[knot] : 0;
}

/* change returns the factor by which the window's tasks are faster than those before. 1: they are the same. */
static double change(const struct governor_curve *curve, uint32_t tasks)
{
    uint32_t most = tasks / 2;
    double factor = 1;
    for (uint32_t knot = 0; knot < GOVERNOR_KNOTS; knot++) {
        double rate = window_rate(curve, knot, tasks);
        if (rate > 0 && curve->rate[knot] > 0 && curve->count[knot] > most) {
            most = curve->count[knot];
            factor = rate / curve->rate[knot];
        }
    }
    return factor > 1 + CHANGED || factor < 1 - CHANGED ? factor : 1;
}

/* gather makes the window one point at its mean thread count if no single count has enough of its tasks, because the
 * count went up and down. */
static void gather(struct governor_curve *curve, uint32_t tasks)
{
    double threads = 0, seconds = 0;
    for (uint32_t knot = 0; knot < GOVERNOR_KNOTS; knot++) {
        if (window_rate(curve, knot, tasks) > 0)
            return;
        threads += (double)threads_of(knot) * curve->count[knot];
        seconds += curve->seconds[knot];
    }
    if (tasks < LEAST_TASKS)
        return;
    uint32_t mean = knot_of((uint32_t)(threads / tasks + 0.5));
    memset(curve->seconds, 0, sizeof curve->seconds);
    memset(curve->count, 0, sizeof curve->count);
    curve->seconds[mean] = seconds;
    curve->count[mean] = tasks;
}

void governor_curve_fold(struct governor_curve *curve, bool steady)
{
    uint32_t tasks = 0;
    for (uint32_t knot = 0; knot < GOVERNOR_KNOTS; knot++)
        tasks += curve->count[knot];
    if (steady)
        gather(curve, tasks);
    double factor = steady ? change(curve, tasks) : 1;
    for (uint32_t knot = 0; knot < GOVERNOR_KNOTS; knot++) {
        double rate = window_rate(curve, knot, tasks), before = curve->rate[knot];
        if (rate > 0) {
            bool same = before > 0 && factor == 1 && !curve->stale[knot]; /* change() gives exactly 1 for the same */
            curve->rate[knot] = same ? before + (rate - before) * NEW_PART : rate;
            curve->stale[knot] = false;
            curve->age[knot] = 0;
        } else if (before > 0) {
            curve->rate[knot] = before * factor;
            curve->stale[knot] |= factor != 1 || ++curve->age[knot] > OLD;
        }
    }
    memset(curve->seconds, 0, sizeof curve->seconds);
    memset(curve->count, 0, sizeof curve->count);
}

void governor_curve_guess(struct governor_curve *curve, struct governor_point point)
{
    uint32_t knot = knot_of(point.threads);
    curve->rate[knot] = point.rate;
    curve->stale[knot] = true;
}

uint32_t governor_curve_points(const struct governor_curve *curve, struct governor_point out[GOVERNOR_KNOTS])
{
    uint32_t count = 0;
    for (uint32_t knot = 0; knot < GOVERNOR_KNOTS; knot++) {
        if (curve->rate[knot] > 0)
            out[count++] = (struct governor_point){threads_of(knot), curve->rate[knot]};
    }
    return count;
}

bool governor_curve_seen(const struct governor_curve *curve, uint32_t threads)
{
    uint32_t knot = knot_of(threads);
    return curve->rate[knot] > 0 && !curve->stale[knot];
}

/* known_below returns the highest known knot at or below `knot`. GOVERNOR_KNOTS: there is none. */
static uint32_t known_below(const struct governor_curve *curve, uint32_t knot)
{
    for (uint32_t i = knot + 1; i-- > 0;) {
        if (curve->rate[i] > 0)
            return i;
    }
    return GOVERNOR_KNOTS;
}

static uint32_t known_above(const struct governor_curve *curve, uint32_t knot)
{
    while (knot < GOVERNOR_KNOTS && curve->rate[knot] <= 0)
        knot++;
    return knot;
}

/* beyond returns the rate at a thread count above the last measured one. It extrapolates with the slope of the last
 * stretch that is long enough not to be noise, but each further thread adds at most the mean gain of the measured
 * ones. */
static double beyond(const struct governor_curve *curve, uint32_t last, uint32_t threads)
{
    double at = threads_of(last), each = curve->rate[last] / at, slope = each;
    uint32_t before = last ? known_below(curve, last - 1) : GOVERNOR_KNOTS;
    while (before != GOVERNOR_KNOTS && threads_of(before) * 1.25 > at)
        before = before ? known_below(curve, before - 1) : GOVERNOR_KNOTS;
    if (before != GOVERNOR_KNOTS)
        slope = (curve->rate[last] - curve->rate[before]) / (at - threads_of(before));
    slope = slope > each ? each : slope;
    double rate = curve->rate[last] + slope * (threads - at);
    return rate > 0 ? rate : 0;
}

double governor_curve_at(const struct governor_curve *curve, uint32_t threads)
{
    uint32_t knot = knot_of(threads), low = known_below(curve, knot), high = known_above(curve, knot);
    if (low == knot)
        return curve->rate[knot];
    if (low == GOVERNOR_KNOTS && high == GOVERNOR_KNOTS)
        return 0;
    if (low == GOVERNOR_KNOTS)
        return curve->rate[high] * threads / threads_of(high);
    if (high == GOVERNOR_KNOTS)
        return beyond(curve, low, threads);
    double part = ((double)threads - threads_of(low)) / ((double)threads_of(high) - threads_of(low));
    return curve->rate[low] + part * (curve->rate[high] - curve->rate[low]);
}

double governor_curve_hope(const struct governor_curve *curve, uint32_t threads)
{
    uint32_t low = knot_of(threads);
    if (governor_curve_seen(curve, threads))
        return curve->rate[low];
    while (low > 0 && (curve->rate[low] <= 0 || curve->stale[low]))
        low--;
    if (curve->rate[low] > 0 && !curve->stale[low])
        return curve->rate[low] * threads / threads_of(low);
    uint32_t above = knot_of(threads);
    while (above < GOVERNOR_KNOTS && (curve->rate[above] <= 0 || curve->stale[above]))
        above++;
    return above < GOVERNOR_KNOTS ? curve->rate[above] * CROWDED : governor_curve_at(curve, threads);
}
