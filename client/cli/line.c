/* line.c: reads what was typed after `larder`: options may stand before and after the command. */
#include "client/cli/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "common/nearest.h"

int cli_usage(const char *text, const char *what)
{
    fprintf(stderr, "larder: %s%s%s; `larder --help` shows what is possible\n", text, what ? ": " : "",
            what ? what : "");
    return CLI_USAGE;
}

static bool parse_interval(const char *text, unsigned *out_ms)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0.1 && seconds <= 3600))
        return false;
    *out_ms = (unsigned)(seconds * 1000);
    return true;
}

/* value_of reads `--name VALUE` or `--name=VALUE` at *at, and moves *at to its last word. False: something else is
 * there. *value is NULL when the value is missing. */
static bool value_of(char ***at, const char *name, const char **value)
{
    const char *word = **at;
    size_t len = strlen(name);
    if (strncmp(word, name, len) != 0 || (word[len] != '\0' && word[len] != '='))
        return false;
    if (word[len] == '=')
        *value = word + len + 1;
    else if ((*value = (*at)[1]) != NULL)
        ++*at;
    return true;
}

static int unknown_option(const char *word)
{
    static const char *const known[] = {"--json",  "--socket", "--watch",   "--interval", "--for-restart",
                                        "--since", "--help",   "--version", "--man"};
    struct nearest search = {.given = word};
    char text[160];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        nearest_consider(&search, known[i], known[i]);
    if (!search.best)
        return cli_usage("no such option", word);
    snprintf(text, sizeof text, "no such option: %.80s (did you mean \"%s\"?)", word, search.best);
    return cli_usage(text, NULL);
}

/* read_option reads the option at *at. */
static int read_option(char ***at, struct cli_line *line)
{
    const char *value;
    if (strcmp(**at, "--") == 0) {
        line->only_words = true;
    } else if (strcmp(**at, "--json") == 0) {
        line->json = line->asks_daemon = true;
    } else if (strcmp(**at, "--watch") == 0) {
        line->watch = true;
        line->given |= CLI_WATCH;
    } else if (strcmp(**at, "--for-restart") == 0) {
        line->for_restart = true;
        line->given |= CLI_FOR_RESTART;
    } else if (value_of(at, "--socket", &value)) {
        if (!value || !*value)
            return cli_usage("--socket needs a path", NULL);
        line->socket = value;
        line->asks_daemon = true;
    } else if (value_of(at, "--interval", &value)) {
        if (!value || !parse_interval(value, &line->interval_ms))
            return cli_usage("--interval needs seconds, from 0.1 to 3600", NULL);
        line->given |= CLI_INTERVAL;
    } else if (value_of(at, "--since", &line->since)) {
        if (!line->since)
            return cli_usage("--since needs a time, such as 10m or 14:30", NULL);
        line->given |= CLI_SINCE;
    } else {
        return unknown_option(**at);
    }
    return CLI_OK;
}

static int unknown(const struct cli_command *commands, size_t n_commands, const char *name)
{
    struct nearest search = {.given = name};
    char text[160];
    for (size_t i = 0; i < n_commands; i++)
        nearest_consider(&search, commands[i].name, commands[i].name);
    if (!search.best)
        return cli_usage("no such command", name);
    snprintf(text, sizeof text, "no such command: %.80s (did you mean \"%s\"?)", name, search.best);
    return cli_usage(text, NULL);
}

/* find returns the command that begins at words, which ends with NULL. */
static const struct cli_command *find(const struct cli_command *commands, size_t n_commands, char *const *words)
{
    for (size_t i = 0; i < n_commands; i++) {
        const struct cli_command *command = &commands[i];
        if (strcmp(command->name, words[0]) == 0 &&
            (!command->second || (words[1] && strcmp(command->second, words[1]) == 0)))
            return command;
    }
    return NULL;
}

static int check(const struct cli_line *line)
{
    static const char *const names[] = {"--watch", "--interval", "--for-restart", "--since"};
    const struct cli_command *command = line->command;
    char text[160];
    if (!command)
        return cli_usage("no command", NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (line->given & ~command->options & 1u << i) {
            snprintf(text, sizeof text, "%s has no option", command->name);
            return cli_usage(text, names[i]);
        }
    }
    if (!command->run && line->asks_daemon) {
        snprintf(text, sizeof text, "%s asks no daemon: it has neither --socket nor --json before it", command->name);
        return cli_usage(text, NULL);
    }
    if (line->words < command->words_min) {
        snprintf(text, sizeof text, "%s needs %s", command->name, command->needs);
        return cli_usage(text, NULL);
    }
    return CLI_OK;
}

int cli_line_read(const struct cli_command *commands, size_t n_commands, char **argv, struct cli_line *out,
                  char ***rest)
{
    *out = (struct cli_line){.interval_ms = 1000};
    for (char **at = argv + 1; *at; at++) {
        if ((*at)[0] == '-' && !out->only_words) {
            int status = read_option(&at, out);
            if (status)
                return status;
        } else if (!out->command) {
            out->command = find(commands, n_commands, at);
            if (!out->command)
                return unknown(commands, n_commands, *at);
            *rest = at - 1;
            at += out->command->second != NULL;
            if (!out->command->run)
                break;
        } else if (out->words < out->command->words_max) {
            out->word[out->words++] = *at;
        } else {
            return cli_usage("not understood", *at);
        }
    }
    return check(out);
}
