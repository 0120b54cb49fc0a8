#include "server/commands.h"

#include <string.h>

#include "preprocess/commands.h"
#include "sampler/commands.h"
#include "server/bench_balance.h"
#include "server/bench_order.h"
#include "server/bench_sharing.h"
#include "server/config.h"
#include "server/store_commands.h"

struct command {
    const char *name, *second; /* second: the word after `bench`, else NULL */
    int (*run)(int argc, char **argv);
    const char *usage, *help;
};

static const struct command commands[] = {
    {"check", NULL, config_check_main, "check FILE", "check a configuration"},
    {"pack", NULL, pack_main, "pack SOURCE DEST", "pack a dataset into a chunk store"},
    {"prepare", NULL, prepare_main, "prepare FILE", "write what a job would get of an image, as PNG"},
    {"verify", NULL, verify_main, "verify STORE", "check every byte of a chunk store"},
    {"bench", "balance", balance_bench_main, "bench balance FILE", "run the governor on a scenario in virtual time"},
    {"bench", "prepare", prepare_bench_main, "bench prepare DIR", "time preparing against plain libjpeg-turbo"},
    {"bench", "order", order_bench_main, "bench order FILE", "compare a job's order with a full shuffle"},
    {"bench", "sharing", sharing_bench_main, "bench sharing FILE", "run a sharing scenario in virtual time"},
    {"bench", "tree", tree_bench_main, "bench tree", "time the sampler on large datasets"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

void commands_list(FILE *out)
{
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-20s %s\n", commands[i].usage, commands[i].help);
}

bool commands_run(int argc, char **argv, int *status)
{
    for (int i = 0; i < COMMANDS; i++) {
        const struct command *command = &commands[i];
        if (strcmp(argv[0], command->name) != 0)
            continue;
        if (command->second && (argc < 2 || strcmp(argv[1], command->second) != 0))
            continue;
        int skip = command->second != NULL;
        *status = command->run(argc - skip, argv + skip);
        return true;
    }
    return false;
}
