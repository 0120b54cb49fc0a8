/* pipeline_priv.h: a parsed pipeline, for the files that run it. */
#ifndef LARDER_PREPROCESS_PIPELINE_PRIV_H
#define LARDER_PREPROCESS_PIPELINE_PRIV_H

#include <jansson.h>
#include <stdatomic.h>

#include "preprocess/mask_rows.h"
#include "preprocess/ops/op.h"
#include "preprocess/pipeline.h"

#define PIPELINE_MAGIC UINT32_C(0x70697065)
/* Streams of random numbers that a view has: one for each operator's place, and one for each group. */
#define PIPELINE_STREAMS 256

_Static_assert(2 * PIPELINE_OPS_MAX < PIPELINE_STREAMS, "each operator and each group has a stream of its own");

struct pipeline_op {
    const struct op_kind *kind;
    void *values;          /* the struct of its arguments */
    char *canonical;       /* its normal form; two operators do the same exactly when these are equal */
    uint32_t group;        /* 0: it always happens; else the number of its group */
    uint32_t alternative;  /* its alternative in the group, from 0 */
    double from, to;       /* it happens when the group's draw is in from ≤ draw < to */
    char *group_canonical; /* first operator of a group: the whole group's normal form */
    bool may_skip;         /* first operator of a group: the group may do nothing */
    bool idle;             /* of a mask's pipeline: it does nothing to masks */
};

/* What becomes of a mask's numbers. */
struct mask_form {
    enum pixel_dtype dtype; /* PIXEL_UINT8, PIXEL_INT32 or PIXEL_INT64 */
    bool has_fill;
    int32_t fill;   /* what stands where the image has no pixel; without it, what the operators say */
    bool instances; /* it is several in one: where the image has no pixel is none of them */
};

/* How the numbers of a box say where it is. */
enum box_format { BOX_XYXY, BOX_XYWH, BOX_CXCYWH };

/* What a part is that is rows of numbers; and masks, of which each box has one (instances.h). */
enum rows_kind { ROWS_NONE, ROWS_BOXES, ROWS_POINTS, ROWS_LABELS, ROWS_MASKS };
struct rows_form {
    enum rows_kind kind;
    enum pixel_dtype dtype;
    enum box_format format; /* as they are stored; made ones are BOX_XYXY */
    uint32_t most, width;   /* rows that its field has room for, and numbers of a row; 0: not known yet, or masks */
};

#define COUNTS_FIELD "counts"

/* A pipeline has operators, or views, which are pipelines with operators. The parts of a sample are views, too. */
struct pipeline {
    uint32_t magic;
    atomic_uint refs;      /* unref releases; the last one acquires, then frees */
    struct op_shape shape; /* what the last operator makes */
    struct sample_layout layout;
    char *canonical;
    uint32_t stream;  /* of a view: its number times PIPELINE_STREAMS; its streams count from here. Else 0 */
    uint32_t n_views; /* 0: a sample is what ops make */
    struct pipeline *views[PIPELINE_VIEWS_MAX]; /* each makes a field of a sample, in the order of the fields */
    uint32_t n_groups;
    uint32_t n_ops;
    uint32_t n_pixel_ops; /* the first n_pixel_ops work on 8-bit pixels; finish runs the others */
    unsigned subject;     /* OP_SOUND, OP_ARRAY; 0: images, or bytes as they are */
    struct sound_recipe sound;
    bool open;                    /* pipeline_is_open; it has no shape, or a part of it no bound */
    bool ragged;                  /* its layout is */
    uint64_t most_pixels;         /* that an image or a mask has at most; 0: not known */
    bool unbounded;               /* it has a part of rows without a bound */
    char part[SAMPLE_NAME_BYTES]; /* of a part: its name in the sample. Else "": the first part, or all of a sample */
    bool is_mask;                 /* of a part */
    struct mask_form mask;
    struct rows_form rows; /* of a part */
    uint32_t n_rows;       /* parts that are rows: a field behind the parts' has as many counts, as int64 */
    bool plain;            /* the result is 8-bit RGB, channels last: the last operator can write to the destination */
    struct pipeline_op ops[];
};

/* pipeline_make returns a pipeline of nothing, with room for operators and with one reference. */
struct pipeline *pipeline_make(uint32_t n_ops);
/* pipeline_list_parse makes a pipeline of a list of operators. It may be open. A ragged one is not: its images may have
 * any size, and no operators may stand for the image as it is. */
int pipeline_list_parse(const json_t *list, bool ragged, struct pipeline **out, struct error *err);
/* pipeline_views_parse makes one of an object with views. It may be open. A ragged one has no layout yet. */
int pipeline_views_parse(const json_t *program, bool ragged, struct pipeline **out, struct error *err);
/* pipeline_parts_parse makes one of an object with parts. It may be open. A ragged one has no layout yet. */
int pipeline_parts_parse(const json_t *program, bool ragged, struct pipeline **out, struct error *err);
/* pipeline_ragged_parse makes one of an object with `ragged`. It may be open. */
int pipeline_ragged_parse(const json_t *program, struct pipeline **out, struct error *err);
/* pipeline_lay_out puts the fields of the views, which have names, one behind the other. */
int pipeline_lay_out(struct pipeline *pipeline, struct error *err);
/* pipeline_refuse_members refuses an object that has members which are not known; the list of those ends with NULL. */
int pipeline_refuse_members(const json_t *object, const char *const *known, const char *what, struct error *err);
/* pipeline_refuse_sizes returns the error of a pipeline that makes samples of different sizes. */
int pipeline_refuse_sizes(struct error *err);

/* pipeline_op_parse reads an operator that stands at `index` of the list into *op, which is zero and belongs to a
 * pipeline, also after an error. */
int pipeline_op_parse(const json_t *item, size_t index, struct pipeline_op *op, struct error *err);
/* pipeline_op_clear frees what an operator has, also after an error. */
void pipeline_op_clear(struct pipeline_op *op);
/* pipeline_op_is_random says whether two runs of an operator may differ. */
bool pipeline_op_is_random(const struct pipeline_op *op);
/* pipeline_group_parse reads a member of the list, an operator or a group, to the end of the pipeline. */
int pipeline_group_parse(const json_t *item, size_t index, struct pipeline *pipeline, struct error *err);

/* pipeline_plan draws everything random of one instance of a pipeline without views, for an image of this size. plans
 * has room for n_ops. Each operator has its own stream of numbers, keyed by its place. `rows`, of an image of this
 * size, become what the operators make of them; NULL: there are none. LARDER_ELIMIT when an operator can do nothing
 * with this size. */
int pipeline_plan(const struct pipeline *pipeline, const uint64_t key[3], uint32_t width, uint32_t height,
                  struct op_plan *plans, struct rows *rows, struct error *err);
/* pipeline_size returns the size in the end of an image of this size, by its plans. */
struct image_size pipeline_size(const struct pipeline *pipeline, const struct op_plan *plans, struct image_size size);
/* pipeline_gather joins operators from `op` on, and before `end`, into one geometry. It returns the number of the first
 * operator that is not part of it. */
uint32_t pipeline_gather(const struct pipeline *pipeline, const struct op_plan *plans, uint32_t op, uint32_t end,
                         struct geometry *geometry);

#endif
