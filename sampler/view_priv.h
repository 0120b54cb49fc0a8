/* view_priv.h: a parsed view: a tree of expressions. */
#ifndef LARDER_SAMPLER_VIEW_PRIV_H
#define LARDER_SAMPLER_VIEW_PRIV_H

#include <stdbool.h>

#include "sampler/view.h"

enum view_op {
    VIEW_CLASSES,
    VIEW_RANGE,
    VIEW_FRACTION,
    VIEW_LIST,
    VIEW_SET,
    VIEW_UNION,
    VIEW_INTERSECTION,
    VIEW_DIFFERENCE
};

struct view_node {
    enum view_op op;
    char **patterns; /* VIEW_CLASSES */
    size_t n_patterns;
    uint32_t first, end; /* VIEW_RANGE */
    double fraction;     /* VIEW_FRACTION */
    uint64_t seed;
    char *path; /* VIEW_LIST; of VIEW_SET its name */
    struct view_node **parts;
    size_t n_parts;
};

struct view {
    uint32_t magic;
    struct view_node *root;
};

/* glob_match says whether the whole name matches the pattern, as fnmatch without flags does. It takes time |pattern| ×
 * |name| at most. An unclosed [ stands for itself. */
bool glob_match(const char *pattern, const char *name);

/* view_interrupted returns LARDER_EGONE, with its text, when the source's interrupt is set, and 0 otherwise. */
int view_interrupted(const struct view_source *source, struct error *err);

/* ── view_line.c ── */

struct line_part {
    const char *text;
    size_t len;
};
struct line_part line_trimmed(struct line_part part); /* without blanks around it */
/* line_shorten takes the last field off, behind a comma, a semicolon, a tab or spaces. *label: it may be a label.
 * False: there is but one field. */
bool line_shorten(struct line_part *part, bool *label);
/* line_unquote returns what stands in quotes at the beginning (doubled quotes are one), written to buf, which has room
 * for part.len bytes, and what follows. False: there is no such. */
bool line_unquote(struct line_part part, char *buf, struct line_part *name, struct line_part *rest);
/* line_normalised returns a path without "./" and doubled slashes, written to buf, which has room for part.len
 * bytes. */
struct line_part line_normalised(struct line_part part, char *buf);
/* line_is_titles tells whether the first field is what programs call a column of paths; an empty one is a column of
 * row numbers. */
bool line_is_titles(struct line_part part);

/* view_list_select writes the indices that a list file names into `indices`, ascending and each once. There is room for
 * source->count of them; *count gets their number. Fails as view_eval does. */
int view_list_select(const char *path, const struct view_source *source, uint32_t *indices, uint32_t *count,
                     struct error *err);

/* view_sets_select does the same with the set of that name, of VIEW_SET_NAME_BYTES. */
int view_sets_select(const char *name, const struct view_source *source, uint32_t *indices, uint32_t *count,
                     struct error *err);

#endif
