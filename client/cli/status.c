/* status.c: `larder status`: asks, waits, asks again, so that there are rates to show. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"

#define RATE_INTERVAL_MS 2000

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
    if (!options->json) { /* the first is for the rates alone, which are of an interval: without a job there are none */
        rc = cli_ask_status(peer, &before, err);
        if (rc == 0 && json_array_size(json_object_get(before, "jobs")) > 0) {
            cli_sleep_ms(RATE_INTERVAL_MS);
        } else {
            json_decref(before);
            before = NULL;
        }
    }
    while (rc == 0 && (rc = cli_ask_status(peer, &now, err)) == 0) {
        rc = show(options, now, before, err);
        json_decref(before);
        before = now;
        if (!options->watch || rc)
            break;
        cli_sleep_ms(options->interval_ms);
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
