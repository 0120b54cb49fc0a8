/* multiset.c: see multiset.h. Weights are kept as whole numbers, so that no rounding differs between machines. */
#include "sampler/multiset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/random.h"

/* The weights of a multiset sum up to about this. A weight that is a 2^-52nd of the sum has still ten bits. */
#define WEIGHTS_SUM 0x1p62
/* An epoch of more draws by weight is drawn by halves. Fewer are drawn one by one, as earlier versions drew all. */
#define ONE_BY_ONE_MAX 65536
/* By halves the sum must be below a power of 2, however it is rounded. States of earlier versions are then refused,
 * because another sum makes another digest. */
#define HALVES_BITS 62
#define HALVES_SUM (0x1p62 - 0x1p52)
/* A range of numbers on which fewer draws fall is not halved: finding each takes less time. */
#define HALVED_MIN 17
/* Keeps these draws apart from others of the same seed and epoch. */
#define MULTISET_KEY UINT64_C(0x6d756c7469736574)

struct multiset {
    enum multiset_kind kind;
    uint32_t copies, count;
    uint64_t draws, seed, digest;
    sample_id *ids;
    /* weights: ends[i] is the sum of the first i + 1 weights. A number below the sum belongs to the first sample whose
     * end is above it. */
    uint64_t *ends;
    uint32_t *classes; /* balanced: the class of each sample, 0, 1, 2 … in the order in which they first come */
    uint32_t n_classes;
    uint32_t *counts; /* given */
    bool together;
};

static int no_memory(uint32_t count, struct error *err)
{
    return error_set(err, LARDER_ENOMEM, "no memory for how often each of %u samples comes: free memory", count);
}

/* ── weights ── */

static int check_weights(const struct multiset_spec *spec, double *sum, struct error *err)
{
    *sum = 0;
    for (uint32_t i = 0; i < spec->count; i++) {
        if (!isfinite(spec->weights[i]) || spec->weights[i] < 0)
            return error_set(err, LARDER_EINVAL,
                             "the weight of sample %u of the subset is %g: weights are finite numbers, 0 or more", i,
                             spec->weights[i]);
        *sum += spec->weights[i];
    }
    if (!isfinite(*sum) || *sum <= 0)
        return error_set(err, LARDER_EINVAL, "the weights of the subset's samples sum up to %g: some must be above 0",
                         *sum);
    return 0;
}

/* A sample whose weight is above 0 keeps one. */
static uint64_t whole_weight(double weight, double sum, double whole_sum)
{
    uint64_t whole = (uint64_t)(weight / sum * whole_sum);
    return whole == 0 && weight > 0 ? 1 : whole;
}

static int take_weights(struct multiset *multiset, const struct multiset_spec *spec, struct error *err)
{
    double sum, whole_sum = multiset->draws > ONE_BY_ONE_MAX ? HALVES_SUM : WEIGHTS_SUM;
    int rc = check_weights(spec, &sum, err);
    if (rc)
        return rc;
    multiset->ends = malloc(spec->count * sizeof *multiset->ends);
    if (!multiset->ends)
        return no_memory(spec->count, err);
    uint64_t total = 0;
    for (uint32_t i = 0; i < spec->count; i++)
        multiset->ends[i] = total += whole_weight(spec->weights[i], sum, whole_sum);
    return 0;
}

/* owner_of returns the sample to which a number belongs, one of first … last. `last` may be the count of samples, which
 * stands for none: the owner of numbers that are not below the sum. */
static uint32_t owner_of(const struct multiset *multiset, uint64_t number, uint32_t first, uint32_t last)
{
    while (first < last) {
        uint32_t middle = first + (last - first) / 2;
        if (multiset->ends[middle] > number)
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

/* The 2^bits numbers that begin with `from`, and the owners of the first and the last of them. Of one number they are
 * the same, so it is not halved. */
struct range {
    uint64_t from;
    unsigned bits;
    uint32_t first, last;
};

struct drawing {
    const struct multiset *multiset;
    struct rng *rng;
    uint32_t *room;
    uint64_t outside; /* draws of numbers that have no owner */
};

static void count_draws(struct drawing *drawing, uint32_t owner, uint64_t draws)
{
    if (owner < drawing->multiset->count)
        drawing->room[owner] += (uint32_t)draws;
    else
        drawing->outside += draws;
}

/* heads tosses a fair coin so many times, a bit each, and returns how often it fell on heads. */
static uint64_t heads(struct rng *rng, uint64_t tosses)
{
    uint64_t sum = 0;
    for (; tosses >= 64; tosses -= 64)
        sum += (uint64_t)__builtin_popcountll(random_u64(rng));
    return tosses ? sum + (uint64_t)__builtin_popcountll(random_u64(rng) >> (64 - tosses)) : sum;
}

/* draw_range counts draws of numbers that are uniform over the range. Each falls on the upper half as a coin falls on
 * heads, so halves are cut until a range has one owner, or few draws. It recurses once a bit at most. */
static void draw_range(struct drawing *drawing, struct range range, uint64_t draws)
{
    const struct multiset *multiset = drawing->multiset;
    while (range.first < range.last && draws >= HALVED_MIN) {
        uint64_t above = heads(drawing->rng, draws);
        struct range below = {.from = range.from, .bits = --range.bits, .first = range.first};
        range.from += UINT64_C(1) << range.bits;
        below.last = owner_of(multiset, range.from - 1, range.first, range.last);
        range.first = owner_of(multiset, range.from, below.last, range.last);
        draw_range(drawing, below, draws - above);
        draws = above;
    }
    if (range.first == range.last)
        count_draws(drawing, range.first, draws);
    for (uint64_t n = 0; range.first < range.last && n < draws; n++) {
        uint64_t number = range.from + random_below(drawing->rng, UINT64_C(1) << range.bits);
        count_draws(drawing, owner_of(multiset, number, range.first, range.last), 1);
    }
}

/* draw_by_weight takes numbers below the sum, one for each draw. Those of many draws it takes from as many as the next
 * power of 2, and takes those anew that are not below the sum, until few are left. */
static void draw_by_weight(const struct multiset *multiset, struct rng *rng, uint32_t *room)
{
    uint64_t total = multiset->ends[multiset->count - 1], left = multiset->draws;
    struct range whole = {
        .bits = HALVES_BITS, .first = owner_of(multiset, 0, 0, multiset->count - 1), .last = multiset->count};
    while (left > ONE_BY_ONE_MAX) {
        CHECK(total < UINT64_C(1) << HALVES_BITS);
        struct drawing drawing = {.multiset = multiset, .rng = rng, .room = room};
        draw_range(&drawing, whole, left);
        left = drawing.outside;
    }
    for (; left > 0; left--)
        room[owner_of(multiset, random_below(rng, total), 0, multiset->count - 1)]++;
}

/* ── classes ── */

static int take_classes(struct multiset *multiset, const struct multiset_spec *spec, struct error *err)
{
    int32_t most = 0;
    for (uint32_t i = 0; i < spec->count; i++) {
        if (spec->labels[i] < 0)
            return error_set(err, LARDER_EINVAL, "sample %u of the subset has no class", i);
        most = spec->labels[i] > most ? spec->labels[i] : most;
    }
    uint32_t *number = malloc(((size_t)most + 1) * sizeof *number);
    multiset->classes = malloc(spec->count * sizeof *multiset->classes);
    if (!number || !multiset->classes) {
        free(number);
        return no_memory(spec->count, err);
    }
    memset(number, 0xff, ((size_t)most + 1) * sizeof *number);
    for (uint32_t i = 0; i < spec->count; i++) {
        if (number[spec->labels[i]] == UINT32_MAX)
            number[spec->labels[i]] = multiset->n_classes++;
        multiset->classes[i] = number[spec->labels[i]];
    }
    free(number);
    return 0;
}

/* A class of which n draws are to come and which has k samples: each comes n / k times, and n % k of them, chosen at
 * random, once more. */
struct class_share {
    uint64_t draws;
    uint32_t left; /* samples that were not looked at yet */
    uint32_t size;
    uint32_t more; /* samples, of those left, that come once more */
};

/* share_classes deals the draws to the classes. Those that get one more are chosen at random. */
static void share_classes(const struct multiset *multiset, struct rng *rng, struct class_share *shares)
{
    uint32_t more = (uint32_t)(multiset->draws % multiset->n_classes);
    for (uint32_t i = 0; i < multiset->count; i++)
        shares[multiset->classes[i]].size++;
    for (uint32_t i = 0; i < multiset->n_classes; i++) {
        bool one_more = random_below(rng, multiset->n_classes - i) < more;
        more -= one_more;
        shares[i].draws = multiset->draws / multiset->n_classes + one_more;
        shares[i].left = shares[i].size;
        shares[i].more = (uint32_t)(shares[i].draws % shares[i].size);
    }
}

static int draw_balanced(const struct multiset *multiset, struct rng *rng, uint32_t *room)
{
    struct class_share *shares = calloc(multiset->n_classes, sizeof *shares);
    if (!shares)
        return LARDER_ENOMEM;
    share_classes(multiset, rng, shares);
    for (uint32_t i = 0; i < multiset->count; i++) {
        struct class_share *share = &shares[multiset->classes[i]];
        bool one_more = random_below(rng, share->left--) < share->more;
        share->more -= one_more;
        room[i] = (uint32_t)(share->draws / share->size) + one_more;
    }
    free(shares);
    return 0;
}

/* ── making ── */

static uint64_t sum_of(const uint32_t *counts, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += counts[i];
    return sum;
}

/* draws_of returns the draws of an epoch. */
static uint64_t draws_of(const struct multiset_spec *spec)
{
    if (spec->kind == MULTISET_REPEAT)
        return (uint64_t)spec->count * spec->copies;
    if (spec->kind == MULTISET_GIVEN)
        return sum_of(spec->counts, spec->count);
    return spec->draws ? spec->draws : spec->count;
}

static int check_spec(const struct multiset_spec *spec, struct error *err)
{
    uint64_t draws = draws_of(spec);
    if (spec->kind == MULTISET_REPEAT && (spec->copies < 2 || spec->copies > MULTISET_COPIES_MAX))
        return error_set(err, LARDER_EINVAL, "repeat is %u, not 2 to %d", spec->copies, MULTISET_COPIES_MAX);
    if (draws == 0 || draws > MULTISET_DRAWS_MAX)
        return error_set(err, LARDER_EINVAL, "an epoch has %llu draws, and may have 1 to %u", (unsigned long long)draws,
                         MULTISET_DRAWS_MAX);
    for (uint32_t i = 0; spec->kind == MULTISET_GIVEN && spec->together && i < spec->count; i++) {
        if (spec->counts[i] > MULTISET_COPIES_MAX)
            return error_set(err, LARDER_EINVAL, "%u copies of a sample are to be dealt together, and may be %d",
                             spec->counts[i], MULTISET_COPIES_MAX);
    }
    return 0;
}

static uint64_t digest_of(const struct multiset *multiset, const struct multiset_spec *spec)
{
    bool drawn = spec->kind != MULTISET_REPEAT;
    uint64_t numbers[] = {spec->kind, multiset->copies, drawn ? multiset->draws : 0, drawn ? spec->seed : 0};
    uint64_t digest = XXH3_64bits(numbers, sizeof numbers);
    if (multiset->counts)
        return XXH3_64bits_withSeed(multiset->counts, spec->count * sizeof *multiset->counts, digest);
    return multiset->ends ? XXH3_64bits_withSeed(multiset->ends, spec->count * sizeof *multiset->ends, digest) : digest;
}

static int take_counts(struct multiset *multiset, const struct multiset_spec *spec, struct error *err)
{
    multiset->counts = malloc(spec->count * sizeof *multiset->counts);
    if (!multiset->counts)
        return no_memory(spec->count, err);
    memcpy(multiset->counts, spec->counts, spec->count * sizeof *multiset->counts);
    return 0;
}

int multiset_create(const struct multiset_spec *spec, struct multiset **out, struct error *err)
{
    CHECK(spec->count > 0 && spec->kind != MULTISET_NONE);
    int rc = check_spec(spec, err);
    if (rc)
        return rc;
    struct multiset *multiset = calloc(1, sizeof *multiset);
    if (!multiset || !(multiset->ids = malloc(spec->count * sizeof *multiset->ids))) {
        multiset_destroy(multiset);
        return no_memory(spec->count, err);
    }
    memcpy(multiset->ids, spec->ids, spec->count * sizeof *multiset->ids);
    multiset->kind = spec->kind;
    multiset->count = spec->count;
    multiset->seed = spec->seed;
    multiset->copies = spec->kind == MULTISET_REPEAT ? spec->copies : 0;
    multiset->draws = draws_of(spec);
    multiset->together = spec->kind == MULTISET_REPEAT || (spec->kind == MULTISET_GIVEN && spec->together);
    if (spec->kind == MULTISET_GIVEN)
        rc = take_counts(multiset, spec, err);
    if (spec->kind == MULTISET_WEIGHTS)
        rc = take_weights(multiset, spec, err);
    if (spec->kind == MULTISET_BALANCED)
        rc = take_classes(multiset, spec, err);
    if (rc) {
        multiset_destroy(multiset);
        return rc;
    }
    multiset->digest = digest_of(multiset, spec);
    *out = multiset;
    return 0;
}

void multiset_destroy(struct multiset *multiset)
{
    if (!multiset)
        return;
    free(multiset->ids);
    free(multiset->ends);
    free(multiset->classes);
    free(multiset->counts);
    free(multiset);
}

uint64_t multiset_draws(const struct multiset *multiset)
{
    return multiset->draws;
}

bool multiset_is_together(const struct multiset *multiset)
{
    return multiset->together;
}

uint64_t multiset_digest(const struct multiset *multiset)
{
    return multiset->digest;
}

const sample_id *multiset_ids(const struct multiset *multiset, uint32_t *count)
{
    *count = multiset->count;
    return multiset->ids;
}

int multiset_epoch(const struct multiset *multiset, uint32_t epoch, uint32_t *room)
{
    struct rng rng;
    random_seed_keys(&rng, multiset->seed, epoch, MULTISET_KEY, 0);
    for (uint32_t i = 0; i < multiset->count; i++)
        room[i] = multiset->counts ? multiset->counts[i] : multiset->copies;
    if (multiset->kind == MULTISET_WEIGHTS)
        draw_by_weight(multiset, &rng, room);
    return multiset->kind == MULTISET_BALANCED ? draw_balanced(multiset, &rng, room) : 0;
}
