/* main.c: larderd's command line, its signals, and the daemon's life. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/blocks.h"
#include "common/check.h"
#include "common/last_word.h"
#include "common/library.h"
#include "common/log.h"
#include "common/option.h"
#include "common/streams.h"
#include "preprocess/prepare.h"
#include "server/commands/commands.h"
#include "server/config/config.h"
#include "server/daemon.h"
#include "server/detach.h"
#include "server/ending.h"
#include "server/service.h"

enum exit_code { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_BUSY = 3 };

/* Many threads allocate and free encoded images of all sizes, which fragments glibc's heaps. Few heaps bound what that
 * costs. Larger blocks (images, scratch memory) get pages of their own, as many as leave room under the kernel's limit
 * of 65,530 mappings. tests/bench/memory.py measured 30 MiB less beside 16 MiB of encoded images. */
enum { MALLOC_ARENAS = 4, MALLOC_PAGES_FROM = 64 << 10, MALLOC_PAGES_BLOCKS = 32768, MALLOC_TRIM_FROM = 1 << 20 };

enum { END_GRACE_MS = 200 }; /* time for whoever asked to get the answer */
enum { LEAVE_MS = 31000 };   /* time for leaving a cluster; by then the guests of other nodes have ended */

struct options {
    const char *config, *user_config, *socket, *idle_exit;
    int ready_fd;
    bool progress, detach;
    const char *shares_group; /* why the daemon is in its starter's control group, or NULL */
};

static const struct manual_row options_rows[] = {
    {"larderd",
     "serve, in the foreground, and log to standard error. SIGTERM or SIGINT stop it: a node of a cluster once others "
     "have what is left of their epochs, after 30 s at most, or at a second one"},
    {"--config FILE", "settings (YAML); without it, defaults"},
    {"--user-config FILE", "the same, where that file is there"},
    {"--socket PATH", "socket.path"},
    {"--idle-exit SECONDS", "limits.idle_exit: stop when no client has been connected for so long"},
    {"--ready-fd N", "write one byte to descriptor N when clients can connect; close it either way"},
    {"--progress", "with --ready-fd: write a dot to it before, whenever there is progress with starting"},
    {"--detach[=WHY]",
     "for who starts it from a script: take the CPUs, the priority and the limits back that the script may have been "
     "started with, and log what cannot be had; WHY it stays in the script's control group, for the log"},
    {"--version, --help, --man", "the version and what was built in; this text; this text as a man page"},
    {"larderd COMMAND …", "one of the commands below, without serving; the `larder` tool passes them on"},
};
static const struct manual_row statuses[] = {{"0", "stopped or done"},
                                             {"1", "failed"},
                                             {"2", "wrong usage or configuration"},
                                             {"3", "another daemon has the socket"}};

/* write_manual writes the manual one way or the other. */
static int write_manual(void (*write)(const struct manual *, FILE *))
{
    struct manual_row commands[COMMANDS_MAX];
    const struct manual_part parts[] = {{"OPTIONS", options_rows, sizeof options_rows / sizeof *options_rows, NULL},
                                        {"COMMANDS", commands, commands_rows(commands), NULL},
                                        {"EXIT STATUS", statuses, sizeof statuses / sizeof *statuses, NULL}};
    const struct manual manual = {"larderd", 8, "prepares training data once for many training jobs", parts,
                                  sizeof parts / sizeof *parts};
    write(&manual, stdout);
    return ferror(stdout) || fflush(stdout) ? EXIT_FAILED : EXIT_FINE;
}

/* This returns the exit status, or -1 to go on. */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {{"config", required_argument, NULL, 'c'},
                                          {"user-config", required_argument, NULL, 'u'},
                                          {"socket", required_argument, NULL, 's'},
                                          {"idle-exit", required_argument, NULL, 'i'},
                                          {"ready-fd", required_argument, NULL, 'r'},
                                          {"progress", no_argument, NULL, 'p'},
                                          {"detach", optional_argument, NULL, 'd'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"man", no_argument, NULL, 'm'},
                                          {NULL, 0, NULL, 0}};
    int option;
    char *end;
    while ((option = option_next(argc, argv, known, NULL)) != -1) {
        switch (option) {
        case 'c': options->config = optarg; break;
        case 'u': options->user_config = optarg; break;
        case 's': options->socket = optarg; break;
        case 'i': options->idle_exit = optarg; break;
        case 'r':
            options->ready_fd = (int)strtol(optarg, &end, 10);
            if (*end || end == optarg || fcntl(options->ready_fd, F_SETFD, FD_CLOEXEC) < 0) {
                fprintf(stderr, "larderd: --ready-fd %s is not an open descriptor\n", optarg);
                return EXIT_USAGE;
            }
            break;
        case 'p': options->progress = true; break;
        case 'd':
            options->detach = true;
            options->shares_group = optarg;
            break;
        case 'v':
            puts("larderd " LARDER_VERSION "\n" LARDER_BUILT);
            library_tell(stdout);
            return EXIT_FINE;
        case 'h': return write_manual(manual_text);
        case 'm': return write_manual(manual_roff);
        default: fputs("larderd: see larderd --help\n", stderr); return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "larderd: what is \"%s\"? See larderd --help\n", argv[optind]);
        return EXIT_USAGE;
    }
    return -1;
}

/* absolute returns the path as other processes can use it, malloc'ed; NULL of NULL. */
static char *absolute(const char *path)
{
    char *resolved = path ? realpath(path, NULL) : NULL; /* a file that is not there was given from the root */
    return resolved || !path ? resolved : xstrdup(path);
}

/* *listen_fd is a service manager's socket, or -1. Its path is the socket's, whatever the configuration says. */
static int configure(const struct options *options, struct config **out, int *listen_fd, struct error *err)
{
    struct config *config = NULL;
    const char *file = options->config, *named = file ? file : options->user_config;
    char path[CONFIG_SOCKET_PATH_MAX + 1];
    if (!file && named && access(named, F_OK) == 0)
        file = named;
    int code = service_socket(listen_fd, path, sizeof path, err);
    if (!code)
        code = config_load(file, &config, err);
    if (!code)
        config->settings_file = absolute(named);
    if (!code && *listen_fd >= 0)
        code = config_set(config, "socket.path", path, err);
    else if (!code && options->socket)
        code = config_set(config, "socket.path", options->socket, err);
    if (!code && options->idle_exit)
        code = config_set(config, "limits.idle_exit", options->idle_exit, err);
    if (!code)
        code = config_check_pipelines(config, err);
    if (code) {
        config_destroy(config);
        return code;
    }
    *out = config;
    return 0;
}

/* log_signal returns the signal's name. */
static const char *log_signal(int signals)
{
    struct signalfd_siginfo info = {0};
    bool got = read(signals, &info, sizeof info) == (ssize_t)sizeof info;
    const char *name = info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM";
    if (got)
        log_info("msg=\"stopping\" signal=%s", name);
    return name;
}

/* time that a service manager waits after each sign of progress */
#define EXTEND_START "EXTEND_TIMEOUT_USEC=30000000"

struct starting {
    int signals, progress_fd;
};

static bool signalled(int signals)
{
    struct pollfd fd = {.fd = signals, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

/* daemon_start calls this whenever there is progress with starting. False: SIGTERM or SIGINT has come. */
static bool go_on(void *ctx)
{
    const struct starting *starting = ctx;
    struct pollfd told = {.fd = starting->progress_fd, .events = POLLOUT}; /* poll passes a negative descriptor over */
    if (poll(&told, 1, 0) == 1 && told.revents & POLLOUT) {
        ssize_t written = write(told.fd, ".", 1);
        (void)written; /* it fails when whoever started the daemon has stopped waiting */
    }
    service_notify(EXTEND_START);
    return !signalled(starting->signals);
}

/* This waits until SIGTERM or SIGINT comes, the daemon has come to its end, or nobody has been connected for
 * idle_exit_s. Meanwhile the service manager's watchdog hears of a daemon that works. This tells whether a daemon of a
 * cluster has to leave it (one that has come to its end has left), and writes why it ends. */
static bool wait_for_the_end(struct daemon *daemon, int signals, uint64_t idle_exit_s, char why[LAST_WORD_BYTES])
{
    unsigned watchdog_ms = service_watchdog_ms();
    for (;;) {
        int timeout_ms = -1;
        if (watchdog_ms) {
            daemon_check(daemon);
            service_notify("WATCHDOG=1");
        }
        if (idle_exit_s) {
            double left = (double)idle_exit_s - daemon_idle_s(daemon);
            if (left <= 0) {
                log_info("msg=\"no client for a while, stopping\" idle_exit_s=%llu", (unsigned long long)idle_exit_s);
                snprintf(why, LAST_WORD_BYTES, "no script had been connected for %llu s (limits.idle_exit)",
                         (unsigned long long)idle_exit_s);
                return true;
            }
            timeout_ms = left > 3600 ? 3600000 : (int)(left * 1000) + 1;
        }
        if (watchdog_ms && (timeout_ms < 0 || timeout_ms > (int)watchdog_ms))
            timeout_ms = (int)watchdog_ms;
        struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = daemon_end_fd(daemon), .events = POLLIN}};
        if (poll(fds, 2, timeout_ms) > 0) {
            if (fds[1].revents) {
                snprintf(why, LAST_WORD_BYTES, "larder drain told it to");
                poll(NULL, 0, END_GRACE_MS);
                return false;
            }
            snprintf(why, LAST_WORD_BYTES, "it got %s", log_signal(signals));
            return true;
        }
    }
}

/* Other nodes' jobs get what is left of their epochs first, unless another signal comes or somebody asks for the end.
 * All who ask, here too, get the answer. */
static void leave(struct daemon *daemon, int signals)
{
    struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = daemon_end_fd(daemon), .events = POLLIN}};
    daemon_leave(daemon);
    if (poll(fds, 2, LEAVE_MS) > 0 && fds[0].revents)
        log_signal(signals);
    else
        poll(NULL, 0, END_GRACE_MS);
}

/* A pipe that somebody else has filled, and that nobody reads, would hold the daemon for ever. */
static void tell_ready(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT) || write(fd, "\n", 1) != 1)
        log_warn("msg=\"whoever started this daemon could not be told that it is ready\" ready_fd=%d", fd);
    close(fd);
}

/* Each client and each read costs a descriptor. The usual soft limit of 1,024 exists for programs that use select. */
static void raise_open_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* The process ends before the daemon has stopped. */
static void forsake(void *ctx)
{
    struct daemon *daemon = atomic_load((struct daemon * _Atomic *)ctx);
    if (daemon)
        daemon_forsake(daemon);
}

/* run has the daemon serve until it is to end, and stops it. */
static void run(struct daemon *daemon, const struct options *options, const struct config *config, int signals,
                struct ending *ending)
{
    if (options->ready_fd >= 0) {
        log_flush(); /* whoever waits reads there what is served where */
        tell_ready(options->ready_fd);
    }
    service_notify("READY=1");
    char why[LAST_WORD_BYTES];
    struct error err;
    bool to_leave = wait_for_the_end(daemon, signals, config->idle_exit_s, why);
    service_notify("STOPPING=1");
    if (to_leave && *config->cluster_name)
        leave(daemon, signals);
    ending_begin(ending);
    daemon_stop(daemon);
    if (last_word_leave(config->socket_path, time(NULL), why,
                        &err)) /* while the next daemon waits for this one's end */
        log_warn("msg=\"nobody will learn why this daemon ended\" err=\"%s\"", err.text);
}

static int serve(const struct options *options)
{
    struct error err;
    struct config *config = NULL;
    struct daemon *_Atomic served = NULL;
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL); /* before any thread starts */
    signal(SIGPIPE, SIG_IGN);
    raise_open_files();
    if (options->detach) {
        unsetenv("NOTIFY_SOCKET"); /* the script's service is not this daemon */
        detach_from_starter(options->shares_group);
    }
    mallopt(M_ARENA_MAX, MALLOC_ARENAS);
    mallopt(M_MMAP_THRESHOLD, MALLOC_PAGES_FROM);
    mallopt(M_MMAP_MAX, MALLOC_PAGES_BLOCKS);
    mallopt(M_TRIM_THRESHOLD, MALLOC_TRIM_FROM);

    int listen_fd = -1;
    if (configure(options, &config, &listen_fd, &err)) {
        log_error("msg=\"cannot start\" err=\"%s\"", err.text);
        return EXIT_USAGE;
    }
    log_set_level((enum log_level)config->log_level);
    if (log_start())
        log_warn("msg=\"no thread for the log: whoever logs waits for standard error\"");
    prepare_init();
    blocks_keep(config_sure_bytes(config) + config_lent_bytes(config));
    int status = EXIT_FAILED, signals = signalfd(-1, &stop, SFD_CLOEXEC);
    int code = signals < 0 ? error_set(&err, LARDER_EIO, "signalfd: %s", strerror(errno)) : 0;
    struct ending *ending = code ? NULL : ending_create(signals, forsake, &served);
    struct daemon *daemon = NULL;
    struct starting starting = {.signals = signals, .progress_fd = options->progress ? options->ready_fd : -1};
    if (!code)
        code = daemon_start(config, listen_fd, &(struct daemon_progress){go_on, &starting}, &daemon, &err);
    if (code == LARDER_EGONE && signalled(signals)) {
        log_signal(signals);
        status = EXIT_FINE;
    } else if (code) {
        log_error("msg=\"cannot start\" err=\"%s\"", err.text);
        status = code == LARDER_EBUSY ? EXIT_BUSY : EXIT_FAILED;
    } else {
        atomic_store(&served, daemon);
        run(daemon, options, config, signals, ending);
        status = EXIT_FINE;
    }
    ending_over(ending);
    if (daemon)
        log_info("msg=\"stopped\"");
    daemon_destroy(daemon);
    if (signals >= 0)
        close(signals);
    config_destroy(config);
    log_stop();
    return status;
}

int main(int argc, char **argv)
{
    int status;
    streams_fill();
    umask(umask(0) & (S_IRWXG | S_IRWXO)); /* the daemon needs all rights to its own files */
    if (argc > 1 && argv[1][0] != '-' && commands_run(argc - 1, argv + 1, &status))
        return status;
    struct options options = {.ready_fd = -1};
    status = parse(argc, argv, &options);
    return status >= 0 ? status : serve(&options);
}
