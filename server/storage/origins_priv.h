/* origins_priv.h: what the files of origins share. */
#ifndef LARDER_SERVER_STORAGE_ORIGINS_PRIV_H
#define LARDER_SERVER_STORAGE_ORIGINS_PRIV_H

#include <pthread.h>

#include "server/storage/behind.h"
#include "server/storage/curve.h"
#include "server/storage/origins.h"

/* A class or source: its measurements, and the reads under way there. */
struct origin {
    uint64_t name; /* the device of a source, or a hash of a class's path */
    struct curve curve;
    bool earlier; /* the curve is of an earlier run */
    uint32_t under_way;
    uint64_t bytes_under_way; /* their bytes, and those of reads that wait to begin */
    uint64_t samples, bytes;  /* what came from it */
};

struct origin_class {
    struct tier *tier;
    struct behind *behind;
    struct convert *convert; /* NULL: its samples stay as they were read */
    uint32_t threads;
    pthread_cond_t freed; /* fewer than `threads` reads are under way */
    struct origin origin;
    uint32_t slower; /* decisions against it in succession */
    uint32_t asked;  /* decisions, for probes */
};

struct origins {
    pthread_mutex_t lock; /* guards all below but the classes' tier, behind, convert and threads, which stay */
    struct origin_class classes[ORIGIN_CLASSES_MAX];
    uint32_t n_classes;
    struct origin sources[ORIGIN_SOURCES_MAX];
    uint32_t n_sources;
    bool as_read; /* some job takes samples as they were read; the engine's thread alone uses it */
    char *curves;
};

/* origins_source_locked returns the place of a source, which is made when missing. */
uint32_t origins_source_locked(struct origins *origins, uint64_t device);
/* origins_choose_locked tells whether `bytes` that lie in the class should come from there, not from the source. */
bool origins_choose_locked(struct origins *origins, struct origin_class *class, uint64_t device, uint64_t bytes);
bool origins_left_alone(const struct origin_class *class);
/* origins_fills_locked tells whether samples from the source should be written to the class. A class that is left alone
 * becomes useful again when the source has become slower. */
bool origins_fills_locked(struct origins *origins, struct origin_class *class, uint64_t device, uint64_t bytes);

/* origins_curves.c: the curves in a file. Failures are logged, and change nothing else. */
void origins_curves_load(struct origins *origins);
void origins_curves_save(const struct origins *origins);

#endif
