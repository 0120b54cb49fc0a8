#include "preprocess/decode/libtiff.h"

#ifdef LARDER_LOADS_TIFF
struct libtiff libtiff;
#else
struct libtiff libtiff = {LIBTIFF_FUNCTIONS(LIBRARY_LINKED)};
#endif

int libtiff_load(struct error *err)
{
    static const char *const names[] = {LIBTIFF_FUNCTIONS(LIBRARY_NAME)};
    return library_load(LIBRARY_TIFF, names, sizeof names / sizeof *names, &libtiff, err);
}
