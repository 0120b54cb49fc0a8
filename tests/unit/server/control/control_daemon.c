/* control_daemon: the control socket with a made-up daemon behind it, as a program of its own: nng's threads must never
 * run in a test that starts other processes.
 *
 *   control_daemon PATH [N]: starts and stops N times, then says "listening" on stdout, or an error, and runs until its
 *   stdin ends; then it says how many cancels were carried out. Its counters grow from one status to the next, so that
 *   there are rates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/control/control.h"
#include "tests/unit/server/control/sample_status.h"

static unsigned calls, cancels;

static char *tree_json(void *ctx)
{
    (void)ctx;
    return strdup("[]");
}

static char *history_json(void *ctx, const char *job, uint32_t span_s)
{
    char *text = NULL;
    (void)ctx;
    return asprintf(&text, "{\"job\":%zu,\"span_s\":%u}", job ? strlen(job) : 0, span_s) < 0 ? NULL : text;
}

static char *status_json(void *ctx)
{
    struct daemon_status status;
    (void)ctx;
    sample_status_fill(&status);
    status.process.time_s += 0.5 * calls;
    for (size_t i = 0; i < status.n_jobs; i++) {
        status.jobs[i].engine.delivery.samples += 256 * calls;
        status.jobs[i].engine.delivery.stall_s[0] += 0.125 * calls;
    }
    calls++;
    char *json = status_to_json(&status);
    status_clear(&status);
    return json;
}

static int cancel(void *ctx, const char *job, struct error *err)
{
    (void)ctx;
    if (strcmp(job, "train-a") != 0)
        return error_set(err, LARDER_ENOENT, "no job is called '%s'", job);
    cancels++;
    return 0;
}

static int set_weight(void *ctx, const char *job, double weight, struct error *err)
{
    (void)ctx;
    return strcmp(job, "train-a") == 0 && weight == 2.5 ? 0
                                                        : error_set(err, LARDER_ENOENT, "no job is called '%s'", job);
}

static int drain(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    return 0;
}

static int cluster_leave(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    return 0;
}

static int hand_over(void *ctx, struct error *err)
{
    (void)ctx, (void)err;
    return 0;
}

static int list_poison(void *ctx, struct poison_notes *out, struct error *err)
{
    (void)ctx, (void)out, (void)err;
    return 0;
}

static int clear_poison(void *ctx, const char *sample, struct error *err)
{
    (void)ctx;
    return error_set(err, LARDER_ENOENT, "no sample is noted as '%s'", sample ? sample : "");
}

int main(int argc, char **argv)
{
    static const struct control_handlers handlers = {.status_json = status_json,
                                                     .earlier_json = status_json,
                                                     .tree_json = tree_json,
                                                     .history_json = history_json,
                                                     .cancel = cancel,
                                                     .set_weight = set_weight,
                                                     .drain = drain,
                                                     .hand_over = hand_over,
                                                     .cluster_leave = cluster_leave,
                                                     .list_poison = list_poison,
                                                     .clear_poison = clear_poison};
    struct control *control = NULL;
    struct error err;
    char byte;
    int rc = argc > 1 ? 0 : 1;
    for (int times = argc > 2 ? atoi(argv[2]) : 0; rc == 0 && times > 0; times--) {
        rc = control_start(argv[1], &handlers, &control, &err);
        if (rc == 0)
            control_stop(control);
    }
    rc = rc ? rc : control_start(argv[1], &handlers, &control, &err);
    if (rc) {
        puts(argc > 1 ? err.text : "usage");
        return 1;
    }
    puts("listening");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    control_stop(control);
    printf("%u cancels\n", cancels);
    return 0;
}
