/* status.c: `larder status`: asks, waits, asks again, so that there are rates to show. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/cli.h"

#define RATE_INTERVAL_MS 500

static int ask_status(struct cli_peer *peer, json_t **out, struct error *err)
{
    json_t *request = json_pack("{s:i,s:s}", "v", 1, "op", "status"), *answer = NULL;
    int rc = request ? cli_ask(peer, request, &answer, err) : error_set(err, LARDER_ENOMEM, "out of memory");
    json_decref(request);
    if (rc)
        return rc;
    json_t *status = json_incref(json_object_get(answer, "status"));
    json_decref(answer);
    if (!json_is_object(status)) {
        json_decref(status);
        return error_set(err, LARDER_EFORMAT, "what listens at %s does not answer as larderd does",
                         cli_peer_path(peer));
    }
    *out = status;
    return 0;
}

static void sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&left, NULL);
}

/* show prints one status. */
static int show(const struct cli_status_options *options, const json_t *status, const json_t *before, struct error *err)
{
    if (options->json) {
        json_dumpf(status, stdout, options->watch ? JSON_COMPACT : JSON_INDENT(2));
        putchar('\n');
    } else {
        if (options->watch && isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        cli_status_print(status, before, stdout);
        if (options->watch && !isatty(STDOUT_FILENO))
            putchar('\n');
    }
    return fflush(stdout) ? error_set(err, LARDER_EIO, "cannot write the status: %s", strerror(errno)) : 0;
}

static int run(const struct cli_status_options *options, struct cli_peer *peer, struct error *err)
{
    json_t *before = NULL, *now = NULL;
    int rc = 0;
    if (!options->json) { /* the first is for the rates alone */
        rc = ask_status(peer, &before, err);
        if (rc == 0 && json_array_size(json_object_get(before, "jobs")) > 0)
            sleep_ms(RATE_INTERVAL_MS);
    }
    while (rc == 0 && (rc = ask_status(peer, &now, err)) == 0) {
        rc = show(options, now, before, err);
        json_decref(before);
        before = now;
        if (!options->watch || rc)
            break;
        sleep_ms(options->interval_ms);
    }
    json_decref(before);
    return rc;
}

int cli_status(const struct cli_status_options *options)
{
    struct cli_peer *peer = NULL;
    struct error err;
    int rc = cli_connect(options->socket, &peer, &err);
    if (rc == 0)
        rc = run(options, peer, &err);
    cli_disconnect(peer);
    return rc ? cli_fail(&err) : CLI_OK;
}
