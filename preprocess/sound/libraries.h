/* libraries.h: the functions of libsndfile and libsoxr, loaded when sounds are made first. */
#ifndef LARDER_PREPROCESS_SOUND_LIBRARIES_H
#define LARDER_PREPROCESS_SOUND_LIBRARIES_H

#include <sndfile.h>
#include <soxr.h>

#include "common/library.h"

#define SNDFILE_FUNCTIONS(X) \
    X(sf_, open_virtual)     \
    X(sf_, strerror)         \
    X(sf_, close)            \
    X(sf_, command)          \
    X(sf_, seek)             \
    X(sf_, readf_float)

#define SOXR_FUNCTIONS(X)  \
    X(soxr_, io_spec)      \
    X(soxr_, quality_spec) \
    X(soxr_, runtime_spec) \
    X(soxr_, create)       \
    X(soxr_, process)      \
    X(soxr_, delete)

/* libsndfile.seek is sf_seek, libsoxr.create is soxr_create, and so on. */
struct libsndfile {
    SNDFILE_FUNCTIONS(LIBRARY_POINTER)
};
struct libsoxr {
    SOXR_FUNCTIONS(LIBRARY_POINTER)
};
extern struct libsndfile libsndfile; /* both set once sound_load returned 0 */
extern struct libsoxr libsoxr;

/* sound_load is library_load for both. */
int sound_load(struct error *err);

#endif
