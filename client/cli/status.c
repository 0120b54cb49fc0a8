/* status.c: `larder status` and `larder jobs`, once or again and again. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/line.h"

/* What of a status is shown: part (NULL: all of it) as JSON, or what print writes. */
struct shown {
    const char *part;
    void (*print)(const json_t *status, const json_t *before, FILE *out);
};

static int show(const struct cli_line *line, const struct shown *shown, const struct cli_look *look, struct error *err)
{
    if (line->json) {
        json_dumpf(shown->part ? json_object_get(look->now, shown->part) : look->now, stdout,
                   line->watch ? JSON_COMPACT | CLI_REALS : CLI_JSON);
        putchar('\n');
    } else {
        if (line->watch && isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        shown->print(look->now, look->before, stdout);
        if (line->watch && !isatty(STDOUT_FILENO))
            putchar('\n');
    }
    return fflush(stdout) ? error_set(err, LARDER_EIO, "cannot write: %s", strerror(errno)) : 0;
}

static int run(const struct cli_line *line, const struct shown *shown, struct cli_peer *peer, struct error *err)
{
    struct cli_look look;
    int rc = cli_ask_look(peer, &look, err);
    while (rc == 0) {
        rc = show(line, shown, &look, err);
        if (!line->watch || rc)
            break;
        cli_sleep_ms(line->interval_ms);
        json_decref(look.before);
        look.before = look.now;
        look.now = NULL;
        rc = cli_ask_status(peer, &look.now, err);
    }
    cli_look_clear(&look);
    return rc;
}

static int ask(const struct cli_line *line, const struct shown *shown)
{
    struct cli_peer *peer = NULL;
    struct error err;
    int rc = cli_connect(line->socket, &peer, &err);
    if (rc == 0)
        rc = run(line, shown, peer, &err);
    cli_disconnect(peer);
    return rc ? cli_fail(&err) : CLI_OK;
}

static void print_jobs(const json_t *status, const json_t *before, FILE *out)
{
    cli_jobs_print(status, before, false, out);
}

int cli_status(const struct cli_line *line)
{
    return ask(line, &(struct shown){NULL, cli_status_print});
}

int cli_jobs(const struct cli_line *line)
{
    return ask(line, &(struct shown){"jobs", print_jobs});
}
