/* source.h: how many reads a source may have at once. A source with mere latency brings more in proportion to the reads
 * that run at once. A saturated source brings no more, or even less. Only trying tells the two apart: there are more
 * reads at once whenever reads take longer, and that looks the same in both.
 *
 * A source is a value without pointers, zeroed to begin with. One thread owns it. */
#ifndef LARDER_SERVER_GOVERNOR_SOURCE_H
#define LARDER_SERVER_GOVERNOR_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

/* Sums over some reads. */
struct governor_reads {
    double seconds;
    uint64_t busy; /* reads under way when each read began, itself included */
    /* These, times the samples that each read brought. A read ends after a time, so its time says nothing without
     * them. */
    uint64_t brought;
    uint32_t count;
};

/* NOW: somebody waits for batches. LASTING: besides that, the source has long had as many reads under way as it may
 * have. If nobody waits, a try does not pay. */
enum governor_need { NEED_NONE, NEED_NOW, NEED_LASTING };

enum governor_trial { TRIAL_NONE, TRIAL_OTHER, TRIAL_USUAL };

struct governor_source {
    /* All reads of this window, which spans several decisions when reads are slow; and of these, the reads that began
     * beside few others, and beside many. */
    struct governor_reads window, few, many;
    uint32_t allowed;   /* the last result of governor_source_decide; 0: none yet */
    uint32_t cap;       /* the number of reads at once beyond which more bring nothing; 0: there is no such number */
    uint32_t low, high; /* a lower number, which brought less, and a higher one, which brought no more; 0: not known */
    /* A try goes for some time with another number, then with the usual one again, since times change by themselves. */
    enum governor_trial trial;
    uint32_t usual, other;
    double before;                            /* samples a second with the usual number, before the try */
    struct governor_reads as_usual, as_other; /* reads that began beside about as many others */
    uint32_t windows;                         /* windows that this half of the try has taken */
    uint32_t rest, pause;                     /* windows until the next try, and the length of the last such rest */
};

struct governor_read;
/* governor_source_read notes a read. */
void governor_source_read(struct governor_source *source, const struct governor_read *read);
/* governor_source_at_once returns how many reads were under way, on average over the window. 0: there were none. */
double governor_source_at_once(const struct governor_source *source);
/* governor_source_decide ends a window. It returns how many reads the source may have at once in the next window, at
 * most `most`. */
uint32_t governor_source_decide(struct governor_source *source, uint32_t most, enum governor_need need);

#endif
