/* pipeline_group.c: reads a member of a pipeline's list. It is an operator, or a group with alternatives, one of which
 * is chosen at random:
 *
 *   {"random_choice": {"transforms": [operator or list of operators, …], "p": [weight, …]}}
 *   {"random_apply": {"transforms": [operator, …], "p": 0.5}}
 *
 * The second is a choice between its list and nothing. A group's operators stand in the pipeline one after the other.
 * Each has a range within 0 … 1, and happens when the group's one draw falls into it. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "preprocess/pipeline_priv.h"

/* A group that is being read. */
struct group {
    struct pipeline *pipeline;
    size_t index; /* index in the list */
    uint32_t number, first;
    json_t *transforms, *p; /* its normal form */
};

static int refuse(const struct group *group, struct error *err, const char *why)
{
    return error_set(err, LARDER_EINVAL, "pipeline[%zu]: %s", group->index, why);
}

/* next_op returns the place of one more operator. */
static int next_op(struct pipeline *pipeline, struct pipeline_op **out, struct error *err)
{
    if (pipeline->n_ops == PIPELINE_OPS_MAX)
        return error_set(err, LARDER_EINVAL, "a pipeline has at most %d operators", PIPELINE_OPS_MAX);
    *out = &pipeline->ops[pipeline->n_ops++];
    return 0;
}

static int parse_member(struct group *group, const json_t *item, double from, double to, json_t *texts,
                        struct error *err)
{
    struct pipeline_op *op = NULL;
    int rc = next_op(group->pipeline, &op, err);
    if (rc == 0)
        rc = pipeline_op_parse(item, group->index, op, err);
    if (rc)
        return rc;
    if (!op->kind->join && !op->kind->apply)
        return error_set(err, LARDER_EINVAL, "pipeline[%zu] %s: it cannot be in a group: put it behind", group->index,
                         op->kind->name);
    op->group = group->number;
    op->alternative = (uint32_t)json_array_size(group->transforms);
    op->from = from;
    op->to = to;
    if (json_array_append_new(texts, json_loads(op->canonical, 0, NULL)))
        return error_set(err, LARDER_ENOMEM, "out of memory");
    return 0;
}

/* An alternative is an operator, or a list of them; an empty one does nothing. */
static int parse_alternative(struct group *group, const json_t *item, double from, double to, struct error *err)
{
    json_t *texts = json_array();
    int rc = 0;
    if (!json_is_array(item))
        rc = parse_member(group, item, from, to, texts, err);
    for (size_t i = 0; i < json_array_size(item) && rc == 0; i++)
        rc = parse_member(group, json_array_get(item, i), from, to, texts, err);
    if (json_array_append_new(group->transforms, texts) && rc == 0)
        rc = error_set(err, LARDER_ENOMEM, "out of memory");
    return rc;
}

/* The weight of alternative i: equal where none are given. -1: it is none. */
static double weight_of(const json_t *weights, size_t i)
{
    const json_t *item = json_array_get(weights, i);
    if (!weights)
        return 1;
    return json_is_number(item) ? json_number_value(item) : -1;
}

static int parse_choice(struct group *group, const json_t *alternatives, const json_t *weights, struct error *err)
{
    size_t count = json_array_size(alternatives);
    double sum = 0, from = 0;
    if (!count || (weights && json_array_size(weights) != count))
        return refuse(group, err, "random_choice needs `transforms`, a list, and `p`, as many weights (or none)");
    for (size_t i = 0; i < count; i++) {
        double weight = weight_of(weights, i);
        if (!(weight >= 0 && weight <= 1e9))
            return refuse(group, err, "random_choice: p must be numbers from 0 to 1e9");
        sum += weight;
    }
    if (!(sum > 0))
        return refuse(group, err, "random_choice: p must have a number above 0");
    int rc = 0;
    if (fabs(sum - 1) < 1e-9)
        sum = 1; /* so that a normal form is its own normal form */
    for (size_t i = 0; i < count && rc == 0; i++) {
        double share = weight_of(weights, i) / sum, to = i + 1 < count ? from + share : 1;
        rc = parse_alternative(group, json_array_get(alternatives, i), from, to, err);
        if (json_array_append_new(group->p, json_real(share)) && rc == 0)
            rc = error_set(err, LARDER_ENOMEM, "out of memory");
        from = to;
    }
    return rc;
}

static int parse_apply(struct group *group, const json_t *list, const json_t *p, struct error *err)
{
    double chance = p ? json_is_number(p) ? json_number_value(p) : -1 : 0.5;
    if (!json_is_array(list) || !(chance >= 0 && chance <= 1))
        return refuse(group, err, "random_apply needs `transforms`, a list of operators, and `p`, from 0 to 1");
    json_t *alternatives = json_pack("[O, []]", list), *weights = json_pack("[f, f]", chance, 1 - chance);
    int rc = alternatives && weights ? parse_choice(group, alternatives, weights, err)
                                     : error_set(err, LARDER_ENOMEM, "out of memory");
    json_decref(alternatives);
    json_decref(weights);
    return rc;
}

/* After a group was read: its normal form, and whether it may do nothing. */
static int settle(struct group *group, struct error *err)
{
    struct pipeline *pipeline = group->pipeline;
    if (group->first == pipeline->n_ops) { /* nothing is all that it does, and the normal form has nothing of it */
        pipeline->n_groups--;
        return 0;
    }
    json_t *normal = json_pack("{s: {s: O, s: O}}", "random_choice", "p", group->p, "transforms", group->transforms);
    struct pipeline_op *first = &pipeline->ops[group->first];
    first->group_canonical = normal ? json_dumps(normal, JSON_COMPACT) : NULL;
    json_decref(normal);
    for (size_t i = 0; i < json_array_size(group->transforms); i++) {
        if (json_array_size(json_array_get(group->transforms, i)) == 0 &&
            json_real_value(json_array_get(group->p, i)) > 0)
            first->may_skip = true;
    }
    return first->group_canonical ? 0 : error_set(err, LARDER_ENOMEM, "out of memory");
}

static int parse_group(const json_t *given, bool choice, size_t index, struct pipeline *pipeline, struct error *err)
{
    struct group group = {.pipeline = pipeline,
                          .index = index,
                          .number = ++pipeline->n_groups,
                          .first = pipeline->n_ops,
                          .transforms = json_array(),
                          .p = json_array()};
    const json_t *transforms = json_object_get(given, "transforms"), *p = json_object_get(given, "p");
    int rc = 0;
    if (json_object_size(given) != (transforms != NULL) + (size_t)(p != NULL))
        rc = refuse(&group, err, "a group has `transforms` and `p` alone");
    else
        rc = choice ? parse_choice(&group, transforms, p, err) : parse_apply(&group, transforms, p, err);
    if (rc == 0)
        rc = settle(&group, err);
    json_decref(group.transforms);
    json_decref(group.p);
    return rc;
}

int pipeline_group_parse(const json_t *item, size_t index, struct pipeline *pipeline, struct error *err)
{
    const json_t *choice = json_object_get(item, "random_choice"), *apply = json_object_get(item, "random_apply");
    if (json_object_size(item) == 1 && (choice || apply))
        return parse_group(choice ? choice : apply, choice != NULL, index, pipeline, err);
    struct pipeline_op *op = NULL;
    int rc = next_op(pipeline, &op, err);
    return rc ? rc : pipeline_op_parse(item, index, op, err);
}
