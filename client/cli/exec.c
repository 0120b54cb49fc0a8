#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"

#define PATH_BYTES 4096

static char name[] = "larderd";

/* beside writes the path of the larderd beside this program, or nothing. */
static bool beside(char path[PATH_BYTES])
{
    ssize_t len = readlink("/proc/self/exe", path, PATH_BYTES - sizeof name);
    if (len <= 0)
        return false;
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, name);
    return true;
}

/* What python3 runs: the module, and where it cannot be had, what to do. */
static char compare_script[] =
    "import sys\n"
    "try:\n"
    "    from larder import compare\n"
    "except ImportError as missing:\n"
    "    sys.exit(f'larder plan --compare: {sys.executable} was asked, and cannot load the package larder: {missing}. "
    "'\n"
    "             'With the Python that you train with: YOUR_PYTHON -m larder.compare FOLDER …; in a checkout '\n"
    "             'PYTHONPATH=client/python goes before it')\n"
    "sys.exit(compare.main())\n";

int cli_exec_compare(char **argv)
{
    static char python[] = "python3", script_option[] = "-c";
    char path[PATH_BYTES];
    char *before[] = {python, script_option, compare_script}; /* in place of this program's name, plan and --compare */
    size_t at = 2;
    while (strcmp(argv[at], "--compare") != 0)
        at++;
    memmove(argv + 3, argv + 2, (at - 2) * sizeof *argv);
    memcpy(argv, before, sizeof before);
    if (beside(path) && access(path, X_OK) == 0)
        setenv("LARDERD", path, 0);
    execvp(python, argv);
    fprintf(stderr,
            "larder plan --compare: cannot run python3: %s. With the Python that you train with: YOUR_PYTHON -m "
            "larder.compare FOLDER …\n",
            strerror(errno));
    return CLI_FAILED;
}

int cli_exec(char **argv)
{
    char path[PATH_BYTES];
    argv[0] = name;
    if (beside(path))
        execv(path, argv);
    execvp(name, argv);
    fprintf(stderr, "larder: cannot run larderd, neither beside larder nor from PATH: %s\n", strerror(errno));
    return CLI_FAILED;
}
