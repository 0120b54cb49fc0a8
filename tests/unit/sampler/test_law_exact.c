/* test_law_exact.c: the daemon's walk and the materialised tree give every outcome of a round the same probability:
 * not counted, but worked out by going through all values that the random numbers of a round can have.
 *
 * The sampler's files are built here with `random_below` renamed to `chosen_below`. A round is run again and again,
 * each time with the next combination of values; a combination's probability is the product of 1 / bound. That ends,
 * since DEPENDENT_TRIES is small here: after so many tries the walk counts (0: at once; 1: after one of each kind). */
#include "tests/unit/sampler/family.h"

#include "sampler/dependent_priv.h"

#define HISTORIES (4000 >> 3 * DEPENDENT_TRIES) /* each try multiplies the combinations */
#define EVENTS 25
#define CHOICES_MAX 64
#define COMBINATIONS_MAX 20000000u
#define TOLERANCE 1e-9 /* of sums of up to millions of products in double precision */

/* ── all combinations ────────────────────────────────────────────────────────────────────────────────────────────── */

static struct {
    bool on; /* otherwise chosen_below is random_below */
    unsigned n, at;
    uint64_t value[CHOICES_MAX], bound[CHOICES_MAX];
    double probability;
} choices;

uint64_t chosen_below(struct rng *rng, uint64_t bound);
uint64_t chosen_below(struct rng *rng, uint64_t bound)
{
    if (!choices.on)
        return random_below(rng, bound);
    if (choices.at == choices.n) {
        assert_in_range(choices.n, 0, CHOICES_MAX - 1);
        choices.value[choices.n] = 0;
        choices.bound[choices.n++] = bound;
    }
    assert_int_equal(choices.bound[choices.at], bound);
    choices.probability /= (double)bound;
    return choices.value[choices.at++];
}

/* The combination after the one that was used: the last value that can still grow does, and those behind it are open
 * again. False when there is none. */
static bool next_combination(void)
{
    while (choices.n && ++choices.value[choices.n - 1] == choices.bound[choices.n - 1])
        choices.n--;
    return choices.n > 0;
}

typedef size_t round_fn(void *context, struct pick *picks);

static void work_out(round_fn *round, void *context, double *law)
{
    struct pick picks[JOBS_MAX];
    unsigned combinations = 0;
    memset(law, 0, FAMILY_OUTCOMES * sizeof *law);
    choices.on = true;
    choices.n = 0;
    do {
        choices.at = 0;
        choices.probability = 1;
        size_t n_picks = round(context, picks);
        law[outcome_of(picks, n_picks)] += choices.probability;
        assert_true(++combinations < COMBINATIONS_MAX);
    } while (next_combination());
    choices.on = false;
}

/* ── the two rounds ──────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t tree_round(void *context, struct pick *picks)
{
    struct family *family = context;
    return materialised_round(family->tree, &family->rng, picks);
}

struct walkers {
    unsigned n;
    struct contender jobs[FAMILY_JOBS];
};

static size_t walk_round(void *context, struct pick *picks)
{
    struct walkers *walkers = context;
    return dependent_round(NULL, walkers->jobs, walkers->n, picks);
}

/* The same jobs in the same order for the daemon's walk: where sizes are equal the order matters to the law. */
static struct walkers make_walkers(const struct family *family)
{
    struct walkers walkers = {0};
    for (unsigned at = 0; at < family->tree->n; at++) {
        unsigned job = family->tree->levels[at].job;
        if (family->jobs[job].left == 0)
            continue;
        struct contender *contender = &walkers.jobs[walkers.n++];
        struct idset *left = idset_of(family->jobs[job].left);
        contender->job = job;
        assert_int_equal(remaining_create(left, &contender->set), 0);
        remaining_refill(contender->set);
        idset_destroy(left);
    }
    return walkers;
}

static bool lawful(const double *law)
{
    double sum = 0;
    for (size_t i = 0; i < FAMILY_OUTCOMES; i++)
        sum += law[i];
    return fabs(sum - 1) < TOLERANCE;
}

/* Both laws of the next round; returns the largest difference of an outcome's probabilities. */
static double difference(struct family *family)
{
    static double tree_law[FAMILY_OUTCOMES], walk_law[FAMILY_OUTCOMES];
    work_out(tree_round, family, tree_law);
    struct walkers walkers = make_walkers(family);
    work_out(walk_round, &walkers, walk_law);
    for (unsigned i = 0; i < walkers.n; i++)
        remaining_destroy(walkers.jobs[i].set);
    assert_true(lawful(tree_law) && lawful(walk_law));
    double largest = 0;
    for (size_t i = 0; i < FAMILY_OUTCOMES; i++)
        largest = fmax(largest, fabs(tree_law[i] - walk_law[i]));
    return largest;
}

static void check_law(struct family *family, uint64_t number)
{
    double most = difference(family);
    if (most > TOLERANCE)
        fail_msg("%llu: %#x %#x %#x %#x: an outcome's probabilities differ by %g", (unsigned long long)number,
                 family->jobs[0].left, family->jobs[1].left, family->jobs[2].left, family->jobs[3].left, most);
}

/* Three jobs with any three sets of four samples have one law in both. */
static void test_all_small_families(void **state)
{
    (void)state;
    for (unsigned number = 0; number < 1u << 12; number++) {
        struct family family = make_family(number);
        for (unsigned job = 0; job < 3; job++)
            if (number >> 4 * job & 15)
                insert_job(&family, job, number >> 4 * job & 15);
        check_law(&family, number);
        materialised_destroy(family.tree);
    }
}

/* After any history of insertions, deletions, rounds, samples that change hands, flips of the order and ends of
 * epochs, with sizes equal or not, the next round has one law. */
static void test_every_outcome_is_as_likely(void **state)
{
    (void)state;
    uint64_t seed = test_seed(70 + DEPENDENT_TRIES);
    unsigned of_all = 0;
    for (uint64_t i = 0; i < HISTORIES; i++) {
        struct family family = make_family(seed + i);
        for (uint64_t events = 1 + random_below(&family.rng, EVENTS); events; events--)
            play_event(&family);
        check_law(&family, i);
        of_all += family.tree->n == FAMILY_JOBS;
        materialised_destroy(family.tree);
    }
    assert_true(of_all > HISTORIES / 4);
}

/* A tree that only merged two vertices when a job was deleted would be found out: sample 0, which the two jobs that
 * are left have in common, is moved back to their own vertices, where the merge alone would leave it. */
static void test_the_comparison_finds_a_smaller_intersection(void **state)
{
    (void)state;
    struct family family = make_family(1);
    static const unsigned masks[] = {1 | 2, 2 | 4 | 8, 1 | 2 | 4 | 16};
    for (unsigned job = 0; job < 3; job++)
        insert_job(&family, job, masks[job]);
    delete_job(&family, 1);
    assert_true(difference(&family) < TOLERANCE);
    struct level *levels = family.tree->levels;
    idset_remove(levels[0].common.ids, family_ids[0]);
    levels[0].common.count--;
    idset_add(levels[0].own.ids, family_ids[0]);
    levels[0].own.count++;
    idset_add(levels[1].common.ids, family_ids[0]);
    levels[1].common.count++;
    assert_true(difference(&family) > 0.05);
    materialised_destroy(family.tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_small_families),
        cmocka_unit_test(test_every_outcome_is_as_likely),
        cmocka_unit_test(test_the_comparison_finds_a_smaller_intersection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
