/* main.c: simulate_cluster --seeds FIRST LAST [--home | --slow] [--spoil NAME] [--twice LAST] [--verbose] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

#define ALARM_ODDS 1e-6 /* that a chi-square of UNIFORM_FREEDOM degrees of freedom is above UNIFORM_MOST */
#define UNIFORM_MOST 58.3

/* Each wrong deed, the rule that must find it in some run, and how many of 100 runs in which it was done must show it.
 * A training of one epoch cannot show that its guests are no family. */
static const struct {
    const char *name;
    enum cluster_rule rule;
    uint32_t least;
} spoils[SPOIL_ALL] = {
    {"none", RULE_NONE, 50},     {"taken", RULE_SHARE, 100},  {"acked", RULE_SEQ, 50},   {"bytes", RULE_BYTES, 100},
    {"back", RULE_SHARE, 100},   {"part", RULE_SHARE, 100},   {"keys", RULE_ETCD, 100},  {"terms", RULE_INSTANCE, 50},
    {"other", RULE_SEQ, 100},    {"last", RULE_SHARE, 100},   {"stay", RULE_LEFT, 50},   {"deal", RULE_DEAL, 100},
    {"order", RULE_UNIFORM, 50}, {"homes", RULE_UNIFORM, 50}, {"away", RULE_SHARE, 100}, {"both", RULE_SHARE, 100},
    {"kin", RULE_INSTANCE, 10},  {"length", RULE_BYTES, 50},  {"stir", RULE_DEAL, 50},   {"stray", RULE_HOME, 25},
    {"leave", RULE_HOME, 25},    {"keep", RULE_SLOW, 25},     {"flee", RULE_SLOW, 50}};

struct options {
    uint64_t first, last, twice; /* up to `twice` each seed is run twice */
    enum cluster_spoil spoil;
    enum cluster_kind kind;
    bool verbose;
};

struct sums {
    uint64_t seeds, failures, spoiled, found, samples, received, refused, moved, back, messages;
    uint64_t most_stall_ns, found_by[RULES];
    struct uniform uniform;
};

static bool is_option(char **argv, const char *name)
{
    return strcmp(*argv, name) == 0;
}

static bool read_options(int argc, char **argv, struct options *options)
{
    *options = (struct options){.first = 1, .last = 100};
    for (int i = 1; i < argc; i++) {
        if (is_option(&argv[i], "--seeds") && i + 2 < argc) {
            options->first = strtoull(argv[++i], NULL, 10);
            options->last = strtoull(argv[++i], NULL, 10);
        } else if (is_option(&argv[i], "--spoil") && i + 1 < argc) {
            i++;
            while (options->spoil < SPOIL_ALL && strcmp(spoils[options->spoil].name, argv[i]) != 0)
                options->spoil++;
            if (options->spoil == SPOIL_ALL)
                return false;
        } else if (is_option(&argv[i], "--home")) {
            options->kind = KIND_HOME;
        } else if (is_option(&argv[i], "--slow")) {
            options->kind = KIND_SLOW;
        } else if (is_option(&argv[i], "--twice") && i + 1 < argc) {
            options->twice = strtoull(argv[++i], NULL, 10);
        } else if (is_option(&argv[i], "--verbose")) {
            options->verbose = true;
        } else {
            return false;
        }
    }
    return options->first <= options->last;
}

static void tell(const struct cluster *cluster)
{
    printf("seed %llu: rule %d: %s\n  at %.3f s; %u nodes, %u jobs, faults %u\n", (unsigned long long)cluster->seed,
           (int)cluster->broken, cluster->text, (double)fleet_now(cluster->fleet) / 1e9, cluster->n_nodes,
           cluster->n_trainers, cluster->faults);
}

static void add(struct sums *sums, const struct cluster *cluster)
{
    struct fleet_counts counts = fleet_counts(cluster->fleet);
    sums->seeds++;
    sums->samples += cluster->samples;
    sums->received += counts.received;
    sums->refused += counts.refused;
    sums->moved += counts.moved;
    sums->back += counts.back;
    sums->messages += counts.messages;
    sums->spoiled += cluster->spoiled;
    sums->found += cluster->spoiled && cluster->broken;
    sums->found_by[cluster->broken] += cluster->spoiled;
    uniform_add(&sums->uniform, &cluster->uniform);
    if (cluster->most_stall_ns > sums->most_stall_ns)
        sums->most_stall_ns = cluster->most_stall_ns;
}

static void run_seed(const struct options *options, uint64_t seed, struct sums *sums)
{
    static struct cluster cluster, again;
    enum cluster_rule rule = cluster_run(&cluster, seed, options->spoil, options->kind);
    if (seed <= options->twice && !rule) {
        rule = cluster_run(&again, seed, options->spoil, options->kind);
        if (again.hash != cluster.hash)
            cluster_break(&cluster, rule = RULE_SAME, "the second run went otherwise");
        cluster_end(&again);
    }
    add(sums, &cluster);
    sums->failures += rule != RULE_NONE;
    if ((rule && !options->spoil) || options->verbose)
        tell(&cluster);
    cluster_end(&cluster);
}

/* judge judges what all runs drew together. */
static bool judge(struct sums *sums)
{
    double chi_square = uniform_chi_square(&sums->uniform);
    if (chi_square < 0) {
        printf("draws: too few to judge whether they are uniform\n");
        return true;
    }
    bool fine = chi_square <= UNIFORM_MOST;
    printf("draws: chi-square %.1f of %d degrees of freedom, above %.1f once in %.0f\n", chi_square, UNIFORM_FREEDOM,
           UNIFORM_MOST, 1 / ALARM_ODDS);
    if (!fine)
        printf("rule %d: draws are not uniform over what is left, or homes are not drawn in proportion\n",
               RULE_UNIFORM);
    return fine;
}

static bool tell_found(const struct options *options, const struct sums *sums)
{
    printf("%s: done in %llu runs, found in %llu", spoils[options->spoil].name, (unsigned long long)sums->spoiled,
           (unsigned long long)sums->found);
    for (int rule = 1; rule < RULES; rule++) {
        if (sums->found_by[rule])
            printf(", by rule %d in %llu", rule, (unsigned long long)sums->found_by[rule]);
    }
    printf("\n");
    uint64_t least = (sums->spoiled * spoils[options->spoil].least + 99) / 100;
    return sums->found_by[spoils[options->spoil].rule] > 0 && sums->found >= least;
}

int main(int argc, char **argv)
{
    struct options options;
    struct sums sums = {0};
    struct timespec begin, end;
    if (!read_options(argc, argv, &options)) {
        fprintf(stderr, "usage: simulate_cluster --seeds FIRST LAST [--home | --slow] [--spoil NAME] [--twice LAST] "
                        "[--verbose]\n");
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t seed = options.first; seed <= options.last && (options.spoil || sums.failures < 10); seed++)
        run_seed(&options, seed, &sums);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    printf("%llu seeds, %llu failures, %.1f s: %llu samples (%.0f a second), %llu from other nodes, %llu refused, %llu "
           "moved, %llu back, %llu messages; longest stall %.1f s\n",
           (unsigned long long)sums.seeds, (unsigned long long)sums.failures, took, (unsigned long long)sums.samples,
           (double)sums.samples / took, (unsigned long long)sums.received, (unsigned long long)sums.refused,
           (unsigned long long)sums.moved, (unsigned long long)sums.back, (unsigned long long)sums.messages,
           (double)sums.most_stall_ns / 1e9);
    bool uniform = judge(&sums);
    if (!options.spoil)
        return sums.failures || !uniform ? 1 : 0;
    if (options.spoil == SPOIL_ORDER || options.spoil == SPOIL_HOMES) /* no run tells by itself */
        return sums.spoiled && !uniform && !sums.failures ? 0 : 1;
    return tell_found(&options, &sums) ? 0 : 1;
}
