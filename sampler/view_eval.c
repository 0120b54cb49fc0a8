/* view_eval.c: expressions to sets. Sets are sets of indices until the end: indices are dense and ordered, ids
 * are not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/random.h"
#include "sampler/view_priv.h"

#define INTERRUPT_EVERY 65536 /* samples */

struct eval {
    const struct view_source *source;
    uint32_t *indices; /* scratch, room for source->count */
    struct error *err;
};

static int no_memory(const struct eval *eval)
{
    return error_set(eval->err, LARDER_ENOMEM, "subset: no memory for sets of up to %u samples", eval->source->count);
}

/* Called for each of many samples; it looks at the interrupt now and then. */
static int interrupted_at(const struct eval *eval, uint32_t index)
{
    return index % INTERRUPT_EVERY == 0 ? view_interrupted(eval->source, eval->err) : 0;
}

static int set_of(const struct eval *eval, uint32_t count, struct idset **out)
{
    return idset_from_sorted(eval->indices, count, out) ? no_memory(eval) : 0;
}

static int eval_classes(const struct eval *eval, const struct view_node *node, struct idset **out)
{
    const struct view_source *source = eval->source;
    bool *wanted = calloc(source->n_classes + (size_t)1, sizeof *wanted);
    if (wanted == NULL)
        return no_memory(eval);
    int rc = 0;
    for (size_t i = 0; i < node->n_patterns && rc == 0; i++) {
        bool matched = false;
        for (uint32_t label = 0; rc == 0 && label < source->n_classes; label++) {
            rc = view_interrupted(source, eval->err); /* one pattern on one name may take long enough */
            const char *name = source->class_name(source->dataset, label);
            if (strcmp(node->patterns[i], name) == 0 || glob_match(node->patterns[i], name))
                wanted[label] = matched = true;
        }
        if (!rc && !matched)
            rc = error_set(eval->err, LARDER_EINVAL, "subset: classes: '%s' matches none of the dataset's %u classes",
                           node->patterns[i], source->n_classes);
    }
    uint32_t count = 0;
    for (uint32_t index = 0; rc == 0 && index < source->count; index++) {
        rc = interrupted_at(eval, index);
        int32_t label = source->label(source->dataset, index);
        if (label >= 0 && (uint32_t)label < source->n_classes && wanted[label])
            eval->indices[count++] = index;
    }
    free(wanted);
    return rc ? rc : set_of(eval, count, out);
}

static int eval_range(const struct eval *eval, const struct view_node *node, struct idset **out)
{
    if (node->end > eval->source->count)
        return error_set(eval->err, LARDER_EINVAL, "subset: range: [%u, %u] ends beyond the dataset's %u samples",
                         node->first, node->end, eval->source->count);
    return idset_from_range(node->first, node->end, out) ? no_memory(eval) : 0;
}

/* An index's lot: a bijection of the index for each seed, so no two are equal. */
static uint64_t lot_of(uint64_t seed, uint32_t index)
{
    return random_mix64(random_mix64(seed) + index * UINT64_C(0x9e3779b97f4a7c15));
}

/* The largest of the k smallest lots (0 < k ≤ n), by their bits from the top: each step narrows them to one value of 16
 * bits more, so four passes over the indices and no memory for them. */
static int kth_lot(const struct eval *eval, uint64_t seed, uint32_t k, uint32_t *buckets, uint64_t *out)
{
    uint64_t prefix = 0;
    for (int shift = 48; shift >= 0; shift -= 16) {
        memset(buckets, 0, 65536 * sizeof *buckets);
        for (uint32_t index = 0; index < eval->source->count; index++) {
            int rc = interrupted_at(eval, index);
            if (rc)
                return rc;
            uint64_t lot = lot_of(seed, index);
            if (shift == 48 || lot >> (shift + 16) == prefix)
                buckets[lot >> shift & 0xffff]++;
        }
        uint32_t value = 0;
        for (; k > buckets[value]; value++)
            k -= buckets[value];
        prefix = prefix << 16 | value;
    }
    *out = prefix;
    return 0;
}

static int eval_fraction(const struct eval *eval, const struct view_node *node, struct idset **out)
{
    uint32_t n = eval->source->count, count = 0;
    uint64_t last = 0;
    int rc = 0;
    uint32_t k = (uint32_t)floor(node->fraction * n + 0.5);
    uint32_t *buckets = malloc(65536 * sizeof *buckets);
    if (buckets == NULL)
        return no_memory(eval);
    if (k > 0)
        rc = kth_lot(eval, node->seed, k, buckets, &last);
    for (uint32_t index = 0; k > 0 && rc == 0 && index < n; index++) {
        rc = interrupted_at(eval, index);
        if (lot_of(node->seed, index) <= last)
            eval->indices[count++] = index;
    }
    free(buckets);
    if (rc)
        return rc;
    CHECK(count == k);
    return set_of(eval, count, out);
}

static int eval_named(const struct eval *eval, const struct view_node *node, struct idset **out)
{
    uint32_t count = 0;
    int rc = (node->op == VIEW_LIST ? view_list_select : view_sets_select)(node->path, eval->source, eval->indices,
                                                                           &count, eval->err);
    return rc ? rc : set_of(eval, count, out);
}

static int eval_node(const struct eval *eval, const struct view_node *node, struct idset **out);

static int eval_parts(const struct eval *eval, const struct view_node *node, struct idset **out)
{
    struct idset *all = NULL;
    int rc = eval_node(eval, node->parts[0], &all);
    for (size_t i = 1; i < node->n_parts && rc == 0; i++) {
        struct idset *part, *both;
        rc = eval_node(eval, node->parts[i], &part);
        if (rc)
            break;
        int failed = node->op == VIEW_UNION          ? idset_union(all, part, &both)
                     : node->op == VIEW_INTERSECTION ? idset_intersection(all, part, &both)
                                                     : idset_difference(all, part, &both);
        idset_destroy(part);
        if (failed) {
            rc = no_memory(eval);
        } else {
            idset_destroy(all);
            all = both;
        }
    }
    if (rc)
        idset_destroy(all);
    else
        *out = all;
    return rc;
}

static int eval_node(const struct eval *eval, const struct view_node *node, struct idset **out)
{
    int rc = view_interrupted(eval->source, eval->err);
    if (rc)
        return rc;
    switch (node->op) {
    case VIEW_CLASSES: return eval_classes(eval, node, out);
    case VIEW_RANGE: return eval_range(eval, node, out);
    case VIEW_FRACTION: return eval_fraction(eval, node, out);
    case VIEW_LIST:
    case VIEW_SET: return eval_named(eval, node, out);
    default: return eval_parts(eval, node, out);
    }
}

static int by_id(const void *a, const void *b)
{
    sample_id x = *(const sample_id *)a, y = *(const sample_id *)b;
    return (x > y) - (x < y);
}

/* Ids of a dataset mostly ascend with its indices; only if they do not, they must be sorted. */
static int ids_of(const struct eval *eval, struct view_result *result)
{
    bool ascending = true;
    for (uint32_t i = 0; i < result->count; i++) {
        result->order[i] = eval->source->id(eval->source->dataset, result->indices[i]);
        ascending = ascending && (i == 0 || result->order[i - 1] < result->order[i]);
    }
    if (ascending)
        return idset_from_sorted(result->order, result->count, &result->ids) ? no_memory(eval) : 0;
    sample_id *sorted = malloc(result->count * sizeof *sorted);
    if (sorted == NULL)
        return no_memory(eval);
    memcpy(sorted, result->order, result->count * sizeof *sorted);
    qsort(sorted, result->count, sizeof *sorted, by_id);
    int rc = idset_from_sorted(sorted, result->count, &result->ids) ? no_memory(eval) : 0;
    free(sorted);
    return rc;
}

static int collect(const struct eval *eval, const struct idset *set, struct view_result *out)
{
    struct view_result result = {.count = (uint32_t)idset_count(set)};
    if (result.count == 0)
        return error_set(eval->err, LARDER_EINVAL, "subset: selects none of the dataset's %u samples",
                         eval->source->count);
    int rc = 0;
    result.indices = malloc(result.count * sizeof *result.indices);
    result.order = malloc(result.count * sizeof *result.order);
    if (result.indices == NULL || result.order == NULL) {
        rc = no_memory(eval);
        goto out;
    }
    idset_to_array(set, result.indices);
    rc = ids_of(eval, &result);
    if (rc)
        goto out;
    XXH128_hash_t hash = XXH3_128bits(result.indices, result.count * sizeof *result.indices);
    result.fingerprint[0] = hash.low64;
    result.fingerprint[1] = hash.high64;
    *out = result;
    return 0;

out:
    view_result_clear(&result);
    return rc;
}

int view_eval(const struct view *view, const struct view_source *source, struct view_result *out, struct error *err)
{
    struct eval eval = {.source = source, .err = err};
    eval.indices = malloc((source->count + UINT64_C(1)) * sizeof *eval.indices);
    if (eval.indices == NULL)
        return no_memory(&eval);
    struct idset *set = NULL;
    int rc;
    if (view)
        rc = eval_node(&eval, view->root, &set);
    else
        rc = idset_from_range(0, source->count, &set) ? no_memory(&eval) : 0;
    if (rc == 0)
        rc = view_interrupted(source, err);
    if (rc == 0)
        rc = collect(&eval, set, out);
    idset_destroy(set);
    free(eval.indices);
    return rc;
}

void view_result_clear(struct view_result *result)
{
    free(result->indices);
    free(result->order);
    idset_destroy(result->ids);
    memset(result, 0, sizeof *result);
}
