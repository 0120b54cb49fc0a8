/* look.c: what a dataset is: its samples, sizes and labels, how it is read, and what would make that cheaper. It
 * indexes the dataset, reads no image and a few sounds, and leaves nothing behind. */
#include "server/commands/look.h"

#include <stdio.h>
#include <string.h>

#include "cache/catalog/catalog.h"
#include "common/log.h"
#include "server/commands/look_kinds.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#define SHARDS_TOO_LARGE 1.5 /* times what the images take */
#define CLASSES_SHOWN 3
#define COLUMNS_SHOWN 20
#define LINE_COLUMNS 100

static const char usage[] =
    "usage: larder look SOURCE\n"
    "\n"
    "Says what a dataset is, from class folders, a list, tar shards or a store: its samples, "
    "sizes, labels and columns,\n"
    "how it will be read, and what would make that cheaper. No image is read. Of sounds some are, to say "
    "what they are.\n"
    "\n"
    "  source, is     the folder, file or list, and what kind of dataset it is\n"
    "  samples        how many, and how large their files are\n"
    "  shards, files  the files that hold several samples each, and what they take besides the samples\n"
    "  labels         the classes\n"
    "  columns        what lies beside the images, for columns=\n"
    "  sounds, length the kinds of clips, and how long they are\n"
    "  masks          that one of two folders seems to hold the other's masks\n"
    "  reading        whether one read brings many samples, and if not, what would\n"
    "  shares         with which other sources the samples are known to be the same\n"
    "  damaged        samples that cannot be read\n"
    "  write          a list of operators to begin with\n";

struct sizes {
    uint64_t sum, least, most;
};

static struct sizes sizes_of(const struct dataset *dataset)
{
    struct sizes sizes = {.least = UINT64_MAX};
    for (uint32_t i = 0; i < dataset_count(dataset); i++) {
        uint64_t size = dataset_size(dataset, i);
        sizes.sum += size;
        sizes.least = size < sizes.least ? size : sizes.least;
        sizes.most = size > sizes.most ? size : sizes.most;
    }
    return sizes;
}

static void print_classes(const struct dataset *dataset)
{
    uint32_t count = dataset_classes(dataset);
    printf("labels   %u class%s:", count, count == 1 ? "" : "es");
    for (uint32_t i = 0; i < count && i < CLASSES_SHOWN; i++)
        printf("%s %s", i ? "," : "", dataset_class(dataset, i));
    puts(count > CLASSES_SHOWN ? ", ..." : "");
}

static void print_column(void *context, const char *name)
{
    unsigned *count = context;
    if ((*count)++ == 0)
        printf("columns  %s", name);
    else if (*count <= COLUMNS_SHOWN)
        printf(", %s", name);
}

static int print_columns(const struct dataset *dataset, struct error *err)
{
    unsigned count = 0;
    int code = dataset_column_names(dataset, print_column, &count, err);
    if (count)
        puts(count > COLUMNS_SHOWN ? ", ..." : "");
    return code;
}

static bool is_tar(const struct dataset_look *look)
{
    return look->shards && strcmp(look->shard, "shard") == 0;
}

static void print_reading(const struct dataset *dataset, const struct dataset_look *look, bool packed)
{
    uint32_t chunk = dataset_chunk_size(dataset);
    if (look->shards && !look->mixed)
        printf("reading  sorted by class: each sample is a read of its own. Write the %s anew, shuffled, or use\n"
               "         larder pack\n",
               is_tar(look) ? "shards" : "files");
    else if (look->shards && !look->in_order)
        printf("reading  mixed, but the list is not in the order of the files: each sample is a read of its own. Sort\n"
               "         the list by path and offset\n");
    else if (look->shards || packed)
        printf("reading  mixed (samples of a class do not lie side by side): one read brings %u samples\n", chunk);
    else
        printf("reading  each sample is a file of its own. On a slow or remote disk use larder pack: one read brings\n"
               "         64 samples\n");
}

/* Prints words below each other in lines of LINE_COLUMNS, behind a heading of eight columns. */
static void print_wrapped(const char *heading, const char *text)
{
    int column = printf("%-8s", heading);
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (column + 1 + len > LINE_COLUMNS && column > 8)
            column = printf("\n%-8s", "") - 1;
        column += printf(" %.*s", len, text);
        text += len + (text[len] == ' ');
    }
    putchar('\n');
}

static int print_look(const struct dataset *dataset, bool sounds, struct error *err)
{
    struct dataset_look look;
    struct packing packing;
    struct sizes sizes = sizes_of(dataset);
    dataset_look(dataset, &look);
    dataset_packing(dataset, &packing);
    printf("source   %s\nis       %s\n", dataset_text(dataset), look.kind);
    printf("samples  %u, of %.1f kB on average, %.1f to %.1f kB\n", dataset_count(dataset),
           (double)sizes.sum / 1e3 / dataset_count(dataset), (double)sizes.least / 1e3, (double)sizes.most / 1e3);
    if (look.shards) {
        double factor = sizes.sum ? (double)look.shard_bytes / (double)sizes.sum : 1;
        printf("%-8s %u, of %.1f MB in all, %.2f times what the images take\n", is_tar(&look) ? "shards" : "files",
               look.shards, (double)look.shard_bytes / 1e6, factor);
        if (factor >= SHARDS_TOO_LARGE && is_tar(&look))
            puts("         tar is a poor home for small images: larder pack makes a smaller store of them");
    }
    print_classes(dataset);
    if (is_tar(&look) && dataset_classes(dataset) == 1 && strcmp(dataset_class(dataset, 0), "unlabelled") == 0 &&
        !strstr(dataset_text(dataset), "#labels=none"))
        puts("         every label is 0: give labels=\"json:KEY\" or labels of your own, or labels=\"none\" if there "
             "are none");
    if (sounds)
        look_at_sounds(dataset);
    else if (!look.shards && !packing.packed)
        look_for_masks(dataset);
    int code = print_columns(dataset, err);
    print_reading(dataset, &look, packing.packed);
    print_wrapped("shares", look.shares);
    if (look.unreachable)
        printf(
            "damaged  %u sample%s cannot be read, and will be bad: larderd's log names them when they are asked for\n",
            look.unreachable, look.unreachable == 1 ? "" : "s");
    return code;
}

int look_main(int argc, char **argv)
{
    struct catalog *catalog = NULL;
    struct dataset *dataset = NULL;
    struct error err = {0};
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (argc != 2 || help || argv[1][0] == '-') {
        fputs(usage, help ? stdout : stderr);
        return help ? EXIT_DONE : EXIT_USAGE;
    }
    log_set_level(LOG_WARN);
    int code = catalog_create(NULL, &catalog, &err);
    bool sounds = false;
    if (!code)
        code = catalog_open(catalog, argv[1], &dataset, &err);
    if (code == LARDER_EINVAL) { /* there are no images: there may be sounds */
        struct error silent;
        struct catalog_wish wish = {.path = argv[1], .files = FILES_SOUNDS};
        sounds = catalog_open_for(catalog, &wish, &dataset, &silent) == 0;
        code = sounds ? 0 : code;
    }
    if (!code)
        code = print_look(dataset, sounds, &err);
    if (code)
        fprintf(stderr, "larder look: %s\n", err.text);
    dataset_unref(&dataset);
    catalog_destroy(catalog);
    return code || fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}
