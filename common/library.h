/* library.h: libraries that are loaded when they are first needed.
 *
 * Most daemons ask no other machine, and make no sounds and no pixels of TIFF. What these take, with the libraries
 * below them, is several MB. So where such a library is a shared one no program is linked with it. A build that brings
 * its libraries along is linked with all of them.
 *
 * Whoever uses one lists its functions, X(prefix, name) each, and has a struct of pointers to them in that order:
 *
 *   struct libtiff { LIBTIFF_FUNCTIONS(LIBRARY_POINTER) }; */
#ifndef LARDER_COMMON_LIBRARY_H
#define LARDER_COMMON_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/error.h"

enum library { LIBRARY_CURL, LIBRARY_TIFF, LIBRARY_SNDFILE, LIBRARY_SOXR, LIBRARIES };

#define LIBRARY_POINTER(prefix, name) __typeof__(prefix##name) *name;
#define LIBRARY_NAME(prefix, name) #prefix #name,
#define LIBRARY_LINKED(prefix, name) .name = prefix##name,

/* library_load loads a library, if that was not done, and sets pointers[i], of a struct of them, to the function
 * names[i]. It stays until the process ends, for other libraries may use it. It blocks on the disk. Any thread.
 * LARDER_ENOENT: it cannot be loaded; the next call tries again. One that is linked it leaves alone. */
int library_load(enum library library, const char *const *names, size_t n, void *pointers, struct error *err);

/* library_file returns the name by which a library is loaded; NULL: this program is linked with it, or built
 * without. */
const char *library_file(enum library library);
/* library_try is library_load of no function. */
int library_try(enum library library, struct error *err);
/* library_tell writes a line that names the libraries that are loaded when needed, and one for each that is not
 * there. */
void library_tell(FILE *to);

#endif
