#include "preprocess/args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

#define LIST_MAX 4

/* want says "name must be …, not what was given". */
static int want(const struct arg *arg, const json_t *value, const char *what, struct error *err)
{
    char given[64] = "something unprintable";
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (text)
        snprintf(given, sizeof given, strlen(text) < sizeof given ? "%s" : "%.56s ...", text);
    free(text);
    return error_set(err, LARDER_EINVAL, "%s must be %s, not %s", arg->name, what, given);
}

static int want_within(const struct arg *arg, const json_t *value, const char *what, struct error *err)
{
    char text[128];
    snprintf(text, sizeof text, "%s from %g to %g", what, arg->min, arg->max);
    return want(arg, value, text, err);
}

static bool get_number(const struct arg *arg, const json_t *value, double *out)
{
    if (!json_is_number(value))
        return false;
    double number = json_number_value(value);
    if (!isfinite(number) || number < arg->min || number > arg->max)
        return false;
    *out = number;
    return true;
}

/* Python's 224.0 is a whole number too. */
static bool get_whole(const struct arg *arg, const json_t *value, int32_t *out)
{
    double number;
    if (!get_number(arg, value, &number) || number != floor(number) || fabs(number) > INT32_MAX)
        return false;
    *out = (int32_t)number;
    return true;
}

/* get_numbers reads a number as a list of one. Gives the count, 0 when something does not fit. */
static size_t get_numbers(const struct arg *arg, const json_t *value, double *out, bool whole)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count > LIST_MAX)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (!get_number(arg, item, &out[i]) || (whole && out[i] != floor(out[i])))
            return 0;
    }
    return count;
}

static int read_size(const struct arg *arg, const json_t *value, struct arg_size *out, struct error *err)
{
    double list[LIST_MAX];
    size_t count = get_numbers(arg, value, list, true);
    bool kernel = arg->type == ARG_KERNEL;
    if (count < 1 || count > 2)
        return want_within(arg, value, kernel ? "an odd integer or [x, y]" : "an integer or [height, width]", err);
    for (size_t i = 0; kernel && i < count; i++) {
        if (fmod(list[i], 2) != 1)
            return want_within(arg, value, "an odd integer or [x, y]", err);
    }
    uint32_t first = (uint32_t)list[0], second = (uint32_t)list[count - 1];
    if (kernel)
        *out = (struct arg_size){.width = first, .height = second};
    else
        *out = (struct arg_size){.height = first, .width = count == 1 && arg->type == ARG_EDGE ? 0 : second};
    return 0;
}

static int read_range(const struct arg *arg, const json_t *value, struct arg_range *out, struct error *err)
{
    double list[LIST_MAX];
    if (arg->type == ARG_POINT && json_is_null(value)) {
        *out = (struct arg_range){0};
        return 0;
    }
    size_t count = get_numbers(arg, value, list, false);
    bool number = !json_is_array(value);
    if (number && count == 1 && list[0] >= 0 && arg->type == ARG_SPREAD && -list[0] >= arg->min) {
        *out = (struct arg_range){-list[0], list[0], true};
        return 0;
    }
    if (number && count == 1 && arg->type == ARG_SPAN) {
        *out = (struct arg_range){list[0], list[0], true};
        return 0;
    }
    if (number && count == 1 && list[0] >= 0 && arg->type == ARG_JITTER) {
        *out = (struct arg_range){fmax(0, 1 - list[0]), 1 + list[0], true};
        return 0;
    }
    if (number || count != 2 || (arg->type != ARG_POINT && list[0] > list[1])) {
        bool may_be_number = arg->type == ARG_SPREAD || arg->type == ARG_JITTER || arg->type == ARG_SPAN;
        return want_within(arg, value,
                           arg->type == ARG_POINT ? "[x, y] or null"
                           : may_be_number        ? "a number of 0 or more, or [low, high] with low ≤ high,"
                                                  : "[low, high] with low ≤ high,",
                           err);
    }
    *out = (struct arg_range){list[0], list[1], true};
    return 0;
}

static int read_shear(const struct arg *arg, const json_t *value, struct arg_range out[2], struct error *err)
{
    double list[LIST_MAX] = {0};
    size_t count = get_numbers(arg, value, list, false);
    if (!json_is_array(value) && count == 1 && list[0] >= 0)
        list[1] = list[0], list[0] = -list[0];
    else if ((count != 2 && count != 4) || list[0] > list[1] || list[2] > list[3])
        return want_within(arg, value, "a number of 0 or more, [low, high] or [x low, x high, y low, y high]", err);
    out[0] = (struct arg_range){list[0], list[1], true};
    out[1] = (struct arg_range){list[2], list[3], true};
    return 0;
}

static int read_pair(const struct arg *arg, const json_t *value, struct arg_range *out, struct error *err)
{
    double list[LIST_MAX];
    size_t count = get_numbers(arg, value, list, false);
    if (count != 1 && count != 2)
        return want_within(arg, value, "a number or [x, y]", err);
    *out = (struct arg_range){list[0], list[count - 1], true};
    return 0;
}

static int read_dims(const struct arg *arg, const json_t *value, struct arg_dims *out, struct error *err)
{
    double list[LIST_MAX];
    size_t count = get_numbers(arg, value, list, true);
    if (count == 0)
        return want_within(arg, value, "an integer, or a list of 1 to 4 integers", err);
    *out = (struct arg_dims){.n = (uint32_t)count};
    for (size_t i = 0; i < count; i++)
        out->dim[i] = (uint32_t)list[i];
    return 0;
}

static json_t *write_dims(const struct arg_dims *dims)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < dims->n; i++) {
        if (json_array_append_new(list, json_integer(dims->dim[i]))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int read_color(const struct arg *arg, const json_t *value, struct arg_color *out, struct error *err)
{
    struct arg_color color = {0};
    double list[LIST_MAX] = {0};
    bool noise = arg->type == ARG_NOISE;
    if (noise && json_is_string(value) && strcmp(json_string_value(value), "random") == 0) {
        color.random = true;
    } else if (!json_is_null(value)) {
        size_t count = get_numbers(arg, value, list, false);
        if (count != 1 && count != 3)
            return want_within(arg, value,
                               noise ? "a number, three numbers or \"random\"," : "a number or three numbers", err);
        for (size_t i = 0; i < 3; i++)
            color.value[i] = list[count == 3 ? i : 0];
    }
    *out = color;
    return 0;
}

static int read_padding(const struct arg *arg, const json_t *value, struct arg_padding *out, struct error *err)
{
    double p[LIST_MAX] = {0};
    size_t count = json_is_null(value) ? 1 : get_numbers(arg, value, p, true);
    if (count == 1)
        p[1] = p[2] = p[3] = p[0];
    else if (count == 2)
        p[2] = p[0], p[3] = p[1];
    else if (count != 4)
        return want_within(arg, value, "an integer, [x, y] or [left, top, right, bottom]", err);
    *out = (struct arg_padding){(uint32_t)p[0], (uint32_t)p[1], (uint32_t)p[2], (uint32_t)p[3]};
    return 0;
}

static int32_t find_choice(const struct arg *arg, const char *name, size_t len)
{
    for (int32_t i = 0; arg->choices[i]; i++) {
        const char *choice = arg->choices[i], *equal = strchr(choice, '=');
        if (strlen(choice) == len && strncmp(choice, name, len) == 0)
            return i;
        if (equal && (size_t)(equal - choice) == len && strncmp(choice, name, len) == 0)
            return find_choice(arg, equal + 1, strlen(equal + 1));
    }
    return -1;
}

static int read_choice(const struct arg *arg, const json_t *value, int32_t *out, struct error *err)
{
    const char *name = json_string_value(value);
    int32_t found = name && !strchr(name, '=') ? find_choice(arg, name, strlen(name)) : -1;
    if (found >= 0) {
        *out = found;
        return 0;
    }
    char list[256] = "one of";
    for (int32_t i = 0; arg->choices[i]; i++) {
        size_t len = strlen(list);
        snprintf(list + len, sizeof list - len, "%s \"%.*s\"", i ? "," : "", (int)strcspn(arg->choices[i], "="),
                 arg->choices[i]);
    }
    return want(arg, value, list, err);
}

static int read_one(const struct arg *arg, const json_t *value, void *place, struct error *err)
{
    switch (arg->type) {
    case ARG_NUMBER: return get_number(arg, value, place) ? 0 : want_within(arg, value, "a number", err);
    case ARG_INTEGER: return get_whole(arg, value, place) ? 0 : want_within(arg, value, "an integer", err);
    case ARG_BOOL:
    case ARG_IGNORED:
        if (!json_is_boolean(value))
            return want(arg, value, "true or false", err);
        *(bool *)place = json_is_true(value);
        return 0;
    case ARG_CHOICE: return read_choice(arg, value, place, err);
    case ARG_SQUARE:
    case ARG_EDGE:
    case ARG_KERNEL: return read_size(arg, value, place, err);
    case ARG_RANGE:
    case ARG_SPAN:
    case ARG_SPREAD:
    case ARG_JITTER:
    case ARG_POINT: return read_range(arg, value, place, err);
    case ARG_COLOR:
    case ARG_NOISE: return read_color(arg, value, place, err);
    case ARG_PADDING: return read_padding(arg, value, place, err);
    case ARG_SHEAR: return read_shear(arg, value, place, err);
    case ARG_PAIR: return read_pair(arg, value, place, err);
    case ARG_DIMS: return read_dims(arg, value, place, err);
    }
    CHECK(!"every type has its case");
}

static int refuse_unknown(const struct arg *table, const json_t *object, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        const struct arg *arg = table;
        while (arg->name && strcmp(arg->name, key) != 0)
            arg++;
        if (arg->name)
            continue;
        char list[256] = "";
        for (arg = table; arg->name; arg++) {
            size_t len = strlen(list);
            snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "", arg->name);
        }
        return error_set(err, LARDER_EINVAL, "it has no argument '%.64s'; its arguments are: %s", key,
                         *list ? list : "none");
    }
    return 0;
}

int args_read(const struct arg *table, const json_t *object, void *values, struct error *err)
{
    if (object && !json_is_object(object))
        return error_set(err, LARDER_EINVAL, "its arguments must be an object, such as {\"size\": 224}");
    int rc = refuse_unknown(table, object, err);
    for (const struct arg *arg = table; arg->name && rc == 0; arg++) {
        const json_t *value = object ? json_object_get(object, arg->name) : NULL;
        json_t *initial = NULL;
        if (!value || json_is_null(value)) {
            if (!arg->initial)
                return error_set(err, LARDER_EINVAL, "%s is missing and has no default", arg->name);
            value = initial = json_loads(arg->initial, JSON_DECODE_ANY, NULL);
            CHECK(initial);
        }
        rc = read_one(arg, value, (char *)values + arg->offset, err);
        json_decref(initial);
    }
    return rc;
}

/* Whole numbers are written without a point, whatever way they came. */
static json_t *number(double value)
{
    return value == floor(value) && fabs(value) < 1e15 ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *write_one(const struct arg *arg, const void *place)
{
    const struct arg_size *size = place;
    const struct arg_range *range = place;
    const struct arg_color *color = place;
    const struct arg_padding *pad = place;
    switch (arg->type) {
    case ARG_NUMBER: return number(*(const double *)place);
    case ARG_INTEGER: return json_integer(*(const int32_t *)place);
    case ARG_BOOL:
    case ARG_IGNORED: return json_boolean(*(const bool *)place);
    case ARG_CHOICE: return json_string(arg->choices[*(const int32_t *)place]);
    case ARG_SQUARE:
    case ARG_EDGE:
        if (size->width == 0)
            return json_integer(size->height);
        return json_pack("[i, i]", (int)size->height, (int)size->width);
    case ARG_KERNEL: return json_pack("[i, i]", (int)size->width, (int)size->height);
    case ARG_RANGE:
    case ARG_SPAN:
    case ARG_SPREAD:
    case ARG_JITTER:
    case ARG_POINT:
    case ARG_PAIR: return range->given ? json_pack("[o, o]", number(range->low), number(range->high)) : json_null();
    case ARG_COLOR:
    case ARG_NOISE:
        if (color->random)
            return json_string("random");
        return json_pack("[o, o, o]", number(color->value[0]), number(color->value[1]), number(color->value[2]));
    case ARG_SHEAR:
        return json_pack("[o, o, o, o]", number(range[0].low), number(range[0].high), number(range[1].low),
                         number(range[1].high));
    case ARG_DIMS: return write_dims(place);
    case ARG_PADDING:
        return json_pack("[i, i, i, i]", (int)pad->left, (int)pad->top, (int)pad->right, (int)pad->bottom);
    }
    CHECK(!"every type has its case");
}

json_t *args_write(const struct arg *table, const void *values)
{
    json_t *object = json_object();
    for (const struct arg *arg = table; arg->name && object; arg++) {
        if (arg->type == ARG_IGNORED)
            continue;
        if (json_object_set_new(object, arg->name, write_one(arg, (const char *)values + arg->offset)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}
