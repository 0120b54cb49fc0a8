/* pages.c: what `larder --help` and its man page say. */
#include "client/cli/cli.h"
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

static const char notes[] =
    "Options stand before or after the command.\n"
    "WAITS is the part of the time in which a job's scripts stood still for a batch, and SHARING the part of its "
    "samples that were prepared for other jobs, also for such as have ended. FOR is what it waits for most: load (its "
    "samples are read), prepare (they are decoded and augmented), room (the arena or its quota is full), rank (other "
    "ranks), storage (it does not answer); or what else is the matter: script (its script asks for nothing any more), "
    "gone (no rank of it is there), idle (its script has asked for nothing yet).\n"
    "Names that look the same have the job's number behind them, which history and status --json have too.\n"
    "status, jobs and top: PER SEC and WAITS are over the last two to three seconds, and with the next frames over the "
    "interval. READY is how many of the batches that the script asks for ahead are ready; HELD how many it has not "
    "given back.\n"
    "jobs and top: EPOCH ENDS IN is the time to the end of the present epoch at the present rate, and not of the "
    "training.\n"
    "tree: the jobs by what is left to them, the one with least first. Each vertex has the samples that all jobs below "
    "it have still to draw, and none above; each leaf those that its job has besides. Jobs in a fixed order are not in "
    "it.\n"
    "history: STATE is running; ended, when the script closed its Loader, ended by itself, or had all its epochs; "
    "died, "
    "when its process was gone without a word, as after SIGKILL or SIGTERM; failed, when Larder gave it an error; "
    "cancelled, by larder cancel; interrupted, when the daemon ended before it. History reaches a day back, less where "
    "very many jobs train, and is kept over a restart beside the catalog's checkpoints.\n"
    "cluster status: ASKED says whether this node asks that one for samples now; a job's RECEIVED are samples that it "
    "took "
    "from other nodes, REFUSED came and were not needed any more, MOVED were then asked of another node, and BACK "
    "drawn "
    "here.\n"
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
                                           {"NOTES", NULL, 0, notes},
                                           {"EXIT STATUS", ROWS(statuses), NULL}};

const struct manual cli_manual = {"larder", 1,
                                  "look at and steer larderd, which prepares training data once for many training "
                                  "jobs",
                                  parts, sizeof parts / sizeof *parts};
