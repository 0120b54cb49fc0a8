#include "tests/unit/server/control/control_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *larder, *control_daemon;
char folder[] = "/tmp/larder control XXXXXX";
char session_path[64], control_path[72];
char output[65536];

bool control_begin(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s LARDER CONTROL_DAEMON\n", argv[0]);
        return false;
    }
    larder = argv[1];
    control_daemon = argv[2];
    if (!mkdtemp(folder))
        return false;
    snprintf(session_path, sizeof session_path, "%s/l.sock", folder);
    snprintf(control_path, sizeof control_path, "%s.control", session_path);
    setenv("LARDER_SOCKET", session_path, 1);
    return true;
}

int control_end(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "/bin/rm -rf '%s'", folder);
    return system(command);
}

const char *start_daemon(struct peer *peer)
{
    static char said[512];
    char *argv[] = {control_daemon, control_path, NULL};
    peer->pid = program_start(argv, &peer->to, &peer->from);
    ssize_t len = read(peer->from, said, sizeof said - 1);
    said[len > 0 ? len : 0] = '\0';
    return said;
}

const char *stop_daemon(struct peer *peer)
{
    static char said[16384];
    size_t len = 0;
    ssize_t got;
    close(peer->to);
    while ((got = read(peer->from, said + len, sizeof said - 1 - len)) > 0)
        len += (size_t)got;
    said[len] = '\0';
    close(peer->from);
    int status = program_wait(peer->pid);
    if (status != 0)
        fail_msg("the daemon ended with %d and said: %s", status, said);
    if (len > 0)
        said[len - 1] = '\0'; /* the last line's end */
    char *before = strrchr(said, '\n');
    return before ? before + 1 : said;
}

int run_larder(char *a, char *b, char *c)
{
    char *argv[] = {larder, a, b, c, NULL};
    return program_run(argv, "", output, sizeof output);
}

void assert_output(const char *expected)
{
    if (!strstr(output, expected))
        fail_msg("expected %s in: %s", expected, output);
}

void assert_ping(void)
{
    for (int tries = 0; run_larder("ping", NULL, NULL) != 0; tries++) {
        print_message("ping: %s", output);
        assert_true(tries < 5);
    }
}
