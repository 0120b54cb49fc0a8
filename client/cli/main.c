/* main.c: `larder`: what an operator types. */
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "common/clock.h"
#include "common/types.h"

static const char help[] =
    "larder: look at and steer larderd, which prepares training data once for many training jobs\n"
    "\n"
    "  larder status [--json] [--watch] [--interval SECONDS]   jobs, queues, progress, rates, memory, sharing\n"
    "  larder ping                                             whether the daemon answers, and how fast\n"
    "  larder cancel JOB                                       end a job; its client gets an error\n"
    "  larder weight JOB W                                     give a job another weight, 0.01 to 100, from now on\n"
    "  larder drain                                            take no new jobs, and stop after the last one\n"
    "  larder drain --for-restart                              stop now; jobs wait, and go on with the next daemon\n"
    "  larder poison list [--json]                             samples that daemons died of, and suspects\n"
    "  larder poison clear [FILE]                              try one of them again, or all\n"
    "  larder check FILE                                       check a configuration file\n"
    "  larder pack|verify|prepare|bench …                      what larderd can do without running as a daemon\n"
    "  larder --version, larder --help\n"
    "\n"
    "status, ping, cancel, weight, drain and poison ask the daemon at --socket PATH, else $LARDER_SOCKET, else "
    "$XDG_RUNTIME_DIR/larder/larder.sock,\n"
    "else /run/larder/larder.sock. Rates in `status` are over the last half second; with --watch over the interval (1 "
    "s).\n"
    "WAITS is the part of the time in which a script had asked for a batch and none was ready; READY the batches that "
    "wait\n"
    "for it, of those it asks for ahead; HELD those it has not given back; SHARED the part of its samples that were "
    "prepared\n"
    "for another job. `status --json --watch` writes one line a time.\n"
    "With `drain` the daemon stops when its last job has ended, however long that takes. `drain --for-restart` is for "
    "a "
    "new\n"
    "version: the daemon stops now, and scripts keep what they have taken, wait for the next daemon and go on in the "
    "same "
    "epoch.\n"
    "It returns when the daemon has gone. SIGTERM does the same, and whoever sends it does not learn when that is.\n"
    "`poison` needs no daemon: without one it takes what the last one has left.\n"
    "\n"
    "exit status: 0 done; 1 failed; 2 usage; 3 no daemon answers\n";

static int usage(const char *text, const char *what)
{
    fprintf(stderr, "larder: %s%s%s; `larder --help` shows what is possible\n", text, what ? ": " : "",
            what ? what : "");
    return CLI_USAGE;
}

static int print_help(void)
{
    return fputs(help, stdout) < 0 || fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int ping(const char *socket)
{
    struct cli_peer *peer = NULL;
    struct error err;
    json_t *request = json_pack("{s:i,s:s}", "v", 1, "op", "ping"), *answer = NULL;
    int rc = cli_connect(socket, &peer, &err);
    uint64_t began_ns = clock_now_ns();
    if (rc == 0)
        rc = cli_ask(peer, request, &answer, &err);
    if (rc == 0) {
        const char *version = json_string_value(json_object_get(answer, "version"));
        printf("larderd %s, pid %lld, answered at %s within %.1f ms\n", version ? version : "?",
               (long long)json_integer_value(json_object_get(answer, "pid")), cli_peer_path(peer),
               (double)(clock_now_ns() - began_ns) / (double)CLOCK_NS_PER_MS);
    }
    cli_disconnect(peer);
    json_decref(request);
    json_decref(answer);
    return rc ? cli_fail(&err) : CLI_OK;
}

static int cancel(const char *socket, const char *job)
{
    int status = cli_change(socket, json_pack("{s:i,s:s,s:s}", "v", 1, "op", "cancel", "job", job));
    if (status == CLI_OK)
        printf("cancelled %s\n", job);
    return status;
}

static int set_weight(const char *socket, const char *job, const char *text)
{
    char *end;
    double weight = strtod(text, &end);
    if (end == text || *end || !(weight >= JOB_WEIGHT_MIN && weight <= JOB_WEIGHT_MAX))
        return usage("a weight is a number from 0.01 to 100, not", text);
    int status = cli_change(socket,
                            json_pack("{s:i,s:s,s:s,s:f}", "v", 1, "op", "weight", "job", job, "weight", weight));
    if (status == CLI_OK)
        printf("%s has weight %g\n", job, weight);
    return status;
}

static int drain(const char *socket, bool for_restart)
{
    if (for_restart)
        return cli_hand_over(socket);
    int status = cli_change(socket, json_pack("{s:i,s:s}", "v", 1, "op", "drain"));
    if (status == CLI_OK)
        puts("the daemon takes no new jobs, and stops after the last one");
    return status;
}

static bool parse_interval(const char *text, unsigned *out_ms)
{
    char *end;
    double seconds = strtod(text, &end);
    if (*end || !(seconds >= 0.1 && seconds <= 3600))
        return false;
    *out_ms = (unsigned)(seconds * 1000);
    return true;
}

/* What follows a command: names, in order, and options. */
struct words {
    const char *word[2];
    size_t wanted, count;
    bool for_restart;
};

static size_t words_of(const char *command)
{
    bool two = strcmp(command, "weight") == 0 || strcmp(command, "poison") == 0;
    return two ? 2 : strcmp(command, "cancel") == 0;
}

static int poison(const struct cli_status_options *options, const struct words *words)
{
    const char *what = words->count ? words->word[0] : "";
    if (strcmp(what, "list") == 0 && words->count == 1)
        return cli_poison_list(options->socket, options->json);
    if (strcmp(what, "clear") == 0 && !options->json)
        return cli_poison_clear(options->socket, words->count > 1 ? words->word[1] : NULL);
    return usage("poison needs list, or clear and perhaps a file", NULL);
}

static int run_asked(const char *command, const struct cli_status_options *options, const struct words *words)
{
    if (strcmp(command, "cancel") == 0)
        return words->count == 1 ? cancel(options->socket, words->word[0]) : usage("cancel needs a job's name", NULL);
    if (strcmp(command, "weight") == 0)
        return words->count == 2 ? set_weight(options->socket, words->word[0], words->word[1])
                                 : usage("weight needs a job's name and a weight", NULL);
    if (strcmp(command, "drain") == 0)
        return drain(options->socket, words->for_restart);
    if (strcmp(command, "poison") == 0)
        return poison(options, words);
    return strcmp(command, "status") == 0 ? cli_status(options) : ping(options->socket);
}

/* ask parses what follows a command for the daemon. */
static int ask(const char *command, char **argv)
{
    struct cli_status_options options = {.interval_ms = 1000};
    struct words words = {.wanted = words_of(command)};
    bool for_status = strcmp(command, "status") == 0, for_poison = strcmp(command, "poison") == 0;
    for (; *argv; argv++) {
        if (strcmp(*argv, "--socket") == 0 && argv[1])
            options.socket = *++argv;
        else if (strcmp(*argv, "--socket") == 0)
            return usage("--socket needs a path", NULL);
        else if ((for_status || for_poison) && strcmp(*argv, "--json") == 0)
            options.json = true;
        else if (for_status && strcmp(*argv, "--watch") == 0)
            options.watch = true;
        else if (for_status && strcmp(*argv, "--interval") == 0 && argv[1] &&
                 parse_interval(argv[1], &options.interval_ms))
            argv++;
        else if (for_status && strcmp(*argv, "--interval") == 0)
            return usage("--interval needs seconds, from 0.1 to 3600", NULL);
        else if (strcmp(command, "drain") == 0 && strcmp(*argv, "--for-restart") == 0)
            words.for_restart = true;
        else if (words.count < words.wanted && (*argv)[0] != '-')
            words.word[words.count++] = *argv;
        else
            return usage("not understood", *argv);
    }
    return run_asked(command, &options, &words);
}

int main(int argc, char **argv)
{
    static const char *const asked[] = {"status", "ping", "cancel", "weight", "drain", "poison"};
    static const char *const run[] = {"check", "bench", "pack", "verify", "prepare"};
    if (argc < 2)
        return usage("no command", NULL);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return print_help();
    if (strcmp(argv[1], "--version") == 0)
        return printf("larder %s\n", LARDER_VERSION) < 0 || fflush(stdout) ? CLI_FAILED : CLI_OK;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        if (strcmp(argv[1], asked[i]) == 0)
            return argc == 3 && strcmp(argv[2], "--help") == 0 ? print_help() : ask(argv[1], argv + 2);
    }
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        if (strcmp(argv[1], run[i]) == 0)
            return cli_exec(argv);
    }
    return usage("no such command", argv[1]);
}
