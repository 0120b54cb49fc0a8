/* train.c: how a training program in C uses Larder. It reads every batch into one buffer, as if to hand it to a GPU,
 * and prints images a second. */
#include <larder/larder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: train DATASET [--socket PATH] [--batch-size N] [--size N] [--epochs N]\n"
    "\n"
    "Reads DATASET (a folder with a folder of images per class, or a name from the daemon's configuration) through\n"
    "the Larder daemon, randomly cropped and flipped, and prints images a second.\n"
    "\n"
    "  --socket PATH    the daemon's socket (default: $LARDER_SOCKET, then the usual places)\n"
    "  --batch-size N   samples in a batch (default 64)\n"
    "  --size N         height and width of the crops (default 224)\n"
    "  --epochs N       (default 2)\n";

struct arguments {
    const char *dataset, *socket;
    unsigned batch_size, size, epochs;
};

static double now_s(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int parse(int argc, char **argv, struct arguments *out)
{
    *out = (struct arguments){.batch_size = 64, .size = 224, .epochs = 2};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        unsigned *number = strcmp(argv[i], "--batch-size") == 0 ? &out->batch_size
                           : strcmp(argv[i], "--size") == 0     ? &out->size
                           : strcmp(argv[i], "--epochs") == 0   ? &out->epochs
                                                                : NULL;
        if (argv[i][0] != '-' && !out->dataset)
            out->dataset = argv[i];
        else if (number && value && (*number = (unsigned)strtoul(value, NULL, 10)) > 0)
            i++;
        else if (strcmp(argv[i], "--socket") == 0 && value)
            out->socket = argv[++i];
        else
            return -1;
    }
    return out->dataset ? 0 : -1;
}

/* train_epoch gives 0 when the epoch has ended, else the library's code. */
static int train_epoch(struct larder_loader *loader, unsigned epoch, void *images, size_t images_bytes)
{
    struct larder_batch *batch;
    unsigned long n_images = 0;
    double waited_s = 0, start_s = now_s();
    int rc = larder_start_epoch(loader, epoch);
    while (rc == 0) {
        double asked_s = now_s();
        rc = larder_next(loader, -1, &batch);
        if (rc)
            break;
        waited_s += now_s() - asked_s;
        n_images += larder_batch_count(batch);
        rc = larder_batch_copy(batch, images, images_bytes);
        larder_batch_release(&batch);
        /* Here the training step would use `images`. */
    }
    double took_s = now_s() - start_s;
    if (rc == LARDER_EEND)
        printf("epoch %u: %lu images in %.2f s, %.0f images/s, %.2f s waited\n", epoch, n_images, took_s,
               (double)n_images / took_s, waited_s);
    return rc == LARDER_EEND ? 0 : rc;
}

static int train(struct larder_loader *loader, const struct arguments *arguments)
{
    struct larder_info info;
    int rc = larder_info_get(loader, &info);
    size_t images_bytes = (size_t)info.sample_bytes * arguments->batch_size;
    void *images = malloc(images_bytes);
    if (!images) {
        fprintf(stderr, "train: no memory for a batch of %zu bytes\n", images_bytes);
        return 1;
    }
    printf("job %s: %u samples, %u classes, %u batches an epoch\n", info.job, info.n_samples, info.n_classes,
           info.n_batches);
    for (unsigned epoch = 0; epoch < arguments->epochs && rc == 0; epoch++)
        rc = train_epoch(loader, epoch, images, images_bytes);
    if (rc)
        fprintf(stderr, "train: %s (%s)\n", larder_last_error(loader), larder_err_name(rc));
    free(images);
    return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    if (parse(argc, argv, &arguments) != 0) {
        fputs(usage, stderr);
        return 2;
    }
    char pipeline[128];
    snprintf(pipeline, sizeof pipeline, "[{\"random_resized_crop\": {\"size\": %u}}, \"random_horizontal_flip\"]",
             arguments.size);
    struct larder_options options;
    struct larder_loader *loader;
    larder_options_init(&options);
    options.socket = arguments.socket;
    options.dataset = arguments.dataset;
    options.pipeline = pipeline;
    options.batch_size = arguments.batch_size;
    options.epochs = arguments.epochs;
    if (larder_open(&options, &loader) != 0) {
        fprintf(stderr, "train: %s\n", larder_last_error(NULL));
        return 1;
    }
    int rc = train(loader, &arguments);
    larder_close(&loader);
    return rc;
}
