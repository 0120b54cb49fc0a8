/* larder_bench: benches of the real engine, governor and sampler in virtual time (docs/internals/bench.md). It is
 * for those who change Larder, and is not installed. */
#include <stdio.h>
#include <string.h>

#include "tests/bench/virtual/balance.h"
#include "tests/bench/virtual/cluster.h"
#include "tests/bench/virtual/engine.h"
#include "tests/bench/virtual/nodes.h"
#include "tests/bench/virtual/order.h"
#include "tests/bench/virtual/sampler/commands.h"
#include "tests/bench/virtual/scale.h"
#include "tests/bench/virtual/sharing.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage, *help;
    const char *options; /* what --help adds */
};

static const struct command commands[] = {
    {"balance", balance_bench_main, "balance FILE", "run the governor on a scenario in virtual time",
     "  --governor auto | fixed:L,P | dealt:L,P | shared:L,P   who moves the threads; default auto\n"
     "  --compare                                   with every fixed split; fails where the scenario asks for more\n"
     "The scenario files are described in docs/internals/governor.md.\n"},
    {"cluster", cluster_bench_main, "cluster FILE", "run a sharing scenario on the nodes of a cluster",
     "  --paper          instead of FILE: the rule of Redox and Brand against their figures, and Larder's beside it\n"
     "  --json           with --paper: instead of a table\n"
     "  --short          after --json: two rows of Larder's\n"
     "The scenario files are described in docs/internals/bench.md.\n"},
    {"engine", engine_bench_main, "engine", "time the engine for each sample that it delivers",
     "  --samples N      in the dataset; default 50000\n"
     "  --jobs N         measure with 1, 4, 16 and 64 jobs, but no more than N\n"},
    {"nodes", nodes_bench_main, "nodes FILE", "compare ten loading policies on several nodes, by a model",
     "  --json           instead of a table\n"
     "The scenario files are described in docs/internals/bench.md.\n"},
    {"order", order_bench_main, "order FILE", "compare a job's order with a full shuffle",
     "FILE is a scenario as for `larder_bench sharing`, with one job on all samples (docs/internals/bench.md).\n"},
    {"scale", scale_bench_main, "scale", "time the engine's longest steps on datasets of several sizes",
     "  --samples N,N…   in the datasets; default 10000,100000,1000000\n"},
    {"sharing", sharing_bench_main, "sharing FILE", "run a sharing scenario in virtual time",
     "  --seneca         by the rule of Seneca instead of the engine; the scenario says costs\n"
     "  --split E,D,A    with --seneca: hundredths of memory for encoded, decoded and augmented samples\n"
     "The scenario files are described in docs/internals/bench.md.\n"},
    {"tree", tree_bench_main, "tree", "time the sampler on large datasets",
     "  --datasets N     from 1 to 256\n"
     "  --min A, --max B ids in a dataset, drawn from A to B\n"
     "  --universe U     ids that there are, at least B\n"
     "  --seed S         of the datasets and the draws\n"
     "  --rounds R       of draws for each number of jobs\n"
     "  --materialised   beside a tree that stores its vertices (docs/internals/tree.md)\n"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int usage(FILE *out, int status)
{
    fprintf(out, "usage: larder_bench …, one of these; each has a --help:\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-16s %s\n", commands[i].usage, commands[i].help);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return usage(stderr, 2);
    if (strcmp(argv[1], "--help") == 0)
        return usage(stdout, 0);
    for (int i = 0; i < COMMANDS; i++) {
        const struct command *command = &commands[i];
        if (strcmp(argv[1], command->name) != 0)
            continue;
        if (argc != 3 || strcmp(argv[2], "--help") != 0)
            return command->run(argc - 1, argv + 1);
        printf("usage: larder_bench %s: %s\n%s", command->usage, command->help, command->options);
        return 0;
    }
    fprintf(stderr, "larder_bench: there is no \"%s\"\n", argv[1]);
    return usage(stderr, 2);
}
