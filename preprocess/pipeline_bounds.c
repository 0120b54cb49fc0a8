/* pipeline_bounds.c: gives parts that are rows the bounds that a dataset knows. */
#include <jansson.h>

#include "preprocess/pipeline_priv.h"

/* Whether what a dataset has in a part fits into what is said of it. */
static int check_known(const struct pipeline *part, const struct part_rows *known, struct error *err)
{
    const struct rows_form *form = &part->rows;
    if (known->width && form->width && form->width != known->width)
        return error_set(err, LARDER_EINVAL, "its rows have %u numbers, and should have %u", known->width, form->width);
    if (form->kind == ROWS_POINTS && known->width % 2)
        return error_set(err, LARDER_EINVAL, "its rows have %u numbers, and a point has x and y", known->width);
    if (form->most && form->most < known->most)
        return error_set(err, LARDER_EINVAL, "a sample has %u rows, and most says %u", known->most, form->most);
    if (form->dtype == PIXEL_INT64 && !known->whole)
        return error_set(err, LARDER_EINVAL, "it has numbers that are not whole: give it dtype \"float32\"");
    return 0;
}

/* set_bound gives a part in its text what is not said of it. */
static int set_bound(const struct pipeline *part, pipeline_known *known_of, const void *context, json_t *item,
                     struct error *err)
{
    struct part_rows known = {.whole = true};
    bool is_known = known_of(context, part->part, &known);
    uint32_t usual = part->rows.kind == ROWS_LABELS ? 1 : 2;
    if (!is_known && !part->rows.most)
        return error_set(err, LARDER_EINVAL,
                         "nothing says how many rows a sample has: give the most that one has, most=N");
    int rc = check_known(part, &known, err);
    if (rc || part->rows.most)
        return rc;
    json_object_set_new(item, "most", json_integer(known.most ? known.most : 1));
    if (part->rows.kind == ROWS_POINTS || part->rows.kind == ROWS_LABELS)
        json_object_set_new(item, "width", json_integer(known.width ? known.width : usual));
    return 0;
}

int pipeline_bound(struct pipeline **place, pipeline_known *known, const void *context, struct error *err)
{
    struct pipeline *pipeline = *place, *bound = NULL;
    if (!pipeline->n_rows)
        return 0;
    json_t *program = json_loads(pipeline->canonical, 0, NULL), *parts = json_object_get(program, "parts");
    int rc = program ? 0 : error_set(err, LARDER_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < pipeline->n_views && rc == 0; i++) {
        const struct pipeline *part = pipeline->views[i];
        if (part->rows.kind)
            rc = set_bound(part, known, context, json_object_get(parts, part->part), err);
        if (rc)
            error_prefix(err, rc, "part %s", part->part);
    }
    if (rc == 0)
        rc = json_object_get(program, "ragged") ? pipeline_ragged_parse(program, &bound, err)
                                                : pipeline_parts_parse(program, false, &bound, err);
    json_decref(program);
    if (rc)
        return rc;
    pipeline_unref(place);
    *place = bound;
    return 0;
}
