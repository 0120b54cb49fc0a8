/* pages.c: what `larder --help` and its man page say, and what `larder COMMAND --help` does: the parts of that which
 * are about the command. */
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/line.h"
#include "common/manual.h"

#define ROWS(rows) rows, sizeof rows / sizeof *(rows)

static const struct manual_row commands[] = {
    {"larder status [--watch] [--interval SECONDS]", "jobs, queues, progress, rates, memory, sharing"},
    {"larder top [--interval SECONDS]", "the same with what each job waits for, drawn again and again; q ends it"},
    {"larder jobs [--watch] [--interval SECONDS]", "the jobs: progress, time left, rates, what they wait for, sharing"},
    {"larder datasets", "the datasets that jobs train on"},
    {"larder tree", "which samples the jobs have still to draw together, as it was at most 5 s ago"},
    {"larder events", "the last lines of the daemon's log"},
    {"larder history [JOB …] [--since TIME]",
     "the jobs of the last day, ended ones too, and what they saved together; or one over time, and what happened"},
    {"larder cluster status", "the nodes of the cluster, and what they give each other"},
    {"larder cluster leave", "give nothing more to the other nodes; jobs here go on"},
    {"larder explain [JOB] [--interval SECONDS]", "why a job waits, or each, and what would help most"},
    {"larder doctor", "memory, descriptors, processors, versions, rights: what is wrong, and what to do"},
    {"larder ping", "whether the daemon answers, and how fast"},
    {"larder cancel JOB", "end a job; its client gets an error"},
    {"larder weight JOB W", "give a job another weight, 0.01 to 100, from now on"},
    {"larder drain", "take no new jobs, and stop after the last one"},
    {"larder drain --for-restart", "stop now; jobs wait, and go on with the next daemon"},
    {"larder poison list", "samples that daemons died of, and suspects"},
    {"larder poison clear [FILE]", "try one of them again, or all"},
    {"larder check FILE", "check a configuration file"},
    {"larder cache PATH", "show, verify or empty a storage class"},
    {"larder cluster keygen", "make a cluster's authority, or a node's bundle; it has a --help"},
    {"larder cluster probe", "whether a node of a cluster answers at an address; it has a --help"},
    {"larder look|pack|verify|prepare|plan|bench …",
     "what larderd can do without running as a daemon; each has a --help"},
    {"larder completion bash|zsh", "what a shell needs to complete these words"},
    {"larder --version, --help, --man", "the version and what was built in; this text; this text as a man page"},
};

static const struct manual_row options[] = {
    {"--socket PATH", "the daemon's socket, for the commands from status to poison; else $LARDER_SOCKET, else "
                      "larder/larder.sock in $XDG_RUNTIME_DIR, else in /run, else larder.sock in /tmp/larder-UID, the "
                      "first that this user can use"},
    {"--json", "the answer for programs; of these commands too"},
    {"--watch", "of status and jobs: again and again; with --json a line a time"},
    {"--interval SECONDS",
     "of status, jobs and top: the time between two, 1 without it; of explain: how long it looks, 2 without it"},
    {"--since TIME", "of history: jobs that began since then: 90s, 10m, 2h or 1d ago, or at 14:30 or 14:30:05"},
    {"--", "what follows is no option: a job's name that begins with -"},
};

/* Each heading of a table of these commands, and each word that begins a line of status. */
static const struct manual_row columns[] = {
    {"JOB",
     "its name; where another job's looks the same, with the job's number behind it, as in \"train #17\": history "
     "--json and status --json have the numbers of all"},
    {"RANKS", "the ranks that it has, whether they are there or not"},
    {"EPOCH",
     "the epoch that it is in, and of how many. Counted from 0, as loader.epoch is, so it is also how many it has "
     "had"},
    {"DONE", "the part of this epoch that its scripts have got"},
    {"EPOCH ENDS IN", "the time to the end of this epoch, not of the training, at the present rate"},
    {"SAMPLES",
     "of status: those of one of its epochs; of history: those that it got in all; of datasets: the dataset's"},
    {"PER SEC",
     "samples a second that it gets: of status, jobs and top over the last two to three seconds, and with the "
     "next frames over the interval; of history over all of its time"},
    {"WAITS", "the part of the time, the same as of PER SEC, in which its scripts stood still for a batch"},
    {"FOR",
     "what it waits for most: load (its samples are read), prepare (they are decoded and augmented), room (the "
     "arena or its quota is full), rank (other ranks), storage (it does not answer); or what else is the matter: "
     "script (its script asks for nothing any more), gone (no rank of it is there), idle (its script has asked "
     "for nothing yet)"},
    {"READY", "how many batches are prepared for it that its scripts have not got yet, of how many they ask for ahead "
              "(prefetch, of all ranks together)"},
    {"HELD", "how many batches its scripts have and have not given back: with zero_copy also those that they keep"},
    {"SHARING", "the part of its samples that were prepared for other jobs, also for such as have ended"},
    {"BAD", "bad samples: those that could not be read or decoded"},
    {"DATASET", "the folder, file, list or store that it trains on"},
    {"STATE",
     "of history: running; ended, when its script closed the Loader or ended between two epochs, or had all of "
     "them; left mid-epoch, when it did so in the middle of one: it raised an exception, or wanted no more batches; "
     "died, "
     "when its process was gone without a word, as after SIGKILL or SIGTERM; failed, when Larder gave it an "
     "error; cancelled, by larder cancel; interrupted, when the daemon ended before it. Of cluster status: UP, "
     "LEAVING (it gives only what is left of epochs), LOST (it answers no more), UNKNOWN (it has not been heard of)"},
    {"BEGAN, LASTED", "when it came, in local time with the zone, and for how long it was here"},
    {"EPOCHS", "how many epochs it has had, with the part of the one it is in, and of how many"},
    {"FROM", "when the stretch of time began that the line is about"},
    {"KIND", "of datasets: not packed, or how the store was packed"},
    {"JOBS", "of datasets: the jobs that train on it now"},
    {"NODE, ADDRESS", "a node of the cluster, and where it is asked"},
    {"ASKED", "of a node: whether this one asks it for samples now; of samples: those that are on their way"},
    {"RECEIVED", "samples that the job took from other nodes"},
    {"REFUSED", "samples that came from other nodes and were not needed any more"},
    {"MOVED, BACK", "samples asked of one node, and then of another; and then drawn here"},
    {"PREPARED",
     "where the job's samples are prepared: here, or by homes, each on the node that its chunk belongs to; and "
     "how many trainings of the cluster want them"},
    {"STILL TO COME FROM, TO", "the node that has still samples of this epoch to give, and the job that gets them"},
    {"LEFT, WAITING", "how many of its samples are still to come from there, and how many of them its scripts wait for "
                      "that are not on their way yet"},
    {"VERDICT", "of poison list: poisonous (it is prepared no more), crashed (a thread of a daemon crashed over it), "
                "suspect (it was being prepared when a daemon died)"},
    {"CRASHES, DEATHS",
     "how often a thread crashed over it, and how often in a row a daemon died with it as a suspect"},
    {"SIGNAL, FILE", "the signal of the last crash, and the sample's file"},
    {"samples",
     "of status: how many were prepared and delivered since the daemon was started; of cluster status: how many "
     "came from other nodes, and for how many requests"},
    {"bad", "the bad samples since then, by what is wrong with them"},
    {"memory",
     "of status: what the arena (prepared samples) holds, of how much, and how much of it scripts hold (pinned); "
     "what encoded memory holds; and the daemon's own memory"},
    {"storage", "a storage class: its folder, its state, how full it is, and its part of what was read"},
    {"threads", "the daemon's threads by role, the cores that they keep busy, and the samples that they prepare"},
    {"cluster, guests", "the cluster that the daemon is in; jobs of other nodes that get samples from here"},
    {"engine", "how often the thread that decides who gets what was called, and how long that took"},
};

static const char notes[] =
    "Options stand before or after the command.\n"
    "tree: the jobs by what is left to them, the one with least first. Each vertex has the samples that all jobs below "
    "it have still to draw, and none above; each leaf those that its job has besides. Jobs in a fixed order are not in "
    "it.\n"
    "history reaches a day back, less where very many jobs train, and is kept over a restart beside the catalog's "
    "checkpoints.\n"
    "cluster leave: other nodes get from this one what is left of the epochs that they are in, for 30 seconds at most, "
    "and begin no other here. cluster status says how many guests it still has. A daemon that is started again is "
    "back.\n"
    "top: where standard output is no terminal it writes one frame and ends. NO_COLOR turns colours off.\n"
    "doctor needs no daemon, but finds less without one.\n"
    "drain: the daemon stops when its last job has ended, however long that takes, and a node of a cluster leaves it. "
    "drain --for-restart is for a new "
    "version: the daemon stops now, and scripts keep what they have taken, wait for the next daemon and go on in the "
    "same epoch. It returns when the daemon has gone. SIGTERM does the same, on a node of a cluster once others have "
    "what is left of their epochs, and whoever sends it does not learn when that is.\n"
    "poison needs no daemon: without one it takes what the last one has left.";

static const struct manual_row statuses[] = {{"0", "done"},
                                             {"1", "failed"},
                                             {"2", "wrong usage"},
                                             {"3", "no daemon answers"},
                                             {"4", "doctor has found something to be done"}};

static const struct manual_part parts[] = {{"COMMANDS", ROWS(commands), NULL},
                                           {"OPTIONS", ROWS(options), NULL},
                                           {"COLUMNS", ROWS(columns), NULL},
                                           {"NOTES", NULL, 0, notes},
                                           {"EXIT STATUS", ROWS(statuses), NULL}};

const struct manual cli_manual = {"larder", 1,
                                  "look at and steer larderd, which prepares training data once for many training "
                                  "jobs",
                                  parts, sizeof parts / sizeof *parts};

/* ── of one command ────────────────────────────────────────────────────────────────────────────────────────────── */

enum { ROWS_MAX = 8, NOTE_BYTES = 1024, WORDS_BYTES = 64 };

/* behind returns what follows the words at the text's beginning; NULL: it begins otherwise. */
static const char *behind(const char *text, const char *words)
{
    size_t len = strlen(words);
    bool begins = strncmp(text, words, len) == 0 && (text[len] == '\0' || text[len] == ' ' || text[len] == ':');
    return begins ? text + len : NULL;
}

/* has_option tells whether the command has the option of a row of the table. What no bit stands for, all have. */
static bool has_option(const struct cli_command *command, const char *usage)
{
    if (behind(usage, "--"))
        return command->words_max > 0;
    return !(behind(usage, "--watch") && !(command->options & CLI_WATCH)) &&
           !(behind(usage, "--interval") && !(command->options & CLI_INTERVAL)) &&
           !(behind(usage, "--since") && !(command->options & CLI_SINCE));
}

/* notes_of copies those paragraphs of the notes that begin with the command's words. */
static void notes_of(const char *words, char out[NOTE_BYTES])
{
    size_t len = 0;
    for (const char *at = notes; *at;) {
        size_t bytes = strcspn(at, "\n");
        if (behind(at, words))
            len += (size_t)snprintf(out + len, NOTE_BYTES - len, "%s%.*s", len ? "\n" : "", (int)bytes, at);
        at += bytes + (at[bytes] != '\0');
    }
    out[len] = '\0';
}

void cli_help_of(const struct cli_command *command, FILE *out)
{
    struct manual_row usages[ROWS_MAX], had[ROWS_MAX];
    size_t n_usages = 0, n_had = 0;
    char words[WORDS_BYTES], note[NOTE_BYTES];
    snprintf(words, sizeof words, "larder %s%s%s", command->name, command->second ? " " : "",
             command->second ? command->second : "");
    for (size_t i = 0; i < sizeof commands / sizeof *commands && n_usages < ROWS_MAX; i++) {
        if (behind(commands[i].usage, words))
            usages[n_usages++] = commands[i];
    }
    for (size_t i = 0; i < sizeof options / sizeof *options && n_had < ROWS_MAX; i++) {
        if (has_option(command, options[i].usage))
            had[n_had++] = options[i];
    }
    notes_of(words + strlen("larder "), note);
    const struct manual_part said[] = {{"USAGE", usages, n_usages, NULL},
                                       {"OPTIONS", had, n_had, NULL},
                                       {"NOTES", NULL, 0, *note ? note : NULL},
                                       {"EXIT STATUS", ROWS(statuses), NULL}};
    fprintf(out, "%s\n", words);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        if (said[i].n_rows || said[i].text)
            manual_part_text(&said[i], out);
    }
    fputs("\n`larder --help` has the other commands, and says what the columns of the tables mean.\n", out);
}
