/* store.c: the options and signals of both commands, and what they say at the end. A first signal stops the command
 * cleanly, a second one stops it at once: a pack can be killed at any moment. Nothing is written while the source is
 * being listed, so signals end the command directly then. */
#include "server/commands/store.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/pack/log.h"
#include "cache/pack/pack.h"
#include "common/log.h"
#include "common/option.h"
#include "preprocess/prepare.h"
#include "server/commands/store_progress.h"
#include "server/commands/store_rewrite.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_STOPPED = 130 };

static volatile sig_atomic_t stop_asked; /* set by on_signal, read by the progress functions */

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup ignores SIGHUP */
            sigaction(numbers[i], &action, NULL);
    }
}

static bool parse_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < min || value > max || strlen(text) > 20) {
        fprintf(stderr, "larder pack: --%s %s: write a number from %" PRIu64 " to %" PRIu64 "\n", option, text, min,
                max);
        return false;
    }
    *out = value;
    return true;
}

/* ── pack ── */

struct pack_arguments {
    struct store_options options;
    const char *source, *dest; /* source NULL: the log of Writers beside dest */
    bool all_files, quiet;
};

static const char pack_usage[] =
    "usage: larder pack [SOURCE] DEST [options]\n"
    "\n"
    "Packs a dataset (class folders, a list of files, tar shards, or a store) into the chunk store DEST, shuffled "
    "once,\n"
    "so that one read brings a chunk of samples. Interrupted, the same command goes on after the segments that are\n"
    "finished. Without SOURCE it packs what larder.Writer has written for DEST, the log DEST.log, and removes that.\n"
    "\n"
    "  --all-files         samples are the files of any kind in the folders, not images alone\n"
    "  --chunk-size K      samples a chunk (64)\n"
    "  --seed N            of the shuffle (1)\n"
    "  --threads N         that read and write (0: one a core)\n"
    "  --segment-mib N     size of a segment, which is also what an interruption costs at most (256)\n"
    "  --max-side N        shrink images with a side of more than N pixels to N, and write them as JPEG (1 to 65500)\n"
    "  --quality Q         of these JPEGs, 1 to 100 (90)\n"
    "  --restart-rows      write JPEGs again, without loss, so that a crop of one decodes little more than itself\n"
    "  --planes            write them in bit planes, without loss, so that they decode in a fraction of the time; no\n"
    "                      other program reads that, and a pack without it gives the JPEGs back, with restart rows\n"
    "  --skip-unreadable   keep a sample that cannot be read as one that never can be, instead of stopping\n"
    "  --quiet             no progress\n";

/* The given options, as numbers of other widths than in struct store_options. */
struct pack_numbers {
    uint64_t chunk_size, threads, segment_mib, max_side, quality; /* max_side and quality: 0: not given */
};

static bool take_numbers(const struct pack_numbers *numbers, struct store_options *options)
{
    if (numbers->quality && !numbers->max_side) {
        fputs("larder pack: --quality is that of images which --max-side shrinks: give both\n", stderr);
        return false;
    }
    options->chunk_size = (uint32_t)numbers->chunk_size;
    options->threads = (uint32_t)numbers->threads;
    options->segment_bytes = numbers->segment_mib << 20;
    options->max_side = (uint32_t)numbers->max_side;
    options->quality = numbers->quality ? (uint32_t)numbers->quality : STORE_QUALITY_DEFAULT;
    if (options->max_side || options->restart_rows)
        options->rewrite = store_rewrite;
    return true;
}

static int parse_pack(int argc, char **argv, struct pack_arguments *arguments)
{
    static const struct option known[] = {{"chunk-size", required_argument, NULL, 'c'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"segment-mib", required_argument, NULL, 'm'},
                                          {"max-side", required_argument, NULL, 'x'},
                                          {"quality", required_argument, NULL, 'Q'},
                                          {"restart-rows", no_argument, NULL, 'r'},
                                          {"planes", no_argument, NULL, 'p'},
                                          {"skip-unreadable", no_argument, NULL, 'u'},
                                          {"all-files", no_argument, NULL, 'a'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct store_options *options = &arguments->options;
    struct pack_numbers numbers = {.chunk_size = options->chunk_size, .segment_mib = options->segment_bytes >> 20};
    bool good = true;
    option_begin(argv, "larder pack");
    for (int option, at = 0; good && (option = option_next(argc, argv, known, &at)) != -1;) {
        switch (option) {
        case 'c': good = parse_number(known[at].name, optarg, 1, CHUNK_SAMPLES_MAX, &numbers.chunk_size); break;
        case 's': good = parse_number(known[at].name, optarg, 0, UINT64_MAX, &options->seed); break;
        case 't': good = parse_number(known[at].name, optarg, 0, STORE_THREADS_MAX, &numbers.threads); break;
        case 'm': good = parse_number(known[at].name, optarg, 1, STORE_SEGMENT_MAX >> 20, &numbers.segment_mib); break;
        case 'x': good = parse_number(known[at].name, optarg, 1, STORE_SIDE_MAX, &numbers.max_side); break;
        case 'Q': good = parse_number(known[at].name, optarg, 1, 100, &numbers.quality); break;
        case 'r': options->restart_rows = true; break;
        case 'p': options->planes = options->restart_rows = true; break;
        case 'u': options->skip_unreadable = true; break;
        case 'a': arguments->all_files = true; break;
        case 'q': arguments->quiet = true; break;
        case 'h': fputs(pack_usage, stdout); return EXIT_DONE;
        default: good = false;
        }
    }
    int words = argc - optind;
    if (good && words != 1 && words != 2)
        fputs(pack_usage, stderr);
    if (!good || (words != 1 && words != 2) || !take_numbers(&numbers, options))
        return EXIT_USAGE;
    arguments->source = words == 2 ? argv[optind] : NULL;
    arguments->dest = argv[argc - 1];
    return -1;
}

static bool on_pack_progress(void *context, const struct store_progress *progress)
{
    struct progress_view *view = context;
    if (!view->last.samples_total && progress->samples_resumed && !view->quiet)
        fprintf(stderr, "going on where an earlier run stopped: %" PRIu64 " of %" PRIu64 " samples are in place\n",
                progress->samples_resumed, progress->samples_total);
    progress_view_show(view, progress);
    return !stop_asked;
}

static void say_packed(const struct pack_arguments *arguments, const struct progress_view *view)
{
    const struct store_progress *done = &view->last;
    uint32_t chunk_size = arguments->options.chunk_size;
    if (!done->samples_total) {
        printf("%s: this store is there already, nothing to do\n", arguments->dest);
        return;
    }
    printf("%s: %" PRIu64 " samples in %" PRIu64 " chunks of %u, %.1f MiB, %.1f s", arguments->dest,
           done->samples_total, (done->samples_total + chunk_size - 1) / chunk_size, chunk_size,
           (double)done->bytes_total / (1 << 20), progress_view_seconds(view));
    if (arguments->options.rewrite)
        printf(", %" PRIu64 " of them rewritten and %" PRIu64 " as they were, %.1f MiB packed", done->samples_rewritten,
               done->samples_total - done->samples_skipped - done->samples_rewritten,
               (double)done->bytes_packed / (1 << 20));
    if (arguments->options.planes)
        printf(", %" PRIu64 " of them in planes", done->samples_planes);
    if (arguments->options.max_side)
        printf(", %" PRIu64 " of them shrunk to %u pixels", done->samples_shrunk, arguments->options.max_side);
    if (done->samples_undecoded)
        printf(", %" PRIu64 " could not be decoded and are as they were", done->samples_undecoded);
    if (done->samples_resumed)
        printf(", %" PRIu64 " of them from an earlier run", done->samples_resumed);
    if (done->samples_skipped)
        printf(", %" PRIu64 " could not be read and will be bad samples", done->samples_skipped);
    putchar('\n');
}

/* Samples in planes are no JPEGs, so without --planes the JPEGs are restored. They have restart rows. */
static void restore_planes(const struct dataset *dataset, struct store_options *options)
{
    struct packing packing;
    dataset_packing(dataset, &packing);
    if (!packing.planes)
        return;
    options->restart_rows = true;
    options->rewrite = store_rewrite;
}

static int pack_source(struct pack_arguments *arguments, struct progress_view *view, struct error *err)
{
    struct catalog *catalog = NULL;
    struct dataset *dataset = NULL;
    const struct catalog_wish wish = {.path = arguments->source,
                                      .files = arguments->all_files ? FILES_ALL : FILES_IMAGES};
    int code = catalog_create(NULL, &catalog, err);
    if (!code)
        code = catalog_open_for(catalog, &wish, &dataset, err);
    progress_view_start(view, "packing", arguments->quiet);
    if (!code) {
        restore_planes(dataset, &arguments->options);
        catch_signals();
        code = store_pack(dataset, arguments->dest, &arguments->options, on_pack_progress, view, err);
    }
    dataset_unref(&dataset);
    catalog_destroy(catalog);
    progress_view_clear(view);
    return code;
}

/* Packs the log of Writers, and removes it. */
static int pack_log(struct pack_arguments *arguments, struct progress_view *view, struct error *err)
{
    char *log = NULL;
    int code = pack_log_find(arguments->dest, &log, err);
    *view = (struct progress_view){0};
    if (code || !log)
        return code;
    arguments->source = log;
    code = pack_source(arguments, view, err);
    free(log);
    struct error problem;
    if (!code && pack_log_remove(arguments->dest, &problem))
        fprintf(stderr, "larder pack: the log is packed, and may be removed: %s\n", problem.text);
    return code;
}

static int pack(struct pack_arguments *arguments)
{
    struct progress_view view;
    struct error err = {0};
    log_set_level(LOG_WARN);
    prepare_init();
    int code = arguments->source ? pack_source(arguments, &view, &err) : pack_log(arguments, &view, &err);
    if (code == LARDER_EGONE) {
        fprintf(stderr, "larder pack: stopped. The same command goes on after the segments that are finished in %s\n",
                arguments->dest);
        return EXIT_STOPPED;
    }
    if (code) {
        fprintf(stderr, "larder pack: %s\n", err.text);
        return EXIT_FAILED;
    }
    say_packed(arguments, &view);
    return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}

int pack_main(int argc, char **argv)
{
    struct pack_arguments arguments = {0};
    store_options_default(&arguments.options);
    int status = parse_pack(argc, argv, &arguments);
    return status >= 0 ? status : pack(&arguments);
}

/* ── verify ── */

static bool on_verify_progress(void *context, const struct store_progress *progress)
{
    progress_view_show(context, progress);
    return !stop_asked;
}

static void on_problem(void *context, const char *file, const char *what)
{
    progress_view_clear(context);
    printf("%s: %s\n", file, what);
    fflush(stdout);
}

static void say_packing(const struct packing *packing)
{
    if (packing->planes)
        printf(", %u in planes", packing->samples_planes);
    if (packing->restart_rows)
        printf(", restart rows in %u", packing->samples_restart_rows);
    else
        printf(", no restart rows");
    if (packing->max_side)
        printf(", %u shrunk to %u pixels as JPEG of quality %u", packing->samples_shrunk, packing->max_side,
               packing->quality);
    if (packing->samples_undecoded)
        printf(", %u could not be decoded when it was packed", packing->samples_undecoded);
    putchar('\n');
}

static int verify(const char *path, bool quiet)
{
    struct progress_view view;
    struct error err = {0};
    progress_view_start(&view, "verifying", quiet);
    catch_signals();
    int code = store_verify(path, on_verify_progress, on_problem, &view, &err);
    progress_view_clear(&view);
    if (code) {
        if (code == LARDER_ENOENT)
            fprintf(stderr, "larder verify: no finished store is there: if a pack was interrupted, run it again\n");
        fprintf(stderr, "larder verify: %s\n", err.text);
        return code == LARDER_EGONE ? EXIT_STOPPED : EXIT_FAILED;
    }
    printf("%s: %" PRIu64 " samples, %.1f MiB, every byte as packed, %.1f s", path, view.last.samples_total,
           (double)view.last.bytes_total / (1 << 20), progress_view_seconds(&view));
    say_packing(&view.last.packing);
    return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}

int verify_main(int argc, char **argv)
{
    static const char usage[] = "usage: larder verify STORE [--quiet]\n"
                                "\n"
                                "Reads every byte of a chunk store, names each file and sample that is damaged, and\n"
                                "files that do not belong. Exit status: 0 nothing is wrong, 1 something is, 2 wrong\n"
                                "usage, 130 stopped by a signal.\n";
    static const struct option known[] = {
        {"quiet", no_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool quiet = false;
    option_begin(argv, "larder verify");
    for (int option; (option = option_next(argc, argv, known, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_DONE;
        }
        if (option != 'q')
            return EXIT_USAGE;
        quiet = true;
    }
    if (argc - optind != 1) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    return verify(argv[optind], quiet);
}
