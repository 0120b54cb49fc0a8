/* pipeline_op.c: reads one operator of a pipeline: a name, or an object with one member: the name with an object of
 * arguments (or null). */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/pipeline_priv.h"

#define OP(name) extern const struct op_kind op_##name;
#include "preprocess/ops/ops_table.h"
#undef OP

static const struct op_kind *const kinds[] = {
#define OP(name) &op_##name,
#include "preprocess/ops/ops_table.h"
#undef OP
};

#define KINDS (sizeof kinds / sizeof *kinds)

static const struct op_kind *find_kind(const char *name, struct error *err)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    }
    error_set(err, LARDER_EINVAL,
              "'%.40s' is no operator: use one of those in docs/reference/pipelines.md (in Python: larder.transforms)",
              name);
    return NULL;
}

int pipeline_op_parse(const json_t *item, size_t index, struct pipeline_op *op, struct error *err)
{
    const char *name = json_string_value(item);
    json_t *given = NULL;
    if (json_is_object(item) && json_object_size(item) == 1) {
        void *iter = json_object_iter((json_t *)item);
        name = json_object_iter_key(iter);
        given = json_object_iter_value(iter);
    }
    if (!name)
        return error_set(err, LARDER_EINVAL, "pipeline[%zu]: an operator is a name, or {\"name\": {arguments}}", index);
    const struct op_kind *kind = find_kind(name, err);
    if (!kind)
        return error_prefix(err, LARDER_EINVAL, "pipeline[%zu]", index);
    op->kind = kind;
    op->values = xcalloc(1, kind->values_bytes);
    int rc = args_read(kind->args, json_is_null(given) ? NULL : given, op->values, err);
    if (rc == 0 && kind->check)
        rc = kind->check(op->values, err);
    if (rc)
        return error_prefix(err, rc, "pipeline[%zu] %s", index, kind->name);
    json_t *normal = json_pack("{s: o}", kind->name, args_write(kind->args, op->values));
    op->canonical = normal ? json_dumps(normal, JSON_COMPACT) : NULL;
    json_decref(normal);
    return op->canonical ? 0 : error_set(err, LARDER_ENOMEM, "out of memory");
}

void pipeline_op_clear(struct pipeline_op *op)
{
    free(op->values);
    free(op->canonical);
    free(op->group_canonical);
}

bool pipeline_op_is_random(const struct pipeline_op *op)
{
    const struct op_kind *kind = op->kind;
    return op->group || (kind->flags & OP_RANDOM && !(kind->is_fixed && kind->is_fixed(op->values)));
}
