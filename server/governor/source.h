/* source.h: how many reads at once a source may have. One that only lets wait brings as much more as more of
 * them run; one that is saturated does not, or brings less. Only trying tells: by themselves there are more reads at
 * once whenever they take longer, which looks alike in both.
 *
 * A value without pointers, zeroed to begin with. One thread. */
#ifndef LARDER_SERVER_GOVERNOR_SOURCE_H
#define LARDER_SERVER_GOVERNOR_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

/* Some reads: their sums. */
struct governor_reads {
    double seconds;
    uint64_t busy; /* reads under way when each began, itself included */
    uint32_t count;
};

/* Whether anybody waits for batches, and for long with all threads at work: where not, no try pays. */
enum governor_need { NEED_NONE, NEED_NOW, NEED_LASTING };

enum governor_trial { TRIAL_NONE, TRIAL_OTHER, TRIAL_USUAL };

struct governor_source {
    struct governor_reads window, few, many; /* since the last decision; of them those beside few and beside many */
    uint32_t allowed;                        /* what governor_source_decide said last; 0: nothing yet */
    uint32_t cap;       /* reads at once that bring as much as more would; 0: there is no such number */
    uint32_t low, high; /* numbers that brought less, and no more; 0: not known */
    /* A try: some time with another number, then with the usual one again, since times change by themselves. */
    enum governor_trial trial;
    uint32_t usual, other;
    double before;                            /* reads a second with the usual number */
    struct governor_reads as_usual, as_other; /* those that began beside so many */
    uint32_t windows;                         /* of this half of the try */
    uint32_t rest, pause;                     /* windows until the next try, and the last such rest */
};

void governor_source_read(struct governor_source *source, double seconds, uint32_t busy);
/* governor_source_at_once: reads under way, on the mean of the window's; 0: there were none. */
double governor_source_at_once(const struct governor_source *source);
/* governor_source_decide ends a window: gives how many reads the source may have at once in the next, of at most
 * `most`. */
uint32_t governor_source_decide(struct governor_source *source, uint32_t most, enum governor_need need);

#endif
