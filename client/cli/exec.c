#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"

int cli_exec(char **argv)
{
    static char name[] = "larderd";
    char path[4096];
    argv[0] = name;
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - sizeof name);
    if (len > 0) {
        path[len] = '\0';
        char *slash = strrchr(path, '/');
        strcpy(slash ? slash + 1 : path, name);
        execv(path, argv);
    }
    execvp(name, argv);
    fprintf(stderr, "larder: cannot run larderd, neither beside larder nor from PATH: %s\n", strerror(errno));
    return CLI_FAILED;
}
