/* train.c: shows how a training program in C uses Larder. It reads every batch into one buffer, as if to hand it to a
 * GPU, and prints images per second. With --state it saves its state, and goes on from there when it is started
 * again. */
#include <errno.h>
#include <larder/larder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: train DATASET [--socket PATH] [--batch-size N] [--size N] [--epochs N] [--state FILE] [--every N]\n"
    "\n"
    "Reads DATASET (a folder with a folder of images per class, or a name from the daemon's configuration) through\n"
    "the Larder daemon, randomly cropped and flipped, and prints images a second.\n"
    "\n"
    "  --socket PATH    the daemon's socket (default: $LARDER_SOCKET, then the usual places)\n"
    "  --batch-size N   samples in a batch (default 64)\n"
    "  --size N         height and width of the crops (default 224)\n"
    "  --epochs N       (default 2)\n"
    "  --state FILE     go on from FILE where there is one, and save to it\n"
    "  --every N        save after every N batches (default 100)\n";

#define STATE_TIMEOUT_MS 60000 /* longest wait for ranks that lag behind; this program has one rank */

struct arguments {
    const char *dataset, *socket, *state;
    unsigned batch_size, size, epochs, every;
};

struct training {
    struct larder_loader *loader;
    const struct arguments *arguments;
    void *images; /* one batch */
    size_t images_bytes;
};

static double now_s(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int parse(int argc, char **argv, struct arguments *out)
{
    *out = (struct arguments){.batch_size = 64, .size = 224, .epochs = 2, .every = 100};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        unsigned *number = strcmp(argv[i], "--batch-size") == 0 ? &out->batch_size
                           : strcmp(argv[i], "--size") == 0     ? &out->size
                           : strcmp(argv[i], "--epochs") == 0   ? &out->epochs
                           : strcmp(argv[i], "--every") == 0    ? &out->every
                                                                : NULL;
        if (argv[i][0] != '-' && !out->dataset)
            out->dataset = argv[i];
        else if (number && value && (*number = (unsigned)strtoul(value, NULL, 10)) > 0)
            i++;
        else if (strcmp(argv[i], "--socket") == 0 && value)
            out->socket = argv[++i];
        else if (strcmp(argv[i], "--state") == 0 && value)
            out->state = argv[++i];
        else
            return -1;
    }
    return out->dataset ? 0 : -1;
}

/* ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* load reads the state that an earlier run saved. *out stays NULL where there is none. The caller frees it. A real
 * program has its model's weights in the same checkpoint. */
static int load(const char *path, void **out, size_t *out_bytes)
{
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file)
        return path && errno != ENOENT ? -1 : 0;
    int rc = -1;
    long bytes = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    void *state = bytes >= 0 && fseek(file, 0, SEEK_SET) == 0 ? malloc((size_t)bytes + 1) : NULL;
    if (state && fread(state, 1, (size_t)bytes, file) == (size_t)bytes) {
        *out = state;
        *out_bytes = (size_t)bytes;
        rc = 0;
    } else {
        free(state);
    }
    fclose(file);
    return rc;
}

/* save writes a new file and then puts it in the old one's place: a run that ends in between leaves one that is
 * whole. */
static int save(const struct training *training)
{
    const char *path = training->arguments->state;
    const void *state;
    size_t bytes;
    char fresh[4096];
    if (!path)
        return 0;
    int rc = larder_state(training->loader, STATE_TIMEOUT_MS, &state, &bytes);
    if (rc)
        return rc;
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "wb");
    size_t written = file ? fwrite(state, 1, bytes, file) : 0;
    if (!file || fclose(file) != 0 || written != bytes || rename(fresh, path) != 0)
        fprintf(stderr, "train: %s was not saved: %s\n", path, strerror(errno));
    return 0;
}

/* ── training ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* train_epoch returns 0 when the epoch has ended, else the library's code. */
static int train_epoch(struct training *training, unsigned epoch)
{
    struct larder_loader *loader = training->loader;
    struct larder_batch *batch;
    unsigned long n_images = 0, n_batches = 0;
    double waited_s = 0, start_s = now_s();
    int rc = larder_start_epoch(loader, epoch);
    while (rc == 0) {
        double asked_s = now_s();
        rc = larder_next(loader, -1, &batch);
        if (rc)
            break;
        waited_s += now_s() - asked_s;
        n_images += larder_batch_count(batch);
        rc = larder_batch_copy(batch, training->images, training->images_bytes);
        larder_batch_release(&batch);
        /* Here the training step would use the images. A state saved after it includes this batch. */
        if (rc == 0 && ++n_batches % training->arguments->every == 0)
            rc = save(training);
    }
    double took_s = now_s() - start_s;
    if (rc == LARDER_EEND)
        printf("epoch %u: %lu images in %.2f s, %.0f images/s, %.2f s waited\n", epoch, n_images, took_s,
               (double)n_images / took_s, waited_s);
    return rc == LARDER_EEND ? save(training) : rc;
}

static int train(struct larder_loader *loader, const struct arguments *arguments)
{
    struct larder_info info;
    int rc = larder_info_get(loader, &info);
    struct training training = {.loader = loader, .arguments = arguments};
    training.images_bytes = (size_t)info.sample_bytes * arguments->batch_size;
    training.images = malloc(training.images_bytes);
    if (!training.images) {
        fprintf(stderr, "train: no memory for a batch of %zu bytes\n", training.images_bytes);
        return 1;
    }
    printf("job %s: %u samples, %u classes, %u batches an epoch; begins at batch %u of epoch %u\n", info.job,
           info.n_samples, info.n_classes, info.n_batches, info.batch, info.epoch);
    if (larder_loader_missed(loader))
        fprintf(stderr,
                "train: another process of this rank had the first %u batches of epoch %u, and this one does not get "
                "them: for whole epochs end all ranks, then larder cancel %s, and start all of them again\n",
                larder_loader_missed(loader), info.epoch, info.job);
    for (unsigned epoch = info.epoch; epoch < arguments->epochs && rc == 0; epoch++)
        rc = train_epoch(&training, epoch);
    if (rc)
        fprintf(stderr, "train: %s (%s)\n", larder_last_error(loader), larder_err_name(rc));
    free(training.images);
    return rc ? 1 : 0;
}

/* open_loader returns 0, or prints why there is no loader. */
static int open_loader(const struct arguments *arguments, struct larder_loader **out)
{
    char pipeline[128];
    void *state = NULL;
    size_t state_bytes = 0;
    snprintf(pipeline, sizeof pipeline, "[{\"random_resized_crop\": {\"size\": %u}}, \"random_horizontal_flip\"]",
             arguments->size);
    if (load(arguments->state, &state, &state_bytes) != 0) {
        fprintf(stderr, "train: %s cannot be read: %s\n", arguments->state, strerror(errno));
        return -1;
    }
    struct larder_options options;
    larder_options_init(&options);
    options.socket = arguments->socket;
    options.dataset = arguments->dataset;
    options.pipeline = pipeline;
    options.batch_size = arguments->batch_size;
    options.epochs = arguments->epochs;
    options.state = state;
    options.state_bytes = state_bytes;
    int rc = larder_open(&options, out);
    if (rc)
        fprintf(stderr, "train: %s\n", larder_last_error(NULL));
    free(state);
    return rc;
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
    struct larder_loader *loader;
    if (open_loader(&arguments, &loader) != 0)
        return 1;
    int rc = train(loader, &arguments);
    larder_close(&loader);
    return rc;
}
