/* plan_options.c: the options of `larder plan`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/option.h"
#include "server/config/config.h"
#include "server/plan/commands_priv.h"

static const char plan_usage[] =
    "usage: larder plan PATH [options]\n"
    "\n"
    "Measures some of the files of the dataset PATH for a few seconds, and says what memory and an SSD would save.\n"
    "\n"
    "  --jobs N          that train at once on all of it; default 1\n"
    "  --epochs N        of each job, from 2; default 3\n"
    "  --batch N         default 64\n"
    "  --prefetch N      batches that a job asks for ahead; default 2\n"
    "  --step-ms MS      that a job trains on a batch; without it jobs take batches as fast as they come\n"
    "  --apart PART      each job begins so much of an epoch after the one before; default 0\n"
    "  --shuffle ORDER   dependent, strict or none; default dependent\n"
    "  --pipeline SPEC   a JSON list of operators, or a file with one; default: a random resized crop to 224 pixels,\n"
    "                    flipped or not\n"
    "  --memory SIZE     of encoded memory to try, as 8GiB; several times; default: what suits the dataset\n"
    "  --storage FOLDER  of the disk where a storage class would lie: it is measured; default: 500 MB/s are assumed\n"
    "  --config FILE     larderd's configuration; default: what larderd takes without one\n"
    "  --warm            leave the files in the page cache where they are there: they will be in training too\n"
    "  --json            instead of a text\n"
    "\n"
    "larder plan FOLDER --compare measures torch's DataLoader and Larder with the images of FOLDER, and says both. It\n"
    "needs the Python package, torch and torchvision, and has options of its own: larder plan --compare --help\n";

static bool wrong(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "larder plan: --%s %s: write %s\n", option, text, wanted);
    return false;
}

static bool parse_real(const char *option, const char *text, double most, double *out)
{
    char *end, wanted[64];
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= 0 && *out <= most)
        return true;
    snprintf(wanted, sizeof wanted, "a number from 0 to %g", most);
    return wrong(option, text, wanted);
}

static bool parse_count(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end, wanted[64];
    unsigned long long value = strtoull(text, &end, 10);
    *out = value;
    if (*text >= '0' && *text <= '9' && !*end && strlen(text) < 10 && value >= least && value <= most)
        return true;
    snprintf(wanted, sizeof wanted, "a number from %llu to %llu", (unsigned long long)least, (unsigned long long)most);
    return wrong(option, text, wanted);
}

static bool parse_size(const char *text, struct plan_arguments *arguments)
{
    struct config_machine machine;
    struct error err;
    config_machine_read("", &machine);
    if (arguments->n_sizes == PLAN_SIZES_MAX)
        return wrong("memory", text, "fewer sizes");
    if (config_encoded_read(text, &machine, &arguments->sizes[arguments->n_sizes], &err))
        return wrong("memory", text, "a size as 8GiB, from 1MiB");
    arguments->n_sizes++;
    return true;
}

static bool parse_shuffle(const char *text, enum shuffle_mode *out)
{
    static const char *const modes[] = {
        [SHUFFLE_DEPENDENT] = "dependent", [SHUFFLE_STRICT] = "strict", [SHUFFLE_NONE] = "none"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(text, modes[i]) == 0) {
            *out = (enum shuffle_mode)i;
            return true;
        }
    }
    return wrong("shuffle", text, "dependent, strict or none");
}

static bool parse_option(int option, const char *text, struct plan_arguments *arguments)
{
    switch (option) {
    case 0: return true;
    case 'j': return parse_count("jobs", text, 1, PLAN_JOBS_MAX, &arguments->jobs);
    case 'e': return parse_count("epochs", text, 2, PLAN_EPOCHS_MAX, &arguments->epochs);
    case 'b': return parse_count("batch", text, 1, PLAN_BATCH_MAX, &arguments->batch);
    case 'f': return parse_count("prefetch", text, 1, PLAN_PREFETCH_MAX, &arguments->prefetch);
    case 's': return parse_real("step-ms", text, 1e6, &arguments->step_ms);
    case 'a': return parse_real("apart", text, PLAN_EPOCHS_MAX, &arguments->apart);
    case 'o': return parse_shuffle(text, &arguments->shuffle);
    case 'm': return parse_size(text, arguments);
    case 'p': arguments->pipeline = text; return true;
    case 't': arguments->storage = text; return true;
    case 'c': arguments->config = text; return true;
    default: return false;
    }
}

int plan_parse(int argc, char **argv, struct plan_arguments *arguments)
{
    const struct option known[] = {{"jobs", required_argument, NULL, 'j'},
                                   {"epochs", required_argument, NULL, 'e'},
                                   {"batch", required_argument, NULL, 'b'},
                                   {"prefetch", required_argument, NULL, 'f'},
                                   {"step-ms", required_argument, NULL, 's'},
                                   {"apart", required_argument, NULL, 'a'},
                                   {"shuffle", required_argument, NULL, 'o'},
                                   {"memory", required_argument, NULL, 'm'},
                                   {"pipeline", required_argument, NULL, 'p'},
                                   {"storage", required_argument, NULL, 't'},
                                   {"config", required_argument, NULL, 'c'},
                                   {"warm", no_argument, &arguments->warm, 1},
                                   {"json", no_argument, &arguments->json, 1},
                                   {"help", no_argument, NULL, 'h'},
                                   {NULL, 0, NULL, 0}};
    option_begin(argv, "larder plan");
    for (int option; (option = option_next(argc, argv, known, NULL)) != -1;) {
        if (option == 'h') {
            fputs(plan_usage, stdout);
            return 0;
        }
        if (!parse_option(option, optarg, arguments))
            return 2;
    }
    if (argc - optind != 1) {
        fputs(plan_usage, stderr);
        return 2;
    }
    arguments->path = argv[optind];
    return -1;
}
