/* view_reader.c: one epoch through the C library, written out for the tests of views: the classes' names, then every
 * sample's index and label in the order of delivery. A refusal is written to standard error, with exit status 1. */
#include <larder/larder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const struct larder_loader *loader, int code)
{
    fprintf(stderr, "%s %s\n", larder_err_name(code), larder_last_error(loader));
    return 1;
}

static int read_epoch(struct larder_loader *loader)
{
    struct larder_info info;
    struct larder_batch *batch;
    int rc = larder_info_get(loader, &info);
    if (rc == 0)
        rc = larder_start_epoch(loader, 0);
    printf("%u samples, %u classes:", info.n_samples, info.n_classes);
    for (uint32_t label = 0; label < info.n_classes; label++)
        printf(" %s", larder_class_name(loader, (int32_t)label));
    printf("\n");
    while (rc == 0 && (rc = larder_next(loader, -1, &batch)) == 0) {
        for (uint32_t i = 0; i < larder_batch_count(batch) && rc == 0; i++) {
            struct larder_sample sample;
            rc = larder_batch_sample(batch, i, &sample);
            if (rc == 0)
                printf("%u %d\n", sample.index, sample.label);
        }
        larder_batch_release(&batch);
    }
    return rc == LARDER_EEND ? 0 : fail(loader, rc);
}

int main(int argc, char **argv)
{
    struct larder_options options;
    struct larder_loader *loader = NULL;
    if (argc != 6) {
        fprintf(stderr, "usage: %s SOCKET DATASET SUBSET RELABEL SHUFFLE (the last two: numbers)\n", argv[0]);
        return 2;
    }
    larder_options_init(&options);
    options.socket = argv[1];
    options.dataset = argv[2];
    options.pipeline = "[{\"resize\": {\"size\": [16, 16]}}]";
    options.subset = *argv[3] ? argv[3] : NULL;
    options.relabel = (uint32_t)atoi(argv[4]);
    options.shuffle = (uint32_t)atoi(argv[5]);
    options.batch_size = 7;
    int rc = larder_open(&options, &loader);
    if (rc)
        return fail(NULL, rc);
    int status = read_epoch(loader);
    larder_close(&loader);
    return status;
}
