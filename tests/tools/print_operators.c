/* print_operators.c: prints the table of operators as JSON, for tests/lint/operators: of each its name, its class in
 * Python, its sentences and its arguments, with the types that the Python package's stub has for them. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/ops/op.h"

#define OP(name) extern const struct op_kind op_##name;
#include "preprocess/ops/ops_table.h"
#undef OP

static const struct op_kind *const kinds[] = {
#define OP(name) &op_##name,
#include "preprocess/ops/ops_table.h"
#undef OP
};

/* The stub defines _Numbers and _Interpolation. */
static const char *const stub_types[] = {
    [ARG_NUMBER] = "float",
    [ARG_INTEGER] = "int",
    [ARG_BOOL] = "bool",
    [ARG_CHOICE] = "str",
    [ARG_SQUARE] = "int | _Numbers",
    [ARG_EDGE] = "int | _Numbers",
    [ARG_IGNORED] = "bool",
    [ARG_RANGE] = "_Numbers",
    [ARG_SPAN] = "float | _Numbers",
    [ARG_SPREAD] = "float | _Numbers",
    [ARG_JITTER] = "float | _Numbers",
    [ARG_POINT] = "_Numbers",
    [ARG_COLOR] = "float | _Numbers",
    [ARG_PADDING] = "int | _Numbers",
    [ARG_NOISE] = "float | _Numbers | str",
    [ARG_KERNEL] = "int | _Numbers",
    [ARG_SHEAR] = "float | _Numbers",
    [ARG_PAIR] = "float | _Numbers",
    [ARG_DIMS] = "int | _Numbers",
};

static const char *stub_type(const struct arg *arg)
{
    if (strcmp(arg->name, "interpolation") == 0) /* torchvision's InterpolationMode, besides the words */
        return "_Interpolation";
    if (strcmp(arg->name, "dtype") == 0) /* torch's and NumPy's types, besides the words */
        return "Any";
    CHECK((size_t)arg->type < sizeof stub_types / sizeof *stub_types && stub_types[arg->type]);
    return stub_types[arg->type];
}

static json_t *arg_json(const struct arg *arg)
{
    return json_pack("{s: s, s: s, s: b, s: s?}", "name", arg->name, "type", stub_type(arg), "ignored",
                     arg->type == ARG_IGNORED, "default", arg->initial);
}

static json_t *kind_json(const struct op_kind *kind)
{
    json_t *args = json_array();
    for (const struct arg *arg = kind->args; arg->name; arg++)
        CHECK(json_array_append_new(args, arg_json(arg)) == 0);
    return json_pack("{s: s, s: s, s: s, s: s?, s: o}", "name", kind->name, "python", kind->python, "text", kind->text,
                     "order", kind->order, "args", args);
}

int main(void)
{
    json_t *table = json_array();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        CHECK(json_array_append_new(table, kind_json(kinds[i])) == 0);
    int rc = json_dumpf(table, stdout, JSON_INDENT(1));
    json_decref(table);
    return rc == 0 && printf("\n") > 0 && fflush(stdout) == 0 ? 0 : 1;
}
