/* main.c: `larder`: what an operator types. */
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/line.h"
#include "common/clock.h"
#include "common/library.h"
#include "common/manual.h"
#include "common/streams.h"
#include "common/types.h"

static int print(void (*write)(const struct manual *, FILE *))
{
    write(&cli_manual, stdout);
    return ferror(stdout) || fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int ping(const struct cli_line *line)
{
    struct cli_peer *peer = NULL;
    struct error err;
    json_t *request = json_pack("{s:i,s:s}", "v", 1, "op", "ping"), *answer = NULL;
    int rc = cli_connect(line->socket, &peer, &err);
    uint64_t began_ns = clock_now_ns();
    if (rc == 0)
        rc = cli_ask(peer, request, &answer, &err);
    double ms = (double)(clock_now_ns() - began_ns) / (double)CLOCK_NS_PER_MS;
    int status = rc ? cli_fail(&err) : CLI_OK;
    if (rc == 0) {
        const char *version = json_string_value(json_object_get(answer, "version"));
        long long pid = (long long)json_integer_value(json_object_get(answer, "pid"));
        status = cli_say(line->json,
                         json_pack("{s:s?,s:I,s:s,s:f}", "version", version, "pid", (json_int_t)pid, "socket",
                                   cli_peer_path(peer), "milliseconds", ms),
                         "larderd %s, pid %lld, answered at %s within %.1f ms\n", version ? version : "?", pid,
                         cli_peer_path(peer), ms);
    }
    cli_disconnect(peer);
    json_decref(request);
    json_decref(answer);
    return status;
}

static int cancel(const struct cli_line *line)
{
    const char *job = line->word[0];
    int status = cli_change(line->socket, json_pack("{s:i,s:s,s:s}", "v", 1, "op", "cancel", "job", job));
    return status ? status : cli_say(line->json, json_pack("{s:s}", "cancelled", job), "cancelled %s\n", job);
}

static int set_weight(const struct cli_line *line)
{
    const char *job = line->word[0];
    char *end;
    double weight = strtod(line->word[1], &end);
    if (end == line->word[1] || *end || !(weight >= JOB_WEIGHT_MIN && weight <= JOB_WEIGHT_MAX))
        return cli_usage("a weight is a number from 0.01 to 100, not", line->word[1]);
    int status = cli_change(line->socket,
                            json_pack("{s:i,s:s,s:s,s:f}", "v", 1, "op", "weight", "job", job, "weight", weight));
    return status ? status
                  : cli_say(line->json, json_pack("{s:s,s:f}", "job", job, "weight", weight), "%s has weight %g\n", job,
                            weight);
}

static int drain(const struct cli_line *line)
{
    if (line->for_restart)
        return cli_hand_over(line->socket, line->json);
    int status = cli_change(line->socket, json_pack("{s:i,s:s}", "v", 1, "op", "drain"));
    return status ? status
                  : cli_say(line->json, json_pack("{s:b}", "draining", true),
                            "the daemon takes no new jobs, and stops after the last one\n");
}

static int leave(const struct cli_line *line)
{
    int status = cli_change(line->socket, json_pack("{s:i,s:s}", "v", 1, "op", "cluster_leave"));
    return status ? status
                  : cli_say(line->json, json_pack("{s:b}", "leaving", true),
                            "the daemon gives nothing more to other nodes, but for the epochs that they are in\n");
}

static int poison(const struct cli_line *line)
{
    const char *what = line->word[0];
    if (strcmp(what, "list") == 0 && line->words == 1)
        return cli_poison_list(line->socket, line->json);
    if (strcmp(what, "clear") == 0)
        return cli_poison_clear(line->socket, line->word[1], line->json);
    return cli_usage("poison needs list, or clear and perhaps a file", NULL);
}

static const struct cli_command commands[] = {
    {.name = "status", .options = CLI_WATCH | CLI_INTERVAL, .run = cli_status},
    {.name = "top", .options = CLI_INTERVAL, .run = cli_top},
    {.name = "jobs", .options = CLI_WATCH | CLI_INTERVAL, .run = cli_jobs},
    {.name = "datasets", .run = cli_datasets},
    {.name = "tree", .run = cli_tree},
    {.name = "events", .run = cli_events},
    {.name = "history",
     .words_max = CLI_WORDS_MAX,
     .options = CLI_SINCE,
     .needs = "names of jobs, or nothing",
     .run = cli_history},
    {.name = "explain",
     .words_max = 1,
     .options = CLI_INTERVAL,
     .needs = "a job's name, or nothing",
     .run = cli_explain_job},
    {.name = "doctor", .run = cli_doctor},
    {.name = "ping", .run = ping},
    {.name = "cancel", .words_min = 1, .words_max = 1, .needs = "a job's name", .run = cancel},
    {.name = "weight", .words_min = 2, .words_max = 2, .needs = "a job's name and a weight", .run = set_weight},
    {.name = "drain", .options = CLI_FOR_RESTART, .run = drain},
    {.name = "poison", .words_min = 1, .words_max = 2, .needs = "list, or clear and perhaps a file", .run = poison},
    {.name = "completion", .words_min = 1, .words_max = 1, .needs = "bash or zsh", .run = cli_completion},
    {.name = "check"},
    {.name = "cache"},
    {.name = "cluster", .second = "status", .run = cli_cluster},
    {.name = "cluster", .second = "leave", .run = leave},
    {.name = "cluster"},
    {.name = "bench"},
    {.name = "look"},
    {.name = "pack"},
    {.name = "plan"},
    {.name = "verify"},
    {.name = "prepare"},
};

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static bool has(char *const *words, const char *wanted)
{
    while (*words && strcmp(*words, wanted) != 0)
        words++;
    return *words;
}

/* asked_about returns the command that asks the daemon, and which stands before a --help; NULL: there is none. */
static const struct cli_command *asked_about(char *const *argv)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *second = commands[i].second;
        if (!commands[i].run || !argv[1] || strcmp(argv[1], commands[i].name) != 0 ||
            (second && (!argv[2] || strcmp(argv[2], second) != 0)))
            continue;
        for (char *const *word = argv + 2; *word && strcmp(*word, "--") != 0; word++) {
            if (is_help(*word))
                return &commands[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct cli_line line;
    char **rest = argv;
    streams_fill();
    if (argc >= 2 && (is_help(argv[1]) || strcmp(argv[1], "help") == 0))
        return print(manual_text);
    if (argc >= 2 && strcmp(argv[1], "--man") == 0)
        return print(manual_roff);
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        puts("larder " LARDER_VERSION "\n" LARDER_BUILT);
        library_tell(stdout);
        return ferror(stdout) || fflush(stdout) ? CLI_FAILED : CLI_OK;
    }
    size_t n_commands = sizeof commands / sizeof *commands;
    const struct cli_command *asked = asked_about(argv);
    if (asked) {
        cli_help_of(asked, stdout);
        return ferror(stdout) || fflush(stdout) ? CLI_FAILED : CLI_OK;
    }
    int wrong = cli_line_read(commands, n_commands, argv, &line, &rest);
    if (wrong)
        return wrong;
    if (line.command->run)
        return line.command->run(&line);
    return strcmp(line.command->name, "plan") == 0 && has(rest, "--compare") ? cli_exec_compare(rest) : cli_exec(rest);
}
