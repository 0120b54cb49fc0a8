#include "tests/unit/server/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void need(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

pid_t program_start(char *const argv[], int *to, int *from)
{
    int in[2], out[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    need(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "pipe2");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, out[1], 2);
    need(posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) == 0, argv[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    *to = in[1];
    *from = out[0];
    return pid;
}

int program_wait(pid_t pid)
{
    int status;
    need(waitpid(pid, &status, 0) == pid, "waitpid");
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int program_run(char *const argv[], const char *input, char *output, size_t cap)
{
    int to, from;
    size_t len = 0;
    ssize_t got;
    char rest[4096];
    signal(SIGPIPE, SIG_IGN); /* a program that does not read its input is not an error */
    pid_t pid = program_start(argv, &to, &from);
    for (size_t left = strlen(input); left > 0;) {
        ssize_t wrote = write(to, input, left);
        if (wrote <= 0)
            break;
        input += wrote;
        left -= (size_t)wrote;
    }
    close(to);
    while ((got = read(from, rest, sizeof rest)) > 0) {
        size_t take = (size_t)got < cap - 1 - len ? (size_t)got : cap - 1 - len;
        memcpy(output + len, rest, take);
        len += take;
    }
    output[len] = '\0';
    close(from);
    return program_wait(pid);
}
