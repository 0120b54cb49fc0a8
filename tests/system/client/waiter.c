/* waiter.c: a training program that says how long it has waited for its batches, for the tests of what the daemon says
 * of that. It writes the seconds and the number of batches when it has had so many, and leaves when its input ends. */
#include <larder/larder.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"

#define BATCH_SIZE 32
#define KEPT_MAX 8

static int fail(const struct larder_loader *loader, int code)
{
    fprintf(stderr, "%s %s\n", larder_err_name(code), larder_last_error(loader));
    return 1;
}

static void train(long step_ms)
{
    struct timespec step = {.tv_nsec = step_ms * CLOCK_NS_PER_MS};
    nanosleep(&step, NULL);
}

/* take has `batches` batches, and keeps the last `keep` of them at a time; 0: it gives each back before it trains. */
static int take(struct larder_loader *loader, uint32_t batches, uint32_t keep, long step_ms)
{
    struct larder_batch *kept[KEPT_MAX + 1] = {NULL};
    uint64_t waited_ns = 0;
    int rc = larder_start_epoch(loader, 0);
    for (uint32_t i = 0; rc == 0 && i < batches; i++) {
        struct larder_batch **place = &kept[keep ? i % keep : 0];
        if ((rc = larder_batch_release(place)))
            break;
        uint64_t began_ns = clock_now_ns();
        rc = larder_next(loader, -1, place);
        waited_ns += clock_now_ns() - began_ns;
        if (rc == 0 && keep == 0)
            rc = larder_batch_release(place);
        train(step_ms);
    }
    if (rc)
        return fail(loader, rc);
    printf("%.6f %u\n", (double)waited_ns / 1e9, batches);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    for (uint32_t i = 0; i < KEPT_MAX; i++)
        larder_batch_release(&kept[i]);
    return 0;
}

int main(int argc, char **argv)
{
    struct larder_options options;
    struct larder_loader *loader = NULL;
    if (argc != 7) {
        fprintf(stderr, "usage: %s SOCKET DATASET JOB BATCHES KEEP STEP_MS\n", argv[0]);
        return 2;
    }
    uint32_t keep = (uint32_t)atoi(argv[5]);
    if (keep > KEPT_MAX)
        return 2;
    larder_options_init(&options);
    options.socket = argv[1];
    options.dataset = argv[2];
    options.job = argv[3];
    options.pipeline = "[{\"random_resized_crop\": {\"size\": 64}}]";
    options.batch_size = BATCH_SIZE;
    options.hold = keep > 0;
    int rc = larder_open(&options, &loader);
    int status = rc ? fail(NULL, rc) : take(loader, (uint32_t)atoi(argv[4]), keep, atol(argv[6]));
    larder_close(&loader);
    return status;
}
