#include "server/governor/source.h"

#include <math.h>

#include "server/governor/governor.h"

#define FEWER 0.75   /* fraction of the reads at once that is tried if fewer were never enough so far */
#define HALF 0.5     /* fraction that is tried if fewer seem to be enough, or were */
#define MORE 1.5     /* the factor by which more reads at once are tried */
#define NEAR 0.85    /* two numbers with at least this ratio are too close for a try */
#define AS_MUCH 0.95 /* a rate of at least this fraction of the usual one counts as equal */
#define BETTER 1.05  /* a rate of at least this multiple of the usual one counts as better */

enum {
    LEAST = 8,           /* fewer reads tell nothing */
    LONG = 50,           /* windows that either half of a try may take to gather LEAST reads */
    MANY = 10,           /* a window with LEAST reads of any kind counts as this many of them */
    PATIENCE = 128,      /* windows until the next try, when a try changed nothing */
    PATIENCE_CAP = 16,   /* the same for a source that has a cap */
    PATIENCE_MAX = 2048, /* the most that such a rest grows to */
    LONGER = 4           /* factor by which each rest is longer than the one before */
};

static void add(struct governor_reads *reads, const struct governor_read *read)
{
    reads->seconds += read->seconds;
    reads->busy += read->busy;
    reads->brought += (uint64_t)read->busy * read->samples;
    reads->count++;
}

void governor_source_read(struct governor_source *source, const struct governor_read *read)
{
    double busy = read->busy, far_usual = fabs(busy - source->usual), far_other = fabs(busy - source->other);
    add(&source->window, read);
    add(busy <= source->allowed * HALF ? &source->few : &source->many, read);
    add(far_other < far_usual ? &source->as_other : &source->as_usual, read);
}

double governor_source_at_once(const struct governor_source *source)
{
    return source->window.count ? (double)source->window.busy / source->window.count : 0;
}

/* rate returns the samples per second while the reads ran. 0: there are too few reads to tell. */
static double rate(const struct governor_reads *reads)
{
    return reads->count >= LEAST && reads->seconds > 0 ? (double)reads->brought / reads->seconds : 0;
}

/* suspect tells whether the source may be saturated: reads beside many others came at no higher rate than reads beside
 * few. It may also be that the two ran at different moments. */
static bool suspect(const struct governor_source *source)
{
    double few = rate(&source->few), many = rate(&source->many);
    return few > 0 && many > 0 && many < few * BETTER;
}

/* judge ends a try. The other number becomes the usual one if it is lower and brought as much as the usual one, or is
 * higher and brought more. The usual number's better rate counts, of those before and after. */
static void judge(struct governor_source *source, uint32_t most)
{
    bool up = source->other > source->usual;
    double usual = fmax(source->before, rate(&source->as_usual)), other = rate(&source->as_other);
    bool better = other > 0 && rate(&source->as_usual) > 0 && other >= usual * (up ? BETTER : AS_MUCH);
    *(up == better ? &source->low : &source->high) = better ? source->usual : source->other;
    if (better) {
        source->pause = source->cap ? source->pause : 0;
        source->cap = source->other < most ? source->other : 0;
        source->rest = 1; /* the next window shows what the number brings */
    }
}

static void rest(struct governor_source *source)
{
    uint32_t least = source->cap ? PATIENCE_CAP : PATIENCE;
    source->pause = source->pause * LONGER > least ? source->pause * LONGER : least;
    source->pause = source->pause < PATIENCE_MAX ? source->pause : PATIENCE_MAX;
    source->rest = source->pause;
    source->low = source->high = 0;
}

/* propose returns another number that may be better. 0: there is none. It halves the number as long as that is enough,
 * then goes between what was enough and what was not. After a rest it tries somewhat more, in case the source has
 * become better or never was saturated, then somewhat fewer. */
static uint32_t propose(const struct governor_source *source, bool suspicious)
{
    uint32_t usual = source->usual;
    uint32_t fewer = source->low ? (source->low + usual) / 2 : (uint32_t)(usual * (source->pause ? FEWER : HALF));
    uint32_t more = source->high ? (usual + source->high) / 2 : (uint32_t)ceil(usual * MORE);
    if (!source->cap)
        return source->low ? 0 : (uint32_t)(usual * (suspicious ? HALF : FEWER));
    if (source->high && fewer > source->low && fewer < usual * NEAR)
        return fewer;
    return more * NEAR > usual ? more : 0;
}

static void begin(struct governor_source *source, uint32_t most)
{
    source->before = rate(&source->window);
    if (source->before <= 0)
        return;
    source->usual = source->cap ? source->cap : (uint32_t)(governor_source_at_once(source) + 0.5);
    source->other = propose(source, suspect(source));
    source->other = source->other > most ? most : source->other;
    if (source->other && source->other != source->usual) {
        source->trial = TRIAL_OTHER;
        source->windows = 0;
        source->as_other = (struct governor_reads){.count = 0};
        return;
    }
    rest(source);
}

/* go_on counts a window of the half of a try that is under way. The half ends when enough reads began in it, or when it
 * has become clear that there never will be enough. */
static void go_on(struct governor_source *source, uint32_t most)
{
    bool other = source->trial == TRIAL_OTHER;
    source->windows += source->window.count >= LEAST ? MANY : 1;
    if (rate(other ? &source->as_other : &source->as_usual) <= 0 && source->windows < LONG)
        return;
    source->windows = 0;
    if (!other)
        judge(source, most);
    source->as_usual = (struct governor_reads){.count = 0};
    source->trial = other ? TRIAL_USUAL : TRIAL_NONE;
}

uint32_t governor_source_decide(struct governor_source *source, uint32_t most, enum governor_need need)
{
    source->rest -= source->rest > 0;
    if (source->trial != TRIAL_NONE)
        go_on(source, most);
    bool worth = need == NEED_LASTING || (need == NEED_NOW && suspect(source));
    if (source->cap)
        worth = governor_source_at_once(source) >= source->cap * NEAR;
    if (source->trial == TRIAL_NONE && !source->rest && worth)
        begin(source, most);
    if (source->window.count >= LEAST) /* when reads are slow, the window goes on over several decisions */
        source->window = source->few = source->many = (struct governor_reads){.count = 0};
    uint32_t allowed = source->trial == TRIAL_OTHER ? source->other : source->cap;
    source->allowed = allowed && allowed < most ? allowed : most;
    return source->allowed;
}
