/* nearest.h: which known word somebody probably meant. */
#ifndef LARDER_COMMON_NEAREST_H
#define LARDER_COMMON_NEAREST_H

#include <stddef.h>

/* A search for the nearest word. All pointers are the caller's. */
struct nearest {
    const char *given;
    const char *best; /* the nearest word so far, as it is shown; NULL: none is near enough */
    size_t edits;     /* edits to the best one */
};

/* nearest_consider looks whether word is nearer to search->given than the best one. The first of equally near ones
 * stays. */
void nearest_consider(struct nearest *search, const char *word, const char *shown);

#endif
