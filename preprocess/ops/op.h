/* op.h: what an operator is. Each has a file NAME.c (some that are alike share one) and a row in ops_table.h.
 * tests/lint/operators writes its documentation, and its class in the Python package, from its op_kind.
 *
 * An operator works in three steps:
 *
 *   shape   when a pipeline is parsed: says what size comes out, as far as it is the same for every sample
 *   plan    when a sample's size is known, before anything is decoded: draws the random numbers, says what size
 *           comes out
 *   then    either join: becomes part of a geometry (crop, resize, flip),
 *           or apply: makes a new image, or with OP_IN_PLACE changes the image that it gets
 *
 * An operator that works on sounds, or says that samples are arrays, has a shape alone, which says all that it wants.
 *
 * Everything here is pure: results depend on arguments, plan and pixels alone. */
#ifndef LARDER_PREPROCESS_OPS_OP_H
#define LARDER_PREPROCESS_OPS_OP_H

#include "common/error.h"
#include "common/random.h"
#include "common/types.h"
#include "preprocess/args.h"
#include "preprocess/geometry.h"
#include "preprocess/image.h"
#include "preprocess/rows.h"
#include "preprocess/scratch.h"
#include "preprocess/sound/recipe.h"

#define OP_SIZE_MAX 8192 /* the most pixels a side that an operator may make */

/* The shape of an operator's input or output, as far as it is known when a pipeline is parsed. */
struct op_shape {
    uint32_t width, height; /* 0: differs from sample to sample */
    uint64_t most;          /* pixels that an image has at most; 0: not known. Whoever sets width to 0 sets it too */
    uint32_t channels;
    enum pixel_dtype dtype;
    enum pixel_layout layout;
    uint32_t place;             /* of the operator in the list, from 0; set before shape is called */
    struct sound_recipe sound;  /* of OP_SOUND */
    struct sample_layout array; /* of OP_ARRAY */
};

#define PLAN_REALS 48
#define PLAN_CHOICES 32

struct op_plan {
    bool skip;                      /* chance decided against the operator: it does nothing */
    uint32_t in_width, in_height;   /* set before plan is called */
    uint32_t out_width, out_height; /* the same as in, unless plan says otherwise */
    struct rect rect;
    int32_t choice[PLAN_CHOICES];
    double real[PLAN_REALS];
    uint64_t seed;           /* for numbers that are drawn pixel by pixel */
    const struct rows *rows; /* set before plan is called, for OP_BOXES: the boxes as they are then; NULL: none */
};

enum op_flags {
    OP_RANDOM = 1,   /* the plan draws random numbers */
    OP_IN_PLACE = 2, /* apply changes `in` and does not use out */
    OP_FLOAT = 4,    /* may also stand after to_dtype has made the pixels floating point; then level and change run */
    /* What becomes of the other parts of a sample. An operator without apply moves masks as it moves pixels. */
    OP_COLORS = 8,  /* changes no pixel's place: masks stay as they are */
    OP_MASKS = 16,  /* apply moves pixels and mixes none, by its arguments: so it may move a mask's */
    OP_BOXES = 128, /* is about boxes, and so wants a part of them */
    /* Of samples that are no images. */
    OP_SOUND = 32, /* works on sounds, and on nothing else */
    OP_ARRAY = 64, /* stands alone: samples are arrays already */
};

struct op_kind {
    const char *name;
    const char *python; /* its class in the Python package: torchvision's, where torchvision has one */
    const char *text;   /* its description in Markdown, for users' pages and for Python's help() */
    /* Optional. The arguments in the order in which Python takes them, if `args`, and so the normal form, has another
     * order. */
    const char *order;
    unsigned flags;
    const struct arg *args;
    size_t values_bytes; /* size of the struct that the arguments are read into */
    /* Optional. Checks what args cannot say about the arguments, and may bring them into their normal form. */
    int (*check)(void *values, struct error *err);
    /* Optional, for OP_RANDOM. True: with these arguments the plan is the same whatever is drawn. */
    bool (*is_fixed)(const void *values);
    /* Optional. Changes *shape from the operator's input to its output; NULL: nothing changes. */
    int (*shape)(const void *values, struct op_shape *shape, struct error *err);
    /* Optional. Draws and fills the plan. LARDER_ELIMIT, with a text, when the operator can do nothing with the
     * size because it is too small or too large; LARDER_EFORMAT when it is not the one that all images must have. */
    int (*plan)(const void *values, struct rng *rng, struct op_plan *plan, struct error *err);
    /* Optional. Adds the operator to the geometry. False: with this plan it cannot be part of this geometry. */
    bool (*join)(const void *values, const struct op_plan *plan, struct geometry *geometry);
    /* Moves boxes and points as the operator moves pixels, or drops some. NULL: they stay as they are if the operator
     * is of OP_COLORS, or has neither join nor apply; any other is refused beside them. */
    void (*rows)(const void *values, const struct op_plan *plan, struct rows *rows);
    /* Makes `out`, which has memory for the planned size. It fails with LARDER_ENOMEM alone. NULL where join never
     * refuses a fresh geometry, and where 8-bit pixels stay as they are. */
    int (*apply)(const void *values, const struct op_plan *plan, const struct image *in, struct image *out,
                 struct scratch *scratch);
    /* Optional, for floating point pixels. Changes one pixel, whatever its place. `from` is the type that the
     * pixel had before. */
    void (*level)(const void *values, enum pixel_dtype from, float pixel[IMAGE_CHANNELS]);
    /* Optional, for floating point pixels. Changes all of them, in_width × in_height, channels last. It runs before
     * level. */
    void (*change)(const void *values, const struct op_plan *plan, float *pixels);
};

/* op_chance draws whether something of probability p happens, as torchvision's `rand < p` does. */
static inline bool op_chance(struct rng *rng, double p)
{
    return random_unit(rng) < p;
}

static inline double op_uniform(struct rng *rng, double low, double high)
{
    return low + (high - low) * random_unit(rng);
}

#endif
