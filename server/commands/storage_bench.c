/* storage_bench.c: `larder bench storage`: what a folder's disk brings, as a table or JSON. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/option.h"
#include "server/commands/storage.h"
#include "server/storage/measure.h"

static const char bench_usage[] =
    "usage: larder bench storage PATH [--kib N] [--mib N] [--seconds S] [--json]\n"
    "\n"
    "Writes a file into the folder PATH, reads pieces of it at random with 1, 2, 4 and 8 threads, and removes it.\n"
    "\n"
    "  --kib N      size of a piece, as of a sample; default 112\n"
    "  --mib N      size of the file; default 256\n"
    "  --seconds S  of each number of threads; default 2\n"
    "  --json       instead of a table\n";

static void print_table(const struct storage_wish *wish, const struct storage_measured *measured)
{
    printf("%s: writing %.0f MB/s; reads of %llu KiB%s:\n%8s %10s %10s\n", wish->path, measured->write_mb_per_s,
           (unsigned long long)(wish->sample_bytes >> 10),
           measured->direct ? "" : " through the page cache, which this file system needs", "threads", "MB/s",
           "reads/s");
    for (int i = 0; i < STORAGE_ROUNDS; i++)
        printf("%8u %10.1f %10.0f\n", measured->rounds[i].threads, measured->rounds[i].mb_per_s,
               measured->rounds[i].reads_per_s);
}

static void print_json(const struct storage_wish *wish, const struct storage_measured *measured)
{
    json_t *rows = json_array();
    for (int i = 0; i < STORAGE_ROUNDS; i++)
        json_array_append_new(rows,
                              json_pack("{s:i, s:f, s:f}", "threads", (int)measured->rounds[i].threads, "mb_per_s",
                                        measured->rounds[i].mb_per_s, "reads_per_s", measured->rounds[i].reads_per_s));
    json_t *root = json_pack("{s:s, s:I, s:b, s:f, s:o}", "path", wish->path, "sample_bytes",
                             (json_int_t)wish->sample_bytes, "direct", measured->direct, "write_mb_per_s",
                             measured->write_mb_per_s, "reads", rows);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    puts(text ? text : "{}");
    free(text);
    json_decref(root);
}

static int run(const struct storage_wish *wish, bool json)
{
    struct storage_measured measured;
    const char *what;
    int number = storage_measure(wish, &measured, &what);
    if (number) {
        fprintf(stderr, "larder bench storage: %s: cannot %s: %s\n", wish->path, what, strerror(number));
        return 1;
    }
    if (json)
        print_json(wish, &measured);
    else
        print_table(wish, &measured);
    return fflush(stdout) ? 1 : 0;
}

static bool parse_number(const char *option, const char *text, double min, double max, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= min && *out <= max)
        return true;
    fprintf(stderr, "larder bench storage: --%s %s: write a number from %g to %g\n", option, text, min, max);
    return false;
}

int storage_bench_main(int argc, char **argv)
{
    struct storage_wish wish = {.seconds = 2};
    int json = 0;
    double kib = 112, mib = 256;
    const struct option known[] = {{"kib", required_argument, NULL, 'k'},     {"mib", required_argument, NULL, 'm'},
                                   {"seconds", required_argument, NULL, 's'}, {"json", no_argument, &json, 1},
                                   {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    bool good = true;
    option_begin(argv, "larder bench storage");
    for (int option; good && (option = option_next(argc, argv, known, NULL)) != -1;) {
        switch (option) {
        case 0: break;
        case 'k': good = parse_number("kib", optarg, 1, 1 << 18, &kib); break;
        case 'm': good = parse_number("mib", optarg, 1, 1 << 24, &mib); break;
        case 's': good = parse_number("seconds", optarg, 0.01, 3600, &wish.seconds); break;
        case 'h': fputs(bench_usage, stdout); return 0;
        default: return 2;
        }
    }
    wish.sample_bytes = ((uint64_t)(kib * 1024) + STORAGE_ALIGN - 1) / STORAGE_ALIGN * STORAGE_ALIGN;
    wish.file_bytes = (uint64_t)(mib * 1024 * 1024) / STORAGE_ALIGN * STORAGE_ALIGN;
    if (!good || argc - optind != 1 || wish.file_bytes < wish.sample_bytes) {
        if (good)
            fputs(bench_usage, stderr);
        return 2;
    }
    wish.path = argv[optind];
    return run(&wish, json);
}
