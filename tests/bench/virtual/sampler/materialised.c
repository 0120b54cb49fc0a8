/* materialised.c: see materialised_priv.h. Invariants of every level: `own` shares no id with the `common` of the next
 * level, which makes Sj the whole intersection; a vertex's count is that of its ids. */
#include "tests/bench/virtual/sampler/materialised_priv.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "sampler/dependent_priv.h"

/* ── vertices ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static struct vertex empty_vertex(void)
{
    struct vertex vertex = {0};
    CHECK(idset_create(&vertex.ids) == 0);
    return vertex;
}

static struct vertex copy_vertex(const struct idset *ids)
{
    struct vertex vertex = {.count = idset_count(ids)};
    CHECK(idset_copy(ids, &vertex.ids) == 0);
    return vertex;
}

static struct vertex intersection(const struct vertex *a, const struct vertex *b)
{
    struct vertex both = {0};
    CHECK(idset_intersection(a->ids, b->ids, &both.ids) == 0);
    both.count = idset_count(both.ids);
    return both;
}

static void replace(struct vertex *vertex, struct vertex by)
{
    idset_destroy(vertex->ids);
    *vertex = by;
}

static void add_all(struct vertex *vertex, const struct vertex *other)
{
    idset_add_all(vertex->ids, other->ids);
    vertex->count = idset_count(vertex->ids);
}

static void remove_all(struct vertex *vertex, const struct vertex *other)
{
    idset_remove_all(vertex->ids, other->ids);
    vertex->count = idset_count(vertex->ids);
}

static void add_id(struct vertex *vertex, sample_id id)
{
    idset_add(vertex->ids, id);
    vertex->count++;
}

static bool remove_id(struct vertex *vertex, sample_id id)
{
    if (!idset_contains(vertex->ids, id))
        return false;
    idset_remove(vertex->ids, id);
    vertex->count--;
    return true;
}

static sample_id draw(const struct vertex *vertex, uint64_t rank)
{
    sample_id id;
    CHECK(idset_select(vertex->ids, rank, &id));
    return id;
}

/* ── the tree ────────────────────────────────────────────────────────────────────────────────────────────────────── */

struct materialised *materialised_create(void)
{
    return xcalloc(1, sizeof(struct materialised));
}

void materialised_destroy(struct materialised *tree)
{
    if (tree == NULL)
        return;
    for (unsigned i = 0; i < tree->n; i++) {
        idset_destroy(tree->levels[i].common.ids);
        idset_destroy(tree->levels[i].own.ids);
    }
    free(tree);
}

static unsigned level_of(const struct materialised *tree, unsigned job)
{
    unsigned at = 0;
    while (at < tree->n && tree->levels[at].job != job)
        at++;
    CHECK(at < tree->n);
    return at;
}

struct idset *materialised_left(const struct materialised *tree, unsigned job)
{
    unsigned at = level_of(tree, job);
    struct idset *left;
    CHECK(idset_copy(tree->levels[at].own.ids, &left) == 0);
    for (unsigned i = 0; i <= at; i++)
        idset_add_all(left, tree->levels[i].common.ids);
    return left;
}

uint64_t materialised_bytes(const struct materialised *tree)
{
    uint64_t bytes = sizeof *tree;
    for (unsigned i = 0; i < tree->n; i++)
        bytes += idset_bytes(tree->levels[i].common.ids) + idset_bytes(tree->levels[i].own.ids);
    return bytes;
}

/* The paper's insertion of a larger job, at one level: of the inner vertex only what the job has too stays, the rest
 * goes down to both children, and the job goes on to the next level with the rest of its own. */
static void pass_level(struct materialised *tree, unsigned at, struct vertex *rest)
{
    struct level *level = &tree->levels[at];
    struct vertex both = intersection(&level->common, rest);
    remove_all(&level->common, &both);
    add_all(&level->own, &level->common);
    if (at + 1 < tree->n)
        add_all(&tree->levels[at + 1].common, &level->common);
    replace(&level->common, both);
    remove_all(rest, &both);
}

void materialised_insert(struct materialised *tree, unsigned job, const struct idset *left)
{
    CHECK(tree->n < JOBS_MAX);
    struct vertex rest = copy_vertex(left);
    unsigned at = 0;
    for (; at < tree->n && rest.count > tree->levels[at].common.count + tree->levels[at].own.count; at++)
        pass_level(tree, at, &rest);
    struct level added = {.job = job};
    if (at == tree->n) { /* the largest: the rest is the last vertex */
        added.common = rest;
        added.own = empty_vertex();
    } else { /* the paper's insertion of a smaller job: a new root above the subtree that is left */
        struct vertex *root = &tree->levels[at].common;
        added.common = intersection(root, &rest);
        added.own = rest;
        remove_all(&added.own, &added.common);
        remove_all(root, &added.common);
    }
    memmove(&tree->levels[at + 1], &tree->levels[at], (tree->n - at) * sizeof *tree->levels);
    tree->levels[at] = added;
    tree->n++;
}

/* Without a deleted job the intersections above it may be larger: what a leaf now shares with the vertex below its
 * parent goes up into the parent, beginning at the level before the deleted one. */
static void lift(struct materialised *tree, unsigned deleted)
{
    for (unsigned at = deleted; at-- > 0;) {
        if (at + 1 == tree->n)
            continue; /* the last job has no leaf */
        struct level *level = &tree->levels[at];
        struct vertex *below = &tree->levels[at + 1].common, both = intersection(&level->own, below);
        add_all(&level->common, &both);
        remove_all(&level->own, &both);
        remove_all(below, &both);
        idset_destroy(both.ids);
    }
}

/* The paper's deletion: the job's leaf goes, and its parent merges with its sibling. The sibling of the last job is
 * the leaf of the one before. */
void materialised_delete(struct materialised *tree, unsigned job)
{
    unsigned at = level_of(tree, job);
    struct level gone = tree->levels[at];
    if (at + 1 < tree->n) {
        add_all(&tree->levels[at + 1].common, &gone.common);
    } else if (at > 0) {
        add_all(&tree->levels[at - 1].common, &tree->levels[at - 1].own);
        replace(&tree->levels[at - 1].own, empty_vertex());
    }
    tree->n--;
    memmove(&tree->levels[at], &tree->levels[at + 1], (tree->n - at) * sizeof *tree->levels);
    idset_destroy(gone.common.ids);
    idset_destroy(gone.own.ids);
    lift(tree, at);
}

/* ── a round ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Brings the jobs into ascending order again: what counts changed since the last round. */
static void sort(struct materialised *tree)
{
    uint64_t common = 0, before = 0;
    for (unsigned at = 0; at < tree->n; at++) {
        common += tree->levels[at].common.count;
        uint64_t size = common + tree->levels[at].own.count;
        if (size < before) {
            unsigned job = tree->levels[at].job;
            struct idset *left = materialised_left(tree, job);
            materialised_delete(tree, job);
            materialised_insert(tree, job, left);
            idset_destroy(left);
            common = 0;
            for (unsigned i = 0; i <= at; i++)
                common += tree->levels[i].common.count;
            size = common + tree->levels[at].own.count;
        }
        before = size;
    }
}

/* A uniform draw from an intersection that is made of the inner vertices from `first` on: first the vertex, then the
 * sample in it. */
static sample_id draw_common(const struct materialised *tree, unsigned first, uint64_t rank)
{
    while (rank >= tree->levels[first].common.count)
        rank -= tree->levels[first++].common.count;
    return draw(&tree->levels[first].common, rank);
}

/* After the job of level `at` chose the intersection: each next one does with probability |D(i-1)'| / |Di'|. `common`
 * is |I|, made of the inner vertices down to `at`. Returns the level of the first job that does not. */
static unsigned follow(const struct materialised *tree, struct rng *rng, unsigned at, uint64_t common)
{
    uint64_t before = common + tree->levels[at].own.count;
    for (at++; at < tree->n; at++) {
        common += tree->levels[at].common.count;
        uint64_t size = common + tree->levels[at].own.count;
        if (random_below(rng, size) >= before)
            break;
        before = size;
    }
    return at;
}

size_t materialised_round(struct materialised *tree, struct rng *rng, struct pick *picks)
{
    sort(tree);
    size_t n_picks = 0;
    unsigned at = 0;
    while (at < tree->n && tree->levels[at].common.count + tree->levels[at].own.count == 0)
        at++; /* jobs with nothing left; the vertices down to them are empty */
    for (unsigned first = at; at < tree->n;) {
        const struct level *level = &tree->levels[at];
        uint64_t common = 0;
        for (unsigned i = first; i <= at; i++)
            common += tree->levels[i].common.count;
        unsigned next = at + 1;
        sample_id id;
        if (random_below(rng, common + level->own.count) < common) {
            next = follow(tree, rng, at, common);
            id = draw_common(tree, first, random_below(rng, common));
        } else {
            id = draw(&level->own, random_below(rng, level->own.count));
        }
        struct pick *pick = pick_of(picks, &n_picks, id);
        first = at + 1; /* the intersection that these left behind is nobody's any more in this round */
        for (; at < next; at++)
            jobset_add(&pick->jobs, tree->levels[at].job);
    }
    return n_picks;
}

/* ── one sample ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* An id lies in `common` of the level behind the last job that lacks it, and in `own` of those before that have it. */
void materialised_remove(struct materialised *tree, sample_id id, const struct jobset *jobs)
{
    unsigned first = tree->n, end = tree->n;
    for (unsigned at = 0; at < tree->n; at++)
        if (jobset_has(jobs, tree->levels[at].job) && !remove_id(&tree->levels[at].own, id)) {
            first = first < at ? first : at;
            end = at + 1;
        }
    if (first == tree->n)
        return;
    while (!remove_id(&tree->levels[first].common, id)) {
        CHECK(first > 0);
        first--;
    }
    for (unsigned at = first; at < end; at++)
        if (!jobset_has(jobs, tree->levels[at].job))
            add_id(&tree->levels[at].own, id);
    if (end < tree->n)
        add_id(&tree->levels[end].common, id);
}

void materialised_add(struct materialised *tree, unsigned job, sample_id id)
{
    unsigned at = level_of(tree, job);
    if (at + 1 < tree->n && !remove_id(&tree->levels[at + 1].common, id)) {
        add_id(&tree->levels[at].own, id);
        return;
    }
    while (at > 0 && remove_id(&tree->levels[at - 1].own, id))
        at--;
    add_id(&tree->levels[at].common, id);
}
