#include "server/governor/split.h"

#include <math.h>
#include <string.h>

#include "common/check.h"
#include "server/governor/governor.h"

#define NEARLY 0.99 /* this part of the peak counts as the peak */
#define WORTH 1.03  /* an untried count is tried if it promises at least this multiple of the best rate */
#define STEP 4      /* below all tried counts, at most one preparer in 4 is left out at a time */
#define SLOWER 0.97 /* below this fraction of the rate, more threads are in each other's way */
#define MOST 0.9    /* a count is seen when it was seen for classes with this part of the preparations */

/* ── preparers ── */

static double mixture(const struct governor_balance *balance, uint32_t preparers, bool hope)
{
    double seconds = 0;
    for (size_t i = 0; i < balance->n_classes; i++) {
        const struct governor_curve *curve = &balance->curves[i];
        double rate = balance->parts[i] <= 0 ? 0
                      : hope                 ? governor_curve_hope(curve, preparers)
                                             : governor_curve_at(curve, preparers);
        if (rate > 0)
            seconds += balance->parts[i] / rate;
    }
    return seconds > 0 ? 1 / seconds : 0;
}

double governor_prepare_rate(const struct governor_balance *balance, uint32_t preparers)
{
    return mixture(balance, preparers, false);
}

double governor_load_rate(const struct governor_balance *balance)
{
    return balance->load_s > 0 ? balance->loaders / balance->load_s : 0;
}

/* delivered returns the samples per second that can be both loaded and prepared with `preparers` threads. */
static double delivered(const struct governor_balance *balance, uint32_t preparers, bool hope)
{
    double prepare = mixture(balance, preparers, hope);
    if (balance->load_s <= 0)
        return prepare;
    double load = governor_load_rate(balance);
    return load < prepare ? load : prepare;
}

/* seen tells whether the rate at a count of preparers is known. Rare classes need not be known: in most windows too few
 * of their tasks run at any count to tell a rate. */
static bool seen(const struct governor_balance *balance, uint32_t preparers)
{
    double all = 0, known = 0;
    for (size_t i = 0; i < balance->n_classes; i++) {
        all += balance->parts[i];
        known += governor_curve_seen(&balance->curves[i], preparers) ? balance->parts[i] : 0;
    }
    return known >= all * MOST;
}

/* worth_trying returns a count between `best` and the next measured one in a direction, if its rate could be worth a
 * try. 0: there is none. It is the count halfway, so that few tries find the peak. If loading leaves too little there,
 * it is the most promising one. */
static uint32_t worth_trying(const struct governor_balance *balance, uint32_t best, uint32_t most, int direction)
{
    uint32_t at = best, try = 0;
    double promised = delivered(balance, best, false) * WORTH;
    do
        at += (uint32_t)direction;
    while (at >= 1 && at <= most && !seen(balance, at));
    uint32_t low = direction > 0 ? best + 1 : at + 1,
             high = direction > 0 ? at - 1 : best - 1; /* `at` may be outside of 1 … most */
    if (direction < 0 && at < 1) /* no lower count was seen, and fewer may do less: at most a quarter is left out */
        low = best > STEP ? best - best / STEP : best > 1 ? best - 1 : 1;
    if (low > high)
        return 0;
    uint32_t middle = low + (high - low) / 2;
    if (delivered(balance, middle, true) > promised)
        return middle;
    for (uint32_t preparers = low; preparers <= high; preparers++) {
        double hope = delivered(balance, preparers, true);
        if (hope > promised) {
            promised = hope;
            try = preparers;
        }
    }
    return try;
}

uint32_t governor_preparers(const struct governor_balance *balance, uint32_t now, double gain, uint32_t *probe)
{
    uint32_t most = balance->workers;
    CHECK(balance->workers >= 1 && balance->workers <= GOVERNOR_THREADS_MAX && now >= 1);
    double peak = 0;
    for (uint32_t preparers = 1; preparers <= most; preparers++)
        peak = fmax(peak, delivered(balance, preparers, false));
    *probe = 0;
    if (peak <= 0)
        return now < most ? now : most;
    uint32_t best = 1;
    while (delivered(balance, best, false) < peak * NEARLY)
        best++;
    if (now <= most && delivered(balance, best, false) <= delivered(balance, now, false) * (1 + gain)) {
        /* The gain is not worth a move, unless at least two threads fewer can prepare as much. */
        bool fewer = balance->load_s > 0 && best + 1 < now &&
                     mixture(balance, best, false) >= mixture(balance, now, false) * NEARLY;
        best = fewer ? best : now;
    }
    for (int direction = -1; direction <= 1 && seen(balance, best) && !*probe; direction += 2)
        *probe = worth_trying(balance, best, most, direction);
    return best;
}

uint32_t governor_preparers_most(const struct governor_balance *balance, uint32_t preparers)
{
    double least = mixture(balance, preparers, false) * SLOWER;
    while (preparers < balance->workers && mixture(balance, preparers + 1, false) >= least)
        preparers++;
    return preparers;
}

/* ── loaders ── */

/* neediest returns the queue that is furthest below its part and can use one loader more. n: there is none. */
static size_t neediest(const struct governor_claim *claims, size_t n, const uint32_t *out)
{
    size_t best = n;
    double best_part = 0;
    for (size_t i = 0; i < n; i++) {
        double wants = claims[i].pressure;
        if (out[i] >= claims[i].most || wants <= 0)
            continue;
        double part = wants / (out[i] + 0.5); /* Webster's rule, which comes nearest to proportional shares */
        if (best == n || part > best_part) {
            best = i;
            best_part = part;
        }
    }
    return best;
}

static bool wants_any(const struct governor_claim *claim)
{
    return claim->most > 0 && claim->pressure > 0;
}

static size_t longest_skipped(const struct governor_claim *claims, size_t n, const uint32_t *out)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        if (out[i] || !wants_any(&claims[i]))
            continue;
        if (best == n || claims[i].skipped > claims[best].skipped ||
            (claims[i].skipped == claims[best].skipped && claims[i].pressure > claims[best].pressure))
            best = i;
    }
    return best;
}

void governor_guaranteed(const struct governor_claim *claims, size_t n, uint32_t loaders, double share, uint32_t *out)
{
    double weights = 0;
    for (size_t i = 0; i < n; i++)
        weights += wants_any(&claims[i]) ? claims[i].weight : 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t kept = wants_any(&claims[i]) ? (uint32_t)(share * loaders * claims[i].weight / weights) : 0;
        kept = kept < 1 && wants_any(&claims[i]) ? 1 : kept;
        out[i] = kept > claims[i].most ? claims[i].most : kept;
    }
}

void governor_deal(const struct governor_claim *claims, size_t n, uint32_t loaders, double share, uint32_t *out)
{
    CHECK(n <= GOVERNOR_QUEUES_MAX);
    uint32_t kept[GOVERNOR_QUEUES_MAX], left = loaders;
    governor_guaranteed(claims, n, loaders, share, kept);
    memset(out, 0, n * sizeof *out);
    for (size_t i; left && (i = longest_skipped(claims, n, out)) < n; left--)
        out[i] = 1;
    for (size_t i = 0; i < n && left; i++) {
        uint32_t more = kept[i] > out[i] ? kept[i] - out[i] : 0;
        more = more < left ? more : left;
        out[i] += more;
        left -= more;
    }
    for (size_t i; left && (i = neediest(claims, n, out)) < n; left--)
        out[i]++;
}

double governor_late(const struct governor_forecast *forecast, uint32_t loaders)
{
    return forecast->load_s / (loaders ? loaders : 0.5) + forecast->rest_s;
}

uint32_t governor_bisect(const struct governor_forecast *forecast, double tau_s, uint32_t low, uint32_t high)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (governor_late(forecast, middle) <= tau_s)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

static size_t latest(const struct governor_forecast *forecasts, size_t n, double tau_s, const uint32_t *loaders,
                     const bool *done)
{
    size_t worst = n;
    for (size_t i = 0; i < n; i++) {
        double late = governor_late(&forecasts[i], loaders[i]);
        if (late > tau_s && forecasts[i].load_s > 0 && !done[i] &&
            (worst == n || late > governor_late(&forecasts[worst], loaders[worst])))
            worst = i;
    }
    return worst;
}

/* giver returns the queue that would be the least late of all with one loader less, and would still be in time. n:
 * there is none. */
static size_t giver(const struct governor_forecast *forecasts, size_t n, double tau_s, const uint32_t *floor,
                    const uint32_t *loaders)
{
    size_t best = n;
    double best_late = 0;
    for (size_t i = 0; i < n; i++) {
        if (loaders[i] <= floor[i])
            continue;
        double late = governor_late(&forecasts[i], loaders[i] - 1);
        if (late <= tau_s && (best == n || late < best_late)) {
            best = i;
            best_late = late;
        }
    }
    return best;
}

void governor_relieve(const struct governor_forecast *forecasts, size_t n, double tau_s, const uint32_t *floor,
                      uint32_t *loaders)
{
    CHECK(n <= GOVERNOR_QUEUES_MAX);
    bool done[GOVERNOR_QUEUES_MAX] = {false}; /* each queue is relieved once */
    uint32_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += loaders[i];
    for (size_t i; (i = latest(forecasts, n, tau_s, loaders, done)) < n;) {
        done[i] = true;
        uint32_t wanted = governor_bisect(&forecasts[i], tau_s, loaders[i], all);
        while (loaders[i] < wanted) {
            size_t from = giver(forecasts, n, tau_s, floor, loaders);
            if (from == n || from == i)
                return;
            loaders[from]--;
            loaders[i]++;
        }
    }
}
