/* cache.c: `larder cache`: shows, verifies and empties a storage class. */
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache/tier/tier.h"
#include "common/option.h"
#include "server/commands/storage.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_STOPPED = 130 };

struct cache_arguments {
    const char *path;
    int verify, empty, json;
};

static const char cache_usage[] = "usage: larder cache PATH [--verify | --empty] [--json]\n"
                                  "\n"
                                  "Shows what a storage class has: a folder of `storage` in the configuration.\n"
                                  "\n"
                                  "  --verify   read every byte, and name what is damaged; a daemon may use the class\n"
                                  "  --empty    remove all samples; refused while a daemon uses the class\n"
                                  "  --json     instead of a text\n"
                                  "exit status: 0 nothing is wrong, 1 something is, 2 wrong usage, 130 stopped\n";

static volatile sig_atomic_t stop_asked;

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

static bool go_on(void *ctx)
{
    (void)ctx;
    return !stop_asked;
}

/* To standard error, beside what may be JSON. */
static void tell_problem(void *ctx, const char *file, const char *what)
{
    const struct cache_arguments *arguments = ctx;
    fprintf(stderr, "%s/%s: %s\n", arguments->path, file, what);
}

/* A class is full when not one more sample of middle size has room. */
static bool is_full(const struct tier_view *view)
{
    uint64_t left = view->size_bytes > view->used_bytes ? view->size_bytes - view->used_bytes : 0;
    return view->samples > 0 && left < view->used_bytes / view->samples;
}

static void print_json(const struct cache_arguments *arguments, const struct tier_view *view)
{
    json_t *root = json_pack(
        "{s:s, s:b, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "path", arguments->path, "in_use", view->in_use,
        "size_bytes", (json_int_t)view->size_bytes, "used_bytes", (json_int_t)view->used_bytes, "full", is_full(view),
        "samples", (json_int_t)view->samples, "planes", (json_int_t)view->planes, "sample_bytes",
        (json_int_t)view->sample_bytes, "segments", (json_int_t)view->segments, "sealed_segments",
        (json_int_t)view->sealed_segments, "unfinished_bytes", (json_int_t)view->unfinished_bytes, "broken",
        arguments->verify || view->broken ? json_integer((json_int_t)view->broken) : json_null());
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
    puts(text ? text : "{}");
    free(text);
    json_decref(root);
}

static void print_text(const struct cache_arguments *arguments, const struct tier_view *view)
{
    double gib = (double)(1u << 30);
    printf("%s: %s\n", arguments->path, view->in_use ? "in use by a daemon" : "not in use");
    printf("  size      %.3f GiB\n", (double)view->size_bytes / gib);
    printf("  used      %.3f GiB, %.0f %%%s\n", (double)view->used_bytes / gib,
           view->size_bytes ? 100.0 * (double)view->used_bytes / (double)view->size_bytes : 0,
           is_full(view) ? ", full" : "");
    printf("  samples   %" PRIu64 ", %.3f GiB\n", view->samples, (double)view->sample_bytes / gib);
    if (view->planes)
        printf("  planes    %" PRIu64 " of the samples\n", view->planes);
    printf("  segments  %u, %u of them sealed\n", view->segments, view->sealed_segments);
    if (view->unfinished_bytes)
        printf("  %" PRIu64 " bytes of a write %s\n", view->unfinished_bytes,
               view->in_use ? "under way" : "that was not finished; the next daemon removes them");
    if (arguments->verify && !view->broken)
        printf("  every byte is as it was written\n");
    else if (view->broken)
        printf("  %" PRIu64 " damaged: these samples will be read from their source\n", view->broken);
}

static int show(const struct cache_arguments *arguments)
{
    struct tier_view view;
    struct error err;
    struct tier_viewer viewer = {
        .verify = arguments->verify, .go_on = go_on, .problem = tell_problem, .ctx = (void *)arguments};
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    int code = tier_view_read(arguments->path, &viewer, &view, &err);
    if (code) {
        fprintf(stderr, "larder cache: %s\n", err.text);
        return code == LARDER_EGONE ? EXIT_STOPPED : EXIT_FAILED;
    }
    if (arguments->json)
        print_json(arguments, &view);
    else
        print_text(arguments, &view);
    return fflush(stdout) || view.broken ? EXIT_FAILED : EXIT_DONE;
}

static int empty(const char *path)
{
    struct error err;
    if (tier_empty(path, &err)) {
        fprintf(stderr, "larder cache: %s\n", err.text);
        return EXIT_FAILED;
    }
    printf("%s: empty\n", path);
    return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}

int cache_main(int argc, char **argv)
{
    struct cache_arguments arguments = {0};
    const struct option known[] = {{"verify", no_argument, &arguments.verify, 1},
                                   {"empty", no_argument, &arguments.empty, 1},
                                   {"json", no_argument, &arguments.json, 1},
                                   {"help", no_argument, NULL, 'h'},
                                   {NULL, 0, NULL, 0}};
    option_begin(argv, "larder cache");
    for (int option; (option = option_next(argc, argv, known, NULL)) != -1;) {
        if (option == 'h') {
            fputs(cache_usage, stdout);
            return EXIT_DONE;
        }
        if (option != 0)
            return EXIT_USAGE;
    }
    if (argc - optind != 1 || (arguments.verify && arguments.empty)) {
        fputs(cache_usage, stderr);
        return EXIT_USAGE;
    }
    arguments.path = argv[optind];
    return arguments.empty ? empty(arguments.path) : show(&arguments);
}
