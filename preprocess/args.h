/* args.h: an operator's arguments are declared in a table, read from JSON into a struct, and written back in one
 * spelling.
 *
 * Each operator has a struct for its arguments, and a table that says name, type, place in the struct, default and
 * bounds of each. Reading refuses arguments that the table does not know. Writing returns the normal form by which
 * pipelines are compared. So values are stored by their meaning: 0.4 for a jitter is stored, and written, as [0.6,
 * 1.4]. Pure. */
#ifndef LARDER_PREPROCESS_ARGS_H
#define LARDER_PREPROCESS_ARGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum arg_type {
    ARG_NUMBER,  /* double, within min … max */
    ARG_INTEGER, /* int32_t, within min … max */
    ARG_BOOL,    /* bool */
    ARG_CHOICE,  /* int32_t: index into choices; "a=b" among them says that a is another word for b */
    ARG_SQUARE,  /* struct arg_size: n means n × n; or [h, w] */
    ARG_EDGE,    /* struct arg_size: n (width 0) means the shorter edge; or [h, w] */
    ARG_IGNORED, /* bool: accepted for torchvision's sake; it has no effect and is not in the normal form */
    ARG_RANGE,   /* struct arg_range: [low, high], low ≤ high, both within min … max */
    ARG_SPAN,    /* struct arg_range: n means [n, n]; or [low, high] */
    ARG_SPREAD,  /* struct arg_range: d means [-d, d]; or [low, high] */
    ARG_JITTER,  /* struct arg_range: d means [max(0, 1 - d), 1 + d]; or [low, high] */
    ARG_POINT,   /* struct arg_range, given; default null: none */
    ARG_COLOR,   /* struct arg_color: number or list of 1 or 3, within min … max; default null: zeros */
    ARG_PADDING, /* struct arg_padding: n, [x, y] or [left, top, right, bottom]; default null: none */
    ARG_NOISE,   /* struct arg_color, or the word "random" */
    ARG_KERNEL,  /* struct arg_size: odd n, or [x, y] both odd */
    ARG_SHEAR,   /* struct arg_range[2], of x and of y: n, [low, high] of x alone, or four numbers; default 0: none */
    ARG_PAIR,    /* struct arg_range: n means [n, n]; or [x, y] in any order */
    ARG_DIMS,    /* struct arg_dims: n means [n]; or a list of 1 to 4 integers */
};

struct arg_size {
    uint32_t height, width;
};

struct arg_range {
    double low, high;
    bool given;
};

struct arg_color {
    double value[3];
    bool random; /* ARG_NOISE */
};

struct arg_dims {
    uint32_t n;
    uint32_t dim[4]; /* those beyond n are 0 */
};

struct arg_padding {
    uint32_t left, top, right, bottom;
};

struct arg {
    const char *name;
    enum arg_type type;
    size_t offset;       /* offset in the operator's struct */
    const char *initial; /* JSON; NULL: must be given */
    double min, max;
    const char *const *choices; /* ends with NULL; only for ARG_CHOICE */
};

/* args_read fills `values` from a JSON object. If object is NULL, every argument has its default; a null in it stands
 * for that argument's default. table ends with a NULL name. An error's text names the argument and its allowed values,
 * but not the operator. LARDER_EINVAL. */
int args_read(const struct arg *table, const json_t *object, void *values, struct error *err);
/* args_write returns the normal form: an object with every argument, in the table's order. The caller drops the
 * reference. */
json_t *args_write(const struct arg *table, const void *values);

#endif
