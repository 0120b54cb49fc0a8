#include "server/commands/commands.h"

#include <stdio.h>
#include <string.h>

#include "preprocess/commands.h"
#include "server/commands/keygen.h"
#include "server/commands/look.h"
#include "server/commands/probe.h"
#include "server/commands/storage.h"
#include "server/commands/store.h"
#include "server/config/config.h"
#include "server/plan/commands.h"

struct command {
    const char *name, *second; /* second is the word after `bench` or `cluster`, else NULL */
    int (*run)(int argc, char **argv);
    const char *usage, *help;
    const char *options; /* text that --help adds; NULL: the command has its own help */
};

static const struct command commands[] = {
    {"cache", NULL, cache_main, "cache PATH", "show, verify or empty a storage class", NULL},
    {"check", NULL, config_check_main, "check FILE", "check a configuration", NULL},
    {"cluster", "keygen", keygen_main, "cluster keygen", "make a cluster's authority, or a node's bundle", NULL},
    {"cluster", "probe", probe_main, "cluster probe", "whether a node of a cluster answers at an address", NULL},
    {"look", NULL, look_main, "look SOURCE", "what a dataset is, and how it will be read", NULL},
    {"pack", NULL, pack_main, "pack SOURCE DEST", "pack a dataset into a chunk store", NULL},
    {"plan", NULL, plan_main, "plan PATH", "measure a dataset's files, and say what memory and an SSD would save",
     NULL},
    {"prepare", NULL, prepare_main, "prepare FILE", "write what a job would get of an image, as PNG",
     "  --out PNG        the file to write; needed\n"
     "  --pipeline SPEC  as in the configuration, YAML or JSON; default: a random resized crop to 224 pixels, flipped "
     "or not\n"
     "  --seed N         of the random draws, from 0\n"
     "  --grid N         a sheet of N draws (4, 9, 16 …) instead of one\n"},
    {"verify", NULL, verify_main, "verify STORE", "check every byte of a chunk store", NULL},
    {"bench", "prepare", prepare_bench_main, "bench prepare DIR", "time preparing against plain libjpeg-turbo",
     "  --pipeline SPEC  as in the configuration, YAML or JSON; default: a random resized crop to 224 pixels, flipped "
     "or not\n"
     "  --seconds S      to measure for; default 10\n"
     "  --threads N      measure so many threads together as well\n"
     "  --restart-rows N the same JPEGs beside it, rewritten in memory with a restart marker after every N MCUs\n"
     "  --planes         the same JPEGs in bit planes beside it\n"},
    {"bench", "storage", storage_bench_main, "bench storage PATH", "time random reads of samples from a folder's disk",
     NULL},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

_Static_assert(COMMANDS <= COMMANDS_MAX, "the callers' arrays hold all of them");

size_t commands_rows(struct manual_row *rows)
{
    for (int i = 0; i < COMMANDS; i++)
        rows[i] = (struct manual_row){commands[i].usage, commands[i].help};
    return COMMANDS;
}

/* list_group lists the commands of two words that begin with argv[0]; without any it returns false. A second word that
 * is none of theirs, or none at all, is wrong usage. */
static bool list_group(int argc, char **argv, int *status)
{
    bool asked = argc == 2 && strcmp(argv[1], "--help") == 0, found = false;
    FILE *out = asked ? stdout : stderr;
    for (int i = 0; i < COMMANDS; i++) {
        const struct command *command = &commands[i];
        if (!command->second || strcmp(argv[0], command->name) != 0)
            continue;
        if (!found && argc > 1 && !asked)
            fprintf(out, "larder: there is no \"%s %s\"\n", argv[0], argv[1]);
        if (!found)
            fprintf(out, "usage: larder %s …, one of these; each has a --help:\n", argv[0]);
        fprintf(out, "  %-20s %s\n", command->usage, command->help);
        found = true;
    }
    if (found && strcmp(argv[0], "cluster") == 0)
        fprintf(out, "  %-20s %s\n  %-20s %s\n", "cluster status",
                "the nodes, and what they give each other; asks the daemon", "cluster leave",
                "give nothing more to the other nodes; asks the daemon");
    *status = asked ? 0 : 2;
    return found;
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
        if (command->options && argc == skip + 2 && strcmp(argv[skip + 1], "--help") == 0) {
            printf("usage: larder %s: %s\n%s", command->usage, command->help, command->options);
            *status = 0;
            return true;
        }
        *status = command->run(argc - skip, argv + skip);
        return true;
    }
    return list_group(argc, argv, status);
}
