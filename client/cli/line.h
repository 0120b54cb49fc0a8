/* line.h: what was typed after `larder`. */
#ifndef LARDER_CLIENT_CLI_LINE_H
#define LARDER_CLIENT_CLI_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Options that only some commands have. All that ask the daemon have --socket and --json. */
enum cli_option { CLI_WATCH = 1, CLI_INTERVAL = 2, CLI_FOR_RESTART = 4, CLI_SINCE = 8 };

enum { CLI_WORDS_MAX = 64 };

struct cli_command;

/* A command, and its options from before or after it. The texts are argv's. */
struct cli_line {
    const struct cli_command *command;
    const char *socket; /* NULL: the default */
    bool json, watch, for_restart;
    unsigned interval_ms;
    const char *since;               /* NULL: not given */
    const char *word[CLI_WORDS_MAX]; /* the command's, in order; NULL where fewer were given */
    size_t words;
    unsigned given;   /* bits of enum cli_option */
    bool asks_daemon; /* --socket or --json was given */
    bool only_words;  /* `--` was given: what follows is no option */
};

struct cli_command {
    const char *name, *second;               /* second is the word after `cluster`, else NULL */
    size_t words_min, words_max;             /* words after the name */
    unsigned options;                        /* bits of enum cli_option */
    const char *needs;                       /* the meaning of the words */
    int (*run)(const struct cli_line *line); /* NULL: larderd does it, and reads what follows */
};

/* cli_line_read reads argv, which begins with the program's name. CLI_OK: out->command is set. If larderd does it,
 * *rest is a place in argv from which on cli_exec can have it. CLI_USAGE: something is wrong, and cli_line_read has
 * said what. */
int cli_line_read(const struct cli_command *commands, size_t n_commands, char **argv, struct cli_line *out,
                  char ***rest);

/* The commands with files of their own: status.c, lists.c, history.c, explain_job.c, doctor_all.c, top.c. Each returns
 * the exit status. */
int cli_status(const struct cli_line *line);
int cli_jobs(const struct cli_line *line);
int cli_datasets(const struct cli_line *line);
int cli_tree(const struct cli_line *line);
int cli_events(const struct cli_line *line);
int cli_cluster(const struct cli_line *line);
int cli_history(const struct cli_line *line);
int cli_explain_job(const struct cli_line *line);
int cli_doctor(const struct cli_line *line);
int cli_top(const struct cli_line *line);

/* cli_completion is `larder completion SHELL`. */
int cli_completion(const struct cli_line *line);

/* cli_help_of writes what `larder COMMAND --help` says of a command that asks the daemon (pages.c). */
void cli_help_of(const struct cli_command *command, FILE *out);

/* cli_usage prints the mistake, and returns CLI_USAGE. what may be NULL. */
int cli_usage(const char *text, const char *what);

#endif
