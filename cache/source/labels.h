/* labels.h: labels that samples bring themselves, as numbers or as names, and the classes that these make. */
#ifndef LARDER_CACHE_SOURCE_LABELS_H
#define LARDER_CACHE_SOURCE_LABELS_H

#include "cache/source/index.h"
#include "common/error.h"

#define CLASSES_MAX (1u << 20) /* numbers are below it */

/* The label that one sample brings. */
struct label {
    enum { LABEL_NONE, LABEL_NUMBER, LABEL_TEXT } kind;
    int64_t number;
    uint64_t text; /* offset in the index's strings */
};

/* label_take reads a label: a whole number, or else a name. label_take_name reads a name, whatever it looks like. They
 * append a name to the index's strings. What they say in err names no sample. LARDER_EINVAL, LARDER_ENOMEM. */
int label_take(const char *text, size_t len, struct index *strings, struct label *out, struct error *err);
int label_take_name(const char *text, size_t len, struct index *strings, struct label *out, struct error *err);

/* json_is_flat says whether nothing in a JSON text lies deeper than JSON_DEPTH_MAX. The parser calls itself for what
 * lies within something else, and a thread may have little stack. Pure. */
bool json_is_flat(const void *json, size_t len);
#define JSON_DEPTH_MAX 32

struct labels_wish {
    const char *what;    /* what a sample without a label has not: ".cls" */
    const char *instead; /* what to do then */
    bool needed;         /* that no sample has a label is an error too */
    const char *names;   /* of the classes by their numbers, a line feed behind each; NULL: there are none */
};

/* labels_apply makes classes of the labels of all samples, and gives the samples their numbers. Numbers stay what they
 * are, and their classes have the wish's names, if there is one for each; names are sorted as names of folders are.
 * Without any label there is one class, "unlabelled". LARDER_EINVAL, LARDER_ENOMEM. */
int labels_apply(const struct labels_wish *wish, const struct label *found, struct index *index, struct error *err);

#endif
