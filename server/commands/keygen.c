/* keygen.c: `larder cluster keygen`. */
#include "server/commands/keygen.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/identity.h"
#include "common/option.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { DAYS_DEFAULT = 825, DAYS_MAX = 7300 }; /* the authority itself lasts 7300 days */

struct keygen_arguments {
    const char *cluster, *authority, *node, *path;
    uint32_t days;
    bool days_given;
};

static const char keygen_usage[] =
    "usage: larder cluster keygen --cluster NAME --authority FILE\n"
    "       larder cluster keygen --authority FILE --node NODE [--days N] BUNDLE\n"
    "\n"
    "The first makes an authority for a cluster. The second has that authority sign a bundle for a node: its\n"
    "certificate, the authority's, and the node's key in one file. No file is ever overwritten, and all have mode "
    "0600.\n"
    "\n"
    "  --cluster NAME    the cluster's name, as in cluster.name of the configuration\n"
    "  --authority FILE  the authority's certificate and key; nodes do not need it, so keep it elsewhere\n"
    "  --node NODE       the node's name, as in cluster.node; another for each node\n"
    "  --days N          how long the bundle is valid, 1 to 7300; 825 if left out, never longer than the authority\n"
    "Names have 1 to 64 letters, digits, - _ and .\n"
    "exit status: 0 done, 1 failed, 2 wrong usage\n";

static bool read_days(const char *text, struct keygen_arguments *arguments)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long days = digits >= 1 && digits <= 4 && !text[digits] ? strtoul(text, NULL, 10) : 0;
    arguments->days = (uint32_t)days;
    arguments->days_given = true;
    return days >= 1 && days <= DAYS_MAX;
}

static int wrong_usage(const char *text)
{
    fprintf(stderr, "larder cluster keygen: %s: see larder cluster keygen --help\n", text);
    return EXIT_USAGE;
}

/* NULL: the options and words go together. */
static const char *find_wrong(const struct keygen_arguments *arguments)
{
    if (!arguments->authority)
        return "--authority FILE is missing";
    if (!arguments->cluster == !arguments->node)
        return "one of --cluster NAME (for an authority) and --node NODE (for a bundle) is needed";
    if (arguments->node && !arguments->path)
        return "the file of the node's bundle is missing";
    if (arguments->cluster && arguments->path)
        return "an authority is one file, that of --authority";
    if (arguments->cluster && arguments->days_given)
        return "--days is for a node's bundle";
    return NULL;
}

static int make(const struct keygen_arguments *arguments)
{
    struct error err;
    const char *path = arguments->node ? arguments->path : arguments->authority;
    int code = arguments->node ? net_identity_issue(arguments->authority, arguments->node, arguments->days, path, &err)
                               : net_identity_found(arguments->cluster, path, &err);
    if (code) {
        fprintf(stderr, "larder cluster keygen: %s\n", err.text);
        return EXIT_FAILED;
    }
    if (arguments->node)
        printf("%s: the bundle of %s\n", path, arguments->node);
    else
        printf("%s: the authority of %s; it signs the nodes' bundles, and no node needs it\n", path,
               arguments->cluster);
    return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}

int keygen_main(int argc, char **argv)
{
    struct keygen_arguments arguments = {.days = DAYS_DEFAULT};
    static const struct option known[] = {
        {"cluster", required_argument, NULL, 'c'}, {"authority", required_argument, NULL, 'a'},
        {"node", required_argument, NULL, 'n'},    {"days", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    option_begin(argv, "larder cluster keygen");
    for (int option; (option = option_next(argc, argv, known, NULL)) != -1;) {
        switch (option) {
        case 'c': arguments.cluster = optarg; break;
        case 'a': arguments.authority = optarg; break;
        case 'n': arguments.node = optarg; break;
        case 'd':
            if (!read_days(optarg, &arguments))
                return wrong_usage("--days is a whole number from 1 to 7300");
            break;
        case 'h': fputs(keygen_usage, stdout); return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
        default: return EXIT_USAGE;
        }
    }
    if (argc - optind > 1)
        return wrong_usage("more than one file");
    arguments.path = argv[optind]; /* argv ends with NULL */
    const char *wrong = find_wrong(&arguments);
    return wrong ? wrong_usage(wrong) : make(&arguments);
}
