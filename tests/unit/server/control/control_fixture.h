/* control_fixture.h: what the tests of the control socket share: the `larder` command and a made-up daemon
 * (control_daemon.c), each in a process of its own, and a folder for the socket. */
#ifndef LARDER_TESTS_UNIT_SERVER_CONTROL_CONTROL_FIXTURE_H
#define LARDER_TESTS_UNIT_SERVER_CONTROL_CONTROL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "tests/unit/server/program.h"

extern char *larder, *control_daemon; /* the programs' paths, from the command line */
extern char folder[];
extern char session_path[64], control_path[72];
extern char output[65536]; /* of the last `larder` that ran */

struct peer {
    pid_t pid;
    int to, from;
};

/* control_begin takes the command line and makes the folder; control_end, for the group's end, removes it. */
bool control_begin(int argc, char **argv);
int control_end(void **state);

/* start_daemon starts the made-up daemon and gives the first thing it says. */
const char *start_daemon(struct peer *peer);
/* stop_daemon ends it, with exit status 0 or the test has failed, and gives the last line it says. */
const char *stop_daemon(struct peer *peer);
/* run_larder runs `larder ARGS…` on the test's socket and gives its exit status. */
int run_larder(char *a, char *b, char *c);
void assert_output(const char *expected);
/* assert_ping: the daemon answers. A peer that closed at once may have ended nng's listener, which takes listener.c
 * seconds to mend: then a ping may be lost. */
void assert_ping(void);

#endif
