/* version.h: which image library does the preparing. */
#ifndef LARDER_PREPROCESS_VERSION_H
#define LARDER_PREPROCESS_VERSION_H

/* prepare_library_version returns libvips' version as it runs, "8.14.1". Static. */
const char *prepare_library_version(void);

#endif
