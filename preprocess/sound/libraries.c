#include "preprocess/sound/libraries.h"

#ifdef LARDER_LOADS_SNDFILE
struct libsndfile libsndfile;
#else
struct libsndfile libsndfile = {SNDFILE_FUNCTIONS(LIBRARY_LINKED)};
#endif
#ifdef LARDER_LOADS_SOXR
struct libsoxr libsoxr;
#else
struct libsoxr libsoxr = {SOXR_FUNCTIONS(LIBRARY_LINKED)};
#endif

int sound_load(struct error *err)
{
    static const char *const of_sndfile[] = {SNDFILE_FUNCTIONS(LIBRARY_NAME)};
    static const char *const of_soxr[] = {SOXR_FUNCTIONS(LIBRARY_NAME)};
    int rc = library_load(LIBRARY_SNDFILE, of_sndfile, sizeof of_sndfile / sizeof *of_sndfile, &libsndfile, err);
    return rc ? rc : library_load(LIBRARY_SOXR, of_soxr, sizeof of_soxr / sizeof *of_soxr, &libsoxr, err);
}
